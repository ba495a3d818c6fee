"""The named scenarios. Importing this package registers them all in `SCENARIOS`."""

from __future__ import annotations

from reachp2p_sim.scenarios import failures, newcomers, partitions, random_faults, restarts
from reachp2p_sim.scenarios.base import SCENARIOS, Options, Scenario, Value

__all__ = [
    "SCENARIOS",
    "Options",
    "Scenario",
    "Value",
    "failures",
    "newcomers",
    "partitions",
    "random_faults",
    "restarts",
]
