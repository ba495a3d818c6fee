"""Completeness (I-COMP): a node that crashed is DEAD in every connected live view within the bound.

The bound is the worst case (`budgets.completeness`); scenarios that care for speed measure medians of their own.
"""

from __future__ import annotations

from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, short
from reachp2p_sim.budgets import completeness
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.world import World

LOOK_INTERVAL = 5.0


class Completeness(Checker):
    """Looks every five seconds for lives that are over and still believed in."""

    name = "completeness"
    invariant = "I-COMP"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._believed_since: dict[tuple[int, int, Life], float] = {}
        world.every(LOOK_INTERVAL, self._look)

    def _look(self) -> None:
        world = self.world
        alive = {host.life for host in world.running}
        believed: dict[tuple[int, int, Life], float] = {}
        budget = completeness(len(world.running), world.protocol, world.network.worst()[0])
        for host in world.running:
            if host.is_paused:
                continue
            for node, held in host.view.members.items():
                if held.life in alive or held.state not in (MemberState.ALIVE, MemberState.SUSPECT):
                    continue
                key = (host.index, host.process, held.life)
                since = believed[key] = self._believed_since.get(key, world.now)
                if world.now - since > budget:
                    self.fail(
                        f"{short(node)} has been gone for {budget:.0f} s and is still {held.state.value}",
                        host,
                    )
        self._believed_since = believed
