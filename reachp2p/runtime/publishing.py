"""The part of a node that publishes events and subscribes to them (docs/protocol/events.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reachp2p._arguments import check_optional_text, check_text, wrong
from reachp2p.core.commands import PublishSpec
from reachp2p.core.ids import check_pattern, check_topic
from reachp2p.errors import CallFailed, ErrorCode
from reachp2p.runtime.serving import served

if TYPE_CHECKING:  # naming `Node` loads no event loop
    from reachp2p.core.counters import Counters
    from reachp2p.runtime.driver import Driver
    from reachp2p.runtime.handlers import InvokeContext
    from reachp2p.runtime.subscriptions import Subscription, Subscriptions

TOPIC = "orders.eu.created"
PATTERN = "orders.*.created"


class Publishing:
    """What a `Node` tells others unasked, and hears from them so. For any task of the node's trio run."""

    _subscriptions: Subscriptions

    @property
    def _driver(self) -> Driver:
        raise NotImplementedError  # a node has one once it has started

    @property
    def _runtime_counters(self) -> Counters:
        raise NotImplementedError

    def _check_running(self) -> None:
        raise NotImplementedError  # raises `LocalProtocolError` before the start and after the end

    async def publish(self, topic: str, data: Any = None, *, traceparent: str | None = None) -> int:
        """Publish an event; returns to how many nodes it was sent, this one included if it subscribes.

        `data` is of the JSON data model, or bytes. Whoever subscribes to the topic now gets it at most once, best
        effort. In a handler it goes on with the session, trace and hops of the call that is served. Raises
        `CallFailed`, and nothing was sent: 1404 it is too large, 1405 it cannot be sent, 1407 the chain of calls and
        events is too long; 1707 for a topic that is not well formed.
        """
        return await self._publish(served(), topic, data, traceparent)

    async def publish_for(self, serving: InvokeContext, topic: str, data: Any = None) -> int:
        """Like `publish`, for a handler of this node (`Context.publish`): `serving` is the call that it serves."""
        return await self._publish(serving, topic, data, None)

    async def _publish(
        self, serving: InvokeContext | None, topic: str, data: Any, traceparent: str | None
    ) -> int:
        from reachp2p._payload import NotJson, encode

        self._check_running()
        check_topic(check_text("topic", topic, TOPIC))
        check_optional_text(
            "traceparent", traceparent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        )
        try:
            content_type, payload = encode(data)
        except NotJson as error:
            raise CallFailed(ErrorCode.SCHEMA_MISMATCH, f"the event cannot be sent: {error}") from None
        spec = PublishSpec(topic=topic, payload=payload, content_type=content_type, traceparent=traceparent)
        if serving is not None:
            spec = PublishSpec(
                topic=topic,
                payload=payload,
                content_type=content_type,
                agent=serving.agent,
                session_id=serving.session_id,
                traceparent=traceparent or serving.traceparent,
                hops_left=serving.hops_left,
            )
        try:
            return self._driver.engine.publish(spec, self._driver.now)
        finally:
            await self._driver.give_way()

    def subscribe(self, pattern: str, *, buffer: int | None = None) -> Subscription:
        """Events whose topics match a pattern, as an async iterator:

            async with node.subscribe("orders.*.created") as events:
                async for event in events: ...

        `*` stands for one token, `>` at the end for one or more. `buffer` events (1,024) wait for a slow one; then the
        oldest is dropped, and the next says how many were `missed`. Other nodes hear of a new subscription within
        about a second; what they publish before that does not arrive. Raises 1707 for a pattern that is not well
        formed, and when the block is entered 1704 if this node subscribes to too many.
        """
        from reachp2p.runtime.subscriptions import BUFFER, BUFFER_MAX, Subscription

        check_pattern(check_text("pattern", pattern, PATTERN))
        size = BUFFER if buffer is None else buffer
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= BUFFER_MAX:
            raise wrong("buffer", buffer, f"a whole number of events from 1 to {BUFFER_MAX:,}")

        def begin(subscription: Subscription) -> int:
            self._check_running()
            number = self._driver.engine.subscribe(pattern, self._driver.now)
            self._subscriptions.add(number, subscription)
            self._driver.wake()
            return number

        def end(number: int) -> None:
            self._subscriptions.remove(number)
            self._driver.engine.unsubscribe(number, self._driver.now)
            self._driver.wake()

        return Subscription(pattern, size, begin=begin, end=end, counters=self._runtime_counters)
