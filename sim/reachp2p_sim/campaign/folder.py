"""Where a campaign is kept: what it is, each finished run as soon as it is finished, and the results.

    campaign.json     plan, code version, environment: written before anything runs
    runs.jsonl        one line a finished run, in the order in which they finished
    runs.parquet      one row a run, by cell and seed: written at the end, also of a part
    summary.json      what is printed with --json

A line is appended whole or not at all: what a full disk lets through of one is taken back, and what a kill leaves of
the last one is cut off when the campaign goes on. Lines are handed to the operating system at once, and to the disk at
least every second.
"""

from __future__ import annotations

import fcntl
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from reachp2p_sim.campaign.plan import Plan, Task
from reachp2p_sim.measuring.rare_branches import BRANCHES
from reachp2p_sim.results.files import said_of, write_whole
from reachp2p_sim.running import code_version
from reachp2p_sim.running.configuration import UsageError, files_of
from reachp2p_sim.running.run import RunResult

PLAN, RUNS, SUMMARY, TABLE = "campaign.json", "runs.jsonl", "summary.json", "runs.parquet"
SYNC_INTERVAL = 1.0


class Unfinished(RuntimeError):
    """The campaign cannot go on now. Finished runs are kept; the message says what to do."""


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a folder holds the runs of."""

    plan: Plan
    release: str
    code: str
    environment: dict[str, str]
    files: dict[str, str] = {}
    """SHA-256 of each file that a scenario is read from, with its own checkers."""


class _Row(msgspec.Struct, frozen=True):
    """What a line says besides the result of its run (`summary.row_of`)."""

    number: int
    cell: int
    of: str


def about(plan: Plan) -> About:
    """A campaign by this code on this machine."""
    environment = {
        "python": sys.version.split()[0],
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
    }
    return About(plan, code_version.release(), code_version.code(), environment, _files(plan))


def _files(plan: Plan) -> dict[str, str]:
    names = sorted({file for name in plan.scenarios for file in files_of(name)})
    return {name: sha256(Path(name).read_bytes()).hexdigest() for name in names}


class Folder:
    """An open folder: locked against a second process, positioned after its last whole line."""

    def __init__(self, path: Path, plan: Plan) -> None:
        """Use `create` or `reopen`."""
        self.path = path
        self.plan = plan
        self._file = os.open(path / RUNS, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._synced_at = monotonic()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise UsageError(f"{path}: another process is running a campaign there") from None
        self._size = os.fstat(self._file).st_size

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)

    @classmethod
    def create(cls, path: Path, plan: Plan) -> Folder:
        """A new campaign. A `UsageError` if the folder holds one already, or another process has just begun one."""
        if (path / PLAN).exists():
            raise _holds_one(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(f"{path}: a file is in the way; name a folder") from None
        except OSError as error:
            raise UsageError(said_of(error)) from error
        try:
            folder = cls(path, plan)
            with ExitStack() as unless_begun:
                unless_begun.push(folder)
                if (path / PLAN).exists() or folder._size:  # who had the lock before us has begun one
                    raise _holds_one(path)
                write_whole(path / PLAN, msgspec.json.format(msgspec.json.encode(about(plan)), indent=2))
                unless_begun.pop_all()
            return folder
        except OSError as error:
            raise UsageError(said_of(error)) from error

    @classmethod
    def reopen(cls, path: Path, plan: Plan | None) -> Folder:
        """A campaign that was begun. `plan`: what it must be, if that was said. A `UsageError` if it is another, or
        was made by other code."""
        kept = read_about(path)
        if plan is not None and plan != kept.plan:
            raise UsageError(f"{path} holds another campaign: {_difference(kept.plan, plan)}")
        if kept.code != code_version.code():
            raise UsageError(
                f"{path} was begun by the code {kept.code} (reachp2p {kept.release}) and this is {code_version.code()} "
                f"(reachp2p {code_version.release()}): results of both must not be mixed; begin a new campaign"
            )
        changed = [name for name, digest in _files(kept.plan).items() if kept.files.get(name) != digest]
        if changed:
            raise UsageError(
                f"{path}: {changed[0]} has changed since this campaign was begun; begin a new one"
            )
        return cls(path, kept.plan)

    def finished(self) -> Iterator[dict[str, Any]]:
        """The finished runs, in the order in which they finished. Cuts off what a kill left of the last line.

        A `UsageError` for a line that is no run, or none of this plan.
        """
        task_of = self.plan.numbered()
        whole = 0
        with (self.path / RUNS).open("rb") as lines:
            for count, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    break
                try:
                    row = _row(line, task_of)
                except (msgspec.DecodeError, ValueError) as error:
                    raise UsageError(
                        f"{self.path / RUNS}, line {count} is damaged: {error}; remove that line, and its run is "
                        "run again"
                    ) from error
                whole += len(line)
                yield row
        if whole != self._size:
            os.ftruncate(self._file, whole)
            self._size = whole

    def append(self, row: dict[str, Any]) -> None:
        """Keep a finished run. Raises `Unfinished` if the disk does not take it."""
        line = msgspec.json.encode(row) + b"\n"
        try:
            written = 0
            while written < len(line):  # a disk that fills up takes a part, and says so when asked again
                written += os.write(self._file, line[written:])
            now = monotonic()
            if now - self._synced_at >= SYNC_INTERVAL:
                os.fsync(self._file)
                self._synced_at = now
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise Unfinished(
                f"{self.path / RUNS}: {error.strerror}; the runs before it are kept: make room and go on with "
                f"--resume --out {self.path}"
            ) from error
        self._size += len(line)


def read_about(path: Path) -> About:
    """What a folder holds. A `UsageError` if it is no campaign."""
    try:
        return msgspec.json.decode((path / PLAN).read_bytes(), type=About)
    except FileNotFoundError:
        raise UsageError(f"{path} holds no campaign: there is no {PLAN} in it") from None
    except OSError as error:
        raise UsageError(f"{path} holds no campaign: {said_of(error)}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{path / PLAN}: damaged: {error}") from error


def _difference(kept: Plan, wanted: Plan) -> str:
    told = [
        f"{name} is {_text(getattr(kept, name))} there and {_text(getattr(wanted, name))} here"
        for name in Plan.__struct_fields__
        if getattr(kept, name) != getattr(wanted, name)
    ]
    return "; ".join(told)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _holds_one(path: Path) -> UsageError:
    return UsageError(f"{path} holds a campaign already: name another folder, or go on with --resume")


def _row(line: bytes, task_of: Callable[[int], Task]) -> dict[str, Any]:
    """A line as a run of the plan. Raises `ValueError` if it is none, which says why."""
    row = msgspec.json.decode(line, type=dict[str, Any])
    kept = msgspec.json.decode(line, type=_Row)
    result = msgspec.convert(row, RunResult)
    ended = result.error if result.verdict == "error" else result.violation
    if result.verdict != "pass" and not ended:
        raise ValueError(f"it is a run with the verdict {result.verdict} and does not say of what")
    if result.violation is not None and not {"checker", "message"} <= result.violation.keys():
        raise ValueError("its violation has no checker or no message")
    if missing := [branch for branch in BRANCHES if branch not in result.branches]:
        raise ValueError(f"its branches have no {missing[0]!r}")
    task = task_of(kept.number)
    config = task.config
    wanted: dict[str, object] = {
        "cell": task.cell,
        "of": config.scenario,
        "scenario": config.scenario,
        "seed": config.seed,
        "mutant": config.mutant,
    }
    if config.nodes is not None:
        wanted["nodes"] = config.nodes
    for key, value in wanted.items():
        if row[key] != value:
            raise ValueError(
                f"run {kept.number} of the plan has {key} {_text(value)}, and this one has {_text(row[key])}"
            )
    return row
