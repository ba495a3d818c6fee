"""Bounded load (I-FAIR): with a consistent hash no instance is given more than 1.25 times its part of a caller's calls.

Judged at each request that a caller sends at the moment of its call: how many of its keyed calls in flight that
instance has then, of all that are in flight. A few are always allowed, and what waits for a link counts for the sum
alone.
"""

from __future__ import annotations

from math import ceil

from reachp2p.core.commands import RouteQuery
from reachp2p.core.events import CallEnded, Event
from reachp2p.core.routing.hashing import BOUND_FROM
from reachp2p.core.wire.messages import Request
from reachp2p_sim.checkers.asked import Asked
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World

FACTOR = 1.25
POLICY = "consistent_hash"


class BoundedLoad(Checker):
    """Follows keyed calls from their start to their end."""

    name = "bounded_load"
    invariant = "I-FAIR"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._in_flight: dict[tuple[int, int, str], dict[bytes, int | None]] = {}
        """Whom each call has asked, by caller, its process and the capability; None: nobody yet."""
        self._capability: dict[bytes, str] = {}
        self._begun: tuple[float, bytes] = (0.0, b"")
        """The last call, and when it began."""
        Asked.of(world).on_request.append(self._on_request)
        world.on_call.append(self._on_call)
        world.listen(self._on_event, CallEnded)

    def _on_call(self, host: Host, query: RouteQuery, call: bytes, code: int) -> None:
        if code or query.policy != POLICY or query.capability is None or query.strict:
            return
        key = (host.index, host.process_number, query.capability)
        self._in_flight.setdefault(key, {})[call] = None
        self._capability[call] = query.capability
        self._begun = (self.world.now, call)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, CallEnded):
            capability = self._capability.pop(event.call, None)
            if capability is not None:
                self._in_flight[host.index, host.process_number, capability].pop(event.call, None)

    def _on_request(self, host: Host, target: Host, request: Request) -> None:
        capability = self._capability.get(request.message_id)
        if capability is None:
            return
        calls = self._in_flight[host.index, host.process_number, capability]
        calls[request.message_id] = target.index
        if (self.world.now, request.message_id) != self._begun:
            return  # it has waited for a link, or is a second attempt
        has = sum(index == target.index for index in calls.values())
        if has <= BOUND_FROM:
            return
        nodes = host.engine.routable(capability)
        weights, _ = host.engine.owners(capability, ())
        total = sum(weight for (node, _), weight in weights.items() if node in nodes)
        own = sum(weight for (node, _), weight in weights.items() if node == target.node)
        most = max(BOUND_FROM, ceil(FACTOR * len(calls) * own / total)) if total else BOUND_FROM
        if target.node in nodes and has > most:
            self.fail(
                f"gives {target.name} {has} of its {len(calls)} keyed calls of {capability} in flight at once; "
                f"{most} are allowed among {len(nodes)} instances",
                host,
            )
