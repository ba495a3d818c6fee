"""Hands recorded hops to exporters, off the path of calls: a task and a queue for each, batches in a worker thread.

An exporter that is slow, raises or never returns costs hops (`exporter.dropped`, `exporter.failed`) and no call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from reachp2p._arguments import wrong
from reachp2p.core.calls.hop_rows import HopTap
from reachp2p.core.calls.hop_store import Redact
from reachp2p.core.counters import Counters
from reachp2p.core.engine import Engine
from reachp2p.exporters import Exporter
from reachp2p.runtime.text import plain

if TYPE_CHECKING:  # naming `Node` loads no event loop
    from trio import TaskStatus

logger = logging.getLogger("reachp2p.exporters")

PAYLOAD_MAX = 65_536
"""Bytes of one recorded payload: what a hop on the wire holds."""
QUEUE_MAX = 8_192
"""Hops that wait for one exporter: more than a second of the busiest node."""
BATCH_MAX = 1_024
INTERVAL = 0.2
"""Seconds between two looks at a queue that was empty."""
CLOSE_TIMEOUT = 2.0
"""Seconds for what waits when the node ends, and for the exporter's own end."""
LOG_INTERVAL = 60.0
"""Seconds for which a failure of one exporter is not logged again."""


class Recording:
    """What a node does with hops besides keeping them; `run` is a service of it."""

    def __init__(self, payload_max: int, redact: Redact | None, exporters: Sequence[Exporter]) -> None:
        self._payload_max = payload_max
        self._redact = redact
        self._exporters = exporters
        self._taps: list[HopTap] = []

    def gauges(self) -> dict[str, int]:
        """How much waits, and how much had no room."""
        return {
            "size.exporter_queues": sum(len(tap) for tap in self._taps),
            "exporter.dropped": sum(tap.dropped for tap in self._taps),
        }

    async def run(self, engine: Engine, counters: Counters, *, task_status: TaskStatus[None]) -> None:
        """Export until cancelled, then what still waits, as far as that is quick."""
        engine.hops.payload_max, engine.hops.redact = self._payload_max, self._redact
        self._taps = [engine.hops.tap(QUEUE_MAX) for _ in self._exporters]
        import trio

        async with trio.open_nursery() as nursery:
            for exporter, tap in zip(self._exporters, self._taps, strict=True):
                nursery.start_soon(_Feeder(exporter, tap, counters).run)
            task_status.started()


def check_recording(payload_max: object, redact: object, exporters: object) -> Recording:
    """Raises `ConfigurationInvalid` (1704) for what cannot be used."""
    if (
        isinstance(payload_max, bool)
        or not isinstance(payload_max, int)
        or not 0 <= payload_max <= PAYLOAD_MAX
    ):
        raise wrong("record_payloads", payload_max, f"a number of bytes from 0 to {PAYLOAD_MAX}")
    if redact is not None and not callable(redact):
        raise wrong("redact", redact, "a function of agent, capability and payload, or leave it out")
    if isinstance(exporters, str | bytes) or not isinstance(exporters, Sequence):
        raise wrong("exporters", exporters, 'a list, as in [JsonLines("hops.jsonl")]')
    for exporter in exporters:
        if not isinstance(exporter, Exporter):
            raise wrong("exporters", exporter, "objects with the methods export and close")
    return Recording(payload_max, redact, tuple(exporters))


class _Feeder:
    """One exporter and what waits for it."""

    def __init__(self, exporter: Exporter, tap: HopTap, counters: Counters) -> None:
        self._exporter = exporter
        self._tap = tap
        self._counters = counters
        import trio

        self._limiter = trio.CapacityLimiter(
            1
        )  # its calls come one after the other, also after one was given up
        self._logged_at = float("-inf")

    async def run(self) -> None:
        """Until it is cancelled, and then what is quick."""
        import trio

        try:
            while True:
                await self._drain()
                await trio.sleep(INTERVAL)
        finally:
            with trio.move_on_after(CLOSE_TIMEOUT, shield=True) as scope:
                await self._drain()
                await self._call(self._exporter.close, 0)
            if scope.cancelled_caught:
                self._counters.add("exporter.dropped_at_close", len(self._tap))
                logger.warning("an exporter did not end within %g s and is left behind", CLOSE_TIMEOUT)

    async def _drain(self) -> None:
        while hops := self._tap.take(BATCH_MAX):
            await self._call(partial(self._exporter.export, hops), len(hops))

    async def _call(self, function: Callable[[], None], count: int) -> None:
        import trio

        try:
            await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=self._limiter)
            self._counters.add("exporter.exported", count)
        except Exception as error:  # noqa: BLE001 (it is the application's, and must end nothing)
            self._counters.add("exporter.failed", max(1, count))
            now = trio.current_time()
            if now >= self._logged_at + LOG_INTERVAL:
                self._logged_at = now
                name = type(self._exporter).__name__
                logger.warning(
                    "exporter %s: %s: %s; %d hops are lost to it",
                    name,
                    type(error).__name__,
                    plain(error),
                    count,
                )
