"""A crowd that joins at once: what a seed node has to bear."""

from __future__ import annotations

from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World

from reachp2p.core.settings import Protocol


def test_a_seed_compares_views_with_no_more_newcomers_than_others_do() -> None:
    world = World(seed=2)
    seed, *others = world.add_nodes(24, within=1.0)
    world.run(1)
    world.run_until(converged, limit=30)
    world.run(10)

    def answered(name: str) -> int:
        counters = world.host(name).engine.diagnostics()
        return sum(count for counter, count in counters.items() if counter.startswith("sync.answered"))

    mean = sum(answered(host.name) for host in others) / len(others)
    assert mean > 1
    assert answered(seed.name) <= mean


def test_more_newcomers_than_a_seed_has_room_for_all_get_in() -> None:
    """Links whose newcomers have what they came for give way; before, they were kept for up to 40 s, and a thousand
    nodes needed 70 s through one seed."""
    world = World(seed=2, protocol=Protocol(links_max=24))
    seed, *_ = world.add_nodes(40)
    world.run_until(converged, limit=25)
    counters = seed.engine.diagnostics()
    assert counters["links.refused.full"] > 0
    assert counters["links.closed.evicted"] > 0
