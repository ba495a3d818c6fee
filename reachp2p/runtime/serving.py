"""The call that the current task serves, so that what it calls goes on its path without being told (contextvars).

Trio copies the context of a task into the tasks that it starts and into worker threads, and back. What a handler has
started and what outlives it begins chains of its own: the call that was served is over.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from reachp2p.runtime.handlers import InvokeContext


class Serving(msgspec.Struct, gc=False):
    """An invocation that runs, or has run."""

    invocation: InvokeContext
    is_over: bool = False


_SERVING: ContextVar[Serving | None] = ContextVar("reachp2p_serving", default=None)


def begin(invocation: InvokeContext) -> Serving:
    """The current task serves this invocation, and whatever it starts does. Set `is_over` when it has ended."""
    serving = Serving(invocation)
    _SERVING.set(serving)
    return serving


def served() -> InvokeContext | None:
    """The invocation that the current task or thread serves, or None."""
    serving = _SERVING.get()
    return None if serving is None or serving.is_over else serving.invocation
