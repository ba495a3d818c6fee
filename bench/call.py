"""Calls between two processes: `python bench/call.py` prints one JSON object.

A caller and a callee, a process each, one link between them: echo of 300 bytes with 1, 16, 100 and 1,000 calls under
way at once, beside the same over a bare trio TCP connection with length-prefixed frames (`bare.py`), in turns. Only the
ratio survives another machine. CPU time is that of both processes. `--profile caller` or `callee` leaves the bare
connection out and prints, to standard error, where the time of that side goes.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import math
import os
import platform
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import bare
import trio
from processes import child

from reachp2p import Agent, Node

CAPABILITY = "bench.echo"
PAYLOAD = bytes(range(256)) + bytes(44)
CONCURRENCIES = (1, 16, 100, 1000)
KINDS = ("reachp2p", "bare")
WARM_UP = 0.5
"""Seconds before each measurement."""
PROFILE_LINES = 40
_TICKS = os.sysconf("SC_CLK_TCK")

Call = Callable[[bytes], Awaitable[Any]]


def echo_agent() -> Agent:
    """An agent that gives bytes back."""
    agent = Agent("bench/echo")

    @agent.capability(CAPABILITY, concurrency=max(CONCURRENCIES))
    async def echo(payload: bytes) -> bytes:
        """Echo of bytes."""
        return payload

    return agent


async def callee() -> None:
    """The other process: says where it listens, serves until its standard input ends."""
    async with Node(echo_agent()) as node, trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, bare.serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        print(json.dumps({"seed": str(node.address), "port": port}), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


def cpu_of(process: int) -> float:
    """User and system CPU seconds of another process, in steps of 10 ms."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def load(call: Call, concurrency: int, seconds: float) -> list[float]:
    """Keep `concurrency` calls under way; how long each took."""
    end = trio.current_time() + seconds
    took: list[float] = []

    async def one_after_the_other() -> None:
        while (begun := time.perf_counter()) and trio.current_time() < end:
            answer = await call(PAYLOAD)
            took.append(time.perf_counter() - begun)
            assert answer == PAYLOAD, "an echo gives back what it got"

    async with trio.open_nursery() as nursery:
        for _ in range(concurrency):
            nursery.start_soon(one_after_the_other)
    return took


async def measure(call: Call, concurrency: int, seconds: float, other: int) -> dict[str, Any]:
    """One turn of one kind."""
    await load(call, concurrency, WARM_UP)
    cpu, cpu_other, begun = time.process_time(), cpu_of(other), time.perf_counter()
    took = await load(call, concurrency, seconds)
    elapsed = time.perf_counter() - begun
    return {
        "rate": len(took) / elapsed,
        "took": took,
        "cpu_caller": (time.process_time() - cpu) / len(took),
        "cpu_callee": (cpu_of(other) - cpu_other) / len(took),
    }


def summary(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The median rate of all turns, and the times of all calls."""
    took = sorted(seconds for turn in turns for seconds in turn["took"])

    def quantile_ms(q: float) -> float:
        return round(took[max(0, math.ceil(q * len(took)) - 1)] * 1e3, 3)

    return {
        "calls_per_second": round(statistics.median(turn["rate"] for turn in turns)),
        "p50_ms": quantile_ms(0.5),
        "p99_ms": quantile_ms(0.99),
        "cpu_us_per_call_caller": round(statistics.median(turn["cpu_caller"] for turn in turns) * 1e6, 1),
        "cpu_us_per_call_callee": round(statistics.median(turn["cpu_callee"] for turn in turns) * 1e6, 1),
    }


@asynccontextmanager
async def other_process(profile: Path | None) -> AsyncIterator[tuple[trio.Process, dict[str, Any]]]:
    """The callee's process, and where it listens."""
    async with child(__file__, "--as-callee", *([str(profile)] if profile else [])) as (process, line):
        yield process, json.loads(line)


async def run(options: argparse.Namespace, profile: Path | None) -> dict[str, Any]:
    """All concurrencies, both kinds in turns."""
    figures: dict[str, Any] = {}
    kinds = KINDS[:1] if options.profile else KINDS
    async with (
        other_process(profile) as (process, told),
        Node(seeds=[told["seed"]]) as node,
        await trio.open_tcp_stream("127.0.0.1", told["port"]) as stream,
        trio.open_nursery() as nursery,
    ):
        caller = bare.Caller(stream)
        nursery.start_soon(caller.wire.write)
        nursery.start_soon(caller.wire.read)

        async def call(payload: bytes) -> Any:
            return await node.call(CAPABILITY, payload, timeout=30)

        await node.wait_for(CAPABILITY)
        calls: dict[str, Call] = {"reachp2p": call, "bare": caller.call}
        for concurrency in options.concurrency:
            turns: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
            for _ in range(options.rounds):
                for kind in kinds:
                    print(f"call: {concurrency} at once, {kind}", file=sys.stderr, flush=True)
                    turns[kind].append(await measure(calls[kind], concurrency, options.seconds, process.pid))
            figures[str(concurrency)] = found = {kind: summary(turns[kind]) for kind in kinds}
            if "bare" in found:
                ratio = found["reachp2p"]["calls_per_second"] / found["bare"]["calls_per_second"]
                figures[str(concurrency)]["ratio_to_bare"] = round(ratio, 3)
        failed = {
            k: v
            for k, v in node.diagnostics().items()
            if k.startswith("calls.failed") or k == "calls.retried"
        }
        figures["failed"] = failed
        nursery.cancel_scope.cancel()
    return figures


def print_profile(stats: pstats.Stats) -> None:
    """By own time and by all time, to standard error."""
    stats.sort_stats("tottime").print_stats(PROFILE_LINES)
    stats.sort_stats("cumtime").print_stats(PROFILE_LINES)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--concurrency", type=int, nargs="+", default=list(CONCURRENCIES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each of the measurements")
    parser.add_argument("--profile", choices=("caller", "callee"))
    parser.add_argument("--as-callee", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_callee is not None:
        if options.as_callee:
            profile = cProfile.Profile()
            profile.runcall(trio.run, callee)
            profile.dump_stats(options.as_callee[0])
        else:
            trio.run(callee)
        return
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "profile")
        if options.profile == "caller":
            profile = cProfile.Profile()
            figures = profile.runcall(trio.run, run, options, None)
            print_profile(pstats.Stats(profile, stream=sys.stderr))
        elif options.profile == "callee":
            figures = trio.run(run, options, path)
            print_profile(pstats.Stats(str(path), stream=sys.stderr))
        else:
            figures = trio.run(run, options, None)
    print(
        json.dumps(
            {
                "bench": "call",
                "payload_bytes": len(PAYLOAD),
                "cores": os.cpu_count(),
                "python": platform.python_version(),
                "rounds": options.rounds,
                "profiled": options.profile,
                "failed": figures.pop("failed"),
                "concurrency": figures,
                "seconds": round(time.monotonic() - begun, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
