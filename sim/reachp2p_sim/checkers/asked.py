"""The requests that callers send to others, seen on their links: what a caller cannot be asked about."""

from __future__ import annotations

from collections.abc import Callable

from reachp2p.core.commands import RouteQuery
from reachp2p.core.ids import Address, LinkId
from reachp2p.core.wire.messages import Request
from reachp2p_sim.checkers.accepted import overlook
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.listening import listen
from reachp2p_sim.world.world import World

_REQUEST = bytes((0x82, 0x18, Request.NUMBER))
"""How a request begins on the wire: an array of two, the first of which is its number."""
MESSAGES_MAX = 65_536


class Asked:
    """Listens to each node from its first call on. One for all checkers of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._listening: dict[int, None] = {}
        self.on_request: list[Callable[[Host, Host, Request], None]] = []
        """Called with caller, callee and request, before the request is on its way. A node that calls an agent of its
        own sends nothing."""
        world.on_call.append(self._on_call)

    @classmethod
    def of(cls, world: World) -> Asked:
        """The one of this world. Those who ask for it hear of a call after it does."""
        found = world.shared.get(cls)
        if not isinstance(found, cls):
            found = world.shared[cls] = cls(world)
        return found

    def _on_call(self, host: Host, query: RouteQuery, call: bytes, code: int) -> None:
        if host.index not in self._listening:
            self._listening[host.index] = None
            listen(host, sent=self._on_sent)

    def _on_sent(self, host: Host, data: bytes, to: Address | LinkId) -> None:
        if isinstance(to, Address) or _REQUEST not in data:
            return
        end = host.links.get(to)
        peer = end.peer if end is not None else None
        if peer is None:
            return
        messages, _ = self._world.codec.unpack(
            data, bytes_max=len(data), messages_max=MESSAGES_MAX, on_rejected=overlook
        )
        for message in messages:
            if isinstance(message, Request):
                for listener in self.on_request:
                    listener(host, peer.host, message)
