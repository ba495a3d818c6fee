"""Answers to nodes that ask for recorded hops (docs/protocol/sessions.md), and hops as they travel.

A look through the store costs milliseconds, so a node may ask 10 times a second; beyond it the answer is 1410.
"""

from __future__ import annotations

from collections.abc import Iterator

from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.hops import Hop, HopFilter, Recorded, Side
from reachp2p.core.counters import Counters
from reachp2p.core.ids import LinkId, NodeId
from reachp2p.core.links.table import Links
from reachp2p.core.wire.messages import HopEntry, HopPage, HopWant
from reachp2p.errors import ErrorCode

QUESTIONS_RATE = 10.0
"""Questions of one node a second."""
QUESTIONS_BURST = 20.0
ASKERS_MAX = 1_024
"""Nodes whose rate is remembered: as many as there are links. Whoever has not asked for longest is forgotten, and may
ask at full rate again."""
PAGE_HOPS = 128
PAGE_BYTES = 49_152
"""What a page takes beside others in a frame; a single hop with its payloads may be larger."""
ANSWER_BYTES = 1_048_576
"""Of one answer; the newest hops are told."""
ENTRY_BYTES = 320
"""An entry without its texts and payloads, at most."""
TEXT_MAX = 256
WALL_MS_MAX = 2**52


class HopAnswers:
    """Answers `HopWant` from the store of this node."""

    def __init__(self, hops: HopStore, links: Links, counters: Counters) -> None:
        self._hops = hops
        self._links = links
        self._counters = counters
        self._askers: dict[NodeId, tuple[float, float]] = {}

    def __len__(self) -> int:
        """Nodes whose rate is remembered."""
        return len(self._askers)

    def on_want(self, link: LinkId, node: NodeId, want: HopWant, now: float) -> None:
        """A node asks for hops."""
        if not self._take_token(node, now):
            self._counters.add("hops.refused")
            self._links.send(link, HopPage(query=want.query, last=True, code=ErrorCode.RATE_LIMITED))
            return
        self._counters.add("hops.asked")
        found = self._hops.find(filter_of(want), now)
        for page in pages(want.query, found):
            if not self._links.send(link, page):
                self._counters.add("hops.page_dropped")  # its last page is missing then, which is noticed
                return

    def _take_token(self, node: NodeId, now: float) -> bool:
        tokens, at = self._askers.pop(node, (QUESTIONS_BURST, now))
        tokens = min(QUESTIONS_BURST, tokens + (now - at) * QUESTIONS_RATE)
        allowed = tokens >= 1
        self._askers[node] = (tokens - 1 if allowed else tokens, now)
        if len(self._askers) > ASKERS_MAX:
            del self._askers[next(iter(self._askers))]
        return allowed


def pages(query: int, found: Recorded) -> Iterator[HopPage]:
    """What is told of recorded hops, the last page with how many are not."""
    left = ANSWER_BYTES
    kept: list[Hop] = []
    for hop in reversed(found.hops):
        left -= size_of(hop)
        if left < 0 and kept:
            break
        kept.append(hop)
    kept.reverse()
    entries: list[HopEntry] = []
    size = 0
    for hop in kept:
        more = size_of(hop)
        if entries and (len(entries) == PAGE_HOPS or size + more > PAGE_BYTES):
            yield HopPage(query=query, hops=entries)
            entries, size = [], 0
        entries.append(entry_of(hop))
        size += more
    yield HopPage(
        query=query,
        hops=entries,
        last=True,
        left_out=found.left_out + len(found.hops) - len(kept),
        since_ms=_milliseconds(found.since),
        complete_since_ms=_milliseconds(found.complete_since),
    )


def size_of(hop: Hop) -> int:
    """Bytes of a hop on the wire, at most."""
    payloads = len(hop.payload_in or b"") + len(hop.payload_out or b"")
    return ENTRY_BYTES + payloads + 4 * (len(hop.detail) + len(hop.agent) + len(hop.capability))


def want_of(query: int, wanted: HopFilter) -> HopWant:
    """A filter as a question to another node."""
    return HopWant(
        query=query,
        session=wanted.session,
        strays=wanted.strays,
        failed=wanted.failed,
        age_ms=None if wanted.age is None else max(1, int(min(86_400.0, wanted.age) * 1_000)),
        capability=wanted.capability,
        agent=wanted.agent,
        limit=wanted.limit,
    )


def filter_of(want: HopWant) -> HopFilter:
    """The same at the other side."""
    return HopFilter(
        session=want.session,
        strays=want.strays,
        failed=want.failed,
        age=None if want.age_ms is None else want.age_ms / 1_000,
        capability=want.capability,
        agent=want.agent,
        limit=want.limit,
    )


def entry_of(hop: Hop) -> HopEntry:
    """A hop as it travels; texts that no wire takes are mended."""
    return HopEntry(
        served=hop.side is Side.SERVED,
        other=hop.other,
        session=hop.session,
        trace=hop.trace,
        span=hop.span,
        parent=hop.parent,
        message_id=hop.message_id,
        attempt=min(hop.attempt, 100),
        depth=min(hop.depth, 64),
        agent=_text(hop.agent),
        capability=_text(hop.capability),
        started_ms=_milliseconds(hop.started),
        duration_us=max(0, int(hop.duration * 1e6)),
        queued_us=max(0, int(hop.queued * 1e6)),
        bytes_in=hop.bytes_in,
        bytes_out=hop.bytes_out,
        code=hop.code,
        detail=_text(hop.detail),
        items=hop.items,
        handed=hop.handed,
        answered=hop.answered,
        payload_in=hop.payload_in,
        payload_out=hop.payload_out,
    )


def hop_of(entry: HopEntry, node: NodeId) -> Hop:
    """A hop that a node has told of itself."""
    return Hop(
        node=node,
        side=Side.SERVED if entry.served else Side.ASKED,
        other=None if entry.other is None else NodeId(entry.other),
        session=entry.session,
        trace=entry.trace,
        span=entry.span,
        parent=entry.parent,
        message_id=entry.message_id,
        attempt=entry.attempt,
        depth=entry.depth,
        agent=entry.agent,
        capability=entry.capability,
        started=entry.started_ms / 1_000,
        duration=entry.duration_us / 1e6,
        queued=entry.queued_us / 1e6,
        bytes_in=entry.bytes_in,
        bytes_out=entry.bytes_out,
        code=entry.code,
        detail=entry.detail,
        retries=entry.attempt - 1,
        items=entry.items,
        handed=entry.handed,
        answered=entry.answered,
        payload_in=entry.payload_in,
        payload_out=entry.payload_out,
    )


def _milliseconds(wall: float) -> int:
    return min(WALL_MS_MAX, max(0, int(wall * 1_000)))


def _text(text: str) -> str:
    clipped = text[:TEXT_MAX]
    return clipped if clipped.isascii() else clipped.encode("utf-8", "replace").decode()
