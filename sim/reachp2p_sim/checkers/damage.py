"""No damage accepted (I-OWN): a datagram whose bits were flipped on the way is dropped whole, and counted.

A datagram is signed as a whole, so whatever is flipped, header, body or signature, nothing of it may be believed.
"""

from __future__ import annotations

from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World


class Damage(Checker):
    """Told of every damaged datagram once a node has handled it."""

    name = "damage"
    invariant = "I-OWN"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.network.on_damaged = self._on_damaged

    def _on_damaged(self, host: Host, is_rejected: bool) -> None:
        if not is_rejected:
            self.fail("accepts a datagram that was damaged on the way, or does not count it", host)
