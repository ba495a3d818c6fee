"""Streams outlive their links: every item once and in order, and an end in bounded time (docs/protocol/streams.md)."""

from __future__ import annotations

import pytest

from reachp2p.core.commands import Flow, StreamKind
from reachp2p.core.effects import LinkEnd
from reachp2p.core.wire.messages import Reply, StreamItem, StreamResume
from reachp2p.errors import ErrorCode
from tests.unit.calls.streaming import (
    BOTH,
    PARAMETERS,
    RESULTS,
    begin,
    end_items,
    ended,
    finish,
    give,
    nothing_left,
    pair,
    rest,
    take,
    take_all,
)
from tests.unit.calls.world import Node, World
from tests.unit.links.pair import life

ITEMS = [f"item {n} ".encode().ljust(200, b".") for n in range(12)]
ITEMS[5] = b"L" * 40_000
"""Small ones, and one that travels in chunks."""


def play(kind: StreamKind, cut_after: int) -> tuple[World, Node, Node, list[bytes], list[bytes], bytes]:
    """A whole stream of `ITEMS` each way, its link cut when so many things have happened; what each side got."""
    world, a, b = pair(kind, stream_window=8_192, payload_max=50_000)
    call = a.call(b"", stream=True, timeout=300.0)
    to_send = {a: list(ITEMS) if kind & PARAMETERS else [], b: list(ITEMS) if kind & RESULTS else []}
    got: dict[Node, list[bytes]] = {a: [], b: []}
    has_ended_items = not kind & PARAMETERS
    number = 0
    for steps in range(5_000):
        if b.invoked and not number:
            number = b.invoked[0].invocation
        if number in b.running or not number:
            for node, key in ((a, call), (b, number)):
                if key and to_send[node] and give(node, key, to_send[node][0]) is Flow.DONE:
                    to_send[node].pop(0)
            if not to_send[a] and not has_ended_items:
                has_ended_items = True
                end_items(a, call)
        if number in b.running and kind & PARAMETERS:
            got[b] += take_all(b, number)
        if kind & RESULTS and not a.ended:
            got[a] += take_all(a, call)
        if (
            number in b.running
            and not to_send[b]
            and (not kind & PARAMETERS or take(b, number) is Flow.ENDED)
        ):
            finish(b, number, payload=b"done")
        if steps == cut_after and world.wires:
            world.cut(world.wires[-1])
        possible = world.steps()
        if possible:
            world.step(*possible[steps % len(possible)])
        elif a.ended:
            break
        else:
            world.sleep(0.5)
    assert a.ended
    got[a] += rest(ended(a, call))
    return world, a, b, got[a], got[b], call


@pytest.mark.parametrize("kind", [RESULTS, PARAMETERS, BOTH])
def test_a_link_cut_at_any_moment_costs_no_item_and_no_order(kind: StreamKind) -> None:
    resumed = 0
    for cut_after in range(45):
        world, a, b, results, parameters, call = play(kind, cut_after)
        end = ended(a, call)
        if end.code:  # the request itself was under way: nobody can know whether it arrived
            assert end.code in (ErrorCode.OUTCOME_UNKNOWN, ErrorCode.NODE_LOST)
            assert a.counters.value("streams.resumed") == 0
            assert (end.code == ErrorCode.NODE_LOST) is (
                b.invoked == [] and a.counters.value("links.proven") == 0
            )
        else:
            assert results == (ITEMS if kind & RESULTS else [])
            assert parameters == (ITEMS if kind & PARAMETERS else [])
        resumed += a.counters.value("streams.resumed")
        world.sleep(60.0)
        assert nothing_left(a, b)
    assert resumed > 12


def test_the_reply_alone_is_lost_and_comes_again() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    give(b, number, b"1")
    world.run()
    assert take(a, call) == b"1"
    finish(b, number)
    world.lose(a, b)
    world.run()
    assert (ended(a, call).code, ended(a, call).items) == (0, 1)
    assert [reply.items for reply in a.received if isinstance(reply, Reply)] == [1]
    assert nothing_left(a, b)


def test_an_end_that_nobody_confirms_is_forgotten_with_the_window() -> None:
    world, a, b = pair(PARAMETERS)
    call, number = begin(a, b)
    finish(b, number, payload=b"x" * 1_000)
    assert b.streams.gauges()["streams.bytes"] == 1_000
    world.kill(a)
    world.run()
    world.sleep(29.0)
    assert b.streams.gauges()["streams"] == 1
    world.sleep(2.0)
    assert nothing_left(b)
    assert a.ended == []
    assert call in [invoke.message_id for invoke in b.invoked]


def test_an_end_that_is_not_confirmed_on_a_good_link_is_forgotten_with_the_deadline() -> None:
    world, a, b = pair()
    call, number = begin(a, b, timeout=100.0)
    a.streams.end_call(call)  # it forgets without a word, as a caller with a defect might
    (pending,) = a.caller._pending.all()
    a.caller._pending.remove(pending)
    world.router.end(pending.pick, 0, world.now)
    finish(b, number)
    world.sleep(99.0)
    assert b.streams.gauges()["streams"] == 1
    world.sleep(2.0)
    assert b.counters.value("streams.unconfirmed") == 1
    assert b.leftovers == {}


def test_a_link_that_is_replaced_in_good_order_is_no_interruption() -> None:
    world, a, b = pair(BOTH)
    call, number = begin(a, b)
    give(b, number, b"1")
    give(a, call, b"p")
    b.links.dial(a.address, a.node, world.now)
    b.perform()
    give(b, number, b"2")
    a.links.dial(b.address, b.node, world.now)
    a.perform()
    for n in range(3, 40):
        if world.steps():
            world.step(*world.steps()[n % len(world.steps())])
        assert give(b, number, str(n).encode()) is Flow.DONE
    world.run()
    assert [int(item) for item in take_all(a, call)] == list(range(1, 40))
    assert take(b, number) == b"p"
    for node in (a, b):
        assert node.counters.value("streams.interrupted") == 0
    a.cancel(call)
    world.run()
    assert nothing_left(a, b)


def test_a_stream_whose_link_stays_broken_ends_with_the_window_at_both_sides() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    for item in (b"1", b"2"):
        give(b, number, item)
    world.run()
    assert take(a, call) == b"1"
    world.silent.add(b.address)
    world.lose(a, b)
    world.sleep(29.0)
    assert (a.ended, list(b.running)) == ([], [number])
    world.sleep(8.0)
    end = ended(a, call)
    assert (end.code, end.items, rest(end)) == (ErrorCode.OUTCOME_UNKNOWN, 2, [b"2"])
    assert "broken for 30 s" in end.detail
    assert "(after 2 items)" in end.detail
    assert b.running == {}
    assert nothing_left(a, b)


def test_a_caller_dials_again_until_somebody_answers() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    world.silent.add(b.address)
    world.lose(a, b)
    world.sleep(12.0)
    world.silent.clear()
    world.sleep(6.0)
    give(b, number, b"1")
    world.run()
    assert take(a, call) == b"1"
    finish(b, number)
    world.run()
    assert ended(a, call).code == 0
    assert nothing_left(a, b)


def test_a_caller_that_nobody_can_dial_is_found_by_its_own_new_link_only() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    world.silent.add(a.address)
    world.lose(a, b)
    world.run()
    give(b, number, b"1")
    world.run()
    assert take(a, call) == b"1"
    assert b.counters.value("links.dialled") == 0
    a.cancel(call)
    world.run()
    assert nothing_left(a, b)


def test_a_node_that_is_dead_or_in_another_life_ends_it_at_once() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    give(b, number, b"1")
    world.run()
    world.kill(b)
    world.run()
    assert a.ended == []
    a.gone(b)
    end = ended(a, call)
    assert (end.code, rest(end)) == (ErrorCode.OUTCOME_UNKNOWN, [b"1"])
    assert nothing_left(a)

    world, a, b = pair()
    call, _ = begin(a, b)
    world.kill(b)
    world.run()
    reborn = world.node("b", own=life(2))
    world.sleep(2.0)
    assert ended(a, call).code == ErrorCode.OUTCOME_UNKNOWN
    assert "another life" in ended(a, call).detail
    assert nothing_left(a, reborn)


def test_a_new_life_of_the_caller_ends_the_streams_of_the_former() -> None:
    world, a, b = pair()
    begin(a, b)
    world.kill(a)
    world.run()
    reborn = world.node("a", own=life(2))
    reborn.dial(b)
    world.run()
    assert b.running == {}
    assert nothing_left(b)


def test_a_repeatable_stream_begins_anew_elsewhere_while_nothing_has_moved() -> None:
    world, a, b = pair(repeatable=True)
    c = world.node("c")
    c.offer(stream=RESULTS, repeatable=True)
    call, _ = begin(a, b)
    assert take(a, call) is Flow.WAIT
    world.kill(b)
    a.gone(b)
    world.run()
    number = c.invoked[0].invocation
    give(c, number, b"1")
    finish(c, number)
    world.run()
    end = ended(a, call)
    assert (end.code, rest(end), end.node, end.attempts) == (0, [b"1"], c.node, 2)
    assert nothing_left(a, c)


def test_a_repeatable_stream_in_the_middle_ends() -> None:
    world, a, b = pair(repeatable=True)
    c = world.node("c")
    c.offer(stream=RESULTS, repeatable=True)
    call, number = begin(a, b)
    give(b, number, b"1")
    world.run()
    world.kill(b)
    a.gone(b)
    world.run()
    end = ended(a, call)
    assert (end.code, c.invoked) == (ErrorCode.OUTCOME_UNKNOWN, [])
    assert "in the middle of a stream" in end.detail
    assert nothing_left(a, c)


def test_an_instance_that_streams_otherwise_is_no_second_choice() -> None:
    world, a, b = pair(repeatable=True)
    c = world.node("c")
    c.offer(stream=BOTH, repeatable=True)
    call, _ = begin(a, b)
    world.kill(b)
    a.gone(b)
    world.run()
    assert (ended(a, call).code, c.invoked) == (ErrorCode.OUTCOME_UNKNOWN, [])
    assert nothing_left(a, c)


def test_a_slow_repeatable_stream_is_not_begun_elsewhere_meanwhile() -> None:
    world, a, b = pair(repeatable=True)
    c = world.node("c")
    c.offer(stream=RESULTS, repeatable=True)
    begin(a, b, timeout=10.0)
    world.sleep(9.0)
    assert c.invoked == []


def test_a_stream_that_was_cancelled_while_its_link_was_broken_ends_when_there_is_one() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    world.silent.add(b.address)
    world.lose(a, b)
    a.cancel(call)
    assert list(b.running) == [number]
    b.dial(a)
    world.run()
    assert b.running == {}
    assert b.cancelled[0].reason == "cancelled by the caller"
    assert nothing_left(a, b)


def test_a_side_that_has_not_noticed_the_loss_takes_up_all_the_same() -> None:
    """The caller's end of the link is gone; the callee's still seems open and breaks only after the resumption."""
    world, a, b = pair()
    call, number = begin(a, b)
    give(b, number, b"1")
    world.run()
    (wire,) = world.wires
    caller_end = next(end for end in wire.ends if end.side is a)
    caller_end.is_open = False
    caller_end.side.ends.pop(caller_end.link)
    give(b, number, b"2")  # into nowhere
    a.take(a.links.on_closed(caller_end.link, LinkEnd.LOST, world.now))
    world.run()
    give(b, number, b"3")
    world.run()
    assert take_all(a, call) == [b"1", b"2", b"3"]
    callee_end = next(end for end in wire.ends if end.side is b)
    callee_end.inbox.append(LinkEnd.LOST)
    world.run()
    give(b, number, b"4")
    finish(b, number)
    world.run()
    assert rest(ended(a, call)) == [b"4"]
    assert nothing_left(a, b)


def test_old_and_doubled_words_of_resumption_change_nothing() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    for n in range(5):
        give(b, number, str(n).encode())
    world.run()
    assert len(take_all(a, call)) == 5
    a.send(b, StreamResume(message_id=call, next=2, credit=1))
    a.send(b, StreamResume(message_id=call, next=99, credit=0))
    b.send(a, StreamResume(message_id=call, answers=True))
    world.run()
    give(b, number, b"5")
    finish(b, number)
    world.run()
    assert rest(ended(a, call)) == [b"5"]
    assert sum(isinstance(message, StreamItem) for message in a.received) >= 6
    assert nothing_left(a, b)


def test_a_callee_that_does_not_know_the_stream_says_so() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    give(b, number, b"1")
    world.run()
    b.streams.abandon(number)
    world.lose(a, b)
    end = ended(a, call)
    assert (end.code, rest(end)) == (ErrorCode.OUTCOME_UNKNOWN, [b"1"])
    assert "not known here any more" in end.detail
