"""No flapping (I-NOFLAP): a view changes its mind about a member's death a bounded number of times.

The bound belongs to the story: `limits["flaps"]` changes between DEAD and ALIVE of one pair within
`limits["flaps_within"]` seconds (for ever, if that is not said). Without it nothing is judged.
"""

from __future__ import annotations

from collections import deque
from math import inf

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p.core.ids import NodeId, short
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World


class Flapping(Checker):
    """Follows changes to and from DEAD."""

    name = "flapping"
    invariant = "I-NOFLAP"

    limits = ("flaps", "flaps_within")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._changes: dict[tuple[int, NodeId], deque[float]] = {}
        world.on_event.append(self._on_event)

    def _on_event(self, host: Host, event: Event) -> None:
        if not isinstance(event, MemberChanged) or event.old is None or event.new is None:
            return
        if (event.old is MemberState.DEAD) is (event.new is MemberState.DEAD):
            return
        most = self.world.limits.get("flaps")
        if most is None:
            return
        window = self.world.limits.get("flaps_within", inf)
        changes = self._changes.setdefault((host.index, event.node), deque(maxlen=int(most) + 1))
        changes.append(self.world.now)
        if len(changes) > most and changes[-1] - changes[0] <= window:
            within = "" if window == inf else f" within {window:g} s"
            name = event.name or short(event.node)
            self.fail(
                f"changed its mind about {name} {len(changes)} times{within}; {most:g} are allowed", host
            )
