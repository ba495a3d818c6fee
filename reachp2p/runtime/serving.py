"""What the current task's calls belong to without being told: the call that it serves, or a session (contextvars).

Trio copies the context of a task into the tasks that it starts and into worker threads, and back. What a handler has
started and what outlives it begins chains of its own: the call that was served is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from reachp2p.runtime.handlers import InvokeContext


class Serving(msgspec.Struct, gc=False):
    """An invocation that runs, or has run."""

    invocation: InvokeContext
    is_over: bool = False


_SESSION: ContextVar[bytes | None] = ContextVar("reachp2p_session", default=None)
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


@contextmanager
def in_session(session: bytes) -> Iterator[None]:
    """What is called inside belongs to this session, unless it is called on behalf of a call that is being served."""
    before = _SESSION.set(session)
    try:
        yield
    finally:
        _SESSION.reset(before)


def session_here() -> bytes | None:
    """The session that the current task's calls belong to, or None."""
    return _SESSION.get()
