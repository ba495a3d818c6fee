"""Everything bounded (I-BOUND, I-LOAD): datagrams keep their size limit, tables their caps.

The gauges in an engine's diagnostics are compared with the constants of the protocol that limit them.
"""

from __future__ import annotations

from collections.abc import Callable

from reachp2p.core.settings import Protocol
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.host import Host
from reachp2p_sim.world import World

LOOK_INTERVAL = 0.5
BOUNDS: dict[str, Callable[[Protocol], int]] = {
    "size.members": lambda p: p.members_max,
    "size.records": lambda p: p.members_max * p.records_per_node_max,
    "size.broadcast_queue": lambda p: p.broadcast_queue_max,
    "size.suspicions": lambda p: p.members_max,
    "size.links": lambda p: p.links_max,
    "size.links.queued_bytes": lambda p: p.links_max * p.link_queue_max,
    "size.pending_calls": lambda p: p.pending_calls_max,
    "size.calls.running": lambda p: p.invocations_max,
}
"""What each gauge may be at most."""


class Bounded(Checker):
    """Judges every datagram as it is sent, and the gauges of one node after the other, one each half second."""

    name = "bounded"
    invariant = "I-BOUND"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.network.on_oversized = self._on_oversized
        self._turn = 0
        world.every(LOOK_INTERVAL, self._look)

    def _on_oversized(self, host_name: str, size: int) -> None:
        self.fail(
            f"{host_name} sends a datagram of {size} bytes; {self.world.protocol.datagram_max} are allowed"
        )

    def _look(self) -> None:
        running = self.world.running
        if running:
            self._judge(running[self._turn % len(running)])
            self._turn += 1

    def finish(self) -> None:
        """Judge every node once more."""
        for host in self.world.running:
            self._judge(host)

    def _judge(self, host: Host) -> None:
        diagnostics = host.engine.diagnostics()
        for name, bound in BOUNDS.items():
            size, most = diagnostics.get(name, 0), bound(self.world.protocol)
            if size > most:
                self.fail(f"{name} is {size}; at most {most} are allowed", host)
