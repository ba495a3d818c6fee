"""What ails a node although it answers probes is counted for a minute, told beside its load, and read with care."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.routing.load_report import AGENTS_TOLD, AgentLoad, LoadReport, agent_hash, read_report
from reachp2p.core.routing.own_load import OwnLoad
from reachp2p.core.routing.troubles import WINDOW, AgentTroubles, Lately, Troubles

counts = st.integers(0, 2**31 - 1)
agents = st.lists(
    st.builds(AgentTroubles, st.integers(0, 2**32 - 1), counts, counts), max_size=AGENTS_TOLD
).map(tuple)


@given(st.builds(Troubles, counts, counts, agents), st.booleans())
def test_troubles_are_read_as_they_were_written(troubles: Troubles, is_busy: bool) -> None:
    busy = (AgentLoad(5, 1, 2),) if is_busy else ()
    report = LoadReport(3, 1, 2, agents=busy, troubles=troubles)
    assert read_report(report.write()) == report


@pytest.mark.parametrize(
    "value",
    [None, 7, [], [1, 2], [1, -2, []], [1, 2, 3], [1, 2, [[3, 4]]], [1, True, []], [1, 2, [[3, 4, 5]] * 5]],
)
def test_anything_else_is_no_report(value: object) -> None:
    assert read_report([1, 0, 0, 0, None, [], value]) is None


def test_what_a_later_version_tells_besides_is_not_read() -> None:
    assert read_report([1, 0, 0, 0, None, [], [1, 2, [], "more"]]) == LoadReport(1, troubles=Troubles(1, 2))


@given(st.lists(st.tuples(st.floats(0.0, 40.0), st.sampled_from("ab")), max_size=60), st.floats(0.0, 80.0))
def test_what_has_happened_is_told_for_half_a_minute_to_a_minute(
    happened: list[tuple[float, str]], later: float
) -> None:
    lately, now, moments = Lately(), 0.0, []
    for wait, name in happened:
        now += wait
        lately.add(name, now)
        moments.append((now, name))
    now += later
    told = lately.counts(now)
    for name in "ab":
        fresh = sum(one == name and now - at < WINDOW for at, one in moments)
        known = sum(one == name and now - at <= 2 * WINDOW for at, one in moments)
        assert fresh <= told.get(name, 0) <= known


def test_the_worst_agents_are_told_first_and_a_few_of_them_only() -> None:
    own = OwnLoad(is_told=True)
    own.on_request(0.0)
    for number in range(6):
        for _ in range(number + 1):
            own.on_failed(f"a/{number}", 1.0)
    own.on_stopped("a/2", 1.0)
    own.on_late(1.0)
    own.overdue = 2
    report = own.report(1.0)
    assert report is not None
    assert report.troubles is not None
    assert (report.troubles.late, report.troubles.overdue) == (1, 2)
    assert [one.agent for one in report.troubles.agents] == [
        agent_hash(f"a/{number}") for number in (5, 4, 2, 3)
    ]
    assert report.troubles.of(agent_hash("a/2")) == AgentTroubles(agent_hash("a/2"), 3, 1)
    assert report.troubles.of(agent_hash("a/0")) == AgentTroubles(agent_hash("a/0"))
    assert len((own.troubles(1.0) or Troubles()).agents) == 6


def test_nobody_hears_of_troubles_that_are_over_and_a_node_that_nobody_asks_tells_those_it_has() -> None:
    own = OwnLoad(is_told=True)
    own.on_late(1_000.0)
    report = own.report(1_000.0)
    assert report is not None
    assert report.troubles == Troubles(late=1)
    assert own.report(1_000.0 + 2 * WINDOW) is None
    assert OwnLoad(is_told=False).report(1_000.0) is None
