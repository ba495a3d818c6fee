"""The simulator of reachp2p: the core that ships, in a deterministic world, with its promises checked in every run.

    from reachp2p_sim import Checker, World, converged, halves, scenario

It drives `reachp2p.core` directly and never imports the runtime or trio (docs/simulator.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reachp2p_sim.checkers import attach_all
    from reachp2p_sim.checkers.base import Checker
    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.running.configuration import RunConfig, UsageError
    from reachp2p_sim.running.run import RunResult, run_scenario
    from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
    from reachp2p_sim.world.agreement import agreed, converged
    from reachp2p_sim.world.violation import Violation
    from reachp2p_sim.world.world import World, halves, without

_WHERE = {
    "world.agreement": ("agreed", "converged"),
    "checkers": ("attach_all",),
    "checkers.base": ("Checker",),
    "running.configuration": ("RunConfig", "UsageError"),
    "machines.host": ("Host",),
    "running.run": ("RunResult", "run_scenario"),
    "scenarios.base": ("Options", "grow", "require", "scenario", "settle"),
    "world.violation": ("Violation",),
    "world.world": ("World", "halves", "without"),
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Checker",
    "Host",
    "Options",
    "RunConfig",
    "RunResult",
    "UsageError",
    "Violation",
    "World",
    "agreed",
    "attach_all",
    "converged",
    "grow",
    "halves",
    "require",
    "run_scenario",
    "scenario",
    "settle",
    "without",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that the command line starts quickly."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
