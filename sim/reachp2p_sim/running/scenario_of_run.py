"""The record of a run as a scenario file."""

from __future__ import annotations

from pathlib import Path

import msgspec

from reachp2p.core.settings import Protocol
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.running.configuration import RunConfig, find_scenario
from reachp2p_sim.running.scenario_file import Timed, write_scenario
from reachp2p_sim.steps.paths import difference
from reachp2p_sim.steps.story import Run
from reachp2p_sim.world.world import World


def record_of(world: World, config: RunConfig) -> str:
    """What was done to a world, as a scenario file: run with the same seed it gives the same trace digest.

    Signing and mutant are not part of it; they are set for a run. What a Python story demanded beyond conditions with a
    name is not part of it either.
    """
    steps = [Timed(performed.step, performed.at) for performed in world.performed]
    default = msgspec.to_builtins(Protocol())
    constants = msgspec.to_builtins(world.protocol)
    return write_scenario(
        name=f"{Path(config.scenario).stem}-{config.seed}",
        summary=f"the record of: {config.command()}",
        nodes=max(1, sum(not host.is_clone for host in world.nodes)),
        weather=difference(Conditions(), world.fair),
        protocol={key: value for key, value in constants.items() if value != default[key]},
        limits=world.limits,
        checkers=find_scenario(config.scenario).checker_files,
        steps=[*steps, Timed(Run(seconds=0.0), world.now)],
    )
