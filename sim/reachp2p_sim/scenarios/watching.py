"""What stories look at while they are told: how views change about some machines, who accuses whom."""

from __future__ import annotations

from collections.abc import Sequence

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p_sim.host import Host
from reachp2p_sim.world import World


class Changes:
    """How often views have changed about some machines, from now on."""

    def __init__(self, world: World, subjects: Sequence[Host]) -> None:
        self.world = world
        self.nodes = {host.node for host in subjects}
        self.dead: list[str] = []
        """In words: who gave up whom."""
        self.suspected: list[str] = []
        self.by_pair: dict[tuple[str, str], int] = {}
        """Changes of state, by observer and subject."""
        world.on_event.append(self._on_event)

    def _on_event(self, host: Host, event: Event) -> None:
        if not isinstance(event, MemberChanged) or event.node not in self.nodes or event.old is event.new:
            return
        pair = (host.name, event.name)
        self.by_pair[pair] = self.by_pair.get(pair, 0) + 1
        if event.new in (MemberState.DEAD, None):
            self.dead.append(f"{host.name} gave up {event.name} at {self.world.now:.1f} s")
        elif event.new is MemberState.SUSPECT:
            self.suspected.append(
                f"{host.name} suspected {event.name} at {self.world.now:.1f} s: {event.reason}"
            )

    @property
    def most(self) -> int:
        """Changes of the least steady view."""
        return max(self.by_pair.values(), default=0)


def counted(hosts: Sequence[Host], prefix: str) -> int:
    """The sum of all counters of some running nodes whose name begins so."""
    return sum(
        count
        for host in hosts
        if host.is_running
        for name, count in host.engine.diagnostics().items()
        if name.startswith(prefix)
    )
