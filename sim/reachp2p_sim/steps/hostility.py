"""Steps that make nodes hostile, and honest again."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from reachp2p_sim.hostile import BEHAVIOURS
from reachp2p_sim.steps.base import Step
from reachp2p_sim.steps.selection import Selection

if TYPE_CHECKING:
    from reachp2p_sim.world.world import World


class TurnHostile(Step, frozen=True, kw_only=True):
    """Let nodes do harm from now on, also after a restart: `behaviour` says which, `victims` to whom (else to all
    others).

    They have their own keys and nobody else's. A node has one behaviour at a time.
    """

    hosts: Selection
    behaviour: str
    victims: Selection | None = None

    machines: ClassVar[tuple[str, ...]] = ("hosts", "victims")

    def __post_init__(self) -> None:
        """Refuse a behaviour that there is not."""
        if self.behaviour not in BEHAVIOURS:
            raise ValueError(f"there is no behaviour {self.behaviour!r}; there are: {', '.join(BEHAVIOURS)}")

    def perform(self, world: World) -> None:
        """Nothing is promised to a hostile node, or of what is believed about it."""
        victims = world.nodes if self.victims is None else world.hosts(self.victims)
        for host in world.hosts(self.hosts):
            others = [victim for victim in victims if victim is not host]
            if others:
                world.history.absent(host.index, world.now, "hostile")
                chance = world.chance(f"hostile {self.behaviour}", host)
                host.turn_hostile(BEHAVIOURS[self.behaviour](host, others, chance))


class TurnHonest(Step, frozen=True, kw_only=True):
    """Let hostile nodes do no more harm. They are trusted again once they have restarted."""

    hosts: Selection

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """Those that are hostile."""
        for host in world.hosts(self.hosts):
            host.turn_honest()
