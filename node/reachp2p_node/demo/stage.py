"""The demo's processes: started, killed, and always cleared away."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio

from reachp2p.errors import ErrorCode, NodeError
from reachp2p_node.demo.journal import Line, Started, Tail
from reachp2p_node.demo.member import JOURNAL, STATE

STOP_PATIENCE = 3.0
"""Seconds for all processes together to say goodbye; then they are killed."""
LOG = "log.txt"
LOG_LINES_SHOWN = 5


class Stage:
    """Processes by name, each with a folder of its own below one temporary folder. Use it as a context manager."""

    def __init__(self, *, is_kept: bool) -> None:
        self.is_kept = is_kept
        """Whether the folder outlives the stage."""
        self.folder = Path(tempfile.mkdtemp(prefix="reachp2p-demo-"))
        self.tails: dict[str, Tail] = {}
        self._roles: dict[str, str] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._killed: dict[int, None] = {}

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @trio.lowlevel.enable_ki_protection  # Ctrl-C between the start and the note of it would leave a process behind
    def start(self, name: str, role: str) -> None:
        """Start a process, or start it again on the state it left. All but the first join through the first."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        self.tails.setdefault(name, Tail(folder / JOURNAL))
        self._roles[name] = role
        seeds = [self.seed_address()] if len(self._roles) > 1 else []
        with (folder / LOG).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-P", "-m", "reachp2p_node.demo.member", role, name, str(folder), *seeds],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """SIGKILL: no goodbye, no clean-up."""
        process = self._processes[name]
        self._killed[process.pid] = None
        process.kill()
        process.wait()
        _close(process)

    def state(self, name: str) -> Path:
        """The state folder of a process."""
        return self.folder / name / STATE

    def seed_address(self) -> str:
        """Where the first process listens. It must have started."""
        first = next(iter(self.tails.values()))
        return next(line.address for line in first.lines if isinstance(line, Started))

    def read(self) -> list[tuple[str, Line]]:
        """What the journals have to say since the last look. Raises `NodeError` if a process has ended by itself."""
        new = [(name, line) for name, tail in self.tails.items() for line in tail.read()]
        for name, process in self._processes.items():
            if process.poll() is not None and process.pid not in self._killed:
                raise NodeError(
                    ErrorCode.NODE_LOST,
                    f"the demo's process {name} ended with {process.returncode}: {self._last_words(name)}",
                )
        return new

    def close(self) -> None:
        """Stop every process, politely first, and remove the folder unless it is to be kept; again is harmless.

        Ctrl-C has no effect meanwhile: it takes STOP_PATIENCE seconds at most.
        """
        former = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._stop_all()
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
        if not self.is_kept:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _stop_all(self) -> None:
        running = [process for process in self._processes.values() if process.poll() is None]
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_PATIENCE
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for process in self._processes.values():
            _close(process)
        self._processes.clear()

    def _last_words(self, name: str) -> str:
        log = (self.folder / name / LOG).read_text(errors="replace").strip().splitlines()
        return " / ".join(log[-LOG_LINES_SHOWN:]) or "it said nothing"


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
