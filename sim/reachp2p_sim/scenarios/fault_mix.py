"""Faults drawn from chance: which one, to whom, how bad. What `random-faults` and `explore` are made of.

Each run draws first which kinds of faults it will know at all, and how often each comes: runs in which a few kinds
meet often find more than runs in which all kinds meet seldom (swarm testing, Groce et al. 2012). What ends faults is
always in the mix, or soon nothing would run any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

from reachp2p_sim.hostile import BEHAVIOURS
from reachp2p_sim.machines.host import Host
from reachp2p_sim.network.partition_shapes import SHAPES
from reachp2p_sim.steps import Step
from reachp2p_sim.steps.eavesdropping import ListenIn, Replay
from reachp2p_sim.steps.hostility import TurnHostile
from reachp2p_sim.steps.machines import CrashAtWrite, SetClock, SetDisk, StepClock, StrobeClock
from reachp2p_sim.steps.paths import (
    Direction,
    EndWeather,
    Flap,
    Heal,
    Hold,
    Partition,
    PartitionShape,
    Release,
    SetName,
    Swizzle,
    Weather,
    WeatherBetween,
)
from reachp2p_sim.steps.processes import (
    AddNodes,
    Block,
    Clone,
    Crash,
    Leave,
    Pause,
    Restart,
    Resume,
    SaveDisk,
    SlowDown,
    Start,
)
from reachp2p_sim.world.acts import SEEDS
from reachp2p_sim.world.world import World

LIVE_MIN = 3
"""Machines that go on running whatever is drawn, or there would be nothing to look at."""
SEED_NODES = 3
"""How many machines the seed name leads to; it follows them when they move, as an operator would see to."""
NEW_NODES_MAX = 4
CLONES_MAX = 2
CLOCK_STEP_MAX = 290.0
"""Seconds that a wall clock is moved at most, once a machine: together they stay within the tolerance of 10 min."""
OLD = "old"
"""The name under which disks are saved, to start from again when they are outdated."""

DIRECTIONS: tuple[Direction, ...] = ("both", "ingress", "egress")

Drawer: TypeAlias = Callable[["FaultMix"], Sequence[Step]]


class FaultMix:
    """Draws one fault after the other for a world. What cannot be done now is passed over."""

    def __init__(self, world: World, hosts: Sequence[Host], chance: Random) -> None:
        self.world = world
        self.hosts = list(hosts)
        """Machines that faults happen to; clones are not among them."""
        self.chance = chance
        self.stepped: set[str] = set()
        self.saved: list[Host] = []
        self.clones: list[Host] = []
        self.hostile: list[Host] = []
        self.joined = 0
        kinds = [kind for kind in FAULTS if chance.random() < 0.5] or [chance.choice(list(FAULTS))]
        self.weights = {kind: chance.expovariate(1.0) for kind in kinds}
        """How often each kind comes, in this run."""
        whole = sum(self.weights.values())
        self.weights |= {kind: weight * whole for kind, weight in RELIEFS.items()}

    def act(self) -> None:
        """Draw a fault, or the end of one, and do it."""
        kind = self.chance.choices(list(self.weights), list(self.weights.values()))[0]
        for step in _DRAWERS[kind](self):
            self.world.perform(step)

    # Who

    def one(self, *, running: bool) -> Host | None:
        """A machine that runs, is not held up and may go, or one that does not run."""
        if running and len(self.world.running) <= LIVE_MIN:
            return None
        found = [
            host for host in self.hosts if host.is_running == running and not (running and host.is_paused)
        ]
        return self.chance.choice(found) if found else None

    def trustworthy(self) -> list[Host]:
        """Machines that are not hostile and whose key no other machine has: of them a core can be made in the end."""
        nodes = self.world.by_node
        return [host for host in self.hosts if len(nodes[host.node]) == 1 and host not in self.hostile]

    def may_spoil(self, host: Host) -> bool:
        """Whether enough trustworthy machines are left if this one is no more."""
        left = self.trustworthy()
        return host not in left or len(left) > LIVE_MIN

    def anyone(self) -> tuple[str, ...]:
        """One machine, in whatever state."""
        return (self.chance.choice(self.hosts).name,)

    def some(self) -> tuple[str, ...]:
        """A few machines, seldom many; not all."""
        count = min(len(self.hosts) - 1, 1 + int(self.chance.expovariate(0.5)))
        return self.group(count)

    def group(self, count: int) -> tuple[str, ...]:
        """So many machines, in order."""
        chosen = self.chance.sample(range(len(self.hosts)), count)
        return tuple(self.hosts[index].name for index in sorted(chosen))

    def seeds(self) -> SetName:
        """Let the seed name lead to where the seed nodes are now."""
        return SetName(name=SEEDS, leads_to=tuple(host.name for host in self.hosts[:SEED_NODES]))


# Faults


def _crash(mix: FaultMix) -> Sequence[Step]:
    host = mix.one(running=True)
    return () if host is None else [Crash(hosts=(host.name,), host_down=mix.chance.random() < 0.3)]


def _crash_at_write(mix: FaultMix) -> Sequence[Step]:
    host = mix.one(running=True)
    if host is None:
        return ()
    write, durable = mix.chance.randint(1, 5), mix.chance.random() < 0.5
    return [CrashAtWrite(hosts=(host.name,), write=write, durable=durable)]


def _lost_disk(mix: FaultMix) -> Sequence[Step]:
    host = mix.one(running=False)
    return () if host is None else [Restart(hosts=(host.name,), disk="lost")]


def _old_disk(mix: FaultMix) -> Sequence[Step]:
    """Save a disk now, or start again from one that was saved."""
    if mix.saved and mix.chance.random() < 0.7:
        host = mix.chance.choice(mix.saved)
        return () if host.is_running else [Restart(hosts=(host.name,), disk=OLD)]
    found = mix.one(running=True)
    if found is None:
        return ()
    mix.saved.append(found)
    return [SaveDisk(hosts=(found.name,), image=OLD)]


def _move(mix: FaultMix) -> Sequence[Step]:
    host = mix.one(running=False)
    return () if host is None else [Restart(hosts=(host.name,), moved=True), mix.seeds()]


def _pause(mix: FaultMix) -> Sequence[Step]:
    host = mix.one(running=True)
    return () if host is None else [Pause(hosts=(host.name,))]


def _stutter(mix: FaultMix) -> Sequence[Step]:
    """A pause that is over before anybody is sure of it: answers come late, after a helper's nack."""
    host = mix.one(running=True)
    if host is None:
        return ()
    mix.world.perform(Pause(hosts=(host.name,)))
    mix.world.run(mix.chance.uniform(0.3, 2.0))
    return [Resume(hosts=(host.name,))]


def _block(mix: FaultMix) -> Sequence[Step]:
    host = mix.one(running=True)
    return () if host is None else [Block(hosts=(host.name,))]


def _slow(mix: FaultMix) -> Sequence[Step]:
    host = mix.one(running=True)
    return (
        () if host is None else [SlowDown(hosts=(host.name,), service_time=mix.chance.uniform(0.005, 0.15))]
    )


def _leave(mix: FaultMix) -> Sequence[Step]:
    host = mix.one(running=True)
    return () if host is None or host.life is None else [Leave(hosts=(host.name,))]


def _cut(mix: FaultMix) -> Sequence[Step]:
    group = mix.group(mix.chance.randrange(1, len(mix.hosts)))
    return [Partition(left=group, right="rest", one_way=mix.chance.random() < 0.3)]


def _shape(mix: FaultMix) -> Sequence[Step]:
    return [PartitionShape(shape=mix.chance.choice(list(SHAPES)), hosts="all")]


def _swizzle(mix: FaultMix) -> Sequence[Step]:
    return [Swizzle(share=mix.chance.uniform(0.1, 0.5), seconds=mix.chance.uniform(1.0, 10.0))]


def _flap(mix: FaultMix) -> Sequence[Step]:
    on, off = mix.chance.uniform(1.0, 20.0), mix.chance.uniform(1.0, 20.0)
    direction = mix.chance.choice(DIRECTIONS)
    return [Flap(hosts=mix.anyone(), on=on, off=off, seconds=60.0, direction=direction)]


def _hold(mix: FaultMix) -> Sequence[Step]:
    return [Hold(left=mix.some(), right="rest")]


def _weather(mix: FaultMix) -> Sequence[Step]:
    return [Weather(changes=_changes(mix.chance))]


def _weather_between(mix: FaultMix) -> Sequence[Step]:
    changes, both_ways = _changes(mix.chance), mix.chance.random() < 0.5
    return [WeatherBetween(sources=mix.some(), targets="rest", changes=changes, both_ways=both_ways)]


def _changes(chance: Random) -> dict[str, Any]:
    """Weather that is bad in one way or in several."""
    kinds: dict[str, Callable[[], Any]] = {
        "loss": lambda: chance.choice((0.02, 0.1, 0.3)),
        "delay": lambda: chance.choice((0.05, 0.3, 0.7)),
        "spread": lambda: chance.uniform(0.01, 0.2),
        "duplicate": lambda: chance.uniform(0.05, 0.3),
        "reorder": lambda: chance.uniform(0.05, 0.3),
        "corrupt": lambda: chance.uniform(0.01, 0.1),
        "replay": lambda: chance.uniform(0.05, 0.5),
        "bursts": lambda: {"good": chance.uniform(2.0, 30.0), "bad": chance.uniform(0.2, 3.0)},
        "shape": lambda: chance.choice(("lognormal", "pareto")),
    }
    chosen = chance.sample(list(kinds), 1 + int(chance.random() < 0.4))
    return {name: kinds[name]() for name in chosen}


def _clock_step(mix: FaultMix) -> Sequence[Step]:
    fresh = [host for host in mix.hosts if host.name not in mix.stepped]
    if not fresh:
        return ()
    host = mix.chance.choice(fresh)
    mix.stepped.add(host.name)
    return [StepClock(hosts=(host.name,), seconds=mix.chance.uniform(-CLOCK_STEP_MAX, CLOCK_STEP_MAX))]


def _clock_rate(mix: FaultMix) -> Sequence[Step]:
    return [SetClock(hosts=mix.anyone(), rate=mix.chance.choice((0.0, 0.5, 0.95, 1.05, 2.0)))]


def _strobe(mix: FaultMix) -> Sequence[Step]:
    return [
        StrobeClock(
            hosts=mix.anyone(), by=mix.chance.uniform(-200.0, 200.0), every=mix.chance.uniform(0.1, 20.0)
        )
    ]


def _disk(mix: FaultMix) -> Sequence[Step]:
    latency = mix.chance.choice((0.002, 0.2, 3.0))
    failing = mix.chance.choice((0.0, 0.1, 1.0))
    reason = "input/output error" if failing else None
    return [SetDisk(hosts=mix.anyone(), latency=latency, failure=reason, failing=failing or 1.0)]


def _clone(mix: FaultMix) -> Sequence[Step]:
    """A twin that comes up where nobody can tell it of the original: both live until they meet."""
    host = mix.one(running=True)
    if host is None or host.life is None or len(mix.clones) >= CLONES_MAX or not mix.may_spoil(host):
        return ()
    world, others = mix.world, [other.name for other in mix.hosts if other is not host]
    world.perform(Clone(hosts=(host.name,)))
    twin = world.nodes[-1]
    mix.clones.append(twin)
    side = mix.chance.sample(others, mix.chance.randrange(0, len(others)))
    return [Partition(left=(twin.name, *sorted(side)), right="rest"), Start(hosts=(twin.name,))]


def _hostile(mix: FaultMix) -> Sequence[Step]:
    """One in five at most turns against the others, or against a few."""
    if len(mix.hostile) >= len(mix.hosts) // 5:
        return ()
    host = mix.one(running=True)
    if host is None or host in mix.hostile or not mix.may_spoil(host):
        return ()
    mix.hostile.append(host)
    victims = mix.some() if mix.chance.random() < 0.3 else None
    return [TurnHostile(hosts=(host.name,), behaviour=mix.chance.choice(list(BEHAVIOURS)), victims=victims)]


def _replay(mix: FaultMix) -> Sequence[Step]:
    hosts = mix.some() if mix.chance.random() < 0.5 else None
    return [ListenIn(), Replay(hosts=hosts, limit=mix.chance.randint(20, 300), within=5.0)]


def _join(mix: FaultMix) -> Sequence[Step]:
    if mix.joined >= NEW_NODES_MAX:
        return ()
    mix.joined += 1
    mix.world.perform(AddNodes(count=1))
    mix.hosts.append(mix.world.nodes[-1])
    return ()


# What ends faults


def _restart(mix: FaultMix) -> Sequence[Step]:
    host = mix.one(running=False)
    return () if host is None else [Restart(hosts=(host.name,))]


def _resume(mix: FaultMix) -> Sequence[Step]:
    held_up = [host.name for host in mix.hosts if host.is_paused]
    return [Resume(hosts=(mix.chance.choice(held_up),))] if held_up else ()


def _heal(_: FaultMix) -> Sequence[Step]:
    return [Heal()]


def _release(mix: FaultMix) -> Sequence[Step]:
    return () if mix.world.network.paths.are_whole else [Release()]


def _fair_weather(_: FaultMix) -> Sequence[Step]:
    return [Weather(), EndWeather()]


def _repair(mix: FaultMix) -> Sequence[Step]:
    """A processor, a clock and a disk as they should be."""
    return repaired(mix.anyone())


def repaired(hosts: tuple[str, ...]) -> Sequence[Step]:
    """What makes machines sound again, apart from starting them."""
    return [
        Resume(hosts=hosts),
        SlowDown(hosts=hosts),
        SetClock(hosts=hosts),
        StrobeClock(hosts=hosts),
        SetDisk(hosts=hosts),
    ]


FAULTS: dict[str, Drawer] = {
    "crash": _crash,
    "crash-at-write": _crash_at_write,
    "lost-disk": _lost_disk,
    "old-disk": _old_disk,
    "move": _move,
    "pause": _pause,
    "stutter": _stutter,
    "block": _block,
    "slow": _slow,
    "leave": _leave,
    "cut": _cut,
    "shape": _shape,
    "swizzle": _swizzle,
    "flap": _flap,
    "hold": _hold,
    "weather": _weather,
    "weather-between": _weather_between,
    "clock-step": _clock_step,
    "clock-rate": _clock_rate,
    "strobe": _strobe,
    "disk": _disk,
    "clone": _clone,
    "hostile": _hostile,
    "replay": _replay,
    "join": _join,
}
"""Every kind of fault there is to draw."""
RELIEFS: dict[str, float] = {
    "restart": 0.3,
    "resume": 0.15,
    "heal": 0.2,
    "release": 0.1,
    "fair-weather": 0.1,
    "repair": 0.15,
}
"""What ends faults: how often each comes for one fault."""
_DRAWERS: dict[str, Drawer] = {
    **FAULTS,
    "restart": _restart,
    "resume": _resume,
    "heal": _heal,
    "release": _release,
    "fair-weather": _fair_weather,
    "repair": _repair,
}
