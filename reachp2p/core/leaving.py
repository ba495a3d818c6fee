"""How a node leaves: it steps off the ring, serves until that has spread, drains, says LEFT (docs/protocol/lives.md).

Whoever calls it has a link to it, and hears over that link at once that its agents are withdrawn; the others hear by
gossip. Until then it serves as before, so that hardly anybody is refused; who is refused has lost nothing and asks
another instance.
"""

from __future__ import annotations

import msgspec

from reachp2p.core.hearing import Hearing
from reachp2p.core.membership.table import PRESENT
from reachp2p.core.parts import Parts
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import AgentRecord
from reachp2p.core.wire.messages import HeadUpdate, RecordUpdate

LEFT_TOLD = 8
"""Members that are told of our leaving directly, besides those on our links; gossip does the rest."""
SPREAD_ROUNDS = 3
"""Gossip intervals until withdrawals have reached most: each round four times as many know it, 64 after three."""
SPREAD_LINKED = 0.05
"""Seconds for it where everybody is linked with us: requests on their way arrive within a round trip."""
SPREAD_FRACTION = 0.25
"""Part of the time for leaving that it may take."""


class Withdrawn(msgspec.Struct, frozen=True):
    """Others have heard by now that this node offers nothing any more."""


class DrainEnds(msgspec.Struct, frozen=True):
    """What still runs has had its time: leave without it."""


class LeftSpread(msgspec.Struct, frozen=True):
    """LEFT has had its time to spread: close everything."""


class Leaving:
    """The way out of one node, once."""

    def __init__(self, parts: Parts, hearing: Hearing) -> None:
        self._parts = parts
        self._hearing = hearing

    def begin(self, now: float, timeout: float) -> None:
        """Withdraw all agents and tell everybody; all of it takes at most `timeout` seconds, LEFT apart."""
        parts = self._parts
        parts.callee.serve_on()
        withdrawn: list[Checked[AgentRecord]] = []
        for agent in list(parts.agents.specs):
            is_at_work = parts.callee.is_serving(agent) or parts.event_handlers.is_serving(agent)
            if agent in parts.own_claims.tokens and is_at_work:
                continue  # nobody is to own it before its handlers have ended; LEFT frees it
            record = parts.agents.withdraw(agent, now)
            if record is not None:
                self._hearing.own_record(record, now)
                withdrawn.append(record)
        parts.timers.set(DrainEnds(), now + timeout)
        members = [member.node for member in parts.table if member.state in PRESENT]
        parts.event_handlers.drain()
        if not withdrawn or not members:
            parts.callee.drain(now)
            return
        linked = dict.fromkeys(parts.links.linked())
        for node in linked:
            link = parts.links.link_to(node)
            for record in withdrawn:
                if link is not None:
                    parts.links.send(link, RecordUpdate(record=record.data))
        spread = SPREAD_ROUNDS * parts.settings.protocol.gossip_interval
        if all(node in linked for node in members):
            spread = min(spread, SPREAD_LINKED)
        parts.timers.set(Withdrawn(), now + min(spread, timeout * SPREAD_FRACTION))

    def on_withdrawn(self, now: float) -> None:
        """Handlers that still run may call others; new calls end once these have ended."""
        self._parts.callee.drain(now)

    def look(self, now: float) -> None:
        """Say LEFT once there is nothing left to do."""
        parts = self._parts
        if parts.own.has_left or parts.callee.unfinished or parts.event_handlers.running:
            return
        if parts.timers.due_at(Withdrawn()) is not None:
            return
        parts.caller.drain()
        if parts.caller.pending == 0:
            self.say_left(now)

    def say_left(self, now: float) -> None:
        """What runs has ended, or has had its time: say LEFT and give it a moment to spread."""
        parts = self._parts
        if parts.own.has_left:
            return
        parts.timers.cancel(Withdrawn())
        parts.timers.cancel(DrainEnds())
        parts.callee.drain(now)
        for agent in parts.own_claims.tokens:
            parts.callee.hand_back(agent, now)
            parts.event_handlers.hand_back(agent, now)
        parts.caller.drain()
        parts.own.leave()
        self._hearing.announce(now)
        message = HeadUpdate(head=parts.own.head(now).data)
        members = [m.node for m in parts.table if m.state in PRESENT]
        for node in parts.rng.sample(members, min(LEFT_TOLD, len(members))):
            parts.effects.send(node, message)
        spread = 2 * parts.settings.protocol.gossip_interval if members else 0.0
        parts.timers.set(LeftSpread(), now + spread)
