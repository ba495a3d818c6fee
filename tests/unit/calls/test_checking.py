"""Sessions as large, and as odd, as other nodes can make them: looking at one takes time in proportion to its hops."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from reachp2p.core.calls.checking import Chain, Kind, chain
from reachp2p.core.calls.gathering import HOPS_MAX, Gathered
from reachp2p.core.calls.hops import Hop, Side
from tests.unit.links.pair import node_id

SESSION, OTHER = b"s" * 16, b"o" * 16
NODE = node_id("a")


def hop(number: int, side: Side, session: bytes, started: float, seconds: float, **changes: Any) -> Hop:
    fields: dict[str, Any] = {
        "node": NODE, "side": side, "other": NODE, "session": session, "trace": session,
        "span": number.to_bytes(8), "parent": None, "message_id": number.to_bytes(16), "attempt": 1, "depth": 0,
        "agent": "test/agent", "capability": "test.work", "started": started, "duration": seconds, "queued": 0.0,
        "bytes_in": 0, "bytes_out": 0, "code": 0, "detail": "", "retries": 0, "items": 0, "handed": True,
        "answered": True, "payload_in": None, "payload_out": None,
    }  # fmt: skip
    return Hop(**{**fields, **changes})


def looked_at(hops: list[Hop]) -> Chain:
    return chain(Gathered(hops=hops, heard=[], missing=[], left_out=0), SESSION)


@pytest.mark.parametrize(
    ("at", "around"), [(0.5, None), (1.5, 1), (2.5, 2), (4.5, 1), (5.5, None), (6.5, 3), (8.0, None)]
)
def test_a_call_with_a_trace_of_its_own_is_told_with_what_was_served_then(
    at: float, around: int | None
) -> None:
    served = [(1, 1.0, 4.0), (2, 2.2, 4.0 - 1.2), (3, 6.0, 2.0)]
    hops = [hop(number, Side.SERVED, SESSION, start, seconds) for number, start, seconds in served]
    stray = hop(9, Side.ASKED, OTHER, at, 0.1)
    found = [one for one in looked_at([*hops, stray]).findings if one.kind is Kind.TRACE_BROKEN]
    if around is None:
        assert found == []
    else:
        (finding,) = found
        assert finding.message_id == stray.message_id
        windows = {number.to_bytes(8): (start, start + seconds) for number, start, seconds in served}
        assert finding.span is not None
        begun, ended = windows[finding.span]
        assert begun <= at < ended


def test_many_calls_beside_many_that_were_served() -> None:
    half = HOPS_MAX // 2
    hops = [hop(n, Side.SERVED, SESSION, n * 0.001, 0.0005) for n in range(half)]
    hops += [hop(half + n, Side.ASKED, OTHER, n * 0.001 + 0.0007, 0.0001) for n in range(half)]
    begun = process_time()
    findings = looked_at(hops).findings
    assert process_time() - begun < 2.0
    assert not any(finding.kind is Kind.TRACE_BROKEN for finding in findings)


def test_many_hops_that_cause_each_other_are_each_shown_once() -> None:
    hops = []
    for number in range(HOPS_MAX // 2):
        span = number.to_bytes(8)
        hops.append(
            hop(number, Side.ASKED, SESSION, 0.0, 1.0, parent=span, span=b"asked" + span[5:], depth=1)
        )
        hops.append(hop(number, Side.SERVED, SESSION, 0.0, 1.0, span=span))
    begun = process_time()
    told = looked_at(hops)
    assert process_time() - begun < 3.0
    assert len(told.hops) == len(told.levels) == len(hops)
