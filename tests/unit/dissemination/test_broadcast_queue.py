"""News in circulation: what goes first, how often, and what a flood or a big update cannot do (SWIM §4.1; case B13)."""

from __future__ import annotations

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.dissemination.broadcast_queue import MISFITS_MAX, BroadcastQueue, Kind

HEAD, ACCUSATION, RECORD, _RULES = Kind
EVERYTHING = 10**6


class Desk:
    """A queue with its counters."""

    def __init__(self, entries_max: int = 100) -> None:
        self.counters = Counters()
        self.queue = BroadcastQueue(entries_max, self.counters)

    @property
    def evicted(self) -> int:
        return self.counters.value("broadcast_queue.evicted")


@pytest.fixture
def queue() -> BroadcastQueue:
    return Desk().queue


def test_nothing_to_say_is_nothing(queue: BroadcastQueue) -> None:
    assert queue.take(EVERYTHING, 9) == []
    assert len(queue) == 0


def test_an_update_is_sent_as_often_as_the_limit_says_and_is_gone(queue: BroadcastQueue) -> None:
    queue.put(HEAD, "n1", b"alive")
    assert [queue.take(EVERYTHING, 3) for _ in range(5)] == [[b"alive"], [b"alive"], [b"alive"], [], []]
    assert len(queue) == 0


def test_each_datagram_has_an_update_once(queue: BroadcastQueue) -> None:
    for number in range(5):
        queue.put(HEAD, number, b"%d" % number)
    assert sorted(queue.take(EVERYTHING, 9)) == [b"0", b"1", b"2", b"3", b"4"]


def test_those_sent_least_go_first_and_the_newest_of_them(queue: BroadcastQueue) -> None:
    queue.put(HEAD, "a", b"aa")
    queue.put(HEAD, "b", b"bb")
    assert queue.take(2, 9) == [b"bb"]
    assert queue.take(2, 9) == [b"aa"]  # sent less often than b
    queue.put(HEAD, "c", b"cc")
    assert queue.take(2, 9) == [b"cc"]
    assert queue.take(6, 9) == [b"cc", b"aa", b"bb"]


def test_a_newer_update_takes_the_place_of_the_older_and_starts_again(queue: BroadcastQueue) -> None:
    queue.put(HEAD, "a", b"old")
    queue.take(EVERYTHING, 3)
    queue.take(EVERYTHING, 3)
    queue.put(HEAD, "a", b"new")
    assert len(queue) == 1
    assert [queue.take(EVERYTHING, 3) for _ in range(4)] == [[b"new"]] * 3 + [[]]


def test_slots_of_two_kinds_do_not_meet(queue: BroadcastQueue) -> None:
    queue.put(HEAD, "a", b"head")
    queue.put(RECORD, "a", b"record")
    assert sorted(queue.take(EVERYTHING, 3)) == [b"head", b"record"]


def test_a_dropped_update_is_not_sent(queue: BroadcastQueue) -> None:
    queue.put(ACCUSATION, ("s", "a"), b"doubt")
    queue.drop(ACCUSATION, ("s", "b"))
    queue.drop(HEAD, ("s", "a"))
    assert len(queue) == 1
    queue.drop(ACCUSATION, ("s", "a"))
    assert queue.take(EVERYTHING, 3) == []


def test_no_more_bytes_are_taken_than_there_is_room_for(queue: BroadcastQueue) -> None:
    for number in range(20):
        queue.put(HEAD, number, bytes(100))
    assert len(queue.take(350, 9)) == 3
    assert queue.take(99, 9) == []
    assert len(queue.take(100, 9)) == 1


# Fairness


def test_kinds_take_turns(queue: BroadcastQueue) -> None:
    for number in range(50):
        queue.put(ACCUSATION, number, b"a" * 100)
    queue.put(HEAD, 0, b"h" * 100)
    queue.put(RECORD, 0, b"r" * 100)
    assert [item[:1] for item in queue.take(500, 9)] == [b"h", b"a", b"r", b"a", b"a"]


def test_a_big_update_never_blocks_small_ones_behind_it(queue: BroadcastQueue) -> None:
    queue.put(RECORD, "small", b"small")
    queue.take(EVERYTHING, 9)
    queue.put(RECORD, "big", bytes(1_000))
    assert queue.take(900, 9) == [b"small"]
    assert queue.take(1_005, 9) == [bytes(1_000), b"small"]


def test_many_big_updates_do_not_block_small_ones_either(queue: BroadcastQueue) -> None:
    queue.put(RECORD, "small", b"small")
    queue.take(EVERYTHING, 9)
    for number in range(MISFITS_MAX):
        queue.put(RECORD, number, bytes(1_000))
    assert queue.take(900, 9) == [b"small"]


def test_looking_for_what_fits_ends_after_a_while_and_room_for_one_is_always_used() -> None:
    queue = Desk(2_000).queue
    queue.put(RECORD, "small", b"small")
    queue.take(EVERYTHING, 9)
    for number in range(1_000):
        queue.put(RECORD, number, bytes(1_000))
    assert queue.take(900, 9) == []
    assert len(queue.take(1_100, 9)) == 1


# The bound


def test_of_a_full_queue_the_most_often_sent_goes() -> None:
    desk = Desk(3)
    desk.queue.put(HEAD, "a", b"a")
    desk.queue.take(EVERYTHING, 9)
    desk.queue.put(HEAD, "b", b"b")
    desk.queue.put(HEAD, "c", b"c")
    desk.queue.put(HEAD, "d", b"d")
    assert (len(desk.queue), desk.evicted) == (3, 1)
    assert sorted(desk.queue.take(EVERYTHING, 9)) == [b"b", b"c", b"d"]


def test_of_those_sent_equally_often_the_oldest_goes() -> None:
    desk = Desk(3)
    for name in "abcd":
        desk.queue.put(HEAD, name, name.encode())
    assert sorted(desk.queue.take(EVERYTHING, 9)) == [b"b", b"c", b"d"]


def test_a_flood_of_one_kind_drops_its_own() -> None:
    desk = Desk(100)
    for number in range(10):
        desk.queue.put(RECORD, number, b"r%d" % number)
    for number in range(1_000):
        desk.queue.put(ACCUSATION, number, b"a%d" % number)
    desk.queue.put(HEAD, "h", b"h")
    assert (len(desk.queue), desk.evicted) == (100, 10 + 1_000 + 1 - 100)
    left = desk.queue.take(EVERYTHING, 9)
    assert sum(item.startswith(b"r") for item in left) == 10
    assert b"h" in left


def test_putting_again_what_a_full_queue_holds_drops_nothing() -> None:
    desk = Desk(3)
    for name in "abc":
        desk.queue.put(HEAD, name, b"old")
    desk.queue.put(HEAD, "b", b"new")
    assert (len(desk.queue), desk.evicted) == (3, 0)
