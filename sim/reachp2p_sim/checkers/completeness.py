"""Completeness (I-COMP): a node that crashed is DEAD in every live view within the bound.

The bound is the worst case (`budgets.completeness`); scenarios that care for speed measure medians of their own. Only
lives that are over and still believed in by somebody are looked at, so a quiet world costs nothing.
"""

from __future__ import annotations

from reachp2p.core.events import Event, MemberChanged, MemberState, Resumed, Started
from reachp2p.core.ids import Life, NodeId, short
from reachp2p.core.rules import Rules
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import completeness
from reachp2p_sim.world.world import World

LOOK_INTERVAL = 5.0
PRESENT = (MemberState.ALIVE, MemberState.SUSPECT)


class Completeness(Checker):
    """Follows which lives begin and who believes in one, and looks every five seconds whether it is over."""

    name = "completeness"
    invariant = "I-COMP"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._open: dict[Life, Host] = {}
        self._over: dict[Life, NodeId] = {}
        """Lives that are over and that somebody may still believe in."""
        self._believed_since: dict[tuple[int, int, Life], float] = {}
        world.on_event.append(self._on_event)
        world.every(LOOK_INTERVAL, self._look)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, Started | Resumed):
            self._open[event.life] = host
        elif isinstance(event, MemberChanged) and event.new in PRESENT and event.life not in self._open:
            self._over[event.life] = event.node

    def _look(self) -> None:
        for life in [life for life, host in self._open.items() if host.life != life]:
            self._over[life] = self._open.pop(life).node
        world = self.world
        if world.protocol.rules != Rules():
            return  # promised of what ships; papers measure the rest
        believed: dict[tuple[int, int, Life], float] = {}
        budget = completeness(len(world.running), world.protocol, world.network.paths.worst()[0])
        observers = [host for host in world.running if not host.is_paused]
        for life, node in list(self._over.items()):
            is_believed = False
            for host in observers:
                held = host.view.members.get(node)
                if held is None or held.life != life or held.state not in PRESENT:
                    continue
                is_believed = True
                key = (host.index, host.process_number, life)
                since = believed[key] = self._believed_since.get(key, world.now)
                if world.now - since > budget:
                    self.fail(
                        f"{short(node)} has been gone for {budget:.0f} s and is still {held.state.value}",
                        host,
                    )
            if not is_believed and not any(host.is_paused for host in world.running):
                del self._over[life]
        self._believed_since = believed
