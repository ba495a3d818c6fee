"""W3C trace context: what is well formed goes on with a new parent id a hop, what is not is ignored and counted."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.calls.trace import TraceContext, new_trace, read_traceparent
from reachp2p.core.wire.messages import Request
from tests.unit.calls.world import AGENT, CAPABILITY, World

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"00-{TRACE}-{PARENT}-01", TraceContext(TRACE, PARENT, 1)),
        (f"00-{TRACE}-{PARENT}-00", TraceContext(TRACE, PARENT, 0)),
        (f"00-{TRACE}-{PARENT}-ff", TraceContext(TRACE, PARENT, 1)),
        (f"cc-{TRACE}-{PARENT}-01", TraceContext(TRACE, PARENT, 1)),
        (f"cc-{TRACE}-{PARENT}-01-what-will-be", TraceContext(TRACE, PARENT, 1)),
        (f"cc-{TRACE}-{PARENT}-01.what", None),
        (f"ff-{TRACE}-{PARENT}-01", None),
        (f"00-{TRACE}-{PARENT}-01-more", None),
        (f"00-{TRACE}-{PARENT}-01-", None),
        (f"00-{TRACE}-{PARENT}-01\n", None),
        (f"00-{TRACE.upper()}-{PARENT}-01", None),
        (f"00-{'0' * 32}-{PARENT}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE}-{PARENT}-1", None),
        (f"0-{TRACE}-{PARENT}-01", None),
        (f"00-{TRACE}-{PARENT}", None),
        ("", None),
    ],
)
def test_a_traceparent_is_read_as_the_recommendation_says(text: str, expected: TraceContext | None) -> None:
    assert read_traceparent(text) == expected


@given(st.binary(min_size=16, max_size=16), st.integers(1, 100), st.integers(0, 1))
def test_what_is_sent_can_be_read_and_each_attempt_has_its_own_id(
    call: bytes, attempt: int, flags: int
) -> None:
    first = TraceContext(TRACE, PARENT, flags).for_attempt(call, attempt)
    assert re.fullmatch(f"00-{TRACE}-[0-9a-f]{{16}}-0{flags}", first)
    again = read_traceparent(first)
    assert again is not None
    assert (again.trace_id, again.flags) == (TRACE, flags)
    assert first != TraceContext(TRACE, PARENT, flags).for_attempt(call, attempt + 1)


@given(st.text(max_size=80))
def test_no_text_raises(text: str) -> None:
    read = read_traceparent(text)
    assert read is None or read.trace_id in text


def pair() -> World:
    world = World()
    world.node("a"), world.node("b").offer()
    return world


def test_a_call_goes_on_with_its_trace_and_begins_one_only_if_it_is_to() -> None:
    world = pair()
    a, b = world.nodes
    calls = [a.call(traceparent=f"00-{TRACE}-{PARENT}-01"), a.call(traced=True), a.call()]
    world.run()
    given_one, new, without = (invoke.traceparent for invoke in b.invoked)
    assert given_one is not None
    assert given_one.startswith(f"00-{TRACE}-")
    assert PARENT not in given_one
    assert new == new_trace(calls[1]).for_attempt(calls[1], 1)
    assert without is None


def test_what_is_malformed_is_ignored_and_counted_on_both_sides() -> None:
    world = pair()
    a, b = world.nodes
    call = a.call(traceparent="00-nonsense", traced=True)
    world.run()
    a.send(
        b,
        Request(
            message_id=b"m" * 16,
            life=b.life,
            agent=AGENT,
            capability=CAPABILITY,
            remaining_ms=1_000,
            payload=b"",
            traceparent="\ud7ff nonsense",
        ),
    )
    world.run()
    assert [invoke.traceparent for invoke in b.invoked] == [new_trace(call).for_attempt(call, 1), None]
    for node in (a, b):
        assert node.counters.value("calls.traceparent_malformed") == 1
