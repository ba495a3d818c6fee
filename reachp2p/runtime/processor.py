"""What a driver measures for the load that a node tells (docs/protocol/routing.md): how busy the processors are with
this process, and how many handlers outlive their calls.

An event loop is one thread, so it is at its limit when it uses one processor, however many there are; handlers in
threads and other processes of native code may use them all. The busier of the two counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import trio

from reachp2p.core.engine import Engine

INTERVAL = 2.0
"""Seconds of which the mean is told."""


class Processor:
    """Measures the thread that makes it, and its process."""

    def __init__(self) -> None:
        self._count = (
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        )
        self._wall, self._thread, self._process = _times()

    def percent(self) -> int:
        """Of what may be used, since it was asked last; at most 100. 0 if no time has passed."""
        wall, thread, process = _times()
        seconds = wall - self._wall
        part = 0.0
        if seconds > 0:
            part = max((thread - self._thread) / seconds, (process - self._process) / seconds / self._count)
        self._wall, self._thread, self._process = wall, thread, process
        return min(100, round(100 * part))


async def tell_engine(engine: Engine, overdue: Callable[[], int]) -> None:
    """Measure the thread of the event loop for ever; `overdue` counts handlers that go on after their calls."""
    processor = Processor()
    while True:
        await trio.sleep(INTERVAL)
        engine.set_cpu(processor.percent())
        engine.set_overdue(overdue())


def _times() -> tuple[float, float, float]:
    return time.monotonic(), time.thread_time(), time.process_time()
