"""Timers: keys that fire in order, can be moved and cancelled, and leave nothing behind."""

from __future__ import annotations

import msgspec

from reachp2p.core.timers import TimerKey, Timers


class Due(msgspec.Struct, frozen=True):
    """A timer key with a number."""

    number: int


class Other(msgspec.Struct, frozen=True):
    """Another kind of key with the same field."""

    number: int


def drain(timers: Timers, now: float) -> list[TimerKey]:
    """All that is due, in the order in which it fires."""
    fired: list[TimerKey] = []
    while (key := timers.pop_due(now)) is not None:
        fired.append(key)
    return fired


def test_nothing_is_due_without_a_timer() -> None:
    timers = Timers()
    assert timers.next_deadline() is None
    assert timers.pop_due(1e9) is None
    assert len(timers) == 0


def test_keys_fire_in_the_order_of_their_times_each_once() -> None:
    timers = Timers()
    for number, at in ((1, 3.0), (2, 1.0), (3, 2.0)):
        timers.set(Due(number), at)
    assert timers.next_deadline() == 1.0
    assert drain(timers, 2.0) == [Due(2), Due(3)]
    assert timers.next_deadline() == 3.0
    assert drain(timers, 9.0) == [Due(1)]
    assert drain(timers, 9.0) == []


def test_keys_of_one_time_fire_in_the_order_in_which_they_were_set() -> None:
    timers = Timers()
    for number in (5, 3, 4):
        timers.set(Due(number), 1.0)
    timers.set(Due(5), 1.0)  # set again: it goes to the end
    assert drain(timers, 1.0) == [Due(3), Due(4), Due(5)]


def test_a_key_is_due_at_its_time_and_not_before() -> None:
    timers = Timers()
    timers.set(Due(1), 1.0)
    assert timers.pop_due(0.999) is None
    assert timers.pop_due(1.0) == Due(1)


def test_setting_a_key_again_moves_it_later_or_earlier() -> None:
    timers = Timers()
    timers.set(Due(1), 1.0)
    timers.set(Due(1), 5.0)
    assert timers.due_at(Due(1)) == 5.0
    assert drain(timers, 4.0) == []
    timers.set(Due(1), 2.0)
    assert drain(timers, 4.0) == [Due(1)]
    assert drain(timers, 9.0) == []
    assert len(timers) == 0


def test_a_cancelled_key_never_fires_and_can_be_set_anew() -> None:
    timers = Timers()
    timers.set(Due(1), 1.0)
    assert timers.cancel(Due(1))
    assert not timers.cancel(Due(1))
    assert timers.due_at(Due(1)) is None
    assert timers.next_deadline() is None
    timers.set(Due(1), 3.0)
    assert drain(timers, 2.0) == []
    assert drain(timers, 3.0) == [Due(1)]


def test_keys_of_two_kinds_with_equal_fields_are_two_keys() -> None:
    timers = Timers()
    timers.set(Due(1), 1.0)
    timers.set(Other(1), 2.0)
    assert timers.cancel(Due(1))
    assert drain(timers, 9.0) == [Other(1)]


def test_a_key_set_while_others_fire_fires_in_the_same_turn_if_it_is_due() -> None:
    timers = Timers()
    timers.set(Due(1), 1.0)
    assert timers.pop_due(2.0) == Due(1)
    timers.set(Due(2), 2.0)
    assert timers.pop_due(2.0) == Due(2)


def test_moving_one_key_a_hundred_thousand_times_keeps_the_heap_small() -> None:
    timers = Timers()
    for number in range(10):
        timers.set(Due(number), 1.0 + number)
    for turn in range(100_000):
        timers.set(Due(3), 100.0 + turn)
    assert len(timers) == 10
    assert len(timers._heap) <= 2 * len(timers) + 65  # the bound that the class states
    assert timers.due_at(Due(3)) == 100_099.0
    assert drain(timers, 1e9) == [Due(n) for n in (0, 1, 2, 4, 5, 6, 7, 8, 9, 3)]


def test_the_order_of_ties_survives_a_rebuild_of_the_heap() -> None:
    timers = Timers()
    for number in range(50):
        timers.set(Due(number), 7.0)
    for turn in range(500):
        timers.set(Other(0), 8.0 + turn)
    assert drain(timers, 7.0) == [Due(number) for number in range(50)]
