"""Writes the journal of one demo process: what its own node sees, as its own node sees it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from reachp2p import Agent
from reachp2p.core.commands import AgentSpec
from reachp2p.core.events import CallEnded, MemberChanged
from reachp2p_node.demo.journal import Called, Journal, Member, Routable, Served, Serving, Started

if TYPE_CHECKING:
    from reachp2p.runtime.node import Node

LOOK_INTERVAL = 0.02
"""Seconds between two looks at the node's routing table, which has no event of its own."""
WATCHED = ("text.summarize", "text.keywords", "text.quality", "text.review")


class Recorder:
    """Journals one node."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._routes: dict[str, list[tuple[str, int]]] = {}

    async def run(self, node: Node, process: int) -> None:
        """Write until the node ends."""
        events = node.events(with_calls=True)
        life = node.life
        assert life is not None, "the node has started"
        now = time.monotonic()
        self._journal.write(
            Started(
                at=now,
                name=node.name,
                node=node.id.hex(),
                address=str(node.address),
                epoch=life.epoch,
                process=process,
            )
        )
        for member in node.members():
            if not member.is_self:
                self._journal.write(
                    Member(
                        at=now,
                        name=member.name,
                        epoch=member.life.epoch,
                        incarnation=member.incarnation,
                        state=member.state.value,
                        reason="known at the start",
                    )
                )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_routes, node)
            async for event in events:
                self._write_event(event, node)
            nursery.cancel_scope.cancel()

    def _write_event(self, event: Any, node: Node) -> None:
        at = event.at + time.monotonic() - trio.current_time()
        match event:
            case MemberChanged():
                self._journal.write(
                    Member(
                        at=at,
                        name=event.name,
                        epoch=event.life.epoch,
                        incarnation=event.incarnation,
                        state=None if event.new is None else event.new.value,
                        reason=event.reason,
                    )
                )
                self._look(node)
            case CallEnded():
                self._journal.write(
                    Called(
                        at=at,
                        agent=event.agent or "?",
                        code=event.code,
                        attempts=event.attempts,
                        detail=event.detail[:200],
                    )
                )

    async def _watch_routes(self, node: Node) -> None:
        while True:
            self._look(node)
            await trio.sleep(LOOK_INTERVAL)

    def _look(self, node: Node) -> None:
        """Write down whom the node's own table offers now, if that has changed."""
        if not node.is_running:
            return
        members = {member.node: (member.name, member.life.epoch) for member in node.members()}
        for capability in WATCHED:
            instances = sorted(members[one] for one in node.engine.routable(capability) if one in members)
            if instances != self._routes.get(capability, []):
                self._routes[capability] = instances
                self._journal.write(Routable(at=time.monotonic(), capability=capability, instances=instances))


class Recorded(Agent):
    """An agent whose handlers are journalled as they begin and end: what another one offers, under its name."""

    def __init__(self, agent: Agent, journal: Journal) -> None:
        super().__init__(agent.id, version=agent.version)
        self._agent = agent
        self._journal = journal

    @property
    def spec(self) -> AgentSpec:
        """The agent's own."""
        return self._agent.spec

    def bind(self, node: Any) -> dict[str, Callable[..., Awaitable[Any]]]:
        """The agent's handlers, with a journal around each."""
        return {
            capability: partial(self._serve, capability, handler)
            for capability, handler in self._agent.bind(node).items()
        }

    async def _serve(
        self, capability: str, handler: Callable[..., Awaitable[Any]], context: Any, *payload: Any
    ) -> Any:
        call = context.message_id.hex()
        self._journal.write(Serving(at=time.monotonic(), call=call, capability=capability))
        try:
            return await handler(context, *payload)
        finally:
            self._journal.write(Served(at=time.monotonic(), call=call))
