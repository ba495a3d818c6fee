"""A crash in the middle of a write: the next start gets through, or says what is damaged."""

from __future__ import annotations

from reachp2p_sim import attach_all, converged
from reachp2p_sim.world.world import World

from reachp2p.core.events import StartRefused
from reachp2p.errors import ErrorCode


def test_a_torn_write_is_noticed_or_does_no_harm() -> None:
    refused = 0
    for seed in (0, 1, 2, 3):
        world = World(seed=seed)
        checkers = attach_all(world)
        hosts = world.add_nodes(3)
        chosen = hosts[2]
        world.run(2)
        world.set_disk(chosen, tears=True)
        for write in (1, 2, 4):
            world.crash(chosen)
            world.run(0.5)
            world.crash_at_write(chosen, write=write)
            world.start(chosen)
            world.run(4)
            world.start(chosen)
            world.run(2)
            if not chosen.is_running:
                refused += 1
                assert isinstance(chosen.ended_by, StartRefused)
                assert chosen.ended_by.code == int(ErrorCode.STATE_DAMAGED)
                world.restart(chosen, disk="lost")
                world.run(2)
            assert chosen.is_running
        world.run_until(converged, limit=60)
        for checker in checkers:
            checker.finish()
    assert refused > 0
