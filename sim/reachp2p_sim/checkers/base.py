"""What a checker is."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.violation import Violation
from reachp2p_sim.world.world import World


class Checker:
    """Knows one property. Subclasses hook themselves to the world when they are built."""

    name: ClassVar[str]
    invariant: ClassVar[str]
    """A short id for traces and reports, such as `I-MONO`."""

    limits: ClassVar[tuple[str, ...]] = ()
    """What it asks the world's limits for, by the names that `[limits]` of a scenario may use."""

    def __init__(self, world: World) -> None:
        self.world = world

    def finish(self) -> None:
        """The run is over: judge what can only be judged then."""

    def fail(self, message: str, host: Host | None = None) -> NoReturn:
        """Stop the run."""
        raise Violation(self.name, message, self.world.now, None if host is None else host.name)
