"""A mix of faults drawn from the seed, then a liveness phase: heal for good, and converge within the budget.

The draws are printed by the trace log (`--log`), each as a line that begins with FAULT.
"""

from __future__ import annotations

from random import Random

from reachp2p_sim.budgets import healing
from reachp2p_sim.host import Host
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.world import SEEDS, World

LIVE_MIN = 3
SEED_NODES = 3
"""How many machines the seed name leads to; it follows them when they move, as an operator would see to."""


@scenario(
    "random-faults",
    "crashes, restarts, partitions, pauses, loss, leaves and moves as the seed draws them; then everything heals",
    nodes=16,
    nodes_min=4,
    cases=("B3.30",),
    group="random",
    reaches=("refutation", "tombstone-hit", "push-pull-heal", "refusal"),
    seconds=120.0,
    rate=0.3,
)
def random_faults(world: World, options: Options) -> None:
    """B3.30: safety while faults go on, liveness after them."""
    hosts = grow(world, options)
    world.set_name(SEEDS, hosts[:SEED_NODES])
    chance = world.randomness.stream("faults")
    until = world.now + options.number("seconds")
    while world.now < until:
        world.run(chance.expovariate(options.number("rate")))
        _one_fault(world, hosts, chance)
    _heal_everything(world, hosts, chance)
    require(world, len(world.running) >= LIVE_MIN, "the core is too small to say anything")
    world.timings["healed_after"] = settle(world, healing(len(hosts), world.protocol))


def _one_fault(world: World, hosts: list[Host], chance: Random) -> None:
    """Draw one fault and do it, if it can be done now."""
    host = hosts[chance.randrange(len(hosts))]
    is_active = host.is_running and not host.is_paused
    kind = chance.choice(
        (
            "crash",
            "power off",
            "restart",
            "restart",
            "lose disk",
            "move",
            "pause",
            "resume",
            "leave",
            "cut",
            "cut one way",
            "heal",
            "loss",
        )
    )
    match kind:
        case "crash" | "power off" if host.is_running and len(world.running) > LIVE_MIN:
            world.crash(host, host_down=kind == "power off")
        case "restart" if not host.is_running:
            world.restart(host)
        case "lose disk" if not host.is_running:
            world.restart(host, disk="lost")
        case "move" if not host.is_running:
            world.restart(host, moved=True)
            world.set_name(SEEDS, hosts[:SEED_NODES])
        case "pause" if is_active:
            world.pause(host)
        case "resume" if host.is_paused:
            world.resume(host)
        case "leave" if is_active and host.life is not None and len(world.running) > LIVE_MIN:
            world.leave(host)
        case "cut" | "cut one way":
            group = chance.sample(hosts, chance.randrange(1, len(hosts)))
            rest = [other for other in hosts if other not in group]
            world.partition(group, rest, one_way=kind == "cut one way")
        case "heal":
            world.heal()
        case "loss":
            world.set_weather(loss=chance.choice((0.0, 0.0, 0.05, 0.2)))
        case _:
            return


def _heal_everything(world: World, hosts: list[Host], chance: Random) -> None:
    """Heal for good. A drawn part of the stopped machines stays off: what does not run need not converge."""
    world.heal()
    world.set_weather()
    for host in hosts:
        if host.is_paused:
            world.resume(host)
        elif not host.is_running and (host is hosts[0] or chance.random() < 0.6):
            world.restart(host)
