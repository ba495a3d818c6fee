"""Simulated streams: the engines carry them over links that are reset, partitions and restarts."""

from __future__ import annotations

from reachp2p_sim.machines.callers import Loop
from reachp2p_sim.machines.handlers import Handler, Offer
from reachp2p_sim.world.world import World

from reachp2p.core.commands import RouteQuery
from reachp2p.core.settings import Protocol

EVERYBODY = 0b111


def streaming_world(seed: int, *, items: int = 40, item_bytes: int = 2_000) -> World:
    """Two callers that stream all the time from one server."""
    world = World(seed, protocol=Protocol(stream_window=16_384))
    server, *callers = world.add_nodes(3, converged=True)
    world.run(1)
    handler = Handler(service_time=0.02, items=items, item_bytes=item_bytes)
    server.application.offer(Offer.simple("work/streamer", "work.stream", handler, repeatable=False))
    world.run(2)
    for caller in callers:
        loop = Loop(RouteQuery(capability="work.stream"), think_time=0.1, timeout=60.0, stream=True)
        caller.application.call_in_a_loop(loop)
    return world


def test_streams_flow_and_outlive_links_that_are_reset() -> None:
    world = streaming_world(1)
    for _ in range(6):
        world.run(3)
        world.links.reset(EVERYBODY, EVERYBODY)
    world.run(5)
    streams, codes = world.ledger.streams, world.ledger.codes
    assert (streams.misplaced, streams.miscounted) == (0, 0)
    assert streams.completed > 20
    assert streams.taken >= streams.completed * 40
    assert codes[0] == streams.completed
    assert set(codes) <= {0, 1409}
    assert codes.get(1409, 0) <= 2, "only a request that was under way itself may be of unknown outcome"
    resumed = sum(host.engine.diagnostics().get("streams.resumed", 0) for host in world.running)
    assert resumed > 6


def test_streams_end_with_a_server_that_is_gone_and_go_on_when_it_is_back() -> None:
    world = streaming_world(2)
    server, *callers = world.running
    world.run(5)
    world.crash(server)
    world.run(20)
    completed = world.ledger.streams.completed
    assert world.ledger.codes.get(1409, 0) == 2
    for host in callers:
        assert host.engine.diagnostics()["size.streams"] == 0
    world.start(server)
    world.run(10)
    streams = world.ledger.streams
    assert streams.completed > completed
    assert (streams.misplaced, streams.miscounted) == (0, 0)


def test_a_partition_that_kills_nobody_costs_time_and_nothing_else() -> None:
    world = streaming_world(3, items=100)
    server, *callers = world.running
    world.run(3)
    world.partition([server], callers)
    world.run(2.5)
    world.heal()
    world.run(12)
    streams = world.ledger.streams
    assert (streams.misplaced, streams.miscounted) == (0, 0)
    assert streams.completed >= 4
    assert set(world.ledger.codes) == {0}


def test_one_seed_is_one_trace() -> None:
    digests = set()
    for _ in range(2):
        world = streaming_world(4)
        world.run(3)
        world.links.reset(EVERYBODY, EVERYBODY)
        world.run(3)
        digests.add(world.trace.digest())
    assert len(digests) == 1
