"""Ejection (I-EJECT): breakers take a tenth of a pool at most, one instance at least, and never the last.

Once a second one of those who make calls is asked why it would route a call as it would. Judged are the instances that
no other stage speaks against.
"""

from __future__ import annotations

from reachp2p.core.commands import RouteQuery
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World

LOOK_INTERVAL = 1.0
BREAKER = "breaker"
PART = 10
"""At most one of so many."""


class Ejection(Checker):
    """Asks one caller a second about all that it has called."""

    name = "ejection"
    invariant = "I-EJECT"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._called: dict[int, dict[str, None]] = {}
        self._turn = 0
        world.on_call.append(self._on_call)
        world.every(LOOK_INTERVAL, self._look)

    def _on_call(self, host: Host, query: RouteQuery, call: bytes, code: int) -> None:
        if query.capability is not None:
            self._called.setdefault(host.index, {})[query.capability] = None

    def _look(self) -> None:
        if not self._called:
            return
        self._turn += 1
        number = list(self._called)[self._turn % len(self._called)]
        host = self.world.nodes[number]
        if host.is_running:
            for capability in self._called[number]:
                self.ask(host, capability)

    def ask(self, host: Host, capability: str) -> None:
        """Ask one caller about one capability, and judge."""
        stages = [row.removed_by for row in host.engine.explain(RouteQuery(capability=capability)).candidates]
        ejected = stages.count(BREAKER)
        sound = ejected + stages.count(None)
        most = max(0, min(max(1, sound // PART), sound - 1))
        if ejected > most:
            self.fail(
                f"skips {ejected} of {sound} instances of {capability} for their breakers; {most} are allowed",
                host,
            )
