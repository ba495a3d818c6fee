"""The hops of one node: recorded as calls end, dropped by age and by room, looked through when somebody asks.

Every attempt of every call comes by here, so recording builds one row and appends it; ids are worked out and clocks
are read when somebody looks. Failed hops have room of their own: a flood of calls that go well pushes none of them out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from sys import intern
from typing import TypeAlias

from reachp2p.core.calls.call import Call, CallState
from reachp2p.core.calls.hop_rows import HopTap, Row, Shelf
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
        self._good = Shelf(protocol.hops_kept_max, protocol.hop_payload_bytes_max)
        self._failed = Shelf(protocol.hops_failed_max, protocol.hop_payload_bytes_max)
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
        spec, reply, trace, started = call.spec, call.reply, call.trace, call.attempt_at
        handed = call.state is not CallState.LINKING
        row = Row(
            spec.session_id or trace, trace, started, now, False, call.node, call.parent, call.span, call.id,
            call.attempts, len(spec.path), call.agent, call.capability, (call.asked_at if handed else now) - started,
            0 if reply is None else len(reply.payload), len(spec.payload), code, detail[:DETAIL_MAX] if code else "",
            0 if reply is None else reply.items, handed, reply is not None,
        )  # fmt: skip
        if self.payload_max:
            self._add_payloads(row, b"" if reply is None else reply.payload, spec.payload)
        self._put(row)

    def unplaced(self, spec: CallSpec, code: int, detail: str, now: float) -> bytes:
        """A call was refused before any instance was asked. It has no message id; returns what stands for it."""
        context = read_traceparent(spec.traceparent) if spec.traceparent is not None else None
        name = self._next_name()
        trace, parent = (name, None) if context is None else (context.trace, context.parent)
        query = spec.query
        self._put(
            Row(
                spec.session_id or trace, trace, now, now, False, None, parent, asked_span(name, 1), name, 1,
                len(spec.path), query.agent or "", query.capability or "", 0.0, 0, len(spec.payload), int(code),
                detail[:DETAIL_MAX], 0, False, False,
            )
        )  # fmt: skip
        return name

    def served(self, invocation: Invocation, code: int, detail: str, now: float, reply: Reply | None) -> None:
        """A request was served, or is given up; `reply` None: nobody waits for one."""
        request, trace = invocation.request, invocation.trace
        started, begun_at = invocation.accepted_at, invocation.begun_at
        row = Row(
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
            Row(
                request.session_id or trace, trace, now, now, True, node, parent, served_span(message_id, attempt),
                message_id, attempt, len(request.path), intern(request.agent), intern(request.capability), 0.0,
                len(request.payload), 0, int(code), detail[:DETAIL_MAX],
            )
        )  # fmt: skip

    def _put(self, row: Row) -> None:
        shelf = self._failed if row.code else self._good
        if row.payload_in is None:
            if shelf.payload_bytes:
                shelf.make_room()
            shelf.rows.append(row)
            shelf.count += 1
        else:
            shelf.put_with_payloads(row)
        if self._taps:
            for tap in self._taps:
                tap.put(row)

    def _add_payloads(self, row: Row, came_in: bytes, went_out: bytes) -> None:
        row.payload_in = self._recordable(row, came_in)
        row.payload_out = self._recordable(row, went_out)

    def _recordable(self, row: Row, payload: bytes) -> bytes:
        if self.redact is not None:
            try:
                payload = bytes(self.redact(row.agent, row.capability, payload))
            except Exception:  # noqa: BLE001 (it is the application's, and must cost nobody a call)
                self._counters.add("hops.redact_failed")
                return b""
        return payload[: self.payload_max]

    def _next_name(self) -> bytes:
        """16 bytes that no other call has: the life id and a count, in front, for eight digits to tell them apart."""
        self._unplaced += 1
        life = self._own_life()
        base = int.from_bytes(life.life_id) if life is not None else 0
        return (base ^ (self._unplaced % 2**32 << 96) ^ self._unplaced >> 32).to_bytes(16)

    # Looking

    def find(self, wanted: HopFilter, now: float) -> Recorded:
        """The hops that fit, the newest `limit` of them."""
        self.expire(now)
        limit, session = wanted.limit, wanted.session
        rows: list[Row] = []
        count = 0
        for shelf in (self._failed,) if wanted.failed else (self._good, self._failed):
            found = _fitting(shelf.rows, wanted, now)
            count += len(found)
            rows += found[-limit:]
        if session is not None and wanted.strays:
            strays = self._strays(rows, session)
            count += len(strays)
            rows += strays
        rows.sort(key=_ENDED)
        rows = rows[-limit:]
        rows.sort(key=_STARTED)
        since = self._since if self._since is not None else now
        complete_since = max(since, self._good.complete_since, self._failed.complete_since)
        return Recorded(
            hops=[self._hop(row) for row in rows],
            left_out=count - len(rows),
            since=self._wall(since),
            complete_since=self._wall(min(now, complete_since)),
        )

    def trace_of(self, message_id: bytes) -> bytes | None:
        """The trace of a call that this node has made or served, by its message id."""
        rows = (row for shelf in (self._good, self._failed) for row in reversed(shelf.rows))
        return next((row.trace for row in rows if row.message_id == message_id), None)

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
                shelf.expired += 1

    def gauges(self) -> dict[str, int]:
        """The sizes of what is bounded, by name."""
        good, failed = self._good, self._failed
        return {
            "hops": len(good.rows),
            "hops.failed": len(failed.rows),
            "hops.payload_bytes": good.payload_bytes + failed.payload_bytes,
        }

    def counts(self) -> dict[str, int]:
        """What was dropped, by name."""
        good, failed = self._good, self._failed
        return {
            "hops.recorded": good.count + failed.count,
            "hops.dropped": good.dropped,
            "hops.failed_dropped": failed.dropped,
            "hops.expired": good.expired + failed.expired,
        }

    def _strays(self, rows: list[Row], session: bytes) -> list[Row]:
        """Calls that began a trace of their own while one of these was being served here."""
        windows = sorted((row.started, row.ended) for row in rows if row.is_served)[:WINDOWS_MAX]
        if not windows:
            return []
        starts = [start for start, _ in windows]
        ends: list[float] = []  # the latest end of all windows up to each
        for _, end in windows:
            ends.append(max(end, ends[-1]) if ends else end)
        first, last = starts[0], ends[-1]
        return [
            row
            for shelf in (self._good, self._failed)
            for row in shelf.rows
            if first <= row.started < last
            and not row.is_served
            and row.depth == 0
            and row.parent is None
            and session != row.session
            and session != row.trace
            and row.started < ends[bisect_right(starts, row.started) - 1]
        ]

    def _wall(self, at: float) -> float:
        return self._clock.exactly_at(at)

    def _hop(self, row: Row) -> Hop:
        return Hop(
            node=self._own,
            side=Side.SERVED if row.is_served else Side.ASKED,
            other=row.other,
            session=row.session,
            trace=row.trace,
            span=row.span or asked_span(row.message_id, row.attempt),
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


_ENDED, _STARTED = attrgetter("ended"), attrgetter("started", "ended", "is_served")


def _fitting(rows: deque[Row], wanted: HopFilter, now: float) -> list[Row]:
    """Rows that fit, in the order of their ends; the latest are looked at first, as far back as the age goes."""
    session, capability, agent = wanted.session, wanted.capability, wanted.agent
    since = float("-inf") if wanted.age is None else now - wanted.age
    found = []
    for row in reversed(rows):
        if row.ended < since:
            break
        if session is not None and row.session != session and row.trace != session:
            continue
        if (capability is None or row.capability == capability) and (agent is None or row.agent == agent):
            found.append(row)
    found.reverse()
    return found
