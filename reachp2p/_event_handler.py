"""A function that handles events: read once, when it is decorated, so that what cannot be served is an error there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from reachp2p._signature import read_signature
from reachp2p.context import CallingNode, Context, NoThreadFree
from reachp2p.core.commands import InvokeResult
from reachp2p.errors import ErrorCode, LocalProtocolError
from reachp2p.topic_event import TopicEvent

if TYPE_CHECKING:
    from reachp2p.runtime.handlers import InvokeContext


class EventHandler:
    """Takes a `TopicEvent`, and a `Context` if it asks for one. What it returns is ignored."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        """Raises `LocalProtocolError` that says what to write."""
        signature = read_signature(function, Context)
        wants = signature.parameters
        if signature.streams_results or signature.stream or signature.payload or len(wants) != 1:
            raise LocalProtocolError(
                "it handles events: write one parameter for them, `event: TopicEvent`, and a Context if you need it"
            )
        if wants[0].type not in (Any, TopicEvent):
            raise LocalProtocolError(
                f"parameter {wants[0].name!r} receives the event: annotate it as TopicEvent, and read event.data"
            )
        self._name = name
        self._function = function
        self._event = wants[0].name
        self._context = signature.context
        self._is_async = signature.is_async

    async def serve(
        self, node: CallingNode, invocation: InvokeContext, payload: bytes, content_type: str
    ) -> InvokeResult:
        """Handle one event on this node. Raises whatever the function raises."""
        assert invocation.event is not None, "the engine invokes it with an event"
        arguments: dict[str, Any] = {
            self._event: TopicEvent(invocation.event, missed=invocation.event.missed)
        }
        if self._context is not None:
            arguments[self._context] = Context(node, invocation, content_type)
        if self._is_async:
            await self._function(**arguments)
        else:
            try:
                await node.run_in_thread(self._name, partial(self._function, **arguments))
            except NoThreadFree as error:
                return InvokeResult(code=int(ErrorCode.REFUSED_FULL), detail=str(error), executed=False)
        return InvokeResult()
