"""Worker threads for handlers that are plain functions, and what happens when none is free.

A thread cannot be cancelled: when its call ends first, the thread is abandoned and goes on, and keeps its place until
the function returns. So a handler that never returns costs a place for ever; when all places are taken, calls are
refused in bounded time instead of waiting for their deadline, and the log says what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

import trio

from reachp2p.context import NoThreadFree
from reachp2p.core.counters import Counters

logger = logging.getLogger("reachp2p.handlers")

THREADS_MAX = 20
"""Worker threads of one node."""
WAIT_MAX = 2.0
"""Seconds that a call waits for a thread, and at most half of its time: another instance can be asked then."""

T = TypeVar("T")


class Threads:
    """The threads of one node. Bound: `THREADS_MAX`; a call that finds none in time raises `NoThreadFree`."""

    def __init__(self, counters: Counters, count: int = THREADS_MAX) -> None:
        self.count = count
        self._counters = counters
        self._limiter = trio.CapacityLimiter(count)
        self._abandoned = 0
        self._has_told_abandoned = False
        self._has_told_full = False

    async def run(self, what: str, function: Callable[[], T]) -> T:
        """Run a plain function in a thread; `what` is its name in the log."""
        place = _Place(self)
        try:
            return await trio.to_thread.run_sync(
                function,
                limiter=place,  # type: ignore[arg-type]  # trio takes any object with these two methods
                abandon_on_cancel=True,
            )
        except trio.Cancelled:
            if place.is_held:
                self._abandon(place, what)
            raise

    def gauges(self) -> dict[str, int]:
        """For diagnostics: threads in use, those among them whose call has ended, and calls that wait for one."""
        return {
            "size.threads": self._limiter.borrowed_tokens,
            "size.threads_abandoned": self._abandoned,
            "size.threads_awaited": self._limiter.statistics().tasks_waiting,
        }

    async def take(self, borrower: object) -> None:
        """Get a place, or raise `NoThreadFree`."""
        try:
            self._limiter.acquire_on_behalf_of_nowait(borrower)
        except trio.WouldBlock:
            left = trio.current_effective_deadline() - trio.current_time()
            if self._abandoned < self.count:  # else nobody knows of any that would come back
                with trio.move_on_after(max(0.0, min(WAIT_MAX, left / 2))):
                    await self._limiter.acquire_on_behalf_of(borrower)
                    return
            await trio.lowlevel.checkpoint_if_cancelled()
            self._refuse()

    def give_back(self, borrower: object, *, was_abandoned: bool) -> None:
        """A thread has ended."""
        self._limiter.release_on_behalf_of(borrower)
        self._abandoned -= was_abandoned

    def _abandon(self, place: _Place, what: str) -> None:
        place.is_abandoned = True
        self._abandoned += 1
        self._counters.add("threads.abandoned")
        if not self._has_told_abandoned:
            self._has_told_abandoned = True
            logger.info(
                "%s goes on in its thread although its call has ended, and holds one of %d threads until it returns",
                what,
                self.count,
            )

    def _refuse(self) -> None:
        self._counters.add("threads.refused")
        ended = f", {self._abandoned} by handlers whose calls have ended" if self._abandoned else ""
        text = f"all {self.count} threads for plain handlers of this node are in use{ended}"
        if not self._has_told_full:
            self._has_told_full = True
            logger.warning(
                "%s: further calls are refused (1406). A plain handler cannot be cancelled: give what it waits for a "
                "timeout, write it with `async def`, or lower its `concurrency`",
                text,
            )
        raise NoThreadFree(text)


class _Place:
    """One call's place, as trio wants it; trio gives it back when the thread has really ended."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self.is_held = False
        self.is_abandoned = False

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await self._threads.take(borrower)
        self.is_held = True

    def release_on_behalf_of(self, borrower: object) -> None:
        self.is_held = False
        self._threads.give_back(borrower, was_abandoned=self.is_abandoned)
