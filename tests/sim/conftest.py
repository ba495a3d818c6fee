from __future__ import annotations

import pytest
from reachp2p_sim.machines.scripted import ScriptedEngine, Story
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.world.world import World


@pytest.fixture
def story() -> Story:
    """Scripted nodes on a network with a constant delay of 10 ms and no loss."""
    return Story(World(seed=1, conditions=Conditions(delay=0.01, spread=0.0), engine_factory=ScriptedEngine))
