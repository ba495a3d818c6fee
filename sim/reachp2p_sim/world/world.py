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

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from reachp2p.core.engine import Engine
from reachp2p.core.settings import Protocol as ProtocolSettings
from reachp2p.core.trust.signer import Signer
from reachp2p.core.wire.engine_codec import CODEC
from reachp2p_sim.machines.disk import Disk
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.process import EngineFactory
from reachp2p_sim.machines.view import fingerprint
from reachp2p_sim.machines.workload import Ledger
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.network.handing import HandingCodec
from reachp2p_sim.network.links import Links
from reachp2p_sim.network.network import Network
from reachp2p_sim.steps import Step
from reachp2p_sim.steps.base import EVERY_MIN, NUMBER_MAX
from reachp2p_sim.steps.in_force import InForce
from reachp2p_sim.steps.processes import crash
from reachp2p_sim.steps.selection import Selection, StepImpossible, select
from reachp2p_sim.steps.story import Expect
from reachp2p_sim.world import trace
from reachp2p_sim.world.acts import SEEDS, Acts
from reachp2p_sim.world.agreement import Condition
from reachp2p_sim.world.history import History, WeatherInterval
from reachp2p_sim.world.inventory import Inventory
from reachp2p_sim.world.observer import Observer
from reachp2p_sim.world.randomness import Randomness
from reachp2p_sim.world.reports import Reports
from reachp2p_sim.world.signed_facts import SignedFacts
from reachp2p_sim.world.signing import Ed25519Signing, KeyedHashSigning, Signing
from reachp2p_sim.world.timeline import Timeline
from reachp2p_sim.world.trace import Trace
from reachp2p_sim.world.violation import Violation

WALL_START = 1_767_225_600.0
"""2026-01-01, where the wall clocks of a run begin."""
STEADY_OFFSET_MAX = 100_000
LINK_SILENCE = 60.0
"""Seconds after which an operating system gives up a stream that makes no progress, at least; twice that at most."""


@dataclass(slots=True, frozen=True)
class Performed:
    """One step of the record: which one it was, and when, in run time."""

    number: int
    at: float
    step: Step


class World(Acts, Inventory, Reports):
    """Everything there is in one run."""

    def __init__(
        self,
        seed: int = 0,
        *,
        conditions: Conditions | None = None,
        protocol: ProtocolSettings | None = None,
        signing: Literal["keyed", "ed25519"] = "keyed",
        codec: Literal["on", "off"] = "on",
        engine_factory: EngineFactory = Engine,
        log: trace.Lines | None = None,
    ) -> None:
        Inventory.__init__(self)
        Reports.__init__(self)
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
        self.codec = CODEC if codec == "on" else HandingCodec()
        self.signed = SignedFacts(self.cluster_id)
        """What every key of this run has ever signed."""
        self.network = Network(self.randomness, self.timeline, self.trace, conditions or Conditions())
        self.links = Links(self.network, self.timeline, self.randomness, LINK_SILENCE)
        self.history = History()
        self.ledger = Ledger()
        self.wall_start = WALL_START
        self.fair = self.network.paths.conditions
        """The weather that the run began with."""
        self.performed: list[Performed] = []
        """The record: every step of the story so far."""
        self.in_force = InForce()
        """The partitions, holds and weather that a step may end by their name."""
        self.healed: Counter[str] = Counter()
        """How often the cuts of a name were healed: whoever planned more before that gives them up."""
        self.remarks: list[str] = []
        """What a person should know of the run besides its verdict."""
        self.limits: dict[str, float] = {}
        """What the scenario allows beyond the protocol's own budgets, by name, for checkers to ask."""
        self.shared: dict[type, object] = {}
        """What those who watch share with each other, by its type. It ends with the world."""
        self.core: tuple[Host, ...] | None = None
        """The machines that a liveness phase has healed for good; None before that: then all are judged."""
        self.on_fault: list[Callable[[str], None]] = []
        """Called with each fault in words, just before it is done."""
        self.timings: dict[str, float] = {}
        """What the scenario measured, in seconds, by name."""
        self._is_acting = False
        """Whether a step is being performed that is not itself about time."""
        self._streams: dict[tuple[str, str], Random] = {}
        self.note_weather()

    # Time

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return self.timeline.now

    def run(self, seconds: float) -> None:
        """Let time pass. Raises `StepImpossible` for what is no number of seconds, and while time passes already."""
        check_seconds("world.run", seconds)
        self._may_wait()
        self.timeline.run(self.timeline.now + seconds)

    def run_to(self, when: float) -> None:
        """Let time pass until it is this late, in run time; a time that has come is now, and nothing runs.

        So two steps of one moment follow each other without anything between them, as they did when they were recorded.
        """
        check_seconds("world.run_to", when)
        self._may_wait()
        if when > self.timeline.now:
            self.timeline.run(when)

    def run_until(self, condition: Callable[[World], bool], limit: float, every: float = 0.25) -> float:
        """Let time pass until the condition holds; returns the seconds it took. A `Violation` after `limit` seconds.

        It looks `every` so many seconds. Raises `StepImpossible` as `run` does.
        """
        check_seconds("world.run_until: limit", limit)
        check_seconds("world.run_until: every", every, EVERY_MIN)
        self._may_wait()
        if isinstance(condition, Condition):
            expected = Expect(condition=condition.__name__, limit=limit, every=every)
            self.performed.append(Performed(len(self.performed), self.timeline.now, expected))
        return self.wait(condition, limit, every)

    def wait(self, condition: Callable[[World], bool], limit: float, every: float) -> float:
        """The same without a place in the record."""
        self._may_wait()
        began_at = self.timeline.now
        ends_at = began_at + limit
        while not condition(self):
            if self.timeline.now >= ends_at:
                name = getattr(condition, "__name__", str(condition))
                explain: Callable[[World], str] = getattr(condition, "explain", lambda _: "")
                message = f"not {name} after {limit:.1f} s; {explain(self)}".rstrip("; ")
                checker = "convergence" if isinstance(condition, Condition) else "scenario"
                raise Violation(checker, message, self.timeline.now)
            self.timeline.run(min(self.timeline.now + every, ends_at))
        return self.timeline.now - began_at

    def every(self, interval: float, action: Callable[[], None]) -> None:
        """Call an action again and again. It is no event: it leaves nothing in the trace and shifts nothing.

        Raises `StepImpossible` for an interval of less than `EVERY_MIN` seconds.
        """
        check_seconds("world.every", interval, EVERY_MIN)

        def due(_: None) -> None:
            self.timeline.after(interval, due)
            action()

        self.timeline.after(interval, due)

    def _may_wait(self) -> None:
        """Raise `StepImpossible` if whoever asks is called while time passes, or in the middle of a step."""
        if self.timeline.is_running or self._is_acting:
            raise StepImpossible(
                "only the story lets time pass: a listener, or an action of world.every, is called while it does; plan "
                "what comes later with world.timeline.after(seconds, action)"
            )

    # What steps are made of

    def perform(self, step: Step) -> None:
        """Do one step of the story now and keep it in the record.

        Raises `StepImpossible`, and has done nothing, if it names a machine or an image, or ends a partition, that
        there is not, or if a value is out of range.
        """
        step.check_values()
        step = step.resolved(self)
        step.check(
            {field: value for field in step.machines if isinstance(value := getattr(step, field), tuple)}
        )
        self.in_force.note(step)
        if step.is_recorded:
            self.performed.append(Performed(len(self.performed), self.timeline.now, step))
        before, self._is_acting = self._is_acting, self._is_acting or step.acts
        try:
            if step.acts:
                self.note(step.text())
            if step.disturbs:
                self.disturbed(step.named())
            step.perform(self)
        finally:
            self._is_acting = before

    def disturbed(self, names: Sequence[str]) -> None:
        """Views may differ for a while because of what happens to these machines now (to all, if none is named).

        Once a core is declared, what happens to the others alone is no excuse for it.
        """
        if self.core is None or not names or any(host.name in names for host in self.core):
            self.history.last_change_at = self.timeline.now

    @property
    def steps_performed(self) -> int:
        """How many steps are in the record."""
        return len(self.performed)

    def note(self, text: str) -> None:
        """Write what is done to the world into the trace."""
        for listener in self.on_fault:
            listener(text)
        self.trace.text(trace.FAULT, self.timeline.now, -1, text)

    def build(self, name: str, signer: Signer, seeds: Sequence[str]) -> Host:
        """Put a machine into the world, with an address, an empty disk and clocks of its own."""
        disk = Disk(self.randomness.stream("disk", name))
        offset = float(self.randomness.stream("steady clock", name).randrange(1, STEADY_OFFSET_MAX))
        signer = self.signed.recorder(signer)
        host = Host(self, len(self.nodes), name, self.new_address(), signer, disk, seeds, offset)
        self.include(host)
        self.network.attach(host)
        self.history.absent(host.index, self.now)
        self.names.setdefault(SEEDS, [host.address])
        return host

    def hosts(self, selection: Selection) -> list[Host]:
        """The machines that a selection names. Raises `UnknownMachine`."""
        return [self.host(name) for name in select(selection, self)]

    def note_weather(self) -> None:
        """Tell the history how bad the weather is now at most."""
        present = [
            WeatherInterval(self.now, loss=c.worst_loss, delay=c.mean_delay, sources=sources, targets=targets)
            for sources, targets, c in self.network.paths.weathers()
        ]
        self.history.weather_changed(self.now, *present)

    def crash_point_reached(self, host: Host) -> None:
        """The write at which a machine was to crash (`crash-at-write`) has come."""
        crash(self, host.name)

    # Questions

    @property
    def running(self) -> list[Host]:
        """Machines with a running process, in order of their number."""
        return [host for host in self.nodes if host.is_running]

    @property
    def judged(self) -> list[Host]:
        """Running machines that must converge: the declared core's, or all; none that does harm, or has done any."""
        chosen = self.running if self.core is None else [host for host in self.core if host.is_running]
        return [host for host in chosen if not host.is_hostile]

    @property
    def is_calm(self) -> bool:
        """Nothing is cut or held among those who are judged, none of them is hindered, and the weather lets nine of ten
        datagrams through."""
        return (
            self.network.paths.are_whole_among(self.judged)
            and all(host.is_sound for host in (self.nodes if self.core is None else self.judged))
            and self.judged_weather[0] <= 0.1
        )

    @property
    def judged_weather(self) -> tuple[float, float]:
        """The worst loss, and the slowest mean delay, on any path between two that are judged."""
        return (
            self.network.paths.worst() if self.core is None else self.network.paths.worst_among(self.judged)
        )

    def alive_fingerprint(self) -> int | None:
        """What every view's ALIVE set, own life included, must amount to; None while a life is being opened.

        Hostile nodes do not count: of them anything may be believed.
        """
        total = 0
        for host in self.judged:
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

    # What machines report

    def process_exited(self, host: Host) -> None:
        """A process has ended by itself."""
        self.history.absent(host.index, self.now)
        self.disturbed((host.name,))


def check_seconds(what: str, seconds: float, least: float = 0.0) -> None:
    """Raise `StepImpossible` if this is no number of seconds of at least so many."""
    if not isinstance(seconds, int | float) or not least <= seconds <= NUMBER_MAX:
        wanted = f"seconds from {least:g} to {NUMBER_MAX:g} are wanted"
        raise StepImpossible(f"{what}: {wanted}, not {seconds!r}")


def halves(hosts: Sequence[Host]) -> tuple[list[Host], list[Host]]:
    """The first half and the second."""
    middle = len(hosts) // 2
    return list(hosts[:middle]), list(hosts[middle:])


def without(hosts: Sequence[Host], *others: Host) -> list[Host]:
    """All but some."""
    return [host for host in hosts if host not in others]
