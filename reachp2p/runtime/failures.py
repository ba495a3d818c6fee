"""What handlers raise, in the log: the first of its kind with the traceback of the handler, further ones as a count.

A handler that fails fails often: a thousand tracebacks a second would tell nothing and slow the node down. Bounds:
KINDS_MAX kinds at once, one line each REPEAT_INTERVAL; beyond them everything is one kind.
"""

from __future__ import annotations

import logging
import os
import traceback
from types import TracebackType

import outcome
import trio

import reachp2p
from reachp2p.errors import ReachError
from reachp2p.runtime.text import plain

logger = logging.getLogger("reachp2p.handlers")

REPEAT_INTERVAL = 10.0
"""Seconds in which failures of one kind are counted before the count is told."""
KINDS_MAX = 256
DETAIL_MAX = 1_000
LINE_MAX, LINES_MAX = 2_000, 500
"""Characters of a line, and lines, of a traceback in the log: an exception may carry megabytes."""
OTHERS = ("handlers",)

_OURS = (*(os.path.dirname(one.__file__ or "") + os.sep for one in (reachp2p, trio, outcome)), "<")
"""Where the frames lie that lead from a call to its handler, and tell its author nothing."""


class FailureLog:
    """The failures of one node's handlers."""

    def __init__(self, nursery: trio.Nursery) -> None:
        """In `nursery` the counts are told later."""
        self._nursery = nursery
        self._repeated: dict[tuple[str, ...], int] = {}

    def note(self, what: str, caller: str, detail: str, error: BaseException | None) -> None:
        """Handler `what` has failed for a call of node `caller`; `error` is what it raised, if it did."""
        trace = None if error is None else own_frames(error)
        kind: tuple[str, ...] = (what, type(error).__name__, _place(trace))
        if kind not in self._repeated and len(self._repeated) >= KINDS_MAX:
            kind, what = OTHERS, "other handlers"
        if kind in self._repeated:
            self._repeated[kind] += 1
            return
        self._repeated[kind] = 0
        cut = None if error is None else _cut(error, trace)
        logger.error(
            "%s failed for a call of node %s: %s%s",
            what,
            caller,
            plain(detail, DETAIL_MAX),
            "" if cut is None else f"\n{cut}",
            exc_info=None if error is None or cut is not None else (type(error), error, trace),
        )
        self._nursery.start_soon(self._count, kind, what, plain(detail, DETAIL_MAX))

    async def _count(self, kind: tuple[str, ...], what: str, detail: str) -> None:
        """Tell how often it has happened again, until it no longer does."""
        while True:
            await trio.sleep(REPEAT_INTERVAL)
            if not self._repeated[kind]:
                del self._repeated[kind]
                return
            times = "once more" if self._repeated[kind] == 1 else f"{self._repeated[kind]:,} more times"
            logger.error("%s failed %s within %g s, as before: %s", what, times, REPEAT_INTERVAL, detail)
            self._repeated[kind] = 0


def _cut(error: BaseException, trace: TracebackType | None) -> str | None:
    """The traceback with its texts cut off, if one of them is longer than a log should have; else None."""
    lines = "".join(traceback.format_exception(type(error), error, trace)).splitlines()
    if len(lines) <= LINES_MAX and all(len(line) <= LINE_MAX for line in lines):
        return None
    if len(lines) > LINES_MAX:
        half = LINES_MAX // 2
        lines = [*lines[:half], f"… {len(lines) - 2 * half:,} lines …", *lines[-half:]]
    return "\n".join(
        line if len(line) <= LINE_MAX else f"{line[:LINE_MAX]}… ({len(line):,} characters)" for line in lines
    )


def own_frames(error: BaseException) -> TracebackType | None:
    """The traceback from the handler on, without where we raised an error of ours; all of it if nothing is left."""
    frames: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        if frames or not _is_ours(trace):
            frames.append(trace)
        trace = trace.tb_next
    while frames and isinstance(error, ReachError) and _is_ours(frames[-1]):
        frames.pop()
    if not frames:
        return error.__traceback__
    own: TracebackType | None = None
    for one in reversed(frames):
        own = TracebackType(own, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return own


def _is_ours(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_OURS)


def _place(trace: TracebackType | None) -> str:
    """Where it was raised."""
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
