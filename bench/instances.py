"""Instances of one agent for `rolling_restart.py` and `kill.py`: a process each, and a steady load on them.

As a program, `python bench/instances.py '{"name": …, "state": …, "seeds": […], "port": …, "journal": …}'`, it is one
instance: its handler takes 5 to 15 ms, is not repeatable, and notes each execution in a journal before it answers. It
leaves in good order when its standard input ends.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from reachp2p import Agent, Node
from reachp2p.core.events import MemberState
from reachp2p.errors import CallFailed

AGENT, CAPABILITY = "bench/worker", "bench.work"
WORK = (0.005, 0.015)
"""Seconds that the handler takes."""
CALL_TIMEOUT = 5.0
"""Of each call, retries included."""
PATIENCE = 20.0
"""Seconds until something that should have happened is reported as missing."""
LEAVE_TIMEOUT = 10.0
PORTS = range(20_000, 30_000)
"""Below those that the system gives to connections, so that nobody takes a port while its instance is away."""


@dataclass(slots=True)
class Done:
    """One call of the load. Times are seconds of the steady clock; `code` 0 is a result."""

    number: int
    started: float
    ended: float
    code: int
    attempts: int
    detail: str


class Load:
    """Open loop: `rate` calls a second are started whatever becomes of those before them."""

    def __init__(self, node: Node, rate: float) -> None:
        self._node = node
        self._rate = rate
        self.done: list[Done] = []
        self.started = 0
        """The number of the last call."""
        self.under_way: dict[int, float] = {}
        """When each call that has not ended was started."""
        self._is_over = False

    def end(self) -> None:
        """Start no more; `run` returns when those that were started have ended."""
        self._is_over = True

    async def run(self) -> None:
        """Make calls until `end`."""
        async with trio.open_nursery() as nursery:
            begun = trio.current_time()
            while not self._is_over:
                await trio.sleep_until(begun + (self.started + 1) / self._rate)
                self.started += 1
                self.under_way[self.started] = time.monotonic()
                nursery.start_soon(self._call, self.started)

    async def _call(self, number: int) -> None:
        started = self.under_way[number]
        code, attempts, detail = 0, 1, ""
        try:
            _, _, ended = await self._node.call_detailed(CAPABILITY, {"number": number}, timeout=CALL_TIMEOUT)
            attempts = ended.attempts
        except CallFailed as failure:
            code, attempts, detail = int(failure.code), failure.attempts, failure.message
        del self.under_way[number]
        self.done.append(Done(number, started, time.monotonic(), code, attempts, detail))


class Instance:
    """One process that offers the agent, under one key and at one port through all of its runs."""

    def __init__(self, name: str, folder: Path, seeds: list[str], port: int) -> None:
        self.name = name
        self.journal = folder / f"{name}.journal"
        self._options = {
            "name": name,
            "state": str(folder / name),
            "seeds": seeds,
            "port": port,
            "journal": str(self.journal),
        }
        self._process: trio.Process | None = None

    async def start(self) -> None:
        """Start the process; that its node is there is seen by others (`wait_placed`)."""
        self._process = await trio.lowlevel.open_process(
            [sys.executable, __file__, json.dumps(self._options)], stdin=subprocess.PIPE
        )

    async def leave(self) -> None:
        """Let it leave in good order, and wait until its process has ended. Raises `RuntimeError` if it does not."""
        process = self._running
        assert process.stdin is not None
        await process.stdin.aclose()
        with trio.move_on_after(LEAVE_TIMEOUT + 5.0) as patience:
            await process.wait()
        if patience.cancelled_caught:
            raise RuntimeError(f"{self.name} has not left within {LEAVE_TIMEOUT + 5.0:g} s")

    async def kill(self) -> None:
        """SIGKILL; returns when the process is gone, which may be some milliseconds later."""
        process = self._running
        process.kill()
        await process.wait()

    async def end(self) -> None:
        """At the end of the bench: it is gone afterwards."""
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    @property
    def _running(self) -> trio.Process:
        assert self._process is not None, "started before"
        return self._process


@asynccontextmanager
async def instances(folder: Path, caller: Node, count: int) -> AsyncIterator[list[Instance]]:
    """Instances that the caller's node can call; their processes are gone afterwards, however the block ends."""
    ports = free_ports(count)
    made = [Instance(f"worker-{n}", folder, [str(caller.address)], port) for n, port in enumerate(ports)]
    try:
        for instance in made:
            await instance.start()
        await wait_placed(caller, [instance.name for instance in made])
        yield made
    finally:
        with trio.CancelScope(shield=True):
            for instance in made:
                await instance.end()


async def wait_placed(caller: Node, names: list[str]) -> None:
    """Wait until the caller's view has these instances, ALIVE. Raises `RuntimeError` after `PATIENCE` seconds."""
    with trio.move_on_after(PATIENCE):
        while True:
            alive = [
                one.node_name
                for one in caller.agents()
                if one.agent == AGENT and one.state is MemberState.ALIVE
            ]
            if all(name in alive for name in names):
                return
            await trio.sleep(0.02)
    raise RuntimeError(f"{', '.join(names)}: not seen within {PATIENCE:g} s")


def executions(made: list[Instance]) -> dict[int, int]:
    """How often each call's handler has run to its end, by the journals."""
    counts: dict[int, int] = {}
    for instance in made:
        for line in instance.journal.read_text().splitlines():
            counts[int(line)] = counts.get(int(line), 0) + 1
    return counts


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now, UDP and TCP."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, 200):
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("no ports are free")


async def serve(options: dict[str, Any]) -> None:
    """Be one instance until standard input ends."""
    journal = os.open(options.pop("journal"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    agent = Agent(AGENT)
    chance = random.Random()

    @agent.capability(CAPABILITY, concurrency=256)
    async def work(number: int) -> dict[str, int]:
        """Takes its time, notes that it has run, and answers."""
        await trio.sleep(chance.uniform(*WORK))
        os.write(journal, b"%d\n" % number)
        return {"number": number}

    async with Node(agent, **options) as node, trio.open_nursery() as nursery:

        async def leave_when_told() -> None:
            await trio.lowlevel.wait_readable(sys.stdin.fileno())
            node.stop(LEAVE_TIMEOUT)

        nursery.start_soon(leave_when_told)
        await node.wait_closed()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(serve, json.loads(sys.argv[1]))
