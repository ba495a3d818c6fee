"""Monotonicity (I-MONO): what a process holds about a member never moves backwards.

The order is that of the evidence: life, then LEFT, then incarnation, and inside one incarnation the rank;
the version grows inside a life. A new process starts anew, and so does the memory of a member that was forgotten.
"""

from __future__ import annotations

from functools import lru_cache

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p.core.ids import Life, NodeId, short
from reachp2p.core.views import MemberView
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.checkers.rounds import rounds
from reachp2p_sim.host import Host
from reachp2p_sim.world import World

RANK = {MemberState.ALIVE: 0, MemberState.SUSPECT: 1, MemberState.DEAD: 2, MemberState.LEFT: 0}
Evidence = tuple[Life, bool, int, int]


@lru_cache(maxsize=65_536)  # many hold the same: one tuple for all of them
def evidence(life: Life, state: MemberState, incarnation: int) -> Evidence:
    """What is held about a member, in the order of evidence."""
    has_left = state is MemberState.LEFT
    return (life, has_left, 0 if has_left else incarnation, RANK[state])


class Monotonicity(Checker):
    """Follows every `MemberChanged`, and compares member lists in turn for what no event tells (versions)."""

    name = "monotonicity"
    invariant = "I-MONO"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._held: dict[tuple[int, int], dict[NodeId, Evidence]] = {}
        self._versions: dict[tuple[int, int], dict[NodeId, tuple[Life, int, int]]] = {}
        world.on_event.append(self._on_event)
        rounds(world).on_look.append(self._look)

    def _on_event(self, host: Host, event: Event) -> None:
        if not isinstance(event, MemberChanged):
            return
        held = self._held.setdefault((host.index, host.process), {})
        if event.new is None:
            held.pop(event.node, None)
            return
        new = evidence(event.life, event.new, event.incarnation)
        old = held.get(event.node)
        if old is not None and new < old:
            self.fail(
                f"{short(event.node)} went from {_told(old)} back to {_told(new)} ({event.reason})", host
            )
        held[event.node] = new

    def _look(self, host: Host, members: list[MemberView]) -> None:
        versions = self._versions.setdefault((host.index, host.process), {})
        for member in members:
            old = versions.get(member.node)
            new = (member.life, member.incarnation, member.version)
            if (
                old is not None
                and old[0] == new[0]
                and (new[1] < old[1] or (new[1] == old[1] and new[2] < old[2]))
            ):
                self.fail(f"{member.name} went from version {old[1:]} back to {new[1:]} in one life", host)
            versions[member.node] = new


def _told(held: Evidence) -> str:
    life, has_left, incarnation, rank = held
    state = "LEFT" if has_left else ("ALIVE", "SUSPECT", "DEAD")[rank]
    return f"{state} in life {life}, incarnation {incarnation}"
