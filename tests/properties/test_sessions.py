"""Laws of sessions: what is lost is named exactly when something left proves it; order follows causes, not clocks."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.calls.checking import Because, Kind, chain
from reachp2p.core.calls.gathering import Gathered, Heard, Missing, Why
from reachp2p.core.calls.hop_answers import ANSWER_BYTES, PAGE_HOPS, entry_of, hop_of, pages, size_of
from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.hops import Hop, HopFilter, Recorded, Side
from reachp2p.core.calls.invocation import Bulkhead, Invocation
from reachp2p.core.calls.trace import asked_span, served_span
from reachp2p.core.clock import WallClock
from reachp2p.core.counters import Counters
from reachp2p.core.ids import Life, LinkId, NodeId
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.codec import decode_message, encode_message
from reachp2p.core.wire.messages import HopPage, Request

SESSION = b"the first call.."
NODES = [NodeId(bytes([number]) * 32) for number in range(1, 6)]
START = 1_700_000_000.0


def message(number: int) -> bytes:
    return bytes([number % 251 + 1]) * 8 + number.to_bytes(2) + b"served"


def hop(side: Side, **fields: Any) -> Hop:
    plain: dict[str, Any] = {
        "session": SESSION, "trace": SESSION, "attempt": 1, "depth": 0, "agent": "a/b", "capability": "c",
        "started": START, "duration": 1.0, "queued": 0.0, "bytes_in": 1, "bytes_out": 2, "code": 0, "detail": "",
        "retries": 0, "items": 0, "handed": True, "answered": True, "parent": None,
    }  # fmt: skip
    return Hop(side=side, **{**plain, **fields})


@st.composite
def forests(draw: st.DrawFn) -> list[Hop]:
    """Calls that cause each other: (asked, served) pairs, some of them attempts in vain, each inside of its cause."""
    calls = draw(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4), st.booleans()), max_size=12))
    hops: list[Hop] = []
    served: list[Hop] = []
    for number, (cause, node, is_retried) in enumerate(calls):
        above = served[cause % len(served)] if served and cause else None
        own = above.node if above is not None else NODES[0]
        begins = above.started + 0.01 if above is not None else START + number
        length = above.duration - 0.02 if above is not None else 10.0
        for attempt in (1, 2) if is_retried else (1,):
            ident = message(number)
            part = length / 2 if is_retried else length
            at = begins + (attempt - 1) * part
            asked = hop(
                Side.ASKED,
                node=own,
                other=NODES[node],
                message_id=ident,
                attempt=attempt,
                span=asked_span(ident, attempt),
                parent=None if above is None else above.span,
                depth=0 if above is None else above.depth + 1,
                started=at,
                duration=part * 0.9,
            )
            one = msgspec.structs.replace(
                asked,
                side=Side.SERVED,
                node=NODES[node],
                other=own,
                span=served_span(ident, attempt),
                parent=asked.span,
                started=at + 0.001,
                duration=part * 0.9 - 0.002,
            )
            hops += [asked, one]
            served.append(one)
    return hops


def heard(*nodes: NodeId) -> list[Heard]:
    return [Heard(node=node, hops=0, left_out=0, since=0.0, complete_since=0.0) for node in nodes]


def gathered(hops: list[Hop], missing: list[NodeId] | None = None) -> Gathered:
    gone = missing or []
    return Gathered(
        hops=hops,
        heard=heard(*[node for node in NODES if node not in gone]),
        missing=[Missing(node, Why.DEAD) for node in gone],
        left_out=0,
    )


def proven(kept: list[Hop], lost: list[Hop]) -> set[bytes]:
    """The spans of lost hops of which another hop tells: their other side, or a call made inside of them."""
    asked = {(h.message_id, h.attempt) for h in kept if h.side is Side.ASKED}
    served = {(h.message_id, h.attempt) for h in kept if h.side is Side.SERVED}
    parents = {h.parent for h in kept if h.side is Side.ASKED}
    return {
        h.span
        for h in lost
        if ((h.message_id, h.attempt) in (served if h.side is Side.ASKED else asked))
        or (h.side is Side.SERVED and h.span in parents)
    }


@given(forests(), st.data())
def test_what_is_lost_is_named_exactly_when_something_left_proves_it(
    hops: list[Hop], data: st.DataObject
) -> None:
    is_lost = data.draw(st.lists(st.booleans(), min_size=len(hops), max_size=len(hops)))
    lost = [one for one, gone in zip(hops, is_lost, strict=True) if gone]
    kept = data.draw(st.permutations([one for one, gone in zip(hops, is_lost, strict=True) if not gone]))
    found = chain(gathered(list(kept)), SESSION)
    assert {finding.span for finding in found.findings} == proven(kept, lost)
    assert len(found.findings) == len(proven(kept, lost))
    by_span = {one.span: one for one in lost}
    for finding in found.findings:
        one = by_span[finding.span or b""]
        assert finding.because is Because.LOST
        assert finding.node == one.node
        assert finding.kind is (Kind.ASKED_LOST if one.side is Side.ASKED else finding.kind)
        if finding.kind is Kind.PARENT_LOST:  # even its caller's hop is gone
            assert finding.message_id is None
        else:
            assert (finding.message_id, finding.attempt) == (one.message_id, one.attempt)


@given(forests(), st.sampled_from(NODES[1:]))
def test_the_hops_of_a_node_that_is_gone_are_said_to_be_gone(hops: list[Hop], gone: NodeId) -> None:
    kept = [one for one in hops if one.node != gone]
    found = chain(gathered(kept, [gone]), SESSION)
    assert all(finding.because is Because.GONE and finding.node == gone for finding in found.findings)
    assert {f.span for f in found.findings} == proven(kept, [one for one in hops if one.node == gone])


@given(forests(), st.data())
def test_every_hop_comes_once_and_after_its_cause_whatever_the_clocks_say(
    hops: list[Hop], data: st.DataObject
) -> None:
    skews = {node: data.draw(st.sampled_from([0.0, -3600.0, 0.5, 86_400.0])) for node in NODES}
    told = [msgspec.structs.replace(one, started=one.started + skews[one.node]) for one in hops]
    found = chain(gathered(list(data.draw(st.permutations(told)))), SESSION)
    assert sorted(one.span for one in found.hops) == sorted(one.span for one in hops)
    place = {one.span: index for index, one in enumerate(found.hops)}
    for one in hops:
        if one.parent is not None:
            assert place[one.parent] < place[one.span]
            assert found.levels[place[one.parent]] == found.levels[place[one.span]] - 1
    assert {finding.kind for finding in found.findings} <= {Kind.CLOCKS}


@given(st.floats(-1e6, 1e6), st.floats(0.001, 10.0), st.floats(0.0, 0.4))
def test_an_offset_is_estimated_within_its_uncertainty(skew: float, length: float, early: float) -> None:
    """The true offset lies inside, wherever in the asked hop the served one lies."""
    ident = message(1)
    asked = hop(
        Side.ASKED,
        node=NODES[0],
        other=NODES[1],
        message_id=ident,
        span=asked_span(ident, 1),
        duration=length,
    )
    served = msgspec.structs.replace(
        asked,
        side=Side.SERVED,
        node=NODES[1],
        other=NODES[0],
        span=served_span(ident, 1),
        parent=asked.span,
        started=START + early * length + skew,
        duration=length / 2,
    )
    found = chain(gathered([asked, served]), SESSION)
    for finding in found.findings:
        assert finding.kind is Kind.CLOCKS
        assert (finding.node, finding.other) == (NODES[1], NODES[0])
        assert abs(finding.offset - skew) <= finding.uncertain + 1e-6
        assert abs(finding.offset) > asked.duration
    assert bool(found.findings) or abs(skew) <= 2 * length + 0.01


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=2_000)), max_size=300))
def test_pages_hold_the_newest_hops_in_order_within_their_bounds(told: list[tuple[int, bytes]]) -> None:
    hops = [
        hop(
            Side.SERVED,
            node=NODES[0],
            other=None,
            message_id=message(number),
            span=b"12345678",
            parent=b"12345678",
            payload_in=payload * copies * 16,
            started=START + number,
        )
        for number, (copies, payload) in enumerate(told)
    ]
    answer = list(pages(7, Recorded(hops=hops, left_out=2, since=START, complete_since=START + 1)))
    assert [page.last for page in answer] == [False] * (len(answer) - 1) + [True]
    entries = [entry for page in answer for entry in page.hops]
    assert entries == [entry_of(one) for one in hops[len(hops) - len(entries) :]]
    assert answer[-1].left_out == 2 + len(hops) - len(entries)
    assert sum(size_of(one) for one in hops[len(hops) - len(entries) :]) <= ANSWER_BYTES
    for page in answer:
        assert len(page.hops) <= PAGE_HOPS
        read = decode_message(encode_message(page))
        assert isinstance(read, HopPage)
        assert read == page
    assert [hop_of(entry, NODES[0]) for entry in entries] == hops[len(hops) - len(entries) :]


class Store:
    """A store that is told of hops, and a list of all of them that forgets as it should."""

    def __init__(self, kept_max: int, failed_max: int, keep: float, bytes_max: int) -> None:
        clock = WallClock()
        clock.report(START, 0.0)
        self.protocol = Protocol(
            hops_kept_max=kept_max,
            hops_failed_max=failed_max,
            hops_keep=keep,
            hop_payload_bytes_max=bytes_max,
        )
        self.store = HopStore(
            self.protocol, own=NODES[0], own_life=lambda: None, clock=clock, counters=Counters()
        )
        self.store.begin(0.0)
        self.good: list[tuple[float, int, int]] = []
        self.failed: list[tuple[float, int, int]] = []
        self.told = 0

    def serve(self, now: float, code: int, payload: int, recorded: int) -> None:
        self.told += 1
        request = Request(
            message_id=self.told.to_bytes(16),
            life=Life(1, b"l" * 16),
            agent="a/b",
            capability="c",
            remaining_ms=1,
            payload=b"x" * payload,
        )
        invocation = Invocation(
            1, LinkId(1), NODES[1], Life(1, b"l" * 16), request, now, Bulkhead(("a/b", "c"), 1)
        )
        invocation.accepted_at = now
        self.store.payload_max = recorded
        self.store.served(invocation, code, "", now, None)
        kept, most = (
            (self.failed, self.protocol.hops_failed_max) if code else (self.good, self.protocol.hops_kept_max)
        )
        kept.append((now, self.told, min(payload, recorded)))
        while len(kept) > most or sum(size for _, _, size in kept) > self.protocol.hop_payload_bytes_max:
            del kept[0]

    def check(self, now: float) -> None:
        for kept in (self.good, self.failed):
            while kept and kept[0][0] < now - self.protocol.hops_keep:
                del kept[0]
        found = self.store.find(HopFilter(), now)
        expected = sorted(number for _, number, _ in (*self.good, *self.failed))
        assert sorted(int.from_bytes(one.message_id) for one in found.hops) == expected
        only_failed = self.store.find(HopFilter(failed=True), now).hops
        assert [int.from_bytes(one.message_id) for one in only_failed] == [n for _, n, _ in self.failed]
        sizes, counts = self.store.gauges(), self.store.counts()
        assert sizes["hops"] == len(self.good) <= self.protocol.hops_kept_max
        assert sizes["hops.failed"] == len(self.failed) <= self.protocol.hops_failed_max
        assert sizes["hops.payload_bytes"] == sum(size for _, _, size in (*self.good, *self.failed))
        gone = counts["hops.dropped"] + counts["hops.failed_dropped"] + counts["hops.expired"]
        assert counts["hops.recorded"] == self.told == gone + len(expected)
        assert found.since == START
        if not counts["hops.dropped"] and not counts["hops.failed_dropped"]:
            assert found.complete_since == START


@given(
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(0, 30),
    st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from([0, 0, 1403]), st.integers(0, 12), st.sampled_from([0, 8])
        ),
        max_size=40,
    ),
)
def test_a_store_keeps_the_newest_of_each_kind_within_its_bounds_and_counts_the_rest(
    kept_max: int, failed_max: int, bytes_max: int, ends: list[tuple[int, int, int, int]]
) -> None:
    store = Store(kept_max, failed_max, 20.0, bytes_max)
    now = 0.0
    for later, code, payload, recorded in ends:
        now += later
        store.serve(now, code, payload, recorded)
        store.check(now)
    store.check(now + 19.0)
    store.check(now + 21.0)
    assert store.store.find(HopFilter(), now + 21.0).hops == []
