"""No resurrection (I-NORES): a life that ended is never ALIVE again.

Two rules, both also across forgetting. Who has held LEFT of a life holds nothing but LEFT of that life. And who has
held a life DEAD at some incarnation, and the life is really over, does not hold it ALIVE or SUSPECT again at that
incarnation. (At a higher one it may, for the moment that it takes to notice: a refutation that was signed before the
end may arrive after it.)
"""

from __future__ import annotations

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p.core.ids import Life, NodeId, short
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World


class NoResurrection(Checker):
    """Follows every `MemberChanged`. Memory: one life per observer and subject that has left."""

    name = "no_resurrection"
    invariant = "I-NORES"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._left: dict[tuple[int, int, NodeId], Life] = {}
        self._dead: dict[tuple[int, int, NodeId], tuple[Life, int]] = {}
        world.on_event.append(self._on_event)

    def _on_event(self, host: Host, event: Event) -> None:
        if not isinstance(event, MemberChanged) or event.new is None:
            return
        key = (host.index, host.process_number, event.node)
        left = self._left.get(key)
        if event.new is MemberState.LEFT:
            self._left[key] = event.life if left is None else max(left, event.life)
            return
        if left is not None and event.life <= left:
            self.fail(
                f"life {event.life} of {short(event.node)} had left and is {event.new.value} again", host
            )
        if event.new is MemberState.DEAD:
            self._dead[key] = (event.life, event.incarnation)
            return
        dead = self._dead.get(key)
        if (
            dead is not None
            and (event.life, event.incarnation) <= dead
            and not self._is_running(event.node, event.life)
        ):
            self.fail(
                f"life {event.life} of {short(event.node)} is over, was DEAD, and is {event.new.value} again",
                host,
            )

    def _is_running(self, node: NodeId, life: Life) -> bool:
        return any(host.life == life for host in self.world.by_node.get(node, ()))
