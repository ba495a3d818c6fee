"""Streams between two processes: `python bench/stream.py` prints one JSON object.

A consumer and a producer, a process each: 100 MB in items of 64 KiB through one stream, many items of 100 bytes
through another, and calls of 300 bytes beside a stream that runs and beside one that nobody reads. Memory is the
resident set of each process before, at most meanwhile (looked at ten times a second), and after.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from reachp2p import Agent, Node

LARGE = 65_536
SMALL = 100
ECHO = bytes(300)
BETWEEN_CALLS = 0.005
PAGE = os.sysconf("SC_PAGE_SIZE")


def agent() -> Agent:
    """An agent that yields bytes, and one that gives them back."""
    made = Agent("bench/stream")

    @made.capability("bench.bytes")
    async def produce(size: int, count: int) -> AsyncIterator[bytes]:
        """So many items of this size."""
        item = bytes(size)
        for _ in range(count):
            yield item

    @made.capability("bench.echo")
    async def echo(payload: bytes) -> bytes:
        """Echo of bytes."""
        return payload

    return made


async def producer() -> None:
    """The other process: says where it listens, serves until its standard input ends."""
    async with Node(agent()) as node:
        print(json.dumps({"seed": str(node.address)}), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)


def resident(process: int) -> int:
    """Bytes of memory that a process holds."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE


class Memory:
    """The memory of both processes while something runs."""

    def __init__(self, producer: int) -> None:
        self._processes = {"consumer": os.getpid(), "producer": producer}
        self._before = {name: resident(process) for name, process in self._processes.items()}
        self._most = dict(self._before)

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            for name, process in self._processes.items():
                self._most[name] = max(self._most[name], resident(process))
            await trio.sleep(0.1)

    def report(self) -> dict[str, dict[str, float]]:
        """In MiB."""
        return {
            name: {
                "before": round(self._before[name] / 2**20, 1),
                "most": round(self._most[name] / 2**20, 1),
                "after": round(resident(process) / 2**20, 1),
            }
            for name, process in self._processes.items()
        }


@asynccontextmanager
async def watched(producer: int) -> AsyncIterator[Memory]:
    """Memory, looked at inside the block."""
    memory = Memory(producer)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.watch)
        yield memory
        nursery.cancel_scope.cancel()


async def rate(node: Node, process: int, size: int, count: int) -> dict[str, Any]:
    """One stream from its begin to its end."""
    print(f"{count:,} items of {size:,} bytes", file=sys.stderr)
    async with watched(process) as memory:
        begun = time.perf_counter()
        taken = 0
        async with node.stream("bench.bytes", {"size": size, "count": count}, timeout=600) as items:
            async for item in items:
                taken += len(item)
        seconds = time.perf_counter() - begun
    assert taken == size * count, "each item once"
    return {
        "mb_per_second": round(taken / seconds / 1e6, 1),
        "items_per_second": round(count / seconds),
        "memory_mib": memory.report(),
    }


async def calls_beside(node: Node, seconds: float) -> dict[str, float]:
    """Round trips of calls, one after the other, in milliseconds."""
    took = []
    until = trio.current_time() + seconds
    while trio.current_time() < until:
        begun = time.perf_counter()
        await node.call("bench.echo", ECHO, timeout=10)
        took.append((time.perf_counter() - begun) * 1e3)
        await trio.sleep(BETWEEN_CALLS)
    took.sort()
    return {f"p{p}": round(took[len(took) * p // 100], 2) for p in (50, 90, 99)} | {"calls": len(took)}


async def measure(node: Node, process: int, megabytes: int, seconds: float) -> dict[str, Any]:
    """Everything, one after the other."""
    await node.wait_for("bench.bytes", timeout=10)
    result: dict[str, Any] = {"large": await rate(node, process, LARGE, megabytes * 1_000_000 // LARGE)}
    result["small"] = await rate(node, process, SMALL, 50_000)
    print("calls alone, beside a stream that nobody reads, beside one that runs", file=sys.stderr)
    result["call_ms_alone"] = await calls_beside(node, seconds)
    forever = {"size": LARGE, "count": 1_000_000_000}
    async with node.stream("bench.bytes", forever, timeout=600):
        await trio.sleep(0.5)
        result["call_ms_beside_unread"] = await calls_beside(node, seconds)
    async with node.stream("bench.bytes", forever, timeout=600) as items, trio.open_nursery() as nursery:

        async def read() -> None:
            async for _ in items:
                pass

        nursery.start_soon(read)
        result["call_ms_beside_running"] = await calls_beside(node, seconds)
        nursery.cancel_scope.cancel()
    return result


async def consume(seed: str, process: int, megabytes: int, seconds: float) -> None:
    """The consumer."""
    async with Node(seeds=[seed]) as node:
        print(json.dumps(await measure(node, process, megabytes, seconds)))


def main(megabytes: int, seconds: float) -> None:
    """Start the producer, consume, and end it."""
    command = [sys.executable, __file__, "--producer"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            seed = json.loads(process.stdout.readline())["seed"]
            trio.run(consume, seed, process.pid, megabytes, seconds)
        finally:
            process.stdin.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each series of calls")
    parser.add_argument("--producer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.producer:
        trio.run(producer)
    else:
        main(options.megabytes, options.seconds)
