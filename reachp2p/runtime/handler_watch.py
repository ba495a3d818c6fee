"""Which handlers ran while the event loop was held: each says when it has ended, and a walk finds those that run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import CodeType

import trio

ENDED_MAX = 64
"""Handlers remembered after their end: more than that do not end between a lag and the word about it."""
TASKS_MAX = 10_000
"""Tasks looked at in a walk, some milliseconds."""


class HandlerWatch:
    """The handlers of all nodes in one trio run."""

    def __init__(self) -> None:
        self.ended: deque[tuple[float, str, str]] = deque(maxlen=ENDED_MAX)
        """When, agent and capability: one that has held the loop has mostly ended before anybody can ask."""
        self.bodies: set[CodeType] = set()
        """The code of the coroutines that serve invocations; the names of their tasks have agent and capability."""

    def names_since(self, begun: float) -> list[str]:
        """Agent and capability of those that have ended since then, and of those that run; each once."""
        ended = [f"{agent} {capability}" for at, agent, capability in self.ended if at >= begun]
        return list(dict.fromkeys(ended + sorted(task.name for task in _tasks() if self._is_handler(task))))

    def _is_handler(self, task: trio.lowlevel.Task) -> bool:
        return getattr(task.coro, "cr_code", None) in self.bodies


_HERE: trio.lowlevel.RunVar[HandlerWatch] = trio.lowlevel.RunVar("reachp2p_handler_watch")


def watch_here() -> HandlerWatch:
    """The one of the current trio run."""
    try:
        return _HERE.get()
    except LookupError:
        watch = HandlerWatch()
        _HERE.set(watch)
        return watch


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
