"""The named scenarios. Importing this package registers them all in `SCENARIOS`.

Those that a list of steps tells are TOML files beside this one; those that measure or demand something of their own are
Python stories.
"""

from __future__ import annotations

from importlib.resources import files

from reachp2p_sim.running.scenario_file import Value
from reachp2p_sim.running.scenario_reading import parse_scenario
from reachp2p_sim.scenarios import (
    calls,
    churn,
    clocks,
    failures,
    gateways,
    hostile,
    lifeguard,
    machines,
    newcomers,
    old_news,
    partitions,
    pools,
    random_faults,
    restarts,
    rules,
    sessions,
    shapes,
    weather,
)
from reachp2p_sim.scenarios.base import GROUPS, SCENARIOS, Options, Scenario, add_file, from_file

for _file in sorted(files(__name__).iterdir(), key=lambda file: file.name):
    if _file.name.endswith(".toml"):
        add_file(parse_scenario(_file.read_bytes(), _file.name))

__all__ = [
    "GROUPS",
    "SCENARIOS",
    "Options",
    "Scenario",
    "Value",
    "calls",
    "churn",
    "clocks",
    "failures",
    "from_file",
    "gateways",
    "hostile",
    "lifeguard",
    "machines",
    "newcomers",
    "old_news",
    "partitions",
    "pools",
    "random_faults",
    "restarts",
    "rules",
    "sessions",
    "shapes",
    "weather",
]
