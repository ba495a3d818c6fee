"""The processes of `restarts.py`: started, killed, made to leave, and what each of them has said about its own view."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from restarts_verdict import Process
from restarts_worker import EPOCHS

PATIENCE = 15.0
"""Seconds until something that should have happened is reported as missing."""
PORTS = range(20_000, 30_000)
"""Below those that the system gives to connections, so that nobody takes a port while its node is down."""
END_TIMEOUT = 6.0


@dataclass(slots=True, eq=False, kw_only=True)
class Run(Process):
    """A process under way."""

    process: trio.Process
    lines: list[dict[str, Any]] = field(default_factory=list)
    views: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last line about each other node."""

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.returncode is None

    def sees(self, other: Run) -> bool:
        """Whether the present life of another process is ALIVE in the view of this one."""
        started = other.said("started")
        if started is None:
            return False
        line = self.views.get(started["node"])
        return line is not None and (line["life"], line["state"]) == (started["life"], "ALIVE")


class Network:
    """All processes of one bench run."""

    def __init__(self, folder: Path, nodes: int, rng: random.Random, nursery: trio.Nursery) -> None:
        self.names = [f"node-{number}" for number in range(nodes)]
        self.runs: list[Process] = []
        """Ended ones included, in the order of their starts."""
        self.current: dict[str, Run] = {}
        self._folder = folder
        self._nursery = nursery
        self._ports = dict(zip(self.names, _free_ports(nodes, rng), strict=True))
        self._seeds = [f"127.0.0.1:{self._ports[self.names[0]]}"]
        self._changed = trio.Event()
        for name in self.names:
            (folder / name).mkdir()

    async def start(self, name: str) -> Run:
        """Start a process, or start it again on the state that it left. The first node is everybody's seed."""
        options = {
            "name": name,
            "folder": str(self._folder / name),
            "seeds": [] if name == self.names[0] else self._seeds,
            "port": self._ports[name],
            "cluster": "restarts",
        }
        at = time.monotonic()
        process = await trio.lowlevel.open_process(
            [sys.executable, str(Path(__file__).with_name("restarts_worker.py")), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        run = Run(name=name, number=process.pid, spawned_at=at, process=process)
        self.runs.append(run)
        self.current[name] = run
        self._nursery.start_soon(self._read, run)
        return run

    async def _read(self, run: Run) -> None:
        assert run.process.stdout is not None
        rest = b""
        async for data in run.process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in map(json.loads, lines):
                run.lines.append(line)
                if line["is"] == "member":
                    run.views[line["node"]] = line
            self._pulse()
        run.exit_code = await run.process.wait()
        run.ended_at = time.monotonic()
        self._pulse()

    def _pulse(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, is_so: Callable[[], object], patience: float = PATIENCE) -> bool:
        """Wait until something is so; whether it was in time."""
        with trio.move_on_after(patience):
            while not is_so():
                await self._changed.wait()
            return True
        return False

    def others(self, run: Run) -> list[Run]:
        """The running processes but this one."""
        return [other for other in self.current.values() if other is not run and other.is_running]

    async def back(self, run: Run) -> bool:
        """Wait until a start has ended well, seen by all and seeing all; false if it has not in time, or has failed."""

        def is_back() -> bool:
            return all(other.sees(run) and run.sees(other) for other in self.others(run))

        await self.until(lambda: is_back() or not run.is_running)
        return is_back()

    async def kill(self, run: Run) -> None:
        """SIGKILL, and wait until the process is gone, as a supervisor does."""
        run.killed_at = time.monotonic()
        run.process.kill()
        await run.process.wait()

    async def leave(self, run: Run) -> None:
        """Have it leave with a goodbye; one that does not end by itself is killed, which the verdict notices."""
        run.is_wished_to_leave = True
        assert run.process.stdin is not None
        await run.process.stdin.aclose()
        with trio.move_on_after(END_TIMEOUT):
            await run.process.wait()
        if run.is_running:
            run.process.kill()
            await run.process.wait()

    async def end(self) -> None:
        """End all processes."""
        async with trio.open_nursery() as nursery:
            for run in self.current.values():
                if run.is_running:
                    nursery.start_soon(self.leave, run)

    def epochs(self) -> dict[str, list[dict[str, Any]]]:
        """What the processes have noted about the epochs that they used, by node, in the order of the notes."""
        found = {}
        for name in self.names:
            file = self._folder / name / EPOCHS
            whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
            found[name] = [json.loads(line) for line in whole.splitlines()]
        return found


def _free_ports(count: int, rng: random.Random) -> list[int]:
    """Ports on which nobody listens, neither UDP nor TCP."""
    found: list[int] = []
    for port in rng.sample(PORTS, len(PORTS)):
        with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            try:
                tcp.bind(("127.0.0.1", port))
                udp.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("no free ports")
