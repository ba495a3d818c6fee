"""Steps about the work that nodes do: what they offer, and whom they call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from reachp2p.core.commands import RouteQuery
from reachp2p_sim.machines.workload import Handler, Loop, Offer
from reachp2p_sim.steps.base import Step
from reachp2p_sim.steps.selection import Selection

if TYPE_CHECKING:
    from reachp2p_sim.world.world import World

Share = Annotated[float, Meta(ge=0, le=1)]
AGENT = "work/doer"
CAPABILITY = "work.do"


class OfferAgent(Step, frozen=True, kw_only=True):
    """Offer an agent with one capability from now on, and after each restart.

    Its handlers take `service_time` seconds (mean of an exponential); a share `fails`, a share `hangs` for ever.
    Of those that offer an `exclusive` agent one serves, the others stand by.
    """

    hosts: Selection
    agent: str = AGENT
    capability: str = CAPABILITY
    repeatable: bool = True
    service_time: Annotated[float, Meta(ge=0)] = 0.005
    fails: Share = 0.0
    hangs: Share = 0.0
    exclusive: bool = False

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    disturbs: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """An agent of the same name is replaced."""
        handler = Handler(self.service_time, self.fails, self.hangs)
        for host in world.hosts(self.hosts):
            offer = Offer.simple(
                self.agent, self.capability, handler, self.repeatable, exclusive=self.exclusive
            )
            host.application.offer(offer)


class WithdrawAgent(Step, frozen=True, kw_only=True):
    """Offer an agent no longer."""

    hosts: Selection
    agent: str = AGENT

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    disturbs: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """Those that run."""
        for host in world.hosts(self.hosts):
            if host.is_running:
                host.application.withdraw(self.agent)


class CallLoop(Step, frozen=True, kw_only=True):
    """Call a capability, wait for the end, think (mean of an exponential, seconds), call again, also after a restart.

    The first call comes within a second, or with `at_once` this very moment; with `waits` a process makes it only when
    there is an instance to rely on.
    """

    hosts: Selection
    capability: str = CAPABILITY
    think_time: Annotated[float, Meta(gt=0)] = 1.0
    timeout: Annotated[float, Meta(gt=0)] = 5.0
    at_once: bool = False
    waits: bool = False

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    disturbs: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """Each machine is one more caller."""
        for host in world.hosts(self.hosts):
            loop = Loop(RouteQuery(capability=self.capability), self.think_time, self.timeout, self.waits)
            host.application.call_in_a_loop(loop, at_once=self.at_once)
