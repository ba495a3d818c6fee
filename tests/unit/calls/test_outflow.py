"""What a producer keeps: what was not taken, and never more than a window."""

from __future__ import annotations

from reachp2p.core.calls.outflow import ITEM_OVERHEAD, Outflow, counted

WINDOW = 4_096
SIZE = 384
COUNTED = SIZE + ITEM_OVERHEAD


def filled(count: int = WINDOW // COUNTED) -> Outflow:
    flow = Outflow()
    flow.grant(WINDOW)
    for _ in range(count):
        assert flow.offer(bytes(16), bytes(SIZE), "") == COUNTED
    return flow


def sent(flow: Outflow) -> list[int]:
    offsets = []
    while (item := flow.next_item()) is not None:
        offsets.append(item.offset)
        flow.sent()
    return offsets


def test_nothing_is_taken_without_credit() -> None:
    flow = Outflow()
    assert (flow.offer(bytes(16), b"", ""), flow.is_granted) == (0, False)
    flow = filled()
    assert flow.offer(bytes(16), b"", "") == 0
    assert flow.kept_bytes == WINDOW


def test_credit_frees_what_was_taken_and_old_credit_says_nothing() -> None:
    flow = filled()
    assert sent(flow) == list(range(8))
    assert flow.grant(WINDOW + 3 * COUNTED) == 3 * COUNTED
    assert (flow.first, flow.kept_bytes) == (3, 5 * COUNTED)
    assert flow.grant(WINDOW + COUNTED) == 0
    assert flow.offer(bytes(16), bytes(SIZE), "") == COUNTED


def test_what_was_not_sent_cannot_have_been_taken() -> None:
    flow = filled()
    assert flow.grant(2**62) == 0
    assert (flow.first, flow.kept_bytes) == (0, WINDOW)
    assert flow.offer(bytes(16), b"", "") == 0


def test_after_a_resumption_what_has_arrived_is_not_sent_again_and_what_has_not_is() -> None:
    flow = filled()
    sent(flow)
    assert flow.resume(5) == 5 * COUNTED
    assert sent(flow) == [5, 6, 7]
    assert flow.resume(2) is None
    assert flow.resume(9) is None
    assert sent(flow) == []
    flow.grant(WINDOW + 6 * COUNTED)
    assert (flow.first, flow.kept_bytes) == (6, 2 * COUNTED)


def test_what_has_not_left_its_link_is_sent_again() -> None:
    flow = filled()
    sent(flow)
    flow.unsent(6)
    flow.unsent(7)
    assert sent(flow) == [6, 7]
    flow.grant(WINDOW + 7 * COUNTED)
    flow.unsent(3)
    assert sent(flow) == []


def test_it_is_sent_when_it_is_finished_and_all_has_left() -> None:
    flow = filled(2)
    flow.is_finished = True
    assert not flow.is_sent
    sent(flow)
    assert (flow.is_sent, flow.items) == (True, 2)


def test_a_tiny_window_hides_no_memory() -> None:
    flow = Outflow()
    flow.grant(1)
    assert flow.offer(bytes(16), bytes(1_000_000), "") == 1
    assert flow.offer(bytes(16), b"", "") == 0
    assert flow.held_bytes == 1_000_000 + ITEM_OVERHEAD
    sent(flow)
    flow.grant(2)
    assert flow.held_bytes == 0


def test_an_item_counts_at_most_seven_eighths_of_the_window() -> None:
    assert counted(0, WINDOW) == ITEM_OVERHEAD
    assert counted(2**30, WINDOW) == WINDOW * 7 // 8
