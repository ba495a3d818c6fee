"""Everything bounded (I-BOUND, I-LOAD): datagrams keep their size limit, tables their caps.

A gauge `X` in an engine's diagnostics whose bound is reported beside it as `X.max` must not exceed it, whatever it is
called. Gauges without a bound beside them are compared with the settings that limit them.
"""

from __future__ import annotations

from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.world import World

LOOK_INTERVAL = 5.0


class Bounded(Checker):
    """Judges every datagram as it is sent, and the gauges every five seconds."""

    name = "bounded"
    invariant = "I-BOUND"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.network.on_oversized = self._on_oversized
        world.every(LOOK_INTERVAL, self._look)

    def _on_oversized(self, host_name: str, size: int) -> None:
        self.fail(
            f"{host_name} sends a datagram of {size} bytes; {self.world.protocol.datagram_max} are allowed"
        )

    def _look(self) -> None:
        for host in self.world.running:
            diagnostics = host.engine.diagnostics()
            for name, bound in diagnostics.items():
                if name.endswith(".max"):
                    value = diagnostics.get(name.removesuffix(".max"), 0)
                    if value > bound:
                        self.fail(
                            f"{name.removesuffix('.max')} is {value}; at most {bound} are allowed", host
                        )
