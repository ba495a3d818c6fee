"""Lives only grow (I-EPOCH): no epoch is used twice, and a new life orders above every earlier one of its disk.

A lost or older disk may make a node open a low life for a moment; it must not announce it while others remember a
higher one. What is compared is therefore what a machine has opened with its disk kept; for a lost disk the convergence
checker demands that the new life is seen by all.
"""

from __future__ import annotations

from reachp2p.core.events import Event, Resumed, Started
from reachp2p.core.ids import Life
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World


class Lives(Checker):
    """Follows `Started` and `Resumed`."""

    name = "lives"
    invariant = "I-EPOCH"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._opened: dict[int, list[tuple[int, Life]]] = {}
        world.listen(self._on_event, Started, Resumed)

    def _on_event(self, host: Host, event: Event) -> None:
        if not isinstance(event, Started | Resumed):
            return
        opened = self._opened.setdefault(host.index, [])
        for disk_number, earlier in opened:
            if disk_number == host.disk.number and event.life.epoch <= earlier.epoch:
                self.fail(f"opened life {event.life} after life {earlier} on the same disk", host)
            if event.life.life_id == earlier.life_id:
                self.fail(f"opened life id {event.life} twice", host)
        opened.append((host.disk.number, event.life))
        self._compare_with_others(host, event.life)

    def _compare_with_others(self, host: Host, life: Life) -> None:
        """Whoever this node has heard from knew no higher life of it, or it would have opened one above."""
        stored = host.disk.stored_epoch()
        if stored < life.epoch:
            self.fail(f"announces life {life} while only epoch {stored} is on its disk", host)
