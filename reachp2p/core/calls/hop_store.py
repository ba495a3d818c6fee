"""The hops of one node: recorded as calls end, dropped by age and by room, looked through when somebody asks.

Every attempt of every call comes by here, so recording builds one row and appends it; ids are worked out and clocks
are read when somebody looks. Failed hops have room of their own: a flood of calls that go well pushes none of them out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from sys import intern
from typing import TypeAlias

import msgspec

from reachp2p.core.calls.call import Call, CallState
from reachp2p.core.calls.hops import Hop, HopFilter, Recorded, Side
from reachp2p.core.calls.invocation import Invocation
from reachp2p.core.calls.trace import asked_span, read_traceparent, served_span
from reachp2p.core.clock import WallClock
from reachp2p.core.commands import CallSpec
from reachp2p.core.counters import Counters
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.messages import Reply, Request

DETAIL_MAX = 200
"""Characters of a failure's reason that are kept."""
LIKE_MAX = 3
"""Sessions told for one beginning: that there are several is enough."""
WINDOWS_MAX = 1_000
"""Served hops of one session for which strays are looked for."""

Redact: TypeAlias = Callable[[str, str, bytes], bytes]
"""`redact(agent, capability, payload)` gives what may be recorded of a payload."""


class _Row(msgspec.Struct, gc=False):
    """A hop as it is kept. Times are the engine's; the fields are those of `Hop`."""

    session: bytes
    trace: bytes
    started: float
    ended: float
    is_served: bool
    other: NodeId | None
    parent: bytes | None
    span: bytes
    message_id: bytes
    attempt: int
    depth: int
    agent: str
    capability: str
    queued: float
    bytes_in: int
    bytes_out: int
    code: int
    detail: str = ""
    items: int = 0
    handed: bool = True
    answered: bool = True
    payload_in: bytes | None = None
    payload_out: bytes | None = None


class _Shelf:
    """Rows in the order in which they ended. Bounds: `rows_max`, and `bytes_max` of payloads."""

    def __init__(self, rows_max: int, bytes_max: int, counters: Counters, dropped: str) -> None:
        self._max = rows_max
        self._bytes_max = bytes_max
        self._counters = counters
        self._dropped = dropped
        self.rows: deque[_Row] = deque()
        self.payload_bytes = 0
        self.dropped_until = float("-inf")
        """When the youngest row that had to go had ended."""

    def put(self, row: _Row) -> None:
        rows = self.rows
        rows.append(row)
        if row.payload_in is not None:
            self.payload_bytes += _payload_bytes(row)
        while len(rows) > self._max or self.payload_bytes > self._bytes_max:
            self._counters.add(self._dropped)
            self.pop()

    def pop(self) -> None:
        row = self.rows.popleft()
        self.dropped_until = row.ended
        if row.payload_in is not None:
            self.payload_bytes -= _payload_bytes(row)


class HopTap:
    """Hops that wait to be taken elsewhere. Beyond `rows_max` the newest is dropped."""

    def __init__(self, rows_max: int, hop: Callable[[_Row], Hop]) -> None:
        self._max = rows_max
        self._hop = hop
        self._rows: deque[_Row] = deque()
        self.dropped = 0
        """How many had no room."""

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, row: _Row) -> None:
        """One more hop."""
        if len(self._rows) < self._max:
            self._rows.append(row)
        else:
            self.dropped += 1

    def take(self, count: int) -> list[Hop]:
        """The oldest hops, at most `count`, in the order in which they ended."""
        rows = self._rows
        return [self._hop(rows.popleft()) for _ in range(min(count, len(rows)))]


class HopStore:
    """Bounds: `hops_kept_max`, `hops_failed_max`, `hop_payload_bytes_max` of each kind, `hops_keep` seconds."""

    def __init__(
        self,
        protocol: Protocol,
        *,
        own: NodeId,
        own_life: Callable[[], Life | None],
        clock: WallClock,
        counters: Counters,
    ) -> None:
        self._own = own
        self._own_life = own_life
        self._keep = protocol.hops_keep
        self._clock = clock
        self._counters = counters
        self._good = _Shelf(protocol.hops_kept_max, protocol.hop_payload_bytes_max, counters, "hops.dropped")
        self._failed = _Shelf(
            protocol.hops_failed_max, protocol.hop_payload_bytes_max, counters, "hops.failed_dropped"
        )
        self._since: float | None = None
        self._unplaced = 0
        self.payload_max = 0
        """Bytes of each payload that are recorded; 0 records none."""
        self.redact: Redact | None = None
        """Sees every payload before it is recorded. If it raises, the payload is not (`hops.redact_failed`)."""
        self._taps: list[HopTap] = []

    # Recording

    def begin(self, now: float) -> None:
        """From here on calls are recorded."""
        if self._since is None:
            self._since = now

    def tap(self, rows_max: int) -> HopTap:
        """Whoever holds it can take every hop from now on; at most `rows_max` wait."""
        tap = HopTap(rows_max, self._hop)
        self._taps.append(tap)
        return tap

    def asked(self, call: Call, code: int, detail: str, now: float) -> None:
        """An attempt of a call of this node is over."""
        spec, attempt, reply = call.spec, call.attempts, call.reply
        started, trace = call.attempt_at, call.trace
        handed = call.state is not CallState.LINKING
        row = _Row(
            spec.session_id or trace, trace, started, now, False, call.node, call.parent,
            call.span or asked_span(call.id, attempt), call.id, attempt, len(spec.path), call.agent,
            call.capability, (call.asked_at if handed else now) - started,
            0 if reply is None else len(reply.payload), len(spec.payload), int(code),
            detail[:DETAIL_MAX] if code else "", 0 if reply is None else reply.items, handed, reply is not None,
        )  # fmt: skip
        if self.payload_max:
            self._add_payloads(row, b"" if reply is None else reply.payload, spec.payload)
        self._put(row)

    def unplaced(self, spec: CallSpec, code: int, detail: str, now: float) -> None:
        """A call was refused before any instance was asked. It has no message id; a name of its own stands for it."""
        context = read_traceparent(spec.traceparent) if spec.traceparent is not None else None
        name = self._next_name()
        trace, parent = (name, None) if context is None else (context.trace, context.parent)
        query = spec.query
        self._put(
            _Row(
                spec.session_id or trace, trace, now, now, False, None, parent, asked_span(name, 1), name, 1,
                len(spec.path), query.agent or "", query.capability or "", 0.0, 0, len(spec.payload), int(code),
                detail[:DETAIL_MAX], 0, False, False,
            )
        )  # fmt: skip

    def served(self, invocation: Invocation, code: int, detail: str, now: float, reply: Reply | None) -> None:
        """A request was served, or is given up; `reply` None: nobody waits for one."""
        request, trace = invocation.request, invocation.trace
        started, begun_at = invocation.accepted_at, invocation.begun_at
        row = _Row(
            request.session_id or trace, trace, started, now, True, invocation.node, invocation.parent,
            invocation.span, request.message_id, request.attempt, len(request.path), intern(request.agent),
            intern(request.capability), (now if begun_at is None else begun_at) - started, len(request.payload),
            0 if reply is None else len(reply.payload), int(code), detail[:DETAIL_MAX] if code else "",
            0 if reply is None else reply.items, True, reply is not None,
        )  # fmt: skip
        if self.payload_max:
            self._add_payloads(row, request.payload, b"" if reply is None else reply.payload)
        self._put(row)

    def refused(self, node: NodeId, request: Request, code: int, detail: str, now: float) -> None:
        """A request of another node was refused at once."""
        message_id, attempt = request.message_id, request.attempt
        context = read_traceparent(request.traceparent) if request.traceparent is not None else None
        trace = message_id if context is None else context.trace
        parent = asked_span(message_id, attempt) if context is None else context.parent
        self._put(
            _Row(
                request.session_id or trace, trace, now, now, True, node, parent, served_span(message_id, attempt),
                message_id, attempt, len(request.path), intern(request.agent), intern(request.capability), 0.0,
                len(request.payload), 0, int(code), detail[:DETAIL_MAX],
            )
        )  # fmt: skip

    def _put(self, row: _Row) -> None:
        (self._failed if row.code else self._good).put(row)
        for tap in self._taps:
            tap.put(row)

    def _add_payloads(self, row: _Row, came_in: bytes, went_out: bytes) -> None:
        row.payload_in = self._recordable(row, came_in)
        row.payload_out = self._recordable(row, went_out)

    def _recordable(self, row: _Row, payload: bytes) -> bytes:
        if self.redact is not None:
            try:
                payload = bytes(self.redact(row.agent, row.capability, payload))
            except Exception:  # noqa: BLE001 (it is the application's, and must cost nobody a call)
                self._counters.add("hops.redact_failed")
                return b""
        return payload[: self.payload_max]

    def _next_name(self) -> bytes:
        """16 bytes that no other call has: the life id and a count."""
        self._unplaced += 1
        life = self._own_life()
        base = int.from_bytes(life.life_id) if life is not None else 0
        return (base ^ self._unplaced).to_bytes(16)

    # Looking

    def find(self, wanted: HopFilter, now: float) -> Recorded:
        """The hops that fit, the newest `limit` of them."""
        self.expire(now)
        rows = [row for shelf in self._shelves(wanted) for row in shelf.rows if _fits(row, wanted, now)]
        if wanted.session is not None and wanted.strays:
            rows += self._strays(rows, wanted.session)
        rows.sort(key=lambda row: (row.started, row.ended, row.is_served))
        left_out = max(0, len(rows) - wanted.limit)
        since = self._since if self._since is not None else now
        dropped_until = max(self._good.dropped_until, self._failed.dropped_until)
        return Recorded(
            hops=[self._hop(row) for row in rows[left_out:]],
            left_out=left_out,
            since=self._wall(since),
            complete_since=self._wall(max(since, dropped_until)),
        )

    def sessions_like(self, digits: str) -> list[bytes]:
        """Sessions and traces of this node whose id begins with these hexadecimal digits, at most a few."""
        found: dict[bytes, None] = {}
        for shelf in (self._good, self._failed):
            for row in shelf.rows:
                for name in (row.session, row.trace):
                    if name not in found and name.hex().startswith(digits):
                        found[name] = None
                        if len(found) == LIKE_MAX:
                            return list(found)
        return list(found)

    def expire(self, now: float) -> None:
        """Forget what is too old."""
        for shelf in (self._good, self._failed):
            while shelf.rows and shelf.rows[0].ended < now - self._keep:
                shelf.pop()
                self._counters.add("hops.expired")

    def gauges(self) -> dict[str, int]:
        """The sizes of what is bounded, by name."""
        return {
            "hops": len(self._good.rows),
            "hops.failed": len(self._failed.rows),
            "hops.payload_bytes": self._good.payload_bytes + self._failed.payload_bytes,
        }

    def _shelves(self, wanted: HopFilter) -> tuple[_Shelf, ...]:
        return (self._failed,) if wanted.failed else (self._good, self._failed)

    def _strays(self, rows: list[_Row], session: bytes) -> list[_Row]:
        """Calls that began a trace of their own while one of these was being served here."""
        windows = sorted((row.started, row.ended) for row in rows if row.is_served)[:WINDOWS_MAX]
        if not windows:
            return []
        starts = [start for start, _ in windows]
        ends: list[float] = []  # the latest end of all windows up to each
        for _, end in windows:
            ends.append(max(end, ends[-1]) if ends else end)
        found = []
        for shelf in (self._good, self._failed):
            for row in shelf.rows:
                is_root = not row.is_served and row.depth == 0 and row.parent is None
                if is_root and session != row.session and session != row.trace:
                    place = bisect_right(starts, row.started) - 1
                    if place >= 0 and row.started < ends[place]:
                        found.append(row)
        return found

    def _wall(self, at: float) -> float:
        return self._clock.exactly_at(at)

    def _hop(self, row: _Row) -> Hop:
        return Hop(
            node=self._own,
            side=Side.SERVED if row.is_served else Side.ASKED,
            other=row.other,
            session=row.session,
            trace=row.trace,
            span=row.span,
            parent=row.parent,
            message_id=row.message_id,
            attempt=row.attempt,
            depth=row.depth,
            agent=row.agent,
            capability=row.capability,
            started=self._wall(row.started),
            duration=row.ended - row.started,
            queued=row.queued,
            bytes_in=row.bytes_in,
            bytes_out=row.bytes_out,
            code=row.code,
            detail=row.detail,
            retries=row.attempt - 1,
            items=row.items,
            handed=row.handed,
            answered=row.answered,
            payload_in=row.payload_in,
            payload_out=row.payload_out,
        )


def _fits(row: _Row, wanted: HopFilter, now: float) -> bool:
    session = wanted.session
    return (
        (session is None or row.session == session or row.trace == session)
        and (wanted.capability is None or row.capability == wanted.capability)
        and (wanted.agent is None or row.agent == wanted.agent)
        and (wanted.age is None or row.ended >= now - wanted.age)
    )


def _payload_bytes(row: _Row) -> int:
    return len(row.payload_in or b"") + len(row.payload_out or b"")
