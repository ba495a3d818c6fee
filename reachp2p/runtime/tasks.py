"""Tasks as their program sees them: a call that goes on by itself, whoever watches (docs/protocol/calls.md; B32)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from reachp2p._arguments import check_optional_seconds
from reachp2p.core.calls.tasks import TaskView
from reachp2p.core.ids import MESSAGE_ID_BYTES
from reachp2p.errors import CallFailed, ErrorCode

if TYPE_CHECKING:
    from reachp2p.runtime.calls import Calls
    from reachp2p.runtime.driver import Driver


class StillRunning(CallFailed):
    """The call has outlasted its synchronous limit, or a wait its time; it goes on as `task` (1412).

    Nothing has failed: ask `task` later, or cancel it. Fault: nobody.
    """

    def __init__(self, task: Task, message: str) -> None:
        super().__init__(ErrorCode.STILL_RUNNING, message, call=task.id)
        self.task = task


class Task:
    """A call that goes on by itself. Any number of tasks may watch it, come and go; its end is kept for a while."""

    def __init__(self, calls: Calls, driver: Driver, call: bytes) -> None:
        self._calls = calls
        self._driver = driver
        self._call = call

    @property
    def id(self) -> str:
        """Names it at this node: 32 hexadecimal digits, for `Node.task`."""
        return self._call.hex()

    @property
    def status(self) -> TaskView:
        """Where it is now. Raises `CallFailed` (1502) if it has ended so long ago that it is forgotten."""
        view = self._driver.engine.task(self._call)
        if view is None:
            raise unknown(self.id)
        return view

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109 (ends the wait, not the task)
        """Wait for its end and return its result, or raise the `CallFailed` with which it has ended.

        After `timeout` seconds: `StillRunning`, and it goes on. Cancelling the wait does not cancel the task.
        """
        check_optional_seconds("timeout", timeout)
        if timeout is None:
            return await self._calls.end_of_task(self._driver, self._call)
        with trio.move_on_after(max(0.0, timeout)):
            return await self._calls.end_of_task(self._driver, self._call)
        raise StillRunning(self, f"task {self.id} goes on after {timeout:g} s")

    def cancel(self) -> bool:
        """Stop it: its handler is cancelled and it ends with 1402. False if it has ended before."""
        view = self.status
        if view.ended is not None:
            return False
        self._driver.engine.cancel_call(self._call, trio.current_time())
        self._driver.wake()
        return True

    def __repr__(self) -> str:
        return f"Task({self.id!r})"


def unknown(task: str) -> CallFailed:
    """What is raised about a task that is not known."""
    return CallFailed(
        ErrorCode.UNKNOWN_TASK, f"this node knows no task {task!r}, or has forgotten how it ended"
    )


def call_of(task: str) -> bytes | None:
    """The id of the call that a task is, from its text; None if it is none."""
    try:
        call = bytes.fromhex(task)
    except ValueError:
        return None
    return call if len(call) == MESSAGE_ID_BYTES else None
