"""The tables of a node in one SQLite file, written by one thread (case B43).

Whatever waits is committed together: one transaction begun as a writer, journal in WAL mode, every commit synced to
the disk before it is answered. Reads go through the same thread, so that there is no other user of the file in this
process. Another process that holds the write lock delays us (up to BUSY_TIMEOUT), it causes no error. What cannot be
written is answered with the reason; nothing is ever dropped in silence.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
import trio

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Delete, Fetch, Persist
from reachp2p.core.ids import Ticket
from reachp2p.errors import ErrorCode, NodeError

logger = logging.getLogger("reachp2p.storage")

FILE_NAME = "state.db"
BUSY_TIMEOUT = 30.0
"""Seconds that a commit waits for another process with the write lock; then "storage busy"."""
QUEUE_OPERATIONS_MAX = 8_192
QUEUE_BYTES_MAX = 33_554_432
"""What may wait for the disk; beyond it writes fail at once with "storage queue full"."""
BATCH_MAX = 1_024
"""Operations of one transaction."""
JOURNAL_BYTES_MAX = 67_108_864
"""The journal is cut back to this after a checkpoint."""
CLOSE_TIMEOUT = 5.0
"""Seconds that closing waits for what still has to be written."""
QUIET = 10.0
"""Seconds between two log lines about failed writes, however often some fail and others do not."""
SCHEMA_VERSION = 1

Operation: TypeAlias = Persist | Delete | Fetch


class Written(msgspec.Struct, frozen=True):
    """A Persist or Delete is durable (`failure` None) or has not happened."""

    ticket: Ticket
    failure: str | None


class Fetched(msgspec.Struct, frozen=True):
    """The rows of a Fetch."""

    request: int
    rows: Sequence[tuple[bytes, bytes]]


Outcome: TypeAlias = Written | Fetched


class Storage:
    """The open file and its thread. `submit` never blocks; outcomes come by `take_outcomes` after `on_outcomes`."""

    def __init__(self, path: Path, on_outcomes: Callable[[], None], counters: Counters) -> None:
        """`on_outcomes` is called in trio's thread whenever `take_outcomes` has something new."""
        self._path = path
        self._on_outcomes = on_outcomes
        self._counters = counters
        self._token = trio.lowlevel.current_trio_token()
        self._condition = threading.Condition()
        self._waiting: deque[Operation] = deque()
        self._waiting_bytes = 0
        self._outcomes: deque[Outcome] = deque()
        self._is_closing = False
        self._trouble = Trouble(path)
        self.has_given_up = False
        self._opened = trio.Event()
        self._ended = trio.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="reachp2p-storage", daemon=True)

    async def open(self) -> None:
        """Open and check the file. Raises `NodeError` 1706 (damaged) or 1703 (another program keeps it locked)."""
        self._thread.start()
        await self._opened.wait()
        self.check()

    def check(self) -> None:
        """Raise what has ended the thread, if anything has."""
        if self._fault is not None:
            raise self._fault

    def submit(self, operation: Operation) -> None:
        """Queue one operation; its outcome follows, always."""
        size = len(operation.key) + len(operation.value) if isinstance(operation, Persist) else 0
        with self._condition:
            if isinstance(operation, Fetch):
                is_full = False  # their number is bounded by the engine, and a Fetch has no way to fail
            else:
                is_full = (
                    len(self._waiting) >= QUEUE_OPERATIONS_MAX or self._waiting_bytes + size > QUEUE_BYTES_MAX
                )
            if not is_full:
                self._waiting.append(operation)
                self._waiting_bytes += size
                self._condition.notify()
                return
        assert not isinstance(operation, Fetch)
        self._outcomes.append(
            Written(operation.ticket, "storage queue full: the disk is too slow for what is written")
        )
        self._token.run_sync_soon(self._on_outcomes, idempotent=True)

    @property
    def waiting(self) -> int:
        """Operations that have no outcome yet (about)."""
        return len(self._waiting)

    def take_outcomes(self) -> list[Outcome]:
        """What has been answered since the last time, in the order of the operations."""
        outcomes: list[Outcome] = []
        while self._outcomes:
            outcome = self._outcomes.popleft()
            if isinstance(outcome, Written):
                self._counters.add("storage.written" if outcome.failure is None else "storage.failed")
                self._trouble.note(outcome.failure, time.monotonic())
            outcomes.append(outcome)
        return outcomes

    async def aclose(self) -> None:
        """Write what waits and close the file, within CLOSE_TIMEOUT whatever the disk does; not cancellable before.

        Afterwards `has_given_up` says whether something was left unwritten.
        """
        with self._condition:
            self._is_closing = True
            self._condition.notify()
        if self._thread.ident is None:
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_TIMEOUT) as scope:
            await self._ended.wait()
            self._thread.join()  # it has nothing left to do but to return
        if scope.cancelled_caught:
            self.has_given_up = True
            logger.error("%s: the disk does not answer; %d writes are given up", self._path, self.waiting)

    # Everything below runs in the storage thread

    def _work(self) -> None:
        try:
            connection = _open(self._path)
            try:
                self._call(self._opened.set)
                while batch := self._next_batch():
                    self._finish(_run(connection, batch))
            finally:
                connection.close()
        except NodeError as error:
            self._fault = error
        except BaseException as error:  # noqa: BLE001 - carried over to the node, which ends with it
            fault = NodeError(ErrorCode.STATE_DAMAGED, f"{self._path}: {error}. {_ADVICE}")
            fault.__cause__ = error
            self._fault = fault
        finally:
            self._call(self._opened.set)
            self._call(self._on_outcomes)
            self._call(self._ended.set)

    def _next_batch(self) -> list[Operation]:
        """Wait for work; everything that waits, or nothing when the storage closes."""
        with self._condition:
            while not self._waiting and not self._is_closing:
                self._condition.wait()
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_MAX))]
            for operation in batch:
                if isinstance(operation, Persist):
                    self._waiting_bytes -= len(operation.key) + len(operation.value)
            return batch

    def _finish(self, outcomes: list[Outcome]) -> None:
        self._outcomes.extend(outcomes)
        self._call(self._on_outcomes)

    def _call(self, function: Callable[[], object]) -> None:
        try:
            self._token.run_sync_soon(function, idempotent=True)
        except trio.RunFinishedError:
            logger.debug("the node has ended before its storage")


class Trouble:
    """Failed writes in the log: when they begin, when the reason changes, and when they end, with their number.

    A full disk fails every write, and the node tries again and again; a line for each would fill the rest of the disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._said: str | None = None
        self._failed = 0
        self._quiet_until = 0.0

    def note(self, failure: str | None, now: float) -> None:
        """One write has failed, or has not (None)."""
        self._failed += failure is not None
        if failure == self._said or now < self._quiet_until:
            return
        self._quiet_until = now + QUIET
        if failure is None:
            logger.warning("%s is written again; %s had failed: %s", self._path, self._writes, self._said)
            self._failed = 0
        else:
            logger.error(
                "%s cannot be written: %s (%s failed so far). What waits is tried again; when it works that is said",
                self._path,
                failure,
                self._writes,
            )
        self._said = failure

    @property
    def _writes(self) -> str:
        return "1 write" if self._failed == 1 else f"{self._failed:,} writes"


_SPACE_ADVICE = "Nothing in it is lost: make room on its disk, or make it writable, and start again"
_ADVICE = (
    "Restore the file from a copy, or move it away: the node then starts as one that has lost its disk, "
    "which is safe (it learns its epoch and its members from others)"
)


def _open(path: Path) -> sqlite3.Connection:
    """The connection, checked. Raises `NodeError`."""
    try:
        path.touch(mode=0o600, exist_ok=True)
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, cached_statements=32)
    except (sqlite3.Error, OSError) as error:
        raise NodeError(ErrorCode.STATE_DAMAGED, f"{path} cannot be opened: {error}. {_ADVICE}") from error
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES_MAX}")
        problems = [row[0] for row in connection.execute("PRAGMA quick_check(3)")]
        if problems != ["ok"]:
            raise NodeError(ErrorCode.STATE_DAMAGED, f"{path} is damaged ({problems[0]}). {_ADVICE}")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise NodeError(
                ErrorCode.STATE_DAMAGED,
                f"{path} was written by a newer version of reachp2p (layout {version}, known is {SCHEMA_VERSION}): "
                "install that version again",
            )
        if version < SCHEMA_VERSION:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS rows ("
                "name TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (name, key)) WITHOUT ROWID"
            )
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
        connection.execute("SELECT name, key, value FROM rows LIMIT 1").fetchone()
    except sqlite3.Error as error:
        connection.close()
        if _is_busy(error):
            message = f"{path} is kept locked by another program: {error}"
            raise NodeError(ErrorCode.STATE_LOCKED, message) from error
        if _code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY):
            message = f"{path} cannot be written ({_reason(error)}). {_SPACE_ADVICE}"
            raise NodeError(ErrorCode.STORE_FULL, message) from error
        raise NodeError(ErrorCode.STATE_DAMAGED, f"{path} is damaged ({error}). {_ADVICE}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _run(connection: sqlite3.Connection, batch: Sequence[Operation]) -> list[Outcome]:
    """Perform operations in order; writes between two reads form one transaction."""
    outcomes: list[Outcome] = []
    writes: list[Persist | Delete] = []
    for operation in batch:
        if isinstance(operation, Fetch):
            outcomes += _write(connection, writes)
            writes = []
            outcomes.append(_fetch(connection, operation))
        else:
            writes.append(operation)
    outcomes += _write(connection, writes)
    return outcomes


def _write(connection: sqlite3.Connection, writes: Sequence[Persist | Delete]) -> list[Outcome]:
    if not writes:
        return []
    failure = _commit(connection, writes)
    if failure is not None and len(writes) > 1 and not _is_busy(failure):
        # One of them may be at fault alone (too big for the space left): let the others through.
        return [outcome for write in writes for outcome in _write(connection, [write])]
    if failure is None:
        return [Written(write.ticket, None) for write in writes]
    reason = _reason(failure)
    return [Written(write.ticket, reason) for write in writes]


def _commit(connection: sqlite3.Connection, writes: Sequence[Persist | Delete]) -> sqlite3.Error | None:
    """One durable transaction, or none of it and the error. Raises what says that the file is damaged."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        for write in writes:
            if isinstance(write, Persist):
                connection.execute(
                    "INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                    (write.table.value, write.key, write.value),
                )
            else:
                connection.execute(
                    "DELETE FROM rows WHERE name = ? AND key = ?", (write.table.value, write.key)
                )
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error as again:
            logger.error("a transaction could not be taken back: %s", again)
        if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
        return error
    return None


def _fetch(connection: sqlite3.Connection, fetch: Fetch) -> Fetched:
    """Rows in key order. Raises `sqlite3.Error`: a file that cannot be read ends the node."""
    if fetch.stop is None:
        query = "SELECT key, value FROM rows WHERE name = ? AND key >= ? ORDER BY key LIMIT ?"
        rows = connection.execute(query, (fetch.table.value, fetch.start, fetch.limit)).fetchall()
    else:
        query = "SELECT key, value FROM rows WHERE name = ? AND key >= ? AND key < ? ORDER BY key LIMIT ?"
        rows = connection.execute(query, (fetch.table.value, fetch.start, fetch.stop, fetch.limit)).fetchall()
    return Fetched(fetch.request, rows)


def _is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 for errors of the Python module itself, which have none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _reason(error: sqlite3.Error) -> str:
    if _is_busy(error):
        return f"storage busy: another program has held the write lock for {BUSY_TIMEOUT:g} s"
    if _code(error) == sqlite3.SQLITE_FULL:
        return "disk full"
    if _code(error) == sqlite3.SQLITE_IOERR:
        return f"disk error: {error}"
    return str(error)
