"""One writer, honest answers: nothing is durable before it is said to be, nothing is lost in silence (B43)."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Delete, Fetch, Persist, Table
from reachp2p.core.ids import Ticket
from reachp2p.errors import ErrorCode, NodeError
from reachp2p.runtime import storage as storage_module
from reachp2p.runtime.storage import QUIET, Fetched, Outcome, Storage, Trouble, Written

pytestmark = pytest.mark.trio


class Desk:
    """A storage and the outcomes it has given."""

    def __init__(self, path: Path) -> None:
        self.outcomes: list[Outcome] = []
        self.changed = trio.Event()
        self.counters = Counters()
        self.storage = Storage(path, self._take, self.counters)
        self._ticket = 0

    def _take(self) -> None:
        self.outcomes += self.storage.take_outcomes()
        self.changed.set()

    def persist(self, key: bytes, value: bytes, table: Table = Table.HEADS) -> Ticket:
        self._ticket += 1
        self.storage.submit(Persist(Ticket(self._ticket), table, key, value))
        return Ticket(self._ticket)

    def delete(self, key: bytes) -> Ticket:
        self._ticket += 1
        self.storage.submit(Delete(Ticket(self._ticket), Table.HEADS, key))
        return Ticket(self._ticket)

    async def until(self, count: int, seconds: float = 5.0) -> list[Outcome]:
        with trio.fail_after(seconds):
            while len(self.outcomes) < count:
                self.changed = trio.Event()
                await self.changed.wait()
        return self.outcomes

    async def rows(
        self, start: bytes = b"", stop: bytes | None = None, limit: int = 1_000_000
    ) -> list[tuple[bytes, bytes]]:
        """What a Fetch answers now."""
        before = len(self.outcomes)
        self.storage.submit(Fetch(7, Table.HEADS, start, stop, limit))
        fetched = (await self.until(before + 1))[-1]
        assert isinstance(fetched, Fetched)
        assert fetched.request == 7
        return list(fetched.rows)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Desk]:
    desk = Desk(path)
    try:
        await desk.storage.open()
        yield desk
    finally:
        await desk.storage.aclose()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


async def test_rows_are_written_replaced_removed_and_read_in_key_order(file: Path) -> None:
    async with opened(file) as desk:
        for key in (b"b", b"\xff", b"a", b"b\x00"):
            desk.persist(key, b"first")
        desk.persist(b"a", b"second")
        desk.persist(b"a", b"elsewhere", Table.RECORDS)
        desk.delete(b"b")
        desk.delete(b"never there")
        assert await desk.until(8) == [Written(Ticket(number), None) for number in range(1, 9)]
        assert await desk.rows() == [(b"a", b"second"), (b"b\x00", b"first"), (b"\xff", b"first")]
        assert await desk.rows(b"b", b"\xff") == [(b"b\x00", b"first")]
        assert await desk.rows(limit=1) == [(b"a", b"second")]


async def test_a_read_sees_what_was_written_before_it(file: Path) -> None:
    async with opened(file) as desk:
        for number in range(50):
            desk.persist(b"key", b"%d" % number)
            desk.storage.submit(Fetch(number, Table.HEADS, b"", None, 10))
        outcomes = await desk.until(100)
    fetched = [outcome for outcome in outcomes if isinstance(outcome, Fetched)]
    assert [one.rows for one in fetched] == [[(b"key", b"%d" % number)] for number in range(50)]


async def test_what_is_answered_survives_the_end_of_the_process(file: Path) -> None:
    program = f"""
import os, trio
from pathlib import Path
from tests.runtime.test_storage import Desk
async def main():
    desk = Desk(Path({str(file)!r}))
    await desk.storage.open()
    for number in range(200):
        desk.persist(b"%d" % number, b"x")
    await desk.until(200)
    os.kill(os.getpid(), 9)
trio.run(main)
"""
    done = await trio.to_thread.run_sync(lambda: subprocess.run([sys.executable, "-c", program]))
    assert done.returncode == -signal.SIGKILL
    async with opened(file) as desk:
        assert len(await desk.rows()) == 200


async def test_closing_writes_what_waits(file: Path) -> None:
    async with opened(file) as desk:
        for number in range(3_000):
            desk.persist(b"%d" % number, b"x")
    async with opened(file) as desk:
        assert len(await desk.rows()) == 3_000


async def test_the_journal_is_written_ahead_and_synced(file: Path) -> None:
    async with opened(file) as desk:
        desk.persist(b"a", b"b")
        await desk.until(1)
        connection = sqlite3.connect(file)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()
        for one in (file, file.with_name("state.db-wal")):
            assert os.stat(one).st_mode & 0o777 == 0o600


# Others at the file (B43)


def lock_for(path: Path, seconds: float) -> subprocess.Popen[str]:
    """A second process that holds the write lock."""
    program = (
        "import sqlite3, sys, time\n"
        f"c = sqlite3.connect({str(path)!r}, isolation_level=None)\n"
        "c.execute('BEGIN IMMEDIATE')\nprint('locked', flush=True)\n"
        f"time.sleep({seconds})\nc.execute('ROLLBACK')\nc.close()"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


async def test_a_lock_held_for_three_seconds_by_another_process_is_a_delay_and_no_error(file: Path) -> None:
    async with opened(file) as desk:
        process = await trio.to_thread.run_sync(lock_for, file, 3.0)
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def write(number: int) -> None:
                desk.persist(b"%d" % number, b"x")
                await trio.lowlevel.checkpoint()

            for number in range(50):
                nursery.start_soon(write, number)
        assert trio.current_time() - begun < 0.5, "submitting never waits"
        outcomes = await desk.until(50, seconds=10)
        assert trio.current_time() - begun > 2.0
        assert [outcome for outcome in outcomes if not isinstance(outcome, Written) or outcome.failure] == []
        assert len(await desk.rows()) == 50
        await trio.to_thread.run_sync(process.communicate)


async def test_a_lock_that_does_not_end_is_said_to_be_one_and_what_follows_works(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_module, "BUSY_TIMEOUT", 0.3)
    async with opened(file) as desk:
        process = await trio.to_thread.run_sync(lock_for, file, 1.0)
        desk.persist(b"a", b"x")
        desk.persist(b"b", b"x")
        assert await desk.until(2) == [
            Written(Ticket(number), "storage busy: another program has held the write lock for 0.3 s")
            for number in (1, 2)
        ]
        await trio.to_thread.run_sync(process.communicate)
        desk.persist(b"c", b"x")
        assert (await desk.until(3))[2] == Written(Ticket(3), None)
        assert await desk.rows() == [(b"c", b"x")]
        assert desk.counters.snapshot() == {"storage.failed": 2, "storage.written": 1}


# Disks


async def in_a_process_with_file_size_limit(file: Path, limit: int) -> str:
    """Write until files may not grow: SQLite sees it as it sees a full disk. Returns what the process prints."""
    program = f"""
import resource, signal, trio
from pathlib import Path
from tests.runtime.test_storage import Desk
from reachp2p.runtime.storage import Written
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
async def main():
    desk = Desk(Path({str(file)!r}))
    await desk.storage.open()
    desk.persist(b"small", b"x")
    await desk.until(1)
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))
    desk.persist(b"large", bytes(2_000_000))
    desk.persist(b"fits", b"y")
    large, fits = (await desk.until(3))[1:]
    print("large:", large.failure)
    print("fits:", fits.failure)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    desk.persist(b"later", b"z")
    print("later:", (await desk.until(4))[3].failure)
    print("rows:", [key for key, _ in await desk.rows()])
    await desk.storage.aclose()
trio.run(main)
"""
    done = await trio.to_thread.run_sync(
        lambda: subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_full_disk_refuses_what_does_not_fit_keeps_the_rest_and_recovers_alone(file: Path) -> None:
    said = await in_a_process_with_file_size_limit(file, 600_000)
    lines = dict(line.split(": ", 1) for line in said.splitlines())
    assert lines["large"] in ("disk full", "disk error: disk I/O error")
    assert lines["fits"] == "None"
    assert lines["later"] == "None"
    assert lines["rows"] == "[b'fits', b'later', b'small']"
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY, (
        "only the other process was limited"
    )


async def test_a_slow_disk_delays_nobody_and_what_cannot_wait_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_module, "QUEUE_OPERATIONS_MAX", 10)
    begun, gate, real = threading.Event(), threading.Event(), storage_module._commit

    def slow(connection: sqlite3.Connection, writes: list[Persist | Delete]) -> sqlite3.Error | None:
        begun.set()
        gate.wait(5)
        return real(connection, writes)

    monkeypatch.setattr(storage_module, "_commit", slow)
    async with opened(file) as desk:
        desk.persist(b"first", b"x")
        await trio.to_thread.run_sync(begun.wait)
        for number in range(15):
            desk.persist(b"%d" % number, b"x")
        refused = await desk.until(5)
        assert {outcome.failure for outcome in refused if isinstance(outcome, Written)} == {
            "storage queue full: the disk is too slow for what is written"
        }
        gate.set()
        await desk.until(16)
        assert len(await desk.rows()) == 11
        assert desk.counters.snapshot() == {"storage.failed": 5, "storage.written": 11}


async def test_too_many_waiting_bytes_are_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "QUEUE_BYTES_MAX", 1_000)
    async with opened(file) as desk:
        desk.persist(b"k", bytes(1_000))
        assert (await desk.until(1))[0] == Written(
            Ticket(1), "storage queue full: the disk is too slow for what is written"
        )


# Damage


def fill_with_rubbish(path: Path) -> None:
    path.write_bytes(b"rubbish " * 1_000)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:9_000])


def overwrite_a_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4_096:8_192] = b"\xa5" * 4_096
    path.write_bytes(data)


def take_another_layout(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript("DROP TABLE rows; CREATE TABLE rows (only TEXT);")
    connection.close()


def be_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage", [fill_with_rubbish, cut, overwrite_a_page, take_another_layout, be_a_folder]
)
async def test_a_damaged_file_is_1706_and_says_which_and_what_to_do(
    file: Path, damage: Callable[[Path], None]
) -> None:
    async with opened(file) as desk:
        for number in range(500):
            desk.persist(b"%d" % number, bytes(200))
        await desk.until(500)
    damage(file)
    threads = threading.active_count()
    with pytest.raises(NodeError) as caught:
        async with opened(file):
            pass
    assert caught.value.code is ErrorCode.STATE_DAMAGED
    assert str(file) in caught.value.message
    assert (
        "move it away: the node then starts as one that has lost its disk, which is safe"
        in caught.value.message
    )
    assert threading.active_count() == threads


async def test_a_file_of_a_newer_version_is_left_alone(file: Path) -> None:
    async with opened(file):
        pass
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(NodeError, match=r"newer version of reachp2p \(layout 99, known is 1\)"):
        async with opened(file):
            pass


async def test_damage_found_while_running_ends_the_storage_with_1706(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> Fetched:
        raise sqlite3.DatabaseError("database disk image is malformed")

    async with opened(file) as desk:
        desk.storage.check()
        monkeypatch.setattr(storage_module, "_fetch", damaged)
        desk.storage.submit(Fetch(1, Table.HEADS, b"", None, 1))
        with trio.fail_after(2):
            await desk.changed.wait()
        with pytest.raises(NodeError, match=r"database disk image is malformed.*move it away") as caught:
            desk.storage.check()
        assert caught.value.code is ErrorCode.STATE_DAMAGED


async def test_opening_can_be_cancelled_and_leaves_no_thread(file: Path) -> None:
    threads = threading.active_count()
    for _ in range(20):
        with trio.CancelScope() as scope:
            scope.cancel()
            async with opened(file):
                raise AssertionError
    assert threading.active_count() == threads


async def test_a_disk_that_stays_full_is_said_once_and_with_a_count_when_that_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trouble = Trouble(Path("state.db"))
    told = [(None, 0.0)]
    told += [("disk full", 2.0 * turn) for turn in range(1, 1_000)]
    told += [("disk error", 3_000.0), ("disk error", 3_001.0), (None, 3_000.0 + QUIET), (None, 3_100.0)]
    for failure, now in told:
        trouble.note(failure, now)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", CANNOT.format("disk full", "1 write")),
        ("ERROR", CANNOT.format("disk error", "1,000 writes")),
        ("WARNING", "state.db is written again; 1,001 writes had failed: disk error"),
    ]


async def test_a_disk_that_refuses_every_other_write_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble(Path("state.db"))
    for turn in range(1_000):
        trouble.note("disk full" if turn % 2 else None, 1.0 + turn * 0.1)
    assert len(caplog.records) <= 100 / QUIET + 1


async def test_failed_writes_are_logged_by_the_storage(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> sqlite3.Error:
        return sqlite3.OperationalError("no way")

    monkeypatch.setattr(storage_module, "_commit", fail)
    async with opened(file) as desk:
        for _ in range(20):
            desk.persist(b"key", b"value")
        await desk.until(20)
    assert len(caplog.records) == 1
    assert "no way" in caplog.text


CANNOT = (
    "state.db cannot be written: {} ({} failed so far). What waits is tried again; when it works that is said"
)
