"""Items that come out of order, twice, or without credit; and how many there are."""

from __future__ import annotations

import pytest

from reachp2p.core.calls.inflow import Arrival, Inflow
from reachp2p.core.wire.messages import StreamItem


def item(offset: int, size: int = 10) -> StreamItem:
    return StreamItem(message_id=bytes(16), offset=offset, payload=b"x" * size)


def offsets(items: list[StreamItem]) -> list[int]:
    return [one.offset for one in items]


def taken(inflow: Inflow) -> list[int]:
    items = []
    while (one := inflow.take()) is not None:
        items.append(one.offset)
    return items


def test_items_are_handed_over_once_and_in_order_whatever_order_they_come_in() -> None:
    inflow = Inflow(4_096)
    arrivals = [inflow.arrive(item(offset)) for offset in (2, 0, 0, 2, 4, 1, 1, 3)]
    repeated = [arrival is Arrival.REPEATED for arrival in arrivals]
    assert repeated == [False, False, True, True, False, False, True, False]
    assert taken(inflow) == [0, 1, 2, 3, 4]
    assert inflow.arrive(item(3)) is Arrival.REPEATED
    assert (inflow.received, inflow.taken, inflow.held_bytes) == (5, 5, 0)


def test_what_comes_beyond_the_credit_is_not_kept() -> None:
    inflow = Inflow(1_024)
    assert [inflow.arrive(item(offset, 384)) for offset in range(3)] == [
        Arrival.NEW,
        Arrival.NEW,
        Arrival.BEYOND_CREDIT,
    ]
    assert inflow.held_bytes == 1_024
    assert taken(inflow) == [0, 1]
    assert inflow.is_credit_due
    assert inflow.credit() == 2_048
    assert not inflow.is_credit_due
    assert inflow.arrive(item(2, 384)) is Arrival.NEW


def test_a_gap_holds_up_what_is_behind_it_and_counts() -> None:
    inflow = Inflow(1_024)
    for offset in (1, 2, 3):
        assert inflow.arrive(item(offset, 128)) is Arrival.NEW
    assert (taken(inflow), inflow.held_bytes) == ([], 768)
    assert inflow.arrive(item(0, 128)) is Arrival.NEW
    assert taken(inflow) == [0, 1, 2, 3]


def test_it_is_complete_with_its_last_item_and_over_when_that_is_taken() -> None:
    inflow = Inflow(4_096)
    inflow.arrive(item(0))
    assert inflow.end(2)
    assert (inflow.is_complete, inflow.is_over) == (False, False)
    assert inflow.arrive(item(2)) is Arrival.BEYOND_END
    inflow.arrive(item(1))
    assert (inflow.is_complete, inflow.is_over) == (True, False)
    assert taken(inflow) == [0, 1]
    assert inflow.is_over


@pytest.mark.parametrize(
    ("arrived", "items", "is_possible"), [([0, 1], 1, False), ([5], 5, False), ([5], 6, True)]
)
def test_a_count_below_what_has_arrived_cannot_be(arrived: list[int], items: int, is_possible: bool) -> None:
    inflow = Inflow(4_096)
    for offset in arrived:
        inflow.arrive(item(offset))
    assert inflow.end(items) is is_possible
    if is_possible:
        assert inflow.end(items)
        assert not inflow.end(items + 1)


def test_an_early_end_comes_after_what_is_in_order() -> None:
    inflow = Inflow(4_096)
    for offset in (0, 1, 3, 7):
        inflow.arrive(item(offset))
    inflow.end_early(0)
    assert inflow.is_complete
    assert offsets(inflow.take_all()) == [0, 1]
    assert (inflow.held_bytes, inflow.taken, inflow.is_over) == (0, 2, True)
    inflow = Inflow(4_096)
    for offset in (0, 2, 7):
        inflow.arrive(item(offset))
    inflow.end_early(3)
    assert not inflow.is_complete
    inflow.arrive(item(1))
    assert offsets(inflow.take_all()) == [0, 1, 2]
