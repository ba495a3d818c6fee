"""Truthful events: what a node has told its application adds up to what it answers when asked.

The other checkers follow events; this one compares them with `engine.members()`, node by node in turn, so that a change
without an event cannot hide from them.
"""

from __future__ import annotations

from reachp2p.core.ids import short
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.host import Host
from reachp2p_sim.world import World

LOOK_INTERVAL = 1.0


class TruthfulEvents(Checker):
    """Looks at one node a second."""

    name = "truthful_events"
    invariant = "I-SANE"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._turn = 0
        world.every(LOOK_INTERVAL, self._look)

    def _look(self) -> None:
        running = [host for host in self.world.running if not host.is_paused]
        if running:
            self._compare(running[self._turn % len(running)])
            self._turn += 1

    def finish(self) -> None:
        """Compare every node once more."""
        for host in self.world.running:
            self._compare(host)

    def _compare(self, host: Host) -> None:
        told = {node: (held.life, held.state) for node, held in host.view.members.items()}
        held = {m.node: (m.life, m.state) for m in host.engine.members() if not m.is_self}
        if told != held:
            node = next(node for node in {**told, **held} if told.get(node) != held.get(node))
            self.fail(f"told {told.get(node)} about {short(node)} and answers {held.get(node)}", host)
