"""Hops as a node keeps them: a row each, in the order in which they ended; and rows that wait to be taken elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from reachp2p.core.calls.hops import Hop
from reachp2p.core.ids import NodeId


class Row(msgspec.Struct, gc=False):
    """A hop as it is kept. Times are the engine's; the fields are those of `Hop`."""

    session: bytes
    trace: bytes
    started: float
    ended: float
    is_served: bool
    other: NodeId | None
    parent: bytes | None
    span: bytes | None
    """None of an asked hop: it follows from message id and attempt."""
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


class Shelf:
    """Rows in the order in which they ended. Bounds: `rows_max`, and `bytes_max` of payloads."""

    def __init__(self, rows_max: int, bytes_max: int) -> None:
        self.rows: deque[Row] = deque(maxlen=rows_max)
        """A further row pushes the oldest out."""
        self.count = 0
        """Rows that were ever put here."""
        self.expired = 0
        self.payload_bytes = 0
        self._bytes_max = bytes_max

    @property
    def dropped(self) -> int:
        """Rows that had to go before their time."""
        return self.count - self.expired - len(self.rows)

    @property
    def complete_since(self) -> float:
        """Whatever has ended after this is here, if anything was dropped."""
        if not self.dropped:
            return float("-inf")
        return self.rows[0].ended if self.rows else float("inf")

    def make_room(self) -> None:
        """The next row will push out none with payloads that are still counted."""
        if len(self.rows) == self.rows.maxlen:
            self.pop()

    def put_with_payloads(self, row: Row) -> None:
        """One more row that has payloads; the oldest go until they fit."""
        self.make_room()
        self.rows.append(row)
        self.count += 1
        self.payload_bytes += _payload_bytes(row)
        while self.payload_bytes > self._bytes_max:
            self.pop()

    def pop(self) -> None:
        """The oldest row goes."""
        if self.rows:
            self.payload_bytes -= _payload_bytes(self.rows.popleft())


class HopTap:
    """Hops that wait to be taken elsewhere. Beyond `rows_max` the newest is dropped."""

    def __init__(self, rows_max: int, hop: Callable[[Row], Hop]) -> None:
        self._max = rows_max
        self._hop = hop
        self._rows: deque[Row] = deque()
        self.dropped = 0
        """How many had no room."""

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, row: Row) -> None:
        """One more hop."""
        if len(self._rows) < self._max:
            self._rows.append(row)
        else:
            self.dropped += 1

    def take(self, count: int) -> list[Hop]:
        """The oldest hops, at most `count`, in the order in which they ended."""
        rows = self._rows
        return [self._hop(rows.popleft()) for _ in range(min(count, len(rows)))]


def _payload_bytes(row: Row) -> int:
    return len(row.payload_in or b"") + len(row.payload_out or b"")
