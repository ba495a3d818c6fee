"""An event as a subscriber gets it (docs/protocol/events.md)."""

from __future__ import annotations

from typing import Any

from reachp2p._payload import NotJson, decode
from reachp2p.core.events import EventReceived
from reachp2p.core.ids import NodeId, short
from reachp2p.errors import RemoteProtocolError


class TopicEvent:
    """What somebody has published under a topic.

    Handlers take one (`@agent.on`), and `Node.subscribe` gives one after the other.
    """

    def __init__(self, received: EventReceived, *, missed: int = 0, gap: int | None = None) -> None:
        self._received = received
        self.missed = missed
        """How many events this subscriber has missed just before this one, because it was too slow."""
        self.gap = received.gap if gap is None else gap
        """How many events of this publisher for this node, of whatever topic, were lost on the way just before it."""

    @property
    def topic(self) -> str:
        """What it was published under."""
        return self._received.topic

    @property
    def data(self) -> Any:
        """What was published: the JSON data model, or bytes. Raises `RemoteProtocolError` (1605) if it is neither."""
        try:
            return decode(self._received.payload, self._received.content_type)
        except NotJson as error:
            raise RemoteProtocolError(
                f"the event {self.topic} of node {short(self.publisher)} cannot be read: {error}"
            ) from None

    @property
    def payload(self) -> bytes:
        """The same as it came."""
        return self._received.payload

    @property
    def content_type(self) -> str:
        """How it came."""
        return self._received.content_type

    @property
    def publisher(self) -> NodeId:
        """The node that published it; its link proves that."""
        return self._received.publisher

    @property
    def agent(self) -> str | None:
        """The agent whose handler published it, as its node says; None for a program."""
        return self._received.agent

    @property
    def sequence(self) -> int:
        """Its number among all that the publisher's present run has meant for this node, from 1."""
        return self._received.sequence

    @property
    def published_at(self) -> float:
        """Unix seconds by the publisher's clock, for people."""
        return self._received.published_at / 1000

    @property
    def session_id(self) -> bytes | None:
        """The session that it belongs to, if the publisher's call had one."""
        return self._received.session_id

    @property
    def traceparent(self) -> str | None:
        """The trace that it belongs to (W3C), if the publisher's call had one."""
        return self._received.traceparent

    def __repr__(self) -> str:
        return f"TopicEvent({self.topic!r}, from node {short(self.publisher)}, {len(self.payload)} bytes)"
