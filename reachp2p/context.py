"""What a handler may know about the call it serves, and how it calls others on behalf of it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack

import trio

from reachp2p._arguments import check_optional_seconds
from reachp2p.core.ids import NodeId
from reachp2p.errors import LocalProtocolError

if TYPE_CHECKING:
    from reachp2p.runtime.call_stream import CallStream
    from reachp2p.runtime.handlers import InvokeContext
    from reachp2p.runtime.preferences import Preferences

T = TypeVar("T")


class NoThreadFree(Exception):
    """No worker thread is free for a plain handler, which has not begun. Fault: the handlers that keep them all."""


class CallingNode(Protocol):
    """What a handler uses of the node that runs it."""

    async def run_in_thread(self, what: str, function: Callable[[], Any]) -> Any:
        """Run a plain function in one of the node's worker threads. Raises `NoThreadFree`."""

    async def call_for(
        self,
        serving: InvokeContext,
        capability: str | None = None,
        params: Any = None,
        *,
        agent: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the whole call's, sent along; not a scope of ours)
        connect_timeout: float | None = None,
        read_timeout: float | None = None,
        tags: Mapping[str, str] | None = None,
        policy: str | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
        **preferences: Unpack[Preferences],
    ) -> Any:
        """Call an agent on behalf of the call that is being served: within its deadline, and on its path."""

    async def publish_for(self, serving: InvokeContext, topic: str, data: Any = None) -> int:
        """Publish an event on behalf of the call that is being served."""

    def stream_for(
        self,
        serving: InvokeContext,
        capability: str | None = None,
        params: Any = None,
        *,
        agent: str | None = None,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        connect_timeout: float | None = None,
        tags: Mapping[str, str] | None = None,
        policy: str | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
        **preferences: Unpack[Preferences],
    ) -> CallStream:
        """The same for a call that is a stream."""


class Context:
    """The call that a handler serves. Ask for it by annotating a parameter: `context: Context`."""

    def __init__(self, node: CallingNode, invocation: InvokeContext, content_type: str) -> None:
        self._node = node
        self._invocation = invocation
        self._monotonic_deadline = time.monotonic() + invocation.deadline - trio.current_time()
        self.content_type = content_type
        """How the payload came."""

    @property
    def agent(self) -> str:
        """The agent that was called."""
        return self._invocation.agent

    @property
    def capability(self) -> str:
        """The capability that was called."""
        return self._invocation.capability

    @property
    def caller(self) -> NodeId:
        """The node that calls; links prove it."""
        return self._invocation.caller

    @property
    def message_id(self) -> bytes:
        """Names this call (16 bytes), the same in every attempt."""
        return self._invocation.message_id

    @property
    def session_id(self) -> bytes | None:
        """The session that this call is part of (16 bytes): `reachp2p trace` shows it. Its caller's, else its trace."""
        return self._invocation.session_id

    @property
    def idempotency_key(self) -> str | None:
        """The caller's name for the effect wanted, the same in every attempt."""
        return self._invocation.idempotency_key

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context of this request, to hand on to other systems; calls to agents carry it on anyway."""
        return self._invocation.traceparent

    @property
    def attempt(self) -> int:
        """1 for the first instance asked, 2 for the one asked after it was lost or refused."""
        return self._invocation.attempt

    @property
    def fencing_token(self) -> int | None:
        """Of an exclusive agent: the number that proves that this node owns it, higher for each later owner.

        Hand it to what the handler writes to, and let that refuse a token lower than one it has seen. None if the agent
        is not exclusive.
        """
        return self._invocation.fencing_token

    @property
    def deadline(self) -> float:
        """When the caller stops waiting, on this node's steady clock (`trio.current_time`)."""
        return self._invocation.deadline

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, negative when it has passed; also right in a worker thread."""
        try:
            return self.deadline - trio.current_time()
        except RuntimeError:  # a worker thread has no trio clock
            return self._monotonic_deadline - time.monotonic()

    async def call(
        self,
        capability: str | None = None,
        params: Any = None,
        *,
        agent: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the whole call's, sent along; not a scope of ours)
        connect_timeout: float | None = None,
        read_timeout: float | None = None,
        tags: Mapping[str, str] | None = None,
        policy: str | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
        **preferences: Unpack[Preferences],
    ) -> Any:
        """Call another agent through this node, within what is left of this call's deadline.

        The call goes on the path of this one: it is refused if it comes back to an agent on the way (1408), or if the
        chain gets too long (1407). Raises `CallFailed` like `Node.call`.
        """
        check_optional_seconds("timeout", timeout)
        return await self._node.call_for(
            self._invocation,
            capability,
            params,
            agent=agent,
            timeout=timeout,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            tags=tags,
            policy=policy,
            key=key,
            idempotency_key=idempotency_key,
            **preferences,
        )

    def stream(self, capability: str | None = None, params: Any = None, **options: Any) -> CallStream:
        """Call an agent whose results or parameters are a stream, as part of this call: `Node.stream` and its options,
        within the deadline and on the path of this call."""
        return self._node.stream_for(self._invocation, capability, params, **options)

    async def publish(self, topic: str, data: Any = None) -> int:
        """Publish an event through this node, as part of this call's session and trace; to how many nodes it was sent.

        Its chain is that of this call: events that answer events end after ten hops (1407).
        """
        return await self._node.publish_for(self._invocation, topic, data)

    def publish_blocking(self, topic: str, data: Any = None) -> int:
        """`publish` for a handler that is a plain function and so runs in a worker thread. Raises 1704 in others."""
        return _from_thread("publish", partial(self.publish, topic, data))

    def call_blocking(self, capability: str | None = None, params: Any = None, **options: Any) -> Any:
        """`call` for a handler that is a plain function and so runs in a worker thread. Raises 1704 in others."""
        return _from_thread("call", partial(self.call, capability, params, **options))


def _from_thread(name: str, function: Callable[[], Awaitable[T]]) -> T:
    if trio.lowlevel.in_trio_run():
        raise LocalProtocolError(
            f"{name}_blocking waits in a worker thread, where handlers run that are plain functions; in an `async def` "
            f"write `await context.{name}(...)`"
        )
    return trio.from_thread.run(function)
