"""A deterministic world: machines, a network between them, faults, and time that runs as fast as we can compute.

    world = World(seed=7)
    left, right = halves(world.add_nodes(32))
    world.run_until(converged, limit=60)
    world.partition(left, right)
    world.run(60)
    world.heal()
    world.run_until(converged, limit=180)

The nodes run the very engine that ships. Everything uncertain comes from the run seed in streams of its own
(`randomness`), everything that happens goes into the trace, and the checkers attached to the world stop the run at the
first broken promise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, Protocol, TextIO

from reachp2p.core.effects import Invoke
from reachp2p.core.engine import Engine
from reachp2p.core.events import Event
from reachp2p.core.ids import Address, Entropy, NodeId, Rng
from reachp2p.core.settings import Protocol as ProtocolSettings
from reachp2p.core.settings import Settings
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p_sim import trace
from reachp2p_sim.disk import Disk, Image
from reachp2p_sim.history import History
from reachp2p_sim.host import Host
from reachp2p_sim.links import Links
from reachp2p_sim.network import Conditions, Network, mask
from reachp2p_sim.observer import Observer
from reachp2p_sim.randomness import Randomness
from reachp2p_sim.signing import Ed25519Signing, KeyedHashSigning, Signing
from reachp2p_sim.timeline import Timeline
from reachp2p_sim.trace import Trace
from reachp2p_sim.view import fingerprint
from reachp2p_sim.violation import Violation
from reachp2p_sim.workload import Ledger

PORT = 7946
WALL_START = 1_767_225_600.0
"""2026-01-01, where the wall clocks of a run begin."""
STEADY_OFFSET_MAX = 100_000
LINK_SILENCE = 60.0
"""Seconds after which an operating system gives up a stream that makes no progress, at least; twice that at most."""
SEEDS = "seeds"
"""The name under which nodes look for their seed nodes."""


class EngineFactory(Protocol):
    """How an engine is built: the class that ships, or a mutant's."""

    def __call__(
        self, settings: Settings, *, signer: Signer, verifier: Verifier, rng: Rng, entropy: Entropy
    ) -> Engine: ...


class World:
    """Everything there is in one run."""

    def __init__(
        self,
        seed: int = 0,
        *,
        conditions: Conditions | None = None,
        protocol: ProtocolSettings | None = None,
        signing: Literal["keyed", "ed25519"] = "keyed",
        engine_factory: EngineFactory = Engine,
        log: TextIO | None = None,
    ) -> None:
        self.seed = seed
        self.cluster_id = "simulated"
        self.protocol = protocol or ProtocolSettings()
        self.engine_factory = engine_factory
        self.randomness = Randomness(seed)
        self.timeline = Timeline()
        self.trace = Trace(log)
        self.signing: Signing = (
            KeyedHashSigning(self.randomness) if signing == "keyed" else Ed25519Signing(self.randomness)
        )
        self.network = Network(self.randomness, self.timeline, self.trace, conditions or Conditions())
        self.links = Links(self.network, self.timeline, self.randomness, LINK_SILENCE)
        self.history = History()
        self.ledger = Ledger()
        self.names: dict[str, list[Address]] = {}
        """The name service: what seed names lead to. Hosts ask again every 15 seconds."""
        self.wall_start = WALL_START
        self.nodes: list[Host] = []
        self.by_node: dict[NodeId, list[Host]] = {}
        """Hosts by key: more than one only after `clone`."""
        self.on_event: list[Callable[[Host, Event], None]] = []
        """Called with what each node tells its application."""
        self.on_invoke: list[Callable[[Host, Invoke], None]] = []
        self.on_process: list[Callable[[Host, str], None]] = []
        """Called when a process has `started`, `ended` (for whatever reason), been `paused` or `resumed`."""
        self.on_fault: list[Callable[[str], None]] = []
        """Called with each fault in words, just before it is done."""
        self.timings: dict[str, float] = {}
        """What the scenario measured, in seconds, by name."""
        self._streams: dict[tuple[str, str], Random] = {}
        self._addresses = 0
        self._note_weather()

    # Time

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return self.timeline.now

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.timeline.run(self.timeline.now + seconds)

    def run_until(self, condition: Callable[[World], bool], limit: float, every: float = 0.25) -> float:
        """Let time pass until the condition holds; returns the seconds it took. A `Violation` after `limit` seconds."""
        began_at = self.timeline.now
        ends_at = began_at + limit
        while not condition(self):
            if self.timeline.now >= ends_at:
                name = getattr(condition, "__name__", str(condition))
                explain: Callable[[World], str] = getattr(condition, "explain", lambda _: "")
                message = f"not {name} after {limit:.1f} s; {explain(self)}".rstrip("; ")
                checker = "convergence" if name in ("converged", "agreed") else "scenario"
                raise Violation(checker, message, self.timeline.now)
            self.timeline.run(min(self.timeline.now + every, ends_at))
        return self.timeline.now - began_at

    def every(self, interval: float, action: Callable[[], None]) -> None:
        """Call an action again and again. It is no event: it leaves nothing in the trace and shifts nothing."""

        def due(_: None) -> None:
            self.timeline.after(interval, due)
            action()

        self.timeline.after(interval, due)

    # Machines

    def add_nodes(self, count: int, *, within: float = 0.0, seeds: Sequence[str] = (SEEDS,)) -> list[Host]:
        """Add machines and start them, all at once or at moments drawn from the next `within` seconds.

        The first machine of a world becomes the seed node of all, itself included.
        """
        hosts = [self.add_node(seeds=seeds) for _ in range(count)]
        moments = self.randomness.stream("starts", self.now_text)
        for host in hosts:
            if within:
                self.timeline.after(moments.random() * within, self._start_if_idle, host)
            else:
                self.start(host)
        return hosts

    def add_node(self, *, seeds: Sequence[str] = (SEEDS,)) -> Host:
        """Add one machine without starting it."""
        name = f"n{len(self.nodes):02d}"
        host = self._build(name, self.signing.signer(name), seeds)
        self.names.setdefault(SEEDS, [host.address])
        return host

    def _build(self, name: str, signer: Signer, seeds: Sequence[str]) -> Host:
        disk = Disk(self.randomness.stream("disk", name))
        offset = float(self.randomness.stream("steady clock", name).randrange(1, STEADY_OFFSET_MAX))
        host = Host(self, len(self.nodes), name, self.new_address(), signer, disk, seeds, offset)
        self.nodes.append(host)
        self.by_node.setdefault(host.node, []).append(host)
        self.network.attach(host)
        self.history.absent(host.index, self.now)
        return host

    def new_address(self) -> Address:
        """An address that nobody has had."""
        self._addresses += 1
        number = self._addresses
        return Address(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", PORT)

    def start(self, host: Host, take_over: bool = False) -> None:
        """Start the process of a machine that runs none."""
        self._fault(f"start {host.name}")
        self.history.present(host.index, self.now)
        host.start(take_over)
        self.links.host_came_up()

    def _start_if_idle(self, host: Host) -> None:
        if not host.is_running:
            self.start(host)

    def crash(self, *hosts: Host, host_down: bool = False) -> None:
        """End processes without a word. With `host_down` the machines vanish, too: silence instead of refusal."""
        for host in hosts:
            self._fault(f"{'power off' if host_down else 'crash'} {host.name}")
            self.history.absent(host.index, self.now)
            if host_down:
                host.power_off()
            else:
                host.stop()

    def restart(
        self,
        *hosts: Host,
        disk: Literal["kept", "lost"] | Image = "kept",
        moved: bool = False,
        take_over: bool = False,
    ) -> None:
        """Start processes again: with their disk, without, or with an older image; `moved`: at another address."""
        for host in hosts:
            if host.is_running:
                self.crash(host)
            if isinstance(disk, dict):
                host.disk.replace(disk)
            elif disk == "lost":
                host.disk.replace({})
            if moved:
                self.network.move(host, self.new_address())
            self._fault(
                f"restart {host.name}, disk {disk if isinstance(disk, str) else 'older'}, at {host.address}"
            )
            self.start(host, take_over)

    def pause(self, *hosts: Host) -> None:
        """Take the processor away: messages wait, nothing is lost."""
        for host in hosts:
            self._fault(f"pause {host.name}")
            self.history.absent(host.index, self.now)
            host.pause()

    def resume(self, *hosts: Host) -> None:
        """Give it back."""
        for host in hosts:
            self._fault(f"resume {host.name}")
            self.history.present(host.index, self.now)
            host.resume()

    def leave(self, *hosts: Host) -> None:
        """Let nodes drain, say goodbye and end."""
        for host in hosts:
            self._fault(f"leave {host.name}")
            self.history.absent(host.index, self.now)
            host.engine.leave(host.now)
            host.settle()

    def clone(self, host: Host, image: Image | None = None) -> Host:
        """A second machine with this key, a copy of the disk (or an older image) and an own address; not started."""
        copies = len(self.by_node[host.node])
        twin = self._build(f"{host.name}-clone{copies}", host.signer, host.seeds)
        twin.disk.replace(image if image is not None else host.disk.image())
        twin.application.offers = list(host.application.offers)
        self._fault(f"clone {host.name} as {twin.name}")
        return twin

    def step_clock(self, host: Host, seconds: float) -> None:
        """Move the wall clock of a machine. The steady clock does not notice."""
        self._fault(f"wall clock of {host.name} {seconds:+g} s")
        host.wall_offset += seconds

    def set_name(self, name: str, addresses: Sequence[Address]) -> None:
        """Change what a seed name leads to."""
        self._fault(f"name {name} leads to {','.join(str(address) for address in addresses) or 'nothing'}")
        self.names[name] = list(addresses)

    # Network

    def partition(self, left: Sequence[Host], right: Sequence[Host], *, one_way: bool = False) -> None:
        """Let nothing through between two groups, or only nothing from left to right."""
        self._fault(f"partition {_names(left)} | {_names(right)}{' (one way)' if one_way else ''}")
        self._cut(left, right, one_way)
        self.network.cut(left, right)
        if not one_way:
            self.network.cut(right, left)

    def heal(self) -> None:
        """End all partitions."""
        self._fault("heal")
        self.history.mended(self.now)
        self.network.mend()

    def hold(self, left: Sequence[Host], right: Sequence[Host]) -> None:
        """Let what goes between two groups wait; nothing is lost."""
        self._fault(f"hold {_names(left)} | {_names(right)}")
        self._cut(left, right, one_way=False)
        self.network.hold(left, right)
        self.network.hold(right, left)

    def release(self) -> None:
        """Deliver what was held."""
        self._fault("release")
        self.history.mended(self.now)
        self.network.release()

    def set_conditions(self, conditions: Conditions) -> None:
        """Change the weather on all paths that have none of their own."""
        self._fault(f"conditions {conditions}")
        self.network.conditions = conditions
        self._note_weather()

    def set_conditions_between(self, source: Host, target: Host, conditions: Conditions | None) -> None:
        """Give one directed path its own weather, or take it away."""
        self._fault(f"conditions {source.name} to {target.name}: {conditions}")
        self.network.set_between(source, target, conditions)
        self._note_weather()

    def _cut(self, left: Sequence[Host], right: Sequence[Host], one_way: bool) -> None:
        sources, targets = mask(left), mask(right)
        self.history.cut(sources, targets, self.now)
        if not one_way:
            self.history.cut(targets, sources, self.now)

    def _note_weather(self) -> None:
        worst_loss, worst_delay = self.network.worst()
        self.history.weather_changed(worst_loss, worst_delay, self.now)

    # Questions

    @property
    def running(self) -> list[Host]:
        """Machines with a running process, in order of their number."""
        return [host for host in self.nodes if host.is_running]

    @property
    def is_calm(self) -> bool:
        """Nothing is cut, held or paused, and the weather lets nine of ten datagrams through."""
        return (
            self.network.is_whole
            and not any(host.is_paused for host in self.nodes)
            and self.network.worst()[0] <= 0.1
        )

    @property
    def now_text(self) -> str:
        """The present time as a part of a stream's name."""
        return f"{self.timeline.now:.9f}"

    def alive_fingerprint(self) -> int | None:
        """What every view's ALIVE set, own life included, must amount to; None while a life is being opened."""
        total = 0
        for host in self.running:
            life = host.life
            if life is None:
                return None
            total ^= fingerprint(life)
        return total

    def chance(self, purpose: str, host: Host) -> Random:
        """A stream of chance of its own for a purpose at a host."""
        key = (purpose, host.name)
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = self.randomness.stream(*key)
        return stream

    @property
    def messages(self) -> int:
        """Datagrams and frames delivered."""
        return self.network.delivered + self.links.frames_delivered

    def watch(self, observer: Observer) -> None:
        """Let an observer see all that travels. At most one; it changes nothing."""
        assert self.network.observer is None, "this world is watched already"
        self.network.observer = self.links.observer = observer

    # What hosts report

    def notified(self, host: Host, event: Event) -> None:
        """A node told its application something."""
        for listener in self.on_event:
            listener(host, event)

    def invoked(self, host: Host, invoke: Invoke) -> None:
        """A node ran a handler."""
        for listener in self.on_invoke:
            listener(host, invoke)

    def process_changed(self, host: Host, what: str) -> None:
        """A process has started, ended, been paused or resumed."""
        for listener in self.on_process:
            listener(host, what)

    def process_exited(self, host: Host) -> None:
        """A process has ended by itself."""
        self.history.absent(host.index, self.now)
        self.history.last_change_at = self.now

    def _fault(self, text: str) -> None:
        self.history.last_change_at = self.timeline.now
        self.trace.text(trace.FAULT, self.timeline.now, -1, text)
        for listener in self.on_fault:
            listener(text)


def halves(hosts: Sequence[Host]) -> tuple[list[Host], list[Host]]:
    """The first half and the second."""
    middle = len(hosts) // 2
    return list(hosts[:middle]), list(hosts[middle:])


def without(hosts: Sequence[Host], *others: Host) -> list[Host]:
    """All but some."""
    return [host for host in hosts if host not in others]


def _names(hosts: Sequence[Host]) -> str:
    return ",".join(host.name for host in hosts)
