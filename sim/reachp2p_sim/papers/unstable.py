"""Members in trouble, and what all others make of it: one story of the Rapid paper, run and watched.

A member is *in* at an observer that holds it ALIVE or SUSPECT (these are the members that memberlist lists and that our
placement covers), and *out* when it is DEAD or forgotten. It is *asked* while calls from the observer may go to it.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p.core.ids import NodeId
from reachp2p.core.settings import Protocol
from reachp2p_sim.machines.host import Host
from reachp2p_sim.papers.presets import MEMBERLIST_RULES, lifeguard
from reachp2p_sim.steps.work import CAPABILITY
from reachp2p_sim.world.agreement import agreed, converged
from reachp2p_sim.world.world import World

Story = Literal["flip-flop", "loss-in", "loss-out", "crash", "silent", "bootstrap"]
Mode = Literal["ours", "memberlist"]

MEMBERLIST = replace(lifeguard(alpha=4.0), rules=replace(MEMBERLIST_RULES, link_probes=True))
"""SWIM and Lifeguard as memberlist runs them on a LAN, its probe over TCP included: here datagrams alone are lost."""

SETTLE = 20.0
"""Seconds of quiet after everybody sees everybody."""
OFFERING = 16
"""Nodes that offer an agent, the faulty ones among them: whom calls go to is seen at these."""
LOOK = 1.0
CALM_AFTER = 120.0
"""Seconds after the trouble has begun from which views are compared."""
COALESCE = 1.0
"""Seconds within which changes of one routing table count as one."""
BOOTSTRAP_LIMIT = 300.0


class TroubleCase(msgspec.Struct, frozen=True):
    """One story with one seed."""

    seed: int
    story: Story
    mode: Mode
    nodes: int
    faulty: int
    seconds: float


class Trouble(msgspec.Struct, frozen=True):
    """What healthy members saw. Times are seconds from the beginning of the trouble."""

    flips: list[int]
    """For each observer and faulty member how often it went in or out."""
    out_since: list[float | None]
    """For each faulty member when the last observer had it out for good; None if somebody has it in at the end."""
    turns: list[int]
    """For each observer and faulty member how often it was asked no more, or again."""
    unasked_since: list[float | None]
    """For each faulty member when the last observer ceased to ask it for good; None if somebody asks it at the "
    "end."""
    routes_equal: float
    """Part of the looks from `CALM_AFTER` on at which all healthy members asked the same members."""
    route_changes: list[int]
    """For each observer the looks, one a second in groups of up to 200, at which it asked other members than before."""
    healthy_dead: int
    """Verdicts on healthy members."""
    healthy_suspected: int
    equal: float
    """Part of the looks from `CALM_AFTER` on at which all healthy members agreed on who is in."""
    sizes: list[tuple[float, float]]
    """(time, mean number of members in) over the healthy members."""
    changes: list[int]
    """For each observer how often its set of members in changed, changes within `COALESCE` seconds taken together."""


class Bootstrap(msgspec.Struct, frozen=True):
    """How a cluster came up."""

    complete: float | None
    """Seconds until everybody saw everybody; None if not within `BOOTSTRAP_LIMIT`."""
    sizes: int
    """Different sizes of views that anybody had on the way."""


IN = (MemberState.ALIVE, MemberState.SUSPECT)


class _Watch:
    """Follows who is in, at every healthy member."""

    def __init__(self, world: World, faulty: list[Host]) -> None:
        self._world = world
        self._faulty = {host.node: host.name for host in faulty}
        self.observers = [host for host in world.running if host not in faulty]
        self.began_at = world.now
        self.inside: dict[str, dict[NodeId, None]] = {
            host.name: {node: None for node, held in host.view.members.items() if held.state in IN}
            for host in self.observers
        }
        self.flips = {(host.name, name): 0 for host in self.observers for name in self._faulty.values()}
        self.went: dict[tuple[str, str], float] = {}
        """When each pair last changed."""
        self.changed: dict[str, list[float]] = {host.name: [] for host in self.observers}
        self.turns = dict.fromkeys(self.flips, 0)
        self.turned: dict[tuple[str, str], float] = {}
        self.asked = dict.fromkeys(self.flips, True)
        self.routes = {host.name: tuple(host.engine.routable(CAPABILITY)) for host in self.observers}
        self.route_changes = dict.fromkeys(self.routes, 0)
        self.healthy_dead = self.healthy_suspected = 0
        world.on_event.append(self._on_event)

    def _on_event(self, host: Host, event: Event) -> None:
        if not isinstance(event, MemberChanged) or host.name not in self.inside:
            return
        faulty = self._faulty.get(event.node)
        if faulty is None:
            self.healthy_dead += event.new is MemberState.DEAD
            self.healthy_suspected += event.new is MemberState.SUSPECT
        inside = self.inside[host.name]
        was_in, is_in = event.node in inside, event.new in IN
        if was_in == is_in:
            return
        if is_in:
            inside[event.node] = None
        else:
            del inside[event.node]
        now = self._world.now - self.began_at
        changed = self.changed[host.name]
        if not changed or now - changed[-1] > COALESCE:
            changed.append(now)
        if faulty is not None:
            self.flips[host.name, faulty] += 1
            self.went[host.name, faulty] = now

    def agree(self) -> bool:
        """Whether all observers have the same members in, themselves included."""
        views = [{**self.inside[host.name], host.node: None}.keys() for host in self.observers]
        return all(view == views[0] for view in views)

    def look_at_routes(self) -> bool:
        """Note whom the observers ask; whether they all ask the same members."""
        now = self._world.now - self.began_at
        views: dict[tuple[NodeId, ...], None] = {}
        for host in self.observers:
            routable = tuple(host.engine.routable(CAPABILITY))
            views[routable] = None
            if routable != self.routes[host.name]:
                self.routes[host.name] = routable
                self.route_changes[host.name] += 1
            asked = dict.fromkeys(routable)
            for node, name in self._faulty.items():
                pair = (host.name, name)
                if self.asked[pair] is not (node in asked):
                    self.asked[pair] = node in asked
                    self.turns[pair] += 1
                    self.turned[pair] = now
        return len(views) == 1

    def unasked_since(self, faulty: Host) -> float | None:
        """When the last observer ceased to ask it for good."""
        pairs = [(host.name, faulty.name) for host in self.observers]
        if any(self.asked[pair] for pair in pairs):
            return None
        return max(self.turned[pair] for pair in pairs)

    def mean_size(self) -> float:
        """How many members the observers have in, themselves included."""
        return 1.0 + sum(map(len, self.inside.values())) / len(self.inside)

    def out_since(self, faulty: Host) -> float | None:
        """When the last observer let it go for good."""
        if any(faulty.node in inside for inside in self.inside.values()):
            return None
        return max((self.went.get((host.name, faulty.name), 0.0) for host in self.observers), default=None)


def measure_trouble(case: TroubleCase) -> Trouble:
    """Run a story that begins with a converged cluster."""
    world = World(case.seed, protocol=_protocol(case.mode), codec="off")
    hosts = world.add_nodes(case.nodes, converged=True)
    world.run(1.0)
    faulty = world.randomness.stream("faulty").sample(hosts[1:], case.faulty)
    healthy = [host for host in hosts if host not in faulty]
    world.offer(*faulty, *healthy[: OFFERING - case.faulty])
    world.run_until(converged, limit=BOOTSTRAP_LIMIT)
    world.run(SETTLE)
    watch = _Watch(world, faulty)
    _begin(world, case, faulty, watch.observers)
    sizes = []
    equal = looks = routes_equal = route_looks = 0
    every = max(1, case.nodes // 200)
    for look in range(1, int(case.seconds / LOOK) + 1):
        world.run(LOOK)
        sizes.append((look * LOOK, watch.mean_size()))
        is_calm = look * LOOK > min(CALM_AFTER, case.seconds / 2)
        if is_calm:
            looks += 1
            equal += watch.agree()
        if look % every == 0:
            same = watch.look_at_routes()
            route_looks += is_calm
            routes_equal += same and is_calm
    return Trouble(
        list(watch.flips.values()),
        [watch.out_since(host) for host in faulty],
        list(watch.turns.values()),
        [watch.unasked_since(host) for host in faulty],
        routes_equal / max(1, route_looks),
        list(watch.route_changes.values()),
        watch.healthy_dead,
        watch.healthy_suspected,
        equal / looks,
        sizes,
        [len(changed) for changed in watch.changed.values()],
    )


def _begin(world: World, case: TroubleCase, faulty: list[Host], healthy: list[Host]) -> None:
    match case.story:
        case "flip-flop":
            world.flap(*faulty, on=20.0, off=20.0, seconds=case.seconds, direction="ingress")
        case "loss-in":
            world.set_weather_of(world.running, faulty, loss=0.8)
        case "loss-out":
            world.set_weather_of(faulty, world.running, loss=0.8)
        case "crash" | "silent":
            world.crash(*faulty, host_down=case.story == "silent")
        case "bootstrap":
            raise AssertionError("a bootstrap begins without a cluster")


def measure_bootstrap(case: TroubleCase) -> Bootstrap:
    """One seed node alone for ten seconds, then all others within one."""
    world = World(case.seed, protocol=_protocol(case.mode), codec="off")
    world.add_nodes(1)
    world.run(10.0)
    sizes: dict[int, None] = {}

    def note(host: Host, event: Event) -> None:
        if isinstance(event, MemberChanged):
            sizes[1 + sum(held.state in IN for held in host.view.members.values())] = None

    began_at = world.now
    world.add_nodes(case.nodes - 1, within=1.0)
    world.on_event.append(note)
    world.run(1.0)
    while not agreed(world):
        if world.now - began_at > BOOTSTRAP_LIMIT:
            return Bootstrap(None, len(sizes))
        world.run(0.25)
    return Bootstrap(world.now - began_at, len(sizes))


def _protocol(mode: Mode) -> Protocol:
    return Protocol() if mode == "ours" else MEMBERLIST
