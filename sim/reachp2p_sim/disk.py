"""One node's disk: rows by table and key, written in order, durable only after a latency.

Operations are grouped as a journal groups them: what arrives while one group is being written waits for the next. A
crash loses what was not durable yet, except that a drawn number of the oldest writes in flight may have reached the
platter although nobody was told: the case that a program which trusts silence gets wrong. A copy of the rows is an
`Image`, to restart from an older state or to clone a machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from reachp2p.core.effects import Delete, Fetch, Persist, Table

Operation = Persist | Delete | Fetch
Rows = list[tuple[bytes, bytes]]
Ended = tuple[Operation, Rows, str | None]
"""An operation, the rows it read, and why it failed or None."""
Image = dict[Table, dict[bytes, bytes]]
"""All rows of a disk at one moment."""

IN_FLIGHT_MAX = 65_536
"""Operations that wait. A node that writes faster than this for longer is broken: the run stops and says so."""


@dataclass(slots=True)
class DiskConditions:
    """How a disk behaves. Times in seconds."""

    latency: float = 0.002
    failure: str | None = None
    """If set, every write that ends while it is set fails with this reason."""


@dataclass(slots=True)
class Disk:
    """Rows, and the operations in flight. The host calls `add`, and `finish` when the time has come."""

    random: Random
    conditions: DiskConditions = field(default_factory=DiskConditions)
    rows: Image = field(default_factory=dict)
    number: int = 0
    """Which disk this is: a replaced one has the next number."""
    written: int = 0
    failed: int = 0
    _group: list[Operation] = field(default_factory=list)
    _group_began_at: float = 0.0
    _waiting: list[Operation] = field(default_factory=list)

    def add(self, operation: Operation, now: float) -> float | None:
        """Take an operation in. Returns the seconds until `finish` if this begins a group, else None."""
        if self.in_flight >= IN_FLIGHT_MAX:
            raise RuntimeError(f"more than {IN_FLIGHT_MAX} disk operations in flight on one node")
        if not self._group:
            self._group.append(operation)
            self._group_began_at = now
            return self.conditions.latency
        if now == self._group_began_at:
            self._group.append(operation)
        else:
            self._waiting.append(operation)
        return None

    def finish(self, now: float) -> tuple[list[Ended], float | None]:
        """End the group: its operations with what they found, and seconds until the next group ends or None."""
        group, self._group, self._waiting = self._group, self._waiting, []
        self._group_began_at = now
        failure = self.conditions.failure
        ended: list[Ended] = []
        for operation in group:
            if isinstance(operation, Fetch):
                ended.append((operation, self.read(operation), None))
            elif failure is None:
                self._apply(operation)
                ended.append((operation, [], None))
            else:
                self.failed += 1
                ended.append((operation, [], failure))
        return ended, self.conditions.latency if self._group else None

    def read(self, fetch: Fetch) -> Rows:
        """The rows that a `Fetch` asks for."""
        rows = self.rows.get(fetch.table, {})
        keys = sorted(key for key in rows if key >= fetch.start and (fetch.stop is None or key < fetch.stop))
        return [(key, rows[key]) for key in keys[: fetch.limit]]

    def crash(self) -> None:
        """Lose what was in flight, but for a drawn number of the oldest writes."""
        in_flight = self._group + self._waiting
        survivors = self.random.randrange(len(in_flight) + 1) if self.conditions.failure is None else 0
        for operation in in_flight[:survivors]:
            self._apply(operation)
        self._group, self._waiting = [], []

    def sync(self) -> None:
        """Make durable all that is in flight: a program that ends by itself closes its files."""
        for operation in self._group + self._waiting:
            self._apply(operation)
        self._group, self._waiting = [], []

    def image(self) -> Image:
        """A copy of the durable rows."""
        return {table: dict(rows) for table, rows in self.rows.items()}

    def replace(self, image: Image) -> None:
        """Hold exactly these rows; an empty image is a lost disk."""
        self.number += 1
        self.rows = {table: dict(rows) for table, rows in image.items()}

    def stored_epoch(self) -> int:
        """The durable epoch, 0 if there is none."""
        return int.from_bytes(self.rows.get(Table.LIFE, {}).get(b"epoch", b""), "big")

    def write_epoch(self, epoch: int) -> None:
        """Store an epoch at once, for scripted nodes."""
        self.rows.setdefault(Table.LIFE, {})[b"epoch"] = epoch.to_bytes(8, "big")

    @property
    def in_flight(self) -> int:
        """Operations that have not ended."""
        return len(self._group) + len(self._waiting)

    def _apply(self, operation: Operation) -> None:
        if isinstance(operation, Persist):
            self.rows.setdefault(operation.table, {})[operation.key] = operation.value
            self.written += 1
        elif isinstance(operation, Delete):
            self.rows.get(operation.table, {}).pop(operation.key, None)
            self.written += 1
