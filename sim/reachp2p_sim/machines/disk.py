"""One node's disk: rows by table and key, written in order, durable only after a latency.

Operations are grouped as a journal groups them: what arrives while one group is being written waits for the next. A
crash loses what was not durable yet, except that a drawn number of the oldest writes in flight may have reached the
platter although nobody was told: the case that a program which trusts silence gets wrong. A disk that tears leaves
the next write half done as well; a store with a journal never shows that, a plain file does. A crash can be set for
one certain write, before it is durable or just after. A copy of the rows is an `Image`, to restart from an older
state or to clone a machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from random import Random

from reachp2p.core.effects import Delete, Fetch, Persist, Table

Operation = Persist | Delete | Fetch
Rows = list[tuple[bytes, bytes]]
Ended = tuple[Operation, Rows, str | None]
"""An operation, the rows it read, and why it failed or None."""
Image = dict[Table, dict[bytes, bytes]]
"""All rows of a disk at one moment."""

NO_SPACE = "no space left on device"
IN_FLIGHT_MAX = 65_536
"""Operations that wait. A node that writes faster than this for longer is broken: the run stops and says so."""


@dataclass(slots=True)
class DiskConditions:
    """How a disk behaves. Times in seconds."""

    latency: float = 0.002
    """The constant part of what a group of operations takes."""
    spread: float = 0.0
    """Mean of the exponential part."""
    failure: str | None = None
    """If set, writes that end while it is set fail with this reason."""
    failing: float = 1.0
    """The share of them that does, 0 to 1, each by chance."""
    capacity: int = 0
    """Bytes of keys and values that fit, 0 for no limit; a write beyond it fails, a deletion never does."""
    tears: bool = False
    """Whether a crash may leave the first write that did not survive cut short."""

    def __post_init__(self) -> None:
        """Refuse what no disk can be."""
        if not (0 <= self.latency < inf and 0 <= self.spread < inf):
            raise ValueError(f"disk latency {self.latency} s, spread {self.spread} s: at least 0 is wanted")
        if not 0 <= self.failing <= 1 or self.capacity < 0:
            raise ValueError(
                f"disk failing={self.failing}, capacity={self.capacity}: a share and at least 0 are wanted"
            )


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
    used: int = 0
    """Bytes of keys and values that are durable."""
    crash_in: int = 0
    """Writes from now, this many including the next, until `is_crash_due`; 0 if no crash is set."""
    crash_when_durable: bool = False
    """Whether it comes once that write is durable, before anybody is told, instead of before."""
    is_crash_due: bool = False
    _group: list[Operation] = field(default_factory=list)
    _group_began_at: float = 0.0
    _waiting: list[Operation] = field(default_factory=list)
    _last_wish: Operation | None = None
    """The write whose durability a crash waits for."""

    def add(self, operation: Operation, now: float) -> float | None:
        """Take an operation in. Returns the seconds until `finish` if this begins a group, else None."""
        if self.in_flight >= IN_FLIGHT_MAX:
            raise RuntimeError(f"more than {IN_FLIGHT_MAX} disk operations in flight on one node")
        if self.crash_in and not isinstance(operation, Fetch):
            self._count_down(operation)
        if not self._group:
            self._group.append(operation)
            self._group_began_at = now
            return self._duration()
        if now == self._group_began_at:
            self._group.append(operation)
        else:
            self._waiting.append(operation)
        return None

    def finish(self, now: float) -> tuple[list[Ended], float | None]:
        """End the group: its operations with what they found, and seconds until the next group ends or None."""
        group, self._group, self._waiting = self._group, self._waiting, []
        self._group_began_at = now
        ended: list[Ended] = []
        for operation in group:
            if isinstance(operation, Fetch):
                ended.append((operation, self.read(operation), None))
                continue
            failure = self._failure(operation)
            if failure is None:
                self._apply(operation)
            else:
                self.failed += 1
            ended.append((operation, [], failure))
            self.is_crash_due |= operation is self._last_wish
        return ended, self._duration() if self._group else None

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
        if self.conditions.tears and survivors < len(in_flight):
            self._tear(in_flight[survivors])
        self._group, self._waiting = [], []
        self.crash_in, self.is_crash_due, self._last_wish = 0, False, None

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
        self.used = sum(len(key) + len(value) for rows in self.rows.values() for key, value in rows.items())

    def hold(self, table: Table, rows: dict[bytes, bytes]) -> None:
        """Have these rows in a table, too, as if they had been written long ago."""
        self.rows.setdefault(table, {}).update(rows)
        self.used = sum(len(key) + len(value) for held in self.rows.values() for key, value in held.items())

    def set_crash(self, writes: int, *, when_durable: bool) -> None:
        """Let a crash be due at the `writes`-th write from now: as it is written, or once it is durable."""
        if writes < 1:
            raise ValueError(f"a crash at write {writes}: the next one is 1")
        self.crash_in, self.crash_when_durable = writes, when_durable

    def stored_epoch(self) -> int:
        """The durable epoch, 0 if there is none."""
        return int.from_bytes(self.rows.get(Table.LIFE, {}).get(b"epoch", b""), "big")

    def write_epoch(self, epoch: int) -> None:
        """Store an epoch at once, for scripted nodes."""
        self._put(Table.LIFE, b"epoch", epoch.to_bytes(8, "big"))

    @property
    def in_flight(self) -> int:
        """Operations that have not ended."""
        return len(self._group) + len(self._waiting)

    def _duration(self) -> float:
        spread = self.conditions.spread
        return self.conditions.latency + (self.random.expovariate(1.0 / spread) if spread else 0.0)

    def _count_down(self, operation: Persist | Delete) -> None:
        self.crash_in -= 1
        if self.crash_in == 0:
            if self.crash_when_durable:
                self._last_wish = operation
            else:
                self.is_crash_due = True

    def _failure(self, operation: Persist | Delete) -> str | None:
        """Why a write that ends now fails, or None."""
        conditions = self.conditions
        if conditions.failure is not None and (
            conditions.failing >= 1.0 or self.random.random() < conditions.failing
        ):
            return conditions.failure
        if conditions.capacity and isinstance(operation, Persist):
            held = self.rows.get(operation.table, {}).get(operation.key)
            freed = 0 if held is None else len(operation.key) + len(held)
            if self.used - freed + len(operation.key) + len(operation.value) > conditions.capacity:
                return NO_SPACE
        return None

    def _apply(self, operation: Operation) -> None:
        if isinstance(operation, Persist):
            self._put(operation.table, operation.key, operation.value)
            self.written += 1
        elif isinstance(operation, Delete):
            self._remove(operation.table, operation.key)
            self.written += 1

    def _tear(self, operation: Operation) -> None:
        if isinstance(operation, Persist) and operation.value:
            kept = self.random.randrange(len(operation.value))
            self._put(operation.table, operation.key, operation.value[:kept])

    def _put(self, table: Table, key: bytes, value: bytes) -> None:
        self._remove(table, key)
        self.rows.setdefault(table, {})[key] = value
        self.used += len(key) + len(value)

    def _remove(self, table: Table, key: bytes) -> None:
        held = self.rows.get(table, {}).pop(key, None)
        if held is not None:
            self.used -= len(key) + len(held)
