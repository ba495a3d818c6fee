"""The replicated registry: one life at a time, one counter, and nothing that comes back (cases B03, B17, B23)."""

from __future__ import annotations

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.ids import CLAIM_EPOCH_MAX, COUNTER_MAX, EPOCH_MAX, Life
from reachp2p.core.registry.record import RECORD_BYTES_MAX, RECORDS_BYTES_MAX, withdrawal_of
from reachp2p.core.registry.store import SHELF_BYTES_MAX, Outcome, RecordStore
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.facts import Claim
from tests.support import Author, life

NEW, SAME, OUTDATED, AHEAD, FULL = Outcome
ANN, BOB = Author(1), Author(2)


class Desk:
    """A store in which Ann's first life is open."""

    def __init__(self, records_max: int = 100) -> None:
        self.counters = Counters()
        self.store = RecordStore(records_max, self.counters)
        self.store.open(ANN.node, life(1))

    def put(self, agent: str, version: int, **fields: object) -> Outcome:
        return self.store.put(ANN.record(agent, version, **fields))

    def held(self) -> dict[str, int]:
        """Versions by agent, tombstones negative."""
        return {
            r.fact.agent: -r.fact.version if r.fact.withdrawn else r.fact.version
            for r in self.store.records(ANN.node)
        }

    def completed(self, through: int, *listed: str, version: int | None = None) -> list[str]:
        gone = self.store.completed(ANN.node, life(1), through, dict.fromkeys(listed), version)
        return [record.fact.agent for record in gone]

    def raise_floor(self, floor: int, version: int = 0) -> list[str]:
        return [record.fact.agent for record in self.store.raise_floor(ANN.node, floor, version)]

    @property
    def complete(self) -> int:
        return self.store.complete(ANN.node)


@pytest.fixture
def desk() -> Desk:
    return Desk()


# Versions


def test_a_newer_record_of_an_agent_replaces_the_older_and_never_the_other_way(desk: Desk) -> None:
    assert [desk.put("a/a", v) for v in (2, 1, 2, 3)] == [NEW, OUTDATED, SAME, NEW]
    assert desk.held() == {"a/a": 3}
    assert len(desk.store) == 1


def test_agents_of_one_node_and_nodes_do_not_meet(desk: Desk) -> None:
    desk.store.open(BOB.node, life(7))
    desk.put("a/a", 1)
    desk.put("a/b", 2)
    assert desk.store.put(BOB.record("a/a", 9, epoch=7)) is NEW
    assert desk.held() == {"a/a": 1, "a/b": 2}
    assert [r.fact.version for r in desk.store.records(BOB.node)] == [9]


def test_a_withdrawal_is_a_record_too(desk: Desk) -> None:
    desk.put("a/a", 1)
    assert desk.put("a/a", 2, withdrawn=True) is NEW
    assert desk.put("a/a", 1) is OUTDATED
    assert desk.held() == {"a/a": -2}
    assert desk.put("a/a", 3) is NEW
    assert desk.held() == {"a/a": 3}


def test_of_two_records_with_one_version_every_store_keeps_the_same(desk: Desk) -> None:
    one, other = ANN.record("a/a", 1, owner="one"), ANN.record("a/a", 1, owner="other")
    kept = []
    for order in ([one, other], [other, one]):
        fresh = Desk()
        is_news = order[1].digest < order[0].digest
        assert [fresh.store.put(record) for record in order] == [NEW, NEW if is_news else SAME]
        assert fresh.counters.value("registry.equivocation") == 1
        kept += [r.data for r in fresh.store.records(ANN.node)]
    assert kept[0] == kept[1]


# Lives


def test_a_record_of_a_life_that_is_not_open_has_to_wait_for_its_head(desk: Desk) -> None:
    assert desk.store.put(ANN.record(epoch=2)) is AHEAD
    assert desk.store.put(ANN.record(salt=1)) is AHEAD
    assert desk.store.put(BOB.record()) is AHEAD
    assert len(desk.store) == 0


def test_a_new_life_empties_the_shelf_at_once_and_the_former_life_never_returns(desk: Desk) -> None:
    """Case B17: at most one life of a node is listed."""
    desk.put("a/a", 1)
    desk.put("a/b", 2)
    assert [r.fact.agent for r in desk.store.open(ANN.node, life(2))] == ["a/a", "a/b"]
    assert desk.held() == {}
    assert desk.complete == 0
    assert desk.put("a/a", 99) is OUTDATED
    assert desk.store.put(ANN.record("a/c", 1, epoch=2)) is NEW
    assert desk.held() == {"a/c": 1}


def test_opening_the_present_life_again_changes_nothing(desk: Desk) -> None:
    desk.put("a/a", 1)
    assert desk.store.open(ANN.node, life(1)) == []
    assert desk.held() == {"a/a": 1}


def test_a_forgotten_node_leaves_nothing(desk: Desk) -> None:
    desk.put("a/a", 1)
    assert [r.fact.agent for r in desk.store.close(ANN.node)] == ["a/a"]
    assert desk.store.close(ANN.node) == []
    assert len(desk.store) == 0
    assert list(desk.store.records(ANN.node)) == []
    assert desk.put("a/a", 1) is AHEAD


def test_leaving_and_coming_back_twenty_times_leaves_one_life(desk: Desk) -> None:
    """Case B03: each return is a life above the withdrawals of the last."""
    for epoch in range(2, 22):
        desk.store.open(ANN.node, life(epoch))
        assert desk.store.put(ANN.record("a/a", 1, epoch=epoch)) is NEW
        assert desk.store.put(ANN.record("a/a", 2, epoch=epoch, withdrawn=True)) is NEW
        assert desk.store.put(ANN.record("a/a", 9, epoch=epoch - 1)) is OUTDATED
    assert len(desk.store) == 1


# Completeness


def test_records_in_version_order_complete_themselves(desk: Desk) -> None:
    for version, agent in enumerate(["a/a", "a/b", "a/a"], start=1):
        desk.put(agent, version)
        assert desk.complete == version


@pytest.mark.parametrize("order", [(3, 2, 1), (2, 3, 1), (3, 1, 2), (2, 1, 3), (1, 3, 2)])
def test_records_in_any_order_complete_themselves_once_the_gap_is_closed(
    desk: Desk, order: tuple[int, ...]
) -> None:
    for version in order:
        desk.put(f"a/{version}", version)
    assert desk.complete == 3


def test_a_record_that_has_been_replaced_since_closes_a_gap_too(desk: Desk) -> None:
    desk.put("a/a", 2)
    assert desk.complete == 0
    assert desk.put("a/a", 1) is OUTDATED
    assert desk.complete == 2


def test_a_version_that_no_record_has_is_closed_by_a_delta_only(desk: Desk) -> None:
    desk.put("a/a", 1)
    desk.put("a/b", 3)  # 2 was a renewal of the head
    assert desk.complete == 1
    assert desk.completed(2) == []
    assert desk.complete == 3
    assert desk.completed(1) == []
    assert desk.complete == 3


def test_a_delta_about_another_life_completes_nothing(desk: Desk) -> None:
    assert desk.store.completed(ANN.node, life(2), 5, {}) == []
    assert desk.store.completed(BOB.node, life(1), 5, {}) == []
    assert desk.complete == 0


def test_what_a_receiver_lacks_comes_in_version_order(desk: Desk) -> None:
    for version in (3, 1, 2):
        desk.put(f"a/{version}", version)
    assert [r.fact.version for r in desk.store.after(ANN.node, 1)] == [2, 3]
    assert desk.store.after(ANN.node, 3) == []
    assert desk.store.after(BOB.node, 0) == []


# Withdrawals that are forgotten


def test_tombstones_go_when_their_owner_has_let_them_go(desk: Desk) -> None:
    desk.put("a/a", 1)
    desk.put("a/b", 2, withdrawn=True)
    desk.put("a/c", 3, withdrawn=True)
    assert desk.raise_floor(2) == ["a/b"]
    assert desk.held() == {"a/a": 1, "a/c": -3}
    assert desk.raise_floor(1) == []
    assert desk.raise_floor(2) == []


def test_an_old_record_does_not_come_back_after_its_tombstone_is_forgotten(desk: Desk) -> None:
    """Case B23: somebody still has a copy and says it again."""
    desk.put("a/a", 1)
    desk.put("a/a", 2, withdrawn=True)
    desk.raise_floor(2)
    assert desk.held() == {}
    assert desk.put("a/a", 1) is OUTDATED
    assert desk.put("a/a", 2, withdrawn=True) is OUTDATED
    assert desk.held() == {}
    assert desk.put("a/a", 3) is NEW


def test_a_tombstone_below_the_floor_is_not_learned_any_more(desk: Desk) -> None:
    desk.raise_floor(5)
    assert desk.put("a/a", 5, withdrawn=True) is OUTDATED
    assert desk.put("a/b", 6, withdrawn=True) is NEW


def test_below_the_floor_a_receiver_gets_everything(desk: Desk) -> None:
    desk.put("a/a", 1)
    desk.put("a/b", 2)
    desk.put("a/c", 3, withdrawn=True)
    desk.put("a/d", 4)
    desk.raise_floor(3)
    assert [r.fact.version for r in desk.store.after(ANN.node, 3)] == [4]
    assert [r.fact.version for r in desk.store.after(ANN.node, 2)] == [1, 2, 4]


def test_who_was_not_complete_by_the_floor_drops_what_the_whole_rest_does_not_list(desk: Desk) -> None:
    desk.put("a/a", 1)
    desk.put("a/gone", 2)  # its withdrawal, 4, was missed
    desk.put("a/b", 6)
    desk.raise_floor(5, version=7)
    assert desk.completed(6, "a/a", "a/b", version=7) == ["a/gone"]
    assert desk.held() == {"a/a": 1, "a/b": 6}
    assert desk.complete == 6


def test_below_the_floor_records_do_not_complete_themselves(desk: Desk) -> None:
    desk.put("a/a", 1)
    desk.raise_floor(3)
    desk.put("a/b", 2)
    desk.put("a/c", 3)
    assert desk.complete == 1
    assert desk.completed(4, "a/b", "a/c") == ["a/a"]
    assert desk.complete == 4


def test_a_delta_that_ends_below_the_floor_completes_nothing(desk: Desk) -> None:
    desk.put("a/a", 1)
    desk.raise_floor(5, version=6)
    assert desk.completed(4, version=6) == []
    assert (desk.complete, desk.held()) == (1, {"a/a": 1})
    assert desk.counters.value("registry.delta_below_floor") == 1


def test_a_sender_that_does_not_know_the_floor_cannot_make_us_drop_anything(desk: Desk) -> None:
    """It lists what is above our version only, tombstones included: what it does not list is not gone."""
    for version in (1, 2, 3):
        desk.put(f"a/{version}", version)
    desk.raise_floor(5, version=6)
    desk.put("a/4", 5, withdrawn=True)
    assert desk.completed(5, "a/4", version=5) == []
    assert (desk.complete, desk.held()) == (3, {"a/1": 1, "a/2": 2, "a/3": 3})
    assert desk.completed(6, "a/1", "a/2", "a/3", version=6) == []
    assert (desk.complete, desk.held()) == (6, {"a/1": 1, "a/2": 2, "a/3": 3})


# Bounds


def test_a_node_has_a_bounded_number_of_records() -> None:
    desk = Desk(records_max=3)
    assert [desk.put(f"a/{v}", v) for v in (1, 2, 3, 4)] == [NEW, NEW, NEW, FULL]
    assert desk.counters.value("dropped.record.node_full") == 1
    assert desk.put("a/1", 5) is NEW
    assert not desk.store.has_room(ANN.node, "a/9")
    assert desk.store.has_room(ANN.node, "a/1")
    assert desk.store.has_room(BOB.node, "a/9")


def test_a_node_has_a_bounded_number_of_bytes(desk: Desk) -> None:
    """One that signs more than it may offer would make its records too large to travel together."""
    assert desk.put("a/big", 1, limits={"x": bytes(RECORD_BYTES_MAX)}) is FULL
    size = RECORD_BYTES_MAX - 300
    outcomes = [desk.put(f"a/{v}", v, limits={"x": bytes(size)}) for v in range(1, 40)]
    kept = outcomes.count(NEW)
    assert RECORDS_BYTES_MAX // RECORD_BYTES_MAX <= kept == SHELF_BYTES_MAX // (size + 200)
    assert outcomes[kept:] == [FULL] * (39 - kept)
    assert desk.counters.value("dropped.record.node_bytes") == 1 + 39 - kept
    assert desk.put("a/1", 50) is NEW  # smaller now
    assert desk.put("a/39", 51, limits={"x": bytes(size)}) is NEW  # so there is room again


def test_versions_seen_ahead_are_bounded() -> None:
    desk = Desk(records_max=5)
    for version in range(100, 2, -1):
        desk.put("a/a", version)
    assert len(desk.store._shelves[ANN.node].ahead) == 5
    assert desk.counters.value("registry.ahead_full") == 93
    assert desk.completed(100, "a/a") == []
    assert desk.complete == 100


def test_a_record_above_the_floor_proves_that_not_everything_was_held(desk: Desk) -> None:
    """One member can say to a newcomer that there is nothing; what the owner has signed comes in all the same."""
    assert desk.completed(7) == []
    assert desk.complete == 7
    assert desk.put("a/b", 5) is NEW
    assert (desk.complete, desk.counters.value("registry.not_complete")) == (5, 1)
    assert desk.put("a/c", 6) is NEW
    assert desk.put("a/d", 2) is NEW, "nor was that"
    assert (desk.complete, desk.counters.value("registry.not_complete")) == (2, 2)
    assert desk.completed(7) == []
    assert (desk.complete, desk.held()) == (7, {"a/b": 5, "a/c": 6, "a/d": 2})


def test_below_the_floor_what_is_not_held_was_withdrawn_and_stays_so(desk: Desk) -> None:
    desk.raise_floor(5)
    desk.completed(7)
    assert desk.put("a/b", 5) is OUTDATED
    assert desk.put("a/c", 6) is NEW
    assert desk.complete == 6, "it follows what has been seen"


def test_the_own_shelf_has_room_for_all_that_may_be_offered_and_all_tombstones() -> None:
    """A node whose own shelf were full would end itself: an own record is always taken."""
    longest = withdrawal_of(
        f"{'a' * 64}/{'b' * 64}",
        ANN.node,
        Life(EPOCH_MAX, b"\xff" * 16),
        COUNTER_MAX,
        2**40 - 1,
        Claim(CLAIM_EPOCH_MAX, CLAIM_EPOCH_MAX),
    )
    size = len(ANN.signer.sign(longest))
    assert 250 < size < 384
    assert RECORDS_BYTES_MAX + Protocol().records_per_node_max * size <= SHELF_BYTES_MAX
