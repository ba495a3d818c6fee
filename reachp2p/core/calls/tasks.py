"""Tasks: calls that have outlasted their synchronous limit, or that nobody waits for from the start (case B32).

A task is a pending call like any other; what is special is that its end is kept for a while, so that whoever asks
later still gets it, and that any number may watch it or none. All of it is in memory: tasks end with their node.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from reachp2p.core.calls.call import Call, CallState
from reachp2p.core.counters import Counters
from reachp2p.core.events import CallEnded
from reachp2p.core.ids import NodeId
from reachp2p.core.timers import Timers
from reachp2p.errors import ErrorCode

RESULTS_BYTES_MAX = 67_108_864
"""Payloads of results that are kept: 64 of the largest. Beyond it the oldest is forgotten."""


class TaskState(Enum):
    """Where a task is."""

    WAITING = "waiting"
    """It has not been handed to an instance yet."""
    RUNNING = "running"
    """An instance has it."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A task at one moment. Times are the engine's monotonic seconds; `ended` has code, result and words of its end."""

    id: bytes
    state: TaskState
    agent: str
    capability: str
    node: NodeId | None
    """The node that is asked, or that has answered."""
    attempts: int
    started_at: float
    deadline: float
    ended: CallEnded | None = None


class TasksDue(msgspec.Struct, frozen=True):
    """The oldest result has been kept long enough."""


class _Kept(msgspec.Struct, gc=False):
    capability: str
    started_at: float
    deadline: float
    ended: CallEnded


class Tasks:
    """Bounds: `tasks_max` in all, running and ended; ended ones make room first (`tasks.evicted`), see `begin`."""

    def __init__(
        self,
        tasks_max: int,
        keep: float,
        call: Callable[[bytes], Call | None],
        timers: Timers,
        counters: Counters,
    ) -> None:
        """`keep`: seconds for which an end is kept. `call` gives a pending call by its id."""
        self._max = tasks_max
        self._keep = keep
        self._call = call
        self._timers = timers
        self._counters = counters
        self._running: dict[bytes, None] = {}
        self._ended: dict[bytes, _Kept] = {}
        """In the order of their ends."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._running) + len(self._ended)

    @property
    def result_bytes(self) -> int:
        """Bytes of results that are kept."""
        return self._bytes

    def begin(self, call: bytes) -> bool:
        """A pending call is a task from now on; false, and nothing has changed, if too many tasks run."""
        if len(self._running) >= self._max:
            self._counters.add("tasks.refused")
            return False
        self._running[call] = None
        self._counters.add("tasks.begun")
        self._make_room()
        return True

    def on_ended(self, call: Call, ended: CallEnded, now: float) -> None:
        """A call has ended; if it was a task, keep how."""
        if self._running.pop(call.id, _NOT) is _NOT:
            return
        self._ended[call.id] = _Kept(call.capability, call.started_at, call.deadline, ended)
        self._bytes += len(ended.payload)
        self._counters.add("tasks.done" if ended.code == 0 else f"tasks.ended.{ended.code}")
        self._make_room()
        if self._timers.due_at(TasksDue()) is None:
            self._timers.set(TasksDue(), now + self._keep)

    def on_due(self, now: float) -> None:
        """Forget the ends that have been kept long enough."""
        while self._ended:
            oldest = next(iter(self._ended.values()))
            if now < oldest.ended.at + self._keep:
                self._timers.set(TasksDue(), oldest.ended.at + self._keep)
                return
            self._forget_oldest()
            self._counters.add("tasks.expired")

    def get(self, task: bytes) -> TaskView | None:
        """A task, or None if it is unknown or forgotten."""
        kept = self._ended.get(task)
        if kept is not None:
            ended = kept.ended
            state = (
                TaskState.DONE
                if ended.code == 0
                else TaskState.CANCELLED
                if ended.code == ErrorCode.CANCELLED
                else TaskState.FAILED
            )
            return TaskView(
                id=task,
                state=state,
                agent=ended.agent or "",
                capability=kept.capability,
                node=ended.node,
                attempts=ended.attempts,
                started_at=kept.started_at,
                deadline=kept.deadline,
                ended=ended,
            )
        call = self._call(task) if task in self._running else None
        if call is None:
            return None
        return TaskView(
            id=task,
            state=TaskState.WAITING if call.state is CallState.LINKING else TaskState.RUNNING,
            agent=call.agent,
            capability=call.capability,
            node=call.node,
            attempts=call.attempts,
            started_at=call.started_at,
            deadline=call.deadline,
        )

    def all(self) -> list[TaskView]:
        """All tasks: those that run, then those that have ended, each in order."""
        views = [self.get(task) for task in (*self._running, *self._ended)]
        return [view for view in views if view is not None]

    def _make_room(self) -> None:
        while self._ended and (len(self) > self._max or self._bytes > RESULTS_BYTES_MAX):
            self._forget_oldest()
            self._counters.add("tasks.evicted")

    def _forget_oldest(self) -> None:
        kept = self._ended.pop(next(iter(self._ended)))
        self._bytes -= len(kept.ended.payload)


_NOT = object()
