"""Load reports: read with care, told in order, and nobody over a threshold is asked."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import COUNTER_MAX, Life
from reachp2p.core.routing import load as module
from reachp2p.core.routing import own_load
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.load import OVER_MAX, LoadDue, Loads, LoadStage
from reachp2p.core.routing.load_report import (
    AGENTS_TOLD,
    SECONDS_MAX,
    AgentLoad,
    LoadReport,
    agent_hash,
    read_report,
)
from reachp2p.core.routing.measures import Measures
from reachp2p.core.routing.own_load import P95_AGE, TOLD_FOR, OwnLoad
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.stages import STAGES, Selector
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.routing.troubles import Troubles
from reachp2p.core.timers import Timers
from tests.unit.routing.conftest import FIRST, SECOND, Desk, numbers

reports = st.builds(
    LoadReport,
    sequence=st.integers(0, COUNTER_MAX),
    in_flight=st.integers(0, 2**31),
    queued=st.integers(0, 2**31),
    p95=st.integers(0, 86_400_000_000).map(lambda n: n / 1e6),
    cpu=st.none() | st.integers(0, 100),
    agents=st.lists(
        st.builds(AgentLoad, st.integers(0, 2**32 - 1), st.integers(0, 2**31), st.integers(0, 2**31)),
        max_size=AGENTS_TOLD,
    ).map(tuple),
)


class Busy(Desk):
    """A desk whose nodes tell their load."""

    def __init__(self, count: int = 3) -> None:
        super().__init__()
        self.timers = Timers()
        self.loads = Loads(self.timers, self.counters)
        self.table = RoutingTable(self.counters, stages=(*STAGES, LoadStage(self.loads)))
        self.loads.changed = self.table.reconsider_node
        self.router = Router(self.table, Random(1), self.counters, measures=Measures(loads=self.loads))
        for number in range(1, count + 1):
            self.offer(number)

    def told(self, number: int, sequence: int, life: Life = FIRST, now: float = 0.0, **report: Any) -> None:
        self.loads.on_report(self.node(number), life, LoadReport(sequence, **report).write(), now)

    def sleep(self, until: float) -> None:
        while (key := self.timers.pop_due(until)) is not None:
            assert isinstance(key, LoadDue)
            self.loads.on_timer(key)


@given(reports)
def test_a_report_is_read_as_it_was_written(report: LoadReport) -> None:
    assert read_report(report.write()) == report


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        {"sequence": 1},
        [],
        [1, 2, 3, 4],
        [1, 2, 3, 4, 5, 6],
        [1, 2, 3, 4, 5, [6]],
        [1, 2, 3, 4, 5, [[6, 7]]],
        [1, 2, 3, 4, 5, [[2**32, 7, 8]]],
        [1, 2, 3, 4, 5, [[6, 7, 2**40]]],
        [1, 2, 3, 4, 5, [[6, True, 8]]],
        [1, 2, 3, 4, 5, [[6, 7, 8]] * 5],
        [-1, 0, 0, 0, 0],
        [1, 2.0, 0, 0, 0],
        [True, 0, 0, 0, 0],
        [1, 0, 0, 0, 101],
        [1, 0, 0, 0, -1],
        [1, 0, 0, 0, "a lot"],
        [2**63, 0, 0, 0, 0],
        [1, 0, 2**40, 0, 0],
        [1, 0, 0, 10**12, 0],
    ],
)
def test_anything_else_is_no_report(value: object) -> None:
    assert read_report(value) is None
    loads = Loads(Timers(), counters := Counters())
    loads.on_report(Desk.node(1), FIRST, value, 0.0)
    assert counters.snapshot() == {"load.unreadable": 1}
    assert len(loads) == 0


@given(st.lists(st.tuples(st.sampled_from([FIRST, SECOND]), st.integers(1, 9)), min_size=1))
def test_of_one_life_the_highest_number_counts_whatever_the_order(told: list[tuple[Life, int]]) -> None:
    world = Busy(1)
    held: tuple[Life, int] | None = None
    for life, sequence in told:
        world.told(1, sequence, life, in_flight=sequence)
        held = (life, sequence) if held is None or held[0] != life else (life, max(held[1], sequence))
        entry = world.loads.entries[world.node(1)]
        assert (entry.life, entry.report.sequence, entry.report.in_flight) == (*held, held[1])


@pytest.mark.parametrize(
    ("over", "back", "counter"),
    [({"queued": 100}, {"queued": 89}, "load.full"), ({"cpu": 80}, {"cpu": 71}, "load.busy")],
)
def test_a_node_over_its_threshold_is_not_asked_until_it_is_well_below(
    over: dict[str, int], back: dict[str, int], counter: str
) -> None:
    world = Busy()
    world.told(1, 1, **{name: number - 1 for name, number in over.items()})
    assert world.routable() == [1, 2, 3]
    world.told(1, 2, **over)
    assert world.routable() == [2, 3]
    world.told(1, 3, **{name: number + 1 for name, number in back.items()})
    assert world.routable() == [2, 3]
    world.told(1, 4, **back)
    assert world.routable() == [1, 2, 3]
    assert world.timers.next_deadline() is None
    assert world.counters.value(counter) == 1


def test_when_all_processors_are_busy_all_are_asked_and_nobody_waits_for_another() -> None:
    world = Busy()
    for number in (1, 2, 3):
        world.told(number, 1, cpu=95)
    assert world.routable() == [1, 2, 3]
    world.router.pick(world.query())
    assert world.counters.value("routing.picked.last_resort") == 1
    assert numbers(list(world.table.undoubted("text.summarize"))) == [1, 2, 3]
    world.told(1, 2, cpu=95, queued=100)
    assert world.routable() == [2, 3]
    assert numbers(list(world.table.undoubted("text.summarize"))) == [2, 3]


def test_busy_processors_move_no_call_to_the_other_side_of_a_release_split() -> None:
    """Under load all are busy now and then, just when a split matters."""
    world = Busy(3)
    for number in (4, 5):
        world.offer(number, tags={"release": "candidate"}, percent=10)
    for busy in ((1, 2, 3), (4, 5), (1, 2, 3, 4, 5)):
        for number in (1, 2, 3, 4, 5):
            world.told(number, len(busy), SECOND if number not in busy else FIRST, cpu=95)
        candidates = sum(number > 3 for number in world.picks(1_000))
        assert 60 < candidates < 145, busy
        assert all(number > 3 for number in world.picks(20, world.query(release="candidate")))
        assert all(number < 4 for number in world.picks(20, world.query(split=0)))
        assert all(number > 3 for number in world.picks(20, world.query(split=100)))
    assert world.counters.value("routing.release_crossed") == 0
    assert world.counters.value("routing.picked.last_resort") > 1_000


def test_the_busy_are_asked_before_those_that_are_doubted() -> None:
    world = Busy(2)
    world.told(1, 1, cpu=95)
    world.believe(2, MemberState.SUSPECT)
    assert set(world.picks(20)) == {1}
    world.believe(1, MemberState.SUSPECT)
    assert set(world.picks(40)) == {1, 2}
    world.believe(1, MemberState.ALIVE)
    assert set(world.picks(20)) == {1}
    world.told(1, 2, cpu=10)
    world.believe(2, MemberState.ALIVE)
    assert set(world.picks(40)) == {1, 2}


def test_silence_brings_it_back() -> None:
    world = Busy()
    world.told(1, 1, queued=500)
    world.told(1, 2, queued=500, now=3.0)
    world.sleep(2.9 + OVER_MAX)
    assert world.routable() == [2, 3]
    world.sleep(3.0 + OVER_MAX)
    assert world.routable() == [1, 2, 3]


def test_when_all_are_over_the_call_ends_at_once_with_1305() -> None:
    world = Busy()
    placed = world.table.pool(Selector("text.summarize", None))
    assert placed is not None
    before = placed.fingerprint()
    for number in (1, 2, 3):
        world.told(number, 1, queued=100 + number, cpu=50)
    with pytest.raises(
        RouteFailed, match=r"too much load on text.summarize: 3 known \(1 overloaded: 101 waiting, 50"
    ):
        world.router.pick(world.query())
    assert placed.fingerprint() == before
    told = LoadStage(world.loads).why(placed.selector, placed.placed.items[2])
    assert told == "overloaded: 103 waiting, 50 % CPU"
    world.offer(4, state=MemberState.SUSPECT)
    assert world.router.pick(world.query()).node == world.node(4), (
        "a doubtful one is asked rather than a full one"
    )
    assert numbers(list(placed.candidates().items)) == [4]


def test_the_report_of_another_life_says_nothing() -> None:
    world = Busy()
    world.told(1, 1, SECOND, queued=500)
    assert world.routable() == [1, 2, 3]


def test_own_sends_since_the_report_are_counted() -> None:
    world = Busy(1)
    world.told(1, 1)
    for _ in range(3):
        world.router.start(world.router.route(world.query()), 0.0)
    assert world.loads.entries[world.node(1)].sent == {"nlp/summarizer": 3}
    world.told(1, 2)
    assert world.loads.entries[world.node(1)].sent == {}


def test_whoever_is_no_member_any_more_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOADS_MAX", 2)
    world = Busy(3)
    world.told(1, 1, queued=500)
    world.told(2, 1)
    world.told(3, 1)
    assert [node[0] for node in world.loads.entries] == [2, 3]
    assert world.routable() == [1, 2, 3]
    assert world.counters.value("load.forgotten") == 1
    world.loads.forget(world.node(2))
    world.loads.forget(world.node(9))
    assert len(world.loads) == 1
    assert world.timers.next_deadline() is None


def test_a_node_tells_what_it_serves_in_growing_numbers() -> None:
    own = OwnLoad(is_told=True)
    own.numbers = lambda: (3, 7)
    assert own.report(0.0) is None, "nobody has ever asked for anything"
    own.on_request(1.0)
    for number in range(1, 101):
        own.on_served(number / 100)
    own.cpu = 40
    assert own.report(1.0) == LoadReport(1, 3, 7, 0.95, 40)
    own.on_served(50.0)
    second = own.report(1.0)
    assert second is not None
    assert (second.sequence, second.p95) == (2, 0.95), "it is worked out twice a second at most"
    for _ in range(20):
        own.on_served(50.0)
    third = own.report(1.0 + P95_AGE)
    assert third is not None
    assert third.p95 == 50.0
    assert own.report(1.0 + TOLD_FOR) is not None
    assert own.report(1.1 + TOLD_FOR) is None


def test_handlers_that_have_not_ended_count_once_they_run_longer_than_others_do() -> None:
    own = OwnLoad(is_told=True)
    own.on_request(0.0)
    own.running = lambda now: [now, now]
    hanging = own.report(3.0)
    assert hanging is not None
    assert hanging.p95 == 3.0, "none has ever ended"
    for _ in range(98):
        own.on_served(0.01)
    usual = own.report(3.0)
    assert usual is not None
    assert usual.p95 == 0.01, "two of a hundred"
    own.running = lambda now: [now] * 10
    many = own.report(4.0)
    assert many is not None
    assert many.p95 == 4.0
    own.running = lambda now: [0.001] * 1_000
    just_begun = own.report(5.0)
    assert just_begun is not None
    assert just_begun.p95 == 0.01, "how long they take is not known yet"
    own.running = lambda now: [2 * SECONDS_MAX] * 10
    for_days = own.report(6.0)
    assert for_days is not None
    assert read_report(for_days.write()) == for_days, "within what others take"


def test_a_handler_that_is_stopped_takes_so_long_at_least() -> None:
    own = OwnLoad(is_told=True)
    own.on_request(0.0)
    own.on_served(1.0)
    assert own.report(0.0) is not None
    for _ in range(10):
        own.on_cut_short(0.5)
    own.on_cut_short(30.0)
    report = own.report(P95_AGE)
    assert report is not None
    assert report.p95 == 30.0
    own.running = lambda now: []
    for _ in range(19):
        own.on_served(1.0)
    later = own.report(2 * P95_AGE)
    assert later is not None
    assert later.p95 == 1.0, "one of 21; what was stopped after half a second says nothing"


def test_nobody_is_told_unless_the_settings_say_so() -> None:
    own = OwnLoad(is_told=False)
    own.on_request(0.0)
    assert own.report(0.0) is None


def test_replies_to_one_node_bring_a_report_each_millisecond_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_load, "TOLD_MAX", 2)
    own = OwnLoad(is_told=True)
    own.on_request(0.0)
    one, two, three = (Desk.node(number) for number in (1, 2, 3))
    told = [
        own.report_to(node, now) is not None
        for node, now in ((one, 0.0), (one, 0.0009), (two, 0.0009), (one, 0.002))
    ]
    assert told == [True, False, True, True]
    assert own.report_to(three, 0.002) is not None
    assert own.report_to(one, 0.002) is not None, "beyond the bound all are forgotten, and told once more"
    assert OwnLoad(is_told=False).report_to(one, 9.0) is None


def part(agent: str, in_flight: int, queued: int) -> AgentLoad:
    return AgentLoad(agent_hash(agent), in_flight, queued)


def test_what_a_later_version_tells_besides_is_not_read() -> None:
    assert read_report([*LoadReport(7, 1, 2).write(), [[5, 1, 2]], [3, 4, []], "more"]) == LoadReport(
        7, 1, 2, agents=(AgentLoad(5, 1, 2),), troubles=Troubles(3, 4)
    )


def test_each_agent_of_a_node_has_its_own_part_of_the_load() -> None:
    report = LoadReport(1, 5, 9, agents=(part("a/busy", 3, 9), part("a/other", 2, 0)))
    assert (report.of("a/busy").requests, report.of("a/other").requests, report.of("a/idle").requests) == (
        12,
        2,
        0,
    )
    assert LoadReport(1, 5, 9).of("a/only").requests == 14


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=AGENTS_TOLD, max_size=12))
def test_an_agent_that_is_not_told_has_no_more_than_is_left_and_never_more_than_those_that_are(
    loads: list[tuple[int, int]],
) -> None:
    own = OwnLoad(is_told=True)
    own.on_request(0.0)
    own.numbers = lambda: (sum(running for running, _ in loads), sum(waiting for _, waiting in loads))
    own.agents = lambda: [(f"a/{number}", *load) for number, load in enumerate(loads) if any(load)]
    report = own.report(0.0)
    assert report is not None
    assert read_report(report.write()) == report
    told = {each.agent for each in report.agents}
    assert len(told) == min(AGENTS_TOLD, sum(any(load) for load in loads))
    for number, (running, waiting) in enumerate(loads):
        name = f"a/{number}"
        its = report.of(name)
        if agent_hash(name) in told or not any(loads[number]):
            assert len(told) == AGENTS_TOLD or (its.in_flight, its.queued) == (running, waiting)
        assert (its.in_flight, its.queued) >= (0, 0)
        if agent_hash(name) not in told and told:
            assert its.in_flight <= report.in_flight - sum(each.in_flight for each in report.agents)
            assert its.queued <= report.queued - sum(each.queued for each in report.agents)
            assert max(its.in_flight, its.queued) <= report.agents[-1].requests


def test_the_full_queue_of_one_agent_keeps_no_other_of_its_node_from_being_asked() -> None:
    world = Busy(2)
    world.offer(1, "nlp/translator", "text.translate")
    full, free = part("nlp/translator", 8, 100), part("nlp/summarizer", 1, 0)
    world.told(1, 1, in_flight=9, queued=100, agents=(full, free))
    assert world.routable("text.translate") == []
    assert world.routable("text.summarize") == [1, 2]
    with pytest.raises(RouteFailed, match=r"1 overloaded: 100 waiting"):
        world.router.pick(world.query("text.translate"))
    world.told(1, 2, in_flight=9, queued=90, agents=(part("nlp/translator", 8, 90), free))
    assert world.routable("text.translate") == [], "not far enough below"
    world.told(1, 3, in_flight=9, queued=89, agents=(part("nlp/translator", 8, 89), free))
    assert world.routable("text.translate") == [1]
    world.told(1, 4, in_flight=9, queued=100, agents=(full, free))
    assert world.counters.value("load.full") == 2
    world.sleep(OVER_MAX)
    assert world.routable("text.translate") == [1], "nobody has heard from it since"


def test_what_was_sent_to_one_agent_is_no_load_of_another() -> None:
    world = Busy(1)
    world.offer(1, "nlp/translator", "text.translate")
    world.told(1, 1, in_flight=2, agents=(part("nlp/translator", 2, 0),))
    for _ in range(3):
        world.router.start(world.router.route(world.query()), 0.0)
    load = world.loads.entries[world.node(1)]
    assert (load.requests_at("nlp/summarizer"), load.requests_at("nlp/translator")) == (3, 2)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4), st.integers(0, 200), st.none() | st.integers(0, 100), st.floats(0.0, 4.0)
        ),
        max_size=40,
    )
)
def test_the_full_are_never_asked_and_the_busy_only_when_nobody_else_is_left(
    told: list[tuple[int, int, int | None, float]],
) -> None:
    world = Busy(4)
    full: dict[int, float] = {}
    busy: dict[int, float] = {}
    now = 0.0
    for sequence, (number, queued, cpu, wait) in enumerate(told, 1):
        now += wait
        world.sleep(now)
        for over in (full, busy):
            for one in [one for one, until in over.items() if until <= now]:
                del over[one]
        was_full, was_busy = number in full, number in busy
        world.told(number, sequence, now=now, queued=queued, cpu=cpu)
        is_full, is_busy = (
            queued >= (90 if was_full else 100),
            cpu is not None and cpu >= (72 if was_busy else 80),
        )
        for over, is_over in ((full, is_full), (busy, is_busy)):
            over.pop(number, None)
            if is_over:
                over[number] = now + OVER_MAX
        able = [one for one in (1, 2, 3, 4) if one not in full]
        assert world.routable() == ([one for one in able if one not in busy] or able)
