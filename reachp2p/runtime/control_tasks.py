"""What the command line asks about tasks: `task`, `tasks` (protocol/control.md). A task belongs to its node, so whoever
submitted it may go, and whoever knows its id may ask for it (case B32)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio

from reachp2p.core.calls.tasks import TaskView
from reachp2p.errors import CallFailed, ConfigurationInvalid
from reachp2p.runtime.calls import result_of
from reachp2p.runtime.text import plain

if TYPE_CHECKING:
    from reachp2p.runtime.node import Node

WAIT_MAX = 86_400.0
"""Seconds: longer than any task lasts."""


async def answer_task(node: Node, args: Mapping[str, Any]) -> Any:
    """Where one task is; `wait` seconds for its end first, or `cancel` it."""
    name, wait, cancel = args.get("task"), args.get("wait", 0), args.get("cancel", False)
    if not isinstance(name, str):
        raise ConfigurationInvalid("task: name it by its id")
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= WAIT_MAX:
        raise ConfigurationInvalid(f"wait must be seconds from 0 to {WAIT_MAX:,.0f}")
    if not isinstance(cancel, bool):
        raise ConfigurationInvalid("cancel must be true or false")
    task = node.task(name)
    if cancel:
        task.cancel()
    elif wait:
        with suppress(CallFailed):  # its state says how it ended, or that it goes on
            await task.result(timeout=float(wait))
    return {**task_object(task.status), **_result(task.status)}


async def answer_tasks(node: Node, args: Mapping[str, Any]) -> Any:
    """All tasks that the node knows: those that run, then those that have ended."""
    return {"tasks": [task_object(view) for view in node.tasks()]}


def task_object(view: TaskView) -> dict[str, Any]:
    """A task; `seconds` since it began (until its end), `left` until its deadline."""
    now, ended = trio.current_time(), view.ended
    until = now if ended is None else ended.at
    return {
        "task": view.id.hex(),
        "state": view.state.value,
        "agent": view.agent,
        "capability": view.capability,
        "node": None if view.node is None else view.node.hex(),
        "attempts": view.attempts,
        "seconds": round(until - view.started_at, 6),
        "left": None if ended is not None else round(max(0.0, view.deadline - now), 6),
        "code": None if ended is None else ended.code,
        "message": "" if ended is None else plain(ended.detail),
    }


def _result(view: TaskView) -> dict[str, Any]:
    """What a task has brought, if it is done."""
    if view.ended is None or view.ended.code:
        return {}
    value = result_of(view.ended.content_type, view.ended.payload)
    return {
        "value": value.hex() if isinstance(value, bytes) else value,
        "content_type": view.ended.content_type,
    }
