"""A look at one node a second, shared by all checkers that read member lists: building one costs as much as a dozen
messages, and several checkers want the same. In a large world looks are rarer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from reachp2p.core.views import MemberView
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World

LOOK_INTERVAL = 1.0
ROWS_MAX = 64
"""Rows that are read a second, so that the share of the checkers in the cost of a run does not grow with the world."""
Look: TypeAlias = Callable[[Host, list[MemberView]], None]


class Rounds:
    """Goes round the running nodes of a world, in the order of their numbers; hindered ones are passed over."""

    def __init__(self, world: World) -> None:
        self.on_look: list[Look] = []
        self._world = world
        self._turn = -1
        self._credit = 0
        world.every(LOOK_INTERVAL, self._look)

    def _look(self) -> None:
        nodes = self._world.nodes
        self._credit = min(self._credit + ROWS_MAX, max(ROWS_MAX, len(nodes)))
        if self._credit < len(nodes):
            return
        self._credit -= len(nodes)
        for _ in nodes:
            self._turn = (self._turn + 1) % len(nodes)
            if nodes[self._turn].is_running and nodes[self._turn].hindered is None:
                self.look_at(nodes[self._turn])
                return

    def look_at(self, host: Host) -> None:
        """Show one node to all listeners."""
        members = host.engine.members()
        for listener in self.on_look:
            listener(host, members)


def rounds(world: World) -> Rounds:
    """The rounds of a world; begun when first asked for."""
    found = world.shared.get(Rounds)
    if not isinstance(found, Rounds):
        found = world.shared[Rounds] = Rounds(world)
    return found
