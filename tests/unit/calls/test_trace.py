"""W3C trace context: what is well formed goes on with a new parent id a hop, what is not is ignored and counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.calls.trace import (
    TraceContext,
    asked_span,
    read_traceparent,
    served_span,
    write_traceparent,
)
from reachp2p.core.wire.messages import Request
from tests.unit.calls.world import AGENT, CAPABILITY, World

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACE_ID, PARENT_ID = bytes.fromhex(TRACE), bytes.fromhex(PARENT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"00-{TRACE}-{PARENT}-01", TraceContext(TRACE_ID, PARENT_ID, "01")),
        (f"00-{TRACE}-{PARENT}-00", TraceContext(TRACE_ID, PARENT_ID, "00")),
        (f"00-{TRACE}-{PARENT}-ff", TraceContext(TRACE_ID, PARENT_ID, "01")),
        (f"cc-{TRACE}-{PARENT}-01", TraceContext(TRACE_ID, PARENT_ID, "01")),
        (f"cc-{TRACE}-{PARENT}-01-what-will-be", TraceContext(TRACE_ID, PARENT_ID, "01")),
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


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8), st.sampled_from(["00", "01"]))
def test_what_was_written_reads_back(trace: bytes, span: bytes, flags: str) -> None:
    read = read_traceparent(write_traceparent(trace, span, flags))
    assert read == (TraceContext(trace, span, flags) if any(trace) and any(span) else None)


@given(st.binary(min_size=16, max_size=16))
def test_every_attempt_and_each_side_has_a_span_of_its_own(message_id: bytes) -> None:
    asked = {asked_span(message_id, attempt) for attempt in range(1, 101)}
    served = {served_span(message_id, attempt) for attempt in range(1, 101)}
    assert len(asked) == len(served) == 100
    assert all(len(span) == 8 for span in asked | served)


@given(st.text(max_size=80))
def test_no_text_raises(text: str) -> None:
    read = read_traceparent(text)
    assert read is None or read.trace.hex() in text


def pair() -> World:
    world = World()
    world.node("a"), world.node("b").offer()
    return world


def test_a_call_goes_on_with_its_trace_or_begins_one() -> None:
    world = pair()
    a, b = world.nodes
    calls = [a.call(traceparent=f"00-{TRACE}-{PARENT}-00"), a.call()]
    world.run()
    given_one, new = (invoke.traceparent for invoke in b.invoked)
    assert given_one == f"00-{TRACE}-{served_span(calls[0], 1).hex()}-00"
    assert new == write_traceparent(calls[1], served_span(calls[1], 1))


def test_what_is_malformed_is_ignored_and_counted_on_both_sides() -> None:
    world = pair()
    a, b = world.nodes
    call = a.call(traceparent="00-nonsense")
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
    assert [invoke.traceparent for invoke in b.invoked] == [
        write_traceparent(begun, served_span(begun, 1)) for begun in (call, b"m" * 16)
    ]
    for node in (a, b):
        assert node.counters.value("calls.traceparent_malformed") == 1
