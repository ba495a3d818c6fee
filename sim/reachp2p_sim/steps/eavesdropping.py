"""Steps of somebody who listens on every wire and sends again what he heard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from reachp2p_sim.steps.base import Step
from reachp2p_sim.steps.processes import Seconds
from reachp2p_sim.steps.selection import Selection

if TYPE_CHECKING:
    from reachp2p_sim.world.world import World


class ListenIn(Step, frozen=True, kw_only=True):
    """Keep a copy of every datagram that is sent from now on, lost ones too; the oldest of 200,000 make room."""

    disturbs: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """Once is enough."""
        world.network.start_wiretap()


class Replay(Step, frozen=True, kw_only=True):
    """Let at most `limit` of the datagrams that were kept arrive again, at moments of the next `within` seconds.

    They come from the address they came from: to where they were sent, or every one of them to all of `hosts`.
    """

    hosts: Selection | None = None
    limit: Annotated[int, Meta(ge=1)] = 1_000
    within: Seconds = 1.0

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """Nothing was kept before `listen-in`."""
        to = None if self.hosts is None else world.hosts(self.hosts)
        chance = world.randomness.stream("replay", f"{world.now:.9f}")
        world.network.start_wiretap().replay(chance, to=to, limit=self.limit, within=self.within)
