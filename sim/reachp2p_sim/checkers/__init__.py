"""The promises of docs/architecture.md, one file each. A checker looks at all nodes and knows one property.

All checkers are on in every run. They stop the run at the first violating event by raising `Violation`. They look from
outside: at the events that nodes tell their applications, at the questions an engine answers, and at what the world
knows to be true. `determinism` is different in kind: it needs a second run.
"""

from __future__ import annotations

from collections.abc import Sequence

from reachp2p_sim.checkers.accuracy import Accuracy
from reachp2p_sim.checkers.availability import Availability
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.checkers.bounded import Bounded
from reachp2p_sim.checkers.bounded_load import BoundedLoad
from reachp2p_sim.checkers.completeness import Completeness
from reachp2p_sim.checkers.convergence import Convergence
from reachp2p_sim.checkers.damage import Damage
from reachp2p_sim.checkers.ejection import Ejection
from reachp2p_sim.checkers.equivocation import Equivocation
from reachp2p_sim.checkers.fencing import Fencing
from reachp2p_sim.checkers.flapping import Flapping
from reachp2p_sim.checkers.lives import Lives
from reachp2p_sim.checkers.load import Load
from reachp2p_sim.checkers.monotonicity import Monotonicity
from reachp2p_sim.checkers.no_resurrection import NoResurrection
from reachp2p_sim.checkers.ownership import Ownership
from reachp2p_sim.checkers.placement import Placement
from reachp2p_sim.checkers.quiet import Quiet
from reachp2p_sim.checkers.refutation import Refutation
from reachp2p_sim.checkers.registrations import Registrations
from reachp2p_sim.checkers.retry_budget import RetryBudget
from reachp2p_sim.checkers.single_outcome import SingleOutcome
from reachp2p_sim.checkers.tokens import Tokens
from reachp2p_sim.checkers.truthful_events import TruthfulEvents
from reachp2p_sim.checkers.verdicts import Verdicts
from reachp2p_sim.checkers.wall_clock import WallClock
from reachp2p_sim.world.world import World

CHECKERS: tuple[type[Checker], ...] = (
    Accuracy,
    Availability,
    Bounded,
    BoundedLoad,
    Completeness,
    Convergence,
    Damage,
    Ejection,
    Equivocation,
    Fencing,
    Flapping,
    Lives,
    Load,
    Monotonicity,
    NoResurrection,
    Ownership,
    Placement,
    Quiet,
    Refutation,
    Registrations,
    RetryBudget,
    SingleOutcome,
    Tokens,
    TruthfulEvents,
    Verdicts,
    WallClock,
)


def attach_all(world: World, own: Sequence[type[Checker]] = ()) -> list[Checker]:
    """Attach every checker to a world, and those of a scenario's own, before anything runs."""
    return [checker(world) for checker in (*CHECKERS, *own)]
