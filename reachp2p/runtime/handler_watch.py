"""Which handlers ran while the event loop was held: a look at each task that ends, and a walk when that is asked."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator

import trio

from reachp2p.runtime.handlers import Handlers

ENDED_MAX = 64
"""Handlers remembered after their end: more than that do not end between a lag and the word about it."""
TASKS_MAX = 10_000
"""Tasks looked at in a walk, some milliseconds."""


class HandlerWatch(trio.abc.Instrument):
    """The handlers of all nodes in this trio run, watched for as long as `owner` is there."""

    def __init__(self, owner: object) -> None:
        self._owner = weakref.ref(owner)
        self._ended: deque[tuple[float, str]] = deque(maxlen=ENDED_MAX)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        """Called by trio. One that has held the loop has mostly ended before anybody can ask."""
        if self._owner() is None:
            trio.lowlevel.remove_instrument(self)
        elif _is_handler(task):
            self._ended.append((trio.current_time(), task.name))

    def names_since(self, begun: float) -> list[str]:
        """Agent and capability of those that have ended since then, and of those that run; each once."""
        ended = [name for at, name in self._ended if at >= begun]
        return list(dict.fromkeys(ended + sorted(task.name for task in _tasks() if _is_handler(task))))


def _is_handler(task: trio.lowlevel.Task) -> bool:
    """Whether it serves an invocation; its name then has the agent and the capability."""
    return getattr(task.coro, "cr_code", None) is Handlers._run.__code__


def _tasks() -> Iterator[trio.lowlevel.Task]:
    """The tasks of this trio run."""
    root = trio.lowlevel.current_root_task()
    waiting = [] if root is None else [root]
    count = 0
    while waiting and count < TASKS_MAX:
        task = waiting.pop()
        count += 1
        yield task
        for nursery in task.child_nurseries:
            waiting.extend(nursery.child_tasks)
