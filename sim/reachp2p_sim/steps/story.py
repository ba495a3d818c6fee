"""Steps that let time pass, or demand something of the world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from reachp2p_sim.measuring.budgets import BUDGETS
from reachp2p_sim.steps.base import EVERY_MIN, Step
from reachp2p_sim.steps.processes import Seconds
from reachp2p_sim.steps.selection import Selection
from reachp2p_sim.world.agreement import CONDITIONS
from reachp2p_sim.world.violation import Violation

if TYPE_CHECKING:
    from reachp2p_sim.world.world import World


class Run(Step, frozen=True, kw_only=True):
    """Let some seconds pass, or a budget by its name (`healing`, `completeness`, …)."""

    seconds: Seconds | str

    disturbs: ClassVar[bool] = False
    acts: ClassVar[bool] = False
    is_recorded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse a budget that there is not."""
        _check_budget(self.seconds)

    def perform(self, world: World) -> None:
        """A record keeps the time of each step instead."""
        world.run(_amount(world, self.seconds))


class Expect(Step, frozen=True, kw_only=True):
    """Let time pass until a condition holds (`agreed`, `converged`), for `limit` seconds at most, or a budget's name.

    It must still hold `stays` seconds later. `measure` names the timing that says how long it took.
    """

    condition: str
    limit: Seconds | str = "healing"
    every: Annotated[float, Meta(ge=EVERY_MIN)] = 0.25
    stays: Seconds = 0.0
    measure: str | None = None

    disturbs: ClassVar[bool] = False
    acts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse a condition or budget that there is not."""
        if self.condition not in CONDITIONS:
            raise ValueError(f"there is no condition {self.condition!r}; there are: {', '.join(CONDITIONS)}")
        _check_budget(self.limit)

    def perform(self, world: World) -> None:
        """A `Violation` if it does not hold in time, or not any longer."""
        condition = CONDITIONS[self.condition]
        took = world.wait(condition, _amount(world, self.limit), self.every)
        if self.measure is not None:
            world.timings[self.measure] = took
        if self.stays:
            world.run(self.stays)
            if not condition(world):
                raise Violation(
                    "convergence",
                    f"no longer {self.condition} {self.stays:g} s later; {condition.explain(world)}",
                    world.now,
                )


class DeclareCore(Step, frozen=True, kw_only=True):
    """From now on only these machines must converge: they have been healed for good, the others may stay broken.

    Steps that name none of them do not move the heal budget's start any more.
    """

    hosts: Selection

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    acts: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """The budget runs from now."""
        world.core = tuple(world.hosts(self.hosts))


def _check_budget(amount: float | str) -> None:
    if isinstance(amount, str) and amount not in BUDGETS:
        raise ValueError(f"there is no budget {amount!r}; write seconds, or one of: {', '.join(BUDGETS)}")


def _amount(world: World, amount: float | str) -> float:
    if not isinstance(amount, str):
        return amount
    return BUDGETS[amount](len(world.nodes), world.protocol, world.network.paths.worst()[0])
