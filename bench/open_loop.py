"""Calls at a given rate: `python bench/open_loop.py` prints one JSON object.

1,000 callers in one process, each of which wants to call five times a second, and a callee in another: echo of 300
bytes. A call's time begins when it was meant to begin, so that a queue before it counts (no coordinated omission).
Demanded: nothing lost, and 99 of 100 within 15 ms.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import os
import platform
import random
import sys
import time
from typing import Any

import trio
from call import CAPABILITY, PAYLOAD, cpu_of, other_process

from reachp2p import Node
from reachp2p.errors import CallFailed

P99_MAX_MS = 15.0
WARM_UP = 2.0
"""Seconds of calls that do not count."""
TIMEOUT = 5.0


class Clock:
    """Wakes the callers: one sleep for all that are due, since each `trio.sleep` is a cancellation of 50 µs."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, trio.lowlevel.Task]] = []
        self._count = 0

    async def until(self, moment: float) -> None:
        """Wait for a moment of the trio run; at once if it has passed."""
        if moment <= trio.current_time():
            return
        self._count += 1
        heapq.heappush(self._waiting, (moment, self._count, trio.lowlevel.current_task()))
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)

    async def run(self) -> None:
        """Wake whoever is due, until cancelled."""
        while True:
            now = trio.current_time()
            while self._waiting and self._waiting[0][0] <= now:
                trio.lowlevel.reschedule(heapq.heappop(self._waiting)[2])
            await trio.sleep_until(self._waiting[0][0] if self._waiting else now + 0.01)


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All callers at once."""
    took: list[float] = []
    failed: dict[str, int] = {}
    async with (
        other_process(None) as (process, told),
        Node(seeds=[told["seed"]]) as node,
        trio.open_nursery() as nursery,
    ):
        await node.wait_for(CAPABILITY)
        chance = random.Random(options.seed)
        interval = 1 / options.rate
        clock = Clock()
        counts_from = trio.current_time() + 1 + WARM_UP
        ends_at = counts_from + options.seconds

        async def caller(first: float) -> None:
            meant = first
            while meant < ends_at:
                await clock.until(meant)
                try:
                    await node.call(CAPABILITY, PAYLOAD, timeout=TIMEOUT)
                except CallFailed as failure:
                    failed[failure.code.name] = failed.get(failure.code.name, 0) + 1
                if meant >= counts_from:
                    took.append(trio.current_time() - meant)
                meant += interval

        nursery.start_soon(clock.run)
        async with trio.open_nursery() as callers:
            for _ in range(options.callers):
                callers.start_soon(caller, counts_from - WARM_UP + interval * chance.random())
            await trio.sleep_until(counts_from)
            cpu, cpu_other = time.process_time(), cpu_of(process.pid)
        spent = (time.process_time() - cpu, cpu_of(process.pid) - cpu_other)
        nursery.cancel_scope.cancel()
    took.sort()

    def quantile_ms(q: float) -> float:
        return round(took[max(0, math.ceil(q * len(took)) - 1)] * 1e3, 2)

    return {
        "ok": not failed and quantile_ms(0.99) <= P99_MAX_MS,
        "calls": len(took),
        "calls_meant_per_second": round(len(took) / options.seconds),
        "failed": failed,
        "p50_ms": quantile_ms(0.5),
        "p99_ms": quantile_ms(0.99),
        "slowest_ms": quantile_ms(1.0),
        "cpu_us_per_call_caller": round(spent[0] / len(took) * 1e6, 1),
        "cpu_us_per_call_callee": round(spent[1] / len(took) * 1e6, 1),
    }


def main() -> None:
    """Measure, print, and tell by the exit code whether anything was lost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--callers", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=5.0, help="calls a second of each caller")
    parser.add_argument("--seconds", type=float, default=10.0, help="that count, after two that do not")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which callers begin")
    options = parser.parse_args()
    if options.callers < 1 or options.rate <= 0 or options.seconds < 1:
        parser.error("--callers is at least 1, --rate above 0, --seconds at least 1")
    begun = time.monotonic()
    figures = trio.run(measure, options)
    print(
        json.dumps(
            {
                "bench": "open_loop",
                "callers": options.callers,
                "rate": options.rate,
                **figures,
                "cores": os.cpu_count(),
                "load": round(os.getloadavg()[0], 1),
                "python": platform.python_version(),
                "seconds": round(time.monotonic() - begun, 1),
            }
        )
    )
    sys.exit(1 if figures["failed"] else 0)


if __name__ == "__main__":
    main()
