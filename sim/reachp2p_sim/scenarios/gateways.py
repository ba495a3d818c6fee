"""Nodes that some can reach and others cannot: behind address translators, behind firewalls that refuse for them."""

from __future__ import annotations

from statistics import median

from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.network.gateways import Answer
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.scenarios.told import Told, first
from reachp2p_sim.steps.work import CAPABILITY
from reachp2p_sim.world.agreement import agreed
from reachp2p_sim.world.world import World, without


@scenario(
    "behind-nat",
    "two nodes are behind address translators without a port mapping: nobody can dial them or probe them",
    nodes=12,
    nodes_min=4,
    cases=("B59", "B3.31"),
    group="network",
    hidden=2,
    answer="silence",
    seconds=150.0,
)
def behind_nat(world: World, options: Options) -> None:
    """B59: they are members like others, no view flaps about them, and whoever is linked to one can call it."""
    hidden_count = min(int(options.number("hidden")), options.nodes - 2)
    answer: Answer = "refused" if options.text("answer") == "refused" else "silence"
    hosts = world.add_nodes(options.nodes - hidden_count, within=1.0)
    hidden = [world.add_node() for _ in range(hidden_count)]
    world.translate(*hidden, answer=answer)
    world.run(2)
    world.start(*hidden)
    world.offer(*hidden)
    world.timings["all_see_all"] = world.run_until(agreed, limit=30)
    world.run(10)
    told = Told(world)
    world.call_in_a_loop(*hosts[::3])
    world.run(options.number("seconds"))
    gone, changes = told.given_up(hidden), told.changes(hidden)
    world.timings["changes_most"] = changes
    codes = world.ledger.codes
    failed = sum(count for code, count in codes.items() if code)
    world.timings["calls_failed"], world.timings["calls"] = failed, sum(codes.values())
    require(world, not gone, f"a node behind a translator was given up: {first(gone)}")
    require(world, changes <= 2, f"a view of a node behind a translator changed {changes} times")
    odd = [code for code in codes if code not in (0, 1303, 1401, 1411)]
    require(world, not odd, f"calls ended with the codes {sorted(codes)}")
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "refusals",
    "half of all dials to a live node are refused for it, its links are reset, and processes are killed beside it",
    nodes=16,
    nodes_min=6,
    cases=("B11", "B3.31"),
    group="network",
    rounds=4,
    seconds=20.0,
)
def refusals(world: World, options: Options) -> None:
    """B3.31: nobody buries the live one; the killed are out of every routing table in a median of one period."""
    hosts = grow(world, options, work=False)
    world.offer(*hosts)
    world.call_in_a_loop(*hosts[::4])
    world.run(5)
    chance = world.randomness.stream("refusals")
    subject = hosts[chance.randrange(len(hosts))]
    others = without(hosts, subject)
    told = Told(world)
    times: list[float] = []
    for _ in range(int(options.number("rounds"))):
        world.block_dials(chance.sample(others, len(others) // 2), [subject], reset=True)
        world.run(options.number("seconds") / 2)
        victim = others[chance.randrange(len(others))]

        def unrouted(world: World, victim: Host = victim) -> bool:
            return not any(victim.node in host.engine.routable(CAPABILITY) for host in world.running)

        world.run(chance.random() * world.protocol.probe_interval)
        world.crash(victim)
        times.append(world.run_until(unrouted, limit=10.0, every=0.02))
        world.run(options.number("seconds") / 2)
        world.restart(victim)
        world.allow_dials()
        world.run(5)
    world.timings["unrouted_median"], world.timings["unrouted_worst"] = median(times), max(times)
    gone = told.given_up([subject])
    world.timings["changes_most"] = told.changes([subject])
    require(world, not gone, f"a node that lives was given up: {first(gone)}")
    require(
        world, median(times) <= world.protocol.probe_interval, f"median {median(times):.2f} s until unrouted"
    )
    settle(world, healing(options.nodes, world.protocol))
