"""The capability table: who is in which pool while records come and go and nodes change state."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life
from reachp2p.core.routing.instance import CapabilityInfo, InstanceInfo
from reachp2p.core.routing.stages import Selector
from reachp2p.core.wire.facts import AgentRecord, Capability
from tests.unit.routing.conftest import numbers

SECOND = Life(2, bytes(16))
SUMMARIZE = Selector("text.summarize", None)


def test_an_instance_of_an_alive_node_is_routable(desk: Any) -> None:
    desk.offer(1)
    assert desk.routable() == [1]
    assert desk.table.capabilities() == ["text.summarize"]
    assert desk.table.agents() == ["nlp/summarizer"]


def test_an_instance_of_a_node_nobody_has_heard_of_waits(desk: Any) -> None:
    desk.table.put_instance(
        desk.node(1), "a/b", InstanceInfo(life=Life(1, bytes(16)), capabilities={"x": CapabilityInfo()})
    )
    assert desk.routable("x") == []
    desk.believe(1, MemberState.ALIVE)
    assert desk.routable("x") == [1]


@pytest.mark.parametrize("state", [MemberState.DEAD, MemberState.LEFT, None])
def test_instances_of_a_node_that_is_gone_are_kept_out_of_pools_and_come_back_with_it(
    desk: Any, state: MemberState | None
) -> None:
    desk.offer(1)
    desk.offer(2)
    desk.believe(1, state)
    assert desk.routable() == [2]
    assert [instance.state for instance in desk.table.known(SUMMARIZE)] == [state, MemberState.ALIVE]
    desk.believe(1, MemberState.ALIVE)
    assert desk.routable() == [1, 2]


def test_a_suspect_or_refused_node_is_skipped_while_another_candidate_exists(desk: Any) -> None:
    desk.offer(1)
    desk.offer(2)
    desk.offer(3)
    desk.believe(1, MemberState.SUSPECT)
    desk.believe(2, MemberState.ALIVE, refused=True)
    assert desk.routable() == [3]
    desk.believe(3, MemberState.DEAD)
    assert desk.routable() == [1, 2]
    desk.believe(2, MemberState.ALIVE)
    assert desk.routable() == [2]


def test_suspicion_and_refusal_move_nothing_on_the_ring_and_death_does(desk: Any) -> None:
    for number in (1, 2, 3):
        desk.offer(number)
    pool = desk.table.pool(SUMMARIZE)
    before, whole = pool.fingerprint(), desk.table.fingerprint()
    desk.believe(1, MemberState.SUSPECT)
    desk.believe(2, MemberState.ALIVE, refused=True)
    assert (pool.fingerprint(), desk.table.fingerprint()) == (before, whole)
    desk.believe(1, MemberState.DEAD)
    assert pool.fingerprint() != before
    assert desk.table.fingerprint() != whole
    desk.believe(1, MemberState.ALIVE)
    assert (pool.fingerprint(), desk.table.fingerprint()) == (before, whole)
    assert pool.ring().fingerprint() == before


def test_a_record_of_a_former_life_is_not_routed_to(desk: Any) -> None:
    desk.offer(1)
    desk.believe(1, MemberState.ALIVE, life=SECOND)
    assert desk.routable() == []
    desk.offer(1, life=SECOND)
    desk.believe(1, MemberState.ALIVE, life=SECOND)
    assert desk.routable() == [1]


def test_an_instance_held_by_a_caller_keeps_the_life_it_was_picked_in(desk: Any) -> None:
    desk.offer(1)
    held = desk.router.pick(desk.query())
    desk.believe(1, MemberState.DEAD, life=SECOND)
    assert (held.life.epoch, held.state) == (1, MemberState.ALIVE)
    assert desk.table.instance(desk.node(1), "nlp/summarizer").state is MemberState.DEAD


def test_a_changed_record_moves_its_instance_between_capabilities(desk: Any) -> None:
    desk.offer(1, "nlp/all", "text.summarize", "text.keywords")
    desk.offer(2)
    pools = [desk.table.pool(Selector(name, None)) for name in ("text.summarize", "text.keywords")]
    desk.offer(1, "nlp/all", "text.keywords", "text.quality")
    assert [[key[0][0] for key in pool.placed.keys] for pool in pools] == [[2], [1]]
    names = ["text.keywords", "text.quality", "text.summarize"]
    assert [desk.routable(name) for name in names] == [[1], [1], [2]]
    desk.table.remove_instance(desk.node(2), "nlp/summarizer")
    assert desk.table.capabilities() == names[:2]


def test_tags_and_agent_narrow_a_pool(desk: Any) -> None:
    desk.offer(1, tags={"env": "prod", "zone": "a"})
    desk.offer(2, tags={"env": "test"})
    desk.offer(3, "nlp/other", tags={"env": "prod"})
    pools = {
        Selector("text.summarize", None, (("env", "prod"),)): [1, 3],
        Selector("text.summarize", "nlp/summarizer", (("env", "prod"),)): [1],
        Selector(None, "nlp/summarizer"): [1, 2],
        Selector(None, "nlp/summarizer", (("env", "prod"), ("zone", "a"))): [1],
        Selector("text.summarize", "nlp/other"): [3],
        Selector("text.summarize", "nlp/none"): [],
        Selector("text.summarize", "nlp"): [1, 2, 3],
        Selector("text.summarize", "nl"): [],
        Selector("text.summarize", "nlp", (("env", "prod"),)): [1, 3],
        Selector("text.summarize", "summarizer"): [],
    }
    assert {s: [key[0][0] for key in desk.table.pool(s).placed.keys] for s in pools} == pools
    desk.offer(2, tags={"env": "prod"})
    desk.offer(1, tags={"env": "test"})
    assert [key[0][0] for key in desk.table.pool(next(iter(pools))).placed.keys] == [2, 3]


def test_the_version_grows_with_each_change_and_with_nothing_else(desk: Any) -> None:
    desk.offer(1)
    seen = desk.table.version
    desk.offer(1)
    assert not desk.believe(1, MemberState.ALIVE)
    assert not desk.table.remove_instance(desk.node(1), "nlp/none")
    assert not desk.table.remove_instance(desk.node(9), "nlp/none")
    assert not desk.believe(9, None)
    desk.picks(5)
    assert desk.table.version == seen
    assert desk.believe(1, MemberState.SUSPECT)
    desk.offer(1, tags={"env": "prod"}, state=MemberState.SUSPECT)
    assert desk.table.remove_instance(desk.node(1), "nlp/summarizer")
    assert desk.table.version == seen + 3


def test_what_is_withdrawn_leaves_nothing_behind(desk: Any) -> None:
    desk.offer(1)
    desk.picks(1)
    desk.picks(1, desk.query(None, agent="nlp/summarizer"))
    desk.table.remove_instance(desk.node(1), "nlp/summarizer")
    desk.believe(1, None)
    assert set(desk.table.sizes().values()) == {0}
    assert desk.table.pool(SUMMARIZE) is None


def test_the_number_of_cached_pools_is_bounded_and_the_least_recently_used_goes_first(
    small_desk: Any,
) -> None:
    desk = small_desk
    desk.offer(1, "nlp/all", "a", "b", "c")
    a, b, c = (Selector(name, None) for name in "abc")
    first = desk.table.pool(a)
    second = desk.table.pool(b)
    assert desk.table.pool(a) is first
    desk.table.pool(c)
    assert desk.counters.value("routing.pools.evicted") == 1
    assert desk.table.pool(a) is first
    assert desk.table.sizes()["routing.pools"] == 2
    desk.believe(1, MemberState.DEAD)
    assert len(first.placed) == 0
    assert len(second.placed) == 1, "an evicted pool is no longer kept up to date"
    assert len(desk.table.pool(b).placed) == 0


def test_a_look_caches_and_evicts_nothing(small_desk: Any) -> None:
    desk = small_desk
    desk.offer(1, "nlp/all", "a", "b", "c")
    for name in "abc":
        assert len(desk.table.peek(Selector(name, None)).placed) == 1
    assert desk.table.sizes()["routing.pools"] == 0
    assert desk.table.peek(Selector("d", None)) is None
    cached = desk.table.pool(Selector("a", None))
    assert desk.table.peek(Selector("a", None)) is cached


def test_asking_again_who_is_routable_builds_nothing(desk: Any) -> None:
    """A watcher asks every 20 ms, with a thousand instances."""
    desk.offer(1)
    desk.offer(2, state=MemberState.SUSPECT)
    first = desk.table.routable("text.summarize")
    assert desk.table.routable("text.summarize") is first
    assert desk.table.sizes()["routing.pools"] == 1
    desk.believe(1, MemberState.DEAD)
    assert desk.routable() == [2]
    assert desk.table.routable("nobody.offers") == ()


def test_the_undoubted_are_those_that_no_call_avoids(desk: Any) -> None:
    desk.offer(1)
    desk.offer(2, state=MemberState.SUSPECT)
    desk.offer(3, refused=True)
    desk.offer(4)
    desk.table.set_unreached(desk.node(4), True)
    assert numbers(desk.table.undoubted("text.summarize")) == [1]
    desk.believe(1, MemberState.DEAD)
    assert desk.table.undoubted("text.summarize") == []
    assert desk.routable() == [2, 3, 4]
    assert desk.table.undoubted("nobody.offers") == ()


def test_pools_and_fingerprints_do_not_depend_on_history(twin_desks: Any) -> None:
    one, other = twin_desks
    for number in (1, 2, 3, 4):
        one.offer(number, weight=100 * number)
    one.table.pool(SUMMARIZE).ring()
    for number in (9, 4, 2, 3, 1):
        other.offer(number, weight=1_000)
        other.table.pool(SUMMARIZE).ring()
    for number in (3, 1, 2, 4):
        other.offer(number, state=MemberState.SUSPECT, weight=100 * number)
        other.believe(number, MemberState.ALIVE)
    other.table.remove_instance(other.node(9), "nlp/summarizer")
    mine, theirs = one.table.pool(SUMMARIZE), other.table.pool(SUMMARIZE)
    assert mine.placed.items == theirs.placed.items
    assert mine.preferred.keys == theirs.preferred.keys
    assert mine.ring().entries() == theirs.ring().entries()
    assert mine.fingerprint() == theirs.fingerprint() == theirs.ring().fingerprint()
    assert one.table.fingerprint() == other.table.fingerprint()


def test_a_ring_nobody_asks_keeps_a_bounded_number_of_changes(desk: Any) -> None:
    desk.offer(1)
    pool = desk.table.pool(SUMMARIZE)
    pool.ring()
    for number in range(2, 250):
        desk.offer(number)
        desk.table.remove_instance(desk.node(number), "nlp/summarizer")
        assert len(pool._pending) <= 64
    assert list(pool.ring().weights) == [(desk.node(1), "nlp/summarizer")]


def test_a_record_becomes_what_routing_needs() -> None:
    record = AgentRecord(
        node=bytes(32),
        life=SECOND,
        version=3,
        agent="nlp/summarizer",
        issued_at=0,
        agent_version="1.2.0",
        capabilities=[Capability(name="a", repeatable=True, timeout_ms=1_500), Capability(name="b")],
        tags={"env": "prod"},
        weight_percent=250,
    )
    assert InstanceInfo.from_record(record) == InstanceInfo(
        life=SECOND,
        version="1.2.0",
        capabilities={"a": CapabilityInfo(repeatable=True, timeout=1.5), "b": CapabilityInfo()},
        tags={"env": "prod"},
        weight_percent=250,
    )
