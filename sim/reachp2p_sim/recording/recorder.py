"""The recorder: watches a run and keeps what a person wants to see of it afterwards.

    recorder = Recorder()
    result = run_scenario(config, attach=recorder.attach)
    recorder.finish(result)

It only looks: it sends nothing, plans nothing that leaves a trace and draws nothing, so a recorded run has the digest
of an unrecorded one. Everything it keeps has a bound; what did not fit is counted in `overflow`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf
from typing import Any

from reachp2p.core.events import CallEnded, Event, MemberChanged, RecordChanged
from reachp2p.core.ids import NodeId
from reachp2p.core.settings import Settings
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.view import fingerprint
from reachp2p_sim.machines.workload import read_reply
from reachp2p_sim.measuring import budgets
from reachp2p_sim.recording.beliefs import Beliefs
from reachp2p_sim.recording.lives import Lives
from reachp2p_sim.recording.series import Samples
from reachp2p_sim.recording.travel import Travel
from reachp2p_sim.running.run import RunResult
from reachp2p_sim.world.world import World

SAMPLE_INTERVAL = 0.25
"""Seconds of run time between two looks at all views, up to `SAMPLED_FULLY` nodes; above them in proportion."""
SAMPLED_FULLY = 64
BELIEFS_OBSERVERS_MAX = 128
"""With more nodes than this the share of single beliefs is not sampled: it costs n² at each look."""
STARTS = ("start ", "add nodes ", "offer agent ", "call loop ")
SAID_MAX = 20_000
UPDATES_MAX = 2_000
PROCESSES_MAX = 20_000
SAMPLE_NAMES = (
    "running",
    "views_right",
    "beliefs_right",
    "views_equal",
    "routes_equal",
    "routes_right",
    "suspected",
    "datagrams",
    "bytes",
)


@dataclass(slots=True, frozen=True)
class Said:
    """What a node told its application, apart from changes of members and ends of calls."""

    at: float
    host: int
    kind: str
    event: Event


@dataclass(slots=True)
class Process:
    """One process of a host. `how` it ended: `crash`, `exit`, or None while it runs."""

    host: int
    began_at: float
    ended_at: float | None = None
    how: str | None = None
    others: int = 0
    """Processes that ran elsewhere when it ended."""


@dataclass(slots=True)
class Update:
    """A piece of news and when each node had it. `names` the subject, `what` it says."""

    what: str
    subject: int
    at: float
    others: int
    """Nodes that ran when it appeared, the origin apart."""
    times: list[float]
    """Seconds after `at`, in order."""
    is_refutation: bool = False
    """It is news only for those who doubted: nobody else tells its application."""

    @property
    def whole(self) -> int:
        """How many nodes it was news for, as far as known."""
        return max(len(self.times), 1) if self.is_refutation else self.others


@dataclass(slots=True, frozen=True)
class Settled:
    """Views that became equal, with no doubt left in them, after a disturbance. `budget`: the seconds allowed."""

    equal_until: float
    """When they were last seen to be equal before; 0 if never."""
    disturbed_at: float
    at: float
    budget: float


class Recorder:
    """Everything kept of one run."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._is_settled = False
        self._equal_at = 0.0
        self._sampled_at = -inf
        self._sent = (0, 0)
        self.travel = Travel(self._now, self.node_name)
        self.beliefs = Beliefs(self._now)
        self.lives = Lives(self._now, self.beliefs)
        self.samples = Samples(SAMPLE_NAMES)
        self.said: list[Said] = []
        self.processes: list[Process] = []
        self.pauses: list[list[float]] = []
        """Host number, beginning, end (infinity while it lasts)."""
        self.updates: dict[tuple[Any, ...], Update] = {}
        self.settled: list[Settled] = []
        self.calls_by_node: Counter[int] = Counter()
        self.calls_by_code: Counter[int] = Counter()
        self.attempts: Counter[int] = Counter()
        self.overflow: Counter[str] = Counter()
        self.result: RunResult | None = None
        self._running: dict[int, Process] = {}
        self._calm_subjects: dict[int, bool] = {}

    @property
    def world(self) -> World:
        """The world that is or was watched; an error before `attach`."""
        if self._world is None:
            raise LookupError("nothing was recorded: attach the recorder to a world first")
        return self._world

    def attach(self, world: World) -> None:
        """Watch a world from now on."""
        assert self._world is None, "one recorder records one run"
        self._world = world
        world.watch(self.travel)
        world.on_fault.append(self._on_fault)
        world.on_process.append(self._on_process)
        world.on_event.append(self._on_event)
        world.every(SAMPLE_INTERVAL, self._look)
        build = world.engine_factory

        def counting(settings: Settings, *, signer: Signer, verifier: Verifier, **others: Any) -> Any:
            hosts = [host for host in world.by_node[signer.node] if host.is_running is False]
            index = next((h.index for h in hosts if settings.addresses == (h.address,)), hosts[0].index)
            counted = _CountingVerifier(verifier, index, self.travel)
            return build(settings, signer=signer, verifier=counted, **others)

        world.engine_factory = counting

    def finish(self, result: RunResult) -> None:
        """The run has ended so."""
        self.result = result
        broken = result.violation
        self.travel.finish("end" if broken is None else f"{broken['checker']} broken")
        self._sample()
        for name, count in (
            ("changes of views", self.beliefs.dropped),
            ("lives and conflicts", self.lives.dropped),
            ("moments without a window of messages", self.travel.windows_dropped),
        ):
            if count:
                self.overflow[name] += count

    # What happens

    def _now(self) -> float:
        return self.world.timeline.now

    def node_name(self, node: bytes) -> str | None:
        """The name of the first host with this key, or None for a key that no host has."""
        hosts = self.world.by_node.get(NodeId(node))
        return hosts[0].name if hosts else None

    def _on_fault(self, text: str) -> None:
        self.travel.mark("starts" if text.startswith(STARTS) else short_fault(text))

    def _on_process(self, host: Host, what: str) -> None:
        if what == "started":
            if len(self.processes) < PROCESSES_MAX:
                self._running[host.index] = process = Process(host.index, self._now())
                self.processes.append(process)
            else:
                self.overflow["processes"] += 1
        elif what == "paused":
            if len(self.pauses) < PROCESSES_MAX:
                self.pauses.append([host.index, self._now(), inf])
            else:
                self.overflow["pauses"] += 1
        elif what == "resumed":
            self._end_pause(host.index)
        elif what == "ended":
            self._end_pause(host.index)
            self.beliefs.process_ended(host.index)
            self.lives.process_ended(host)
            ended = self._running.pop(host.index, None)
            if ended is not None:
                ended.ended_at = self._now()
                ended.how = "crash" if host.ended_by is None else "exit"
                ended.others = len(self._running)

    def _end_pause(self, index: int) -> None:
        for pause in reversed(self.pauses):
            if pause[0] == index:
                pause[2] = min(pause[2], self._now())
                return

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, CallEnded):
            self._call_ended(event)
        elif isinstance(event, MemberChanged):
            self._member_changed(host, event)
        elif isinstance(event, RecordChanged):
            self._record_changed(host, event)
        else:
            self.lives.on_event(host, event)
            if len(self.said) < SAID_MAX:
                self.said.append(Said(self._now(), host.index, type(event).__name__, event))
            else:
                self.overflow["things said"] += 1
            if type(event).__name__ in ("Fenced", "StartRefused", "Paused", "Resumed", "CloneSeen"):
                self.travel.mark(f"{host.name} {type(event).__name__}")

    def _call_ended(self, event: CallEnded) -> None:
        self.calls_by_code[event.code] += 1
        self.attempts[event.attempts] += 1
        if event.code == 0 and event.node is not None and event.node in self.world.by_node:
            try:
                node, life = read_reply(event.payload)
            except ValueError:  # an application of the scenario's own, which does not say who it is
                node, life = event.node, None
            index = None if life is None else self.beliefs.opened_by(node, life)
            self.calls_by_node[self.world.by_node[event.node][0].index if index is None else index] += 1

    def _member_changed(self, host: Host, event: MemberChanged) -> None:
        change = self.beliefs.changed(host, event)
        if change.new in ("SUSPECT", "DEAD") and change.old != change.new:
            is_new = not self._calm_subjects.get(change.subject * 4 + (change.new == "DEAD"))
            if is_new:
                self._calm_subjects[change.subject * 4 + (change.new == "DEAD")] = True
                name = self._host_name(change.subject)
                self.travel.mark(f"{name} first {change.new}")
        elif change.new == "ALIVE" and self.beliefs.counts(change.subject)[1:3] == (0, 0):
            self._calm_subjects.pop(change.subject * 4, None)
            self._calm_subjects.pop(change.subject * 4 + 1, None)
        if change.new == "LEFT" or (change.new == "ALIVE" and change.old is None):
            self._informed(
                (change.subject, change.life, change.incarnation, change.new),
                f"{change.new} epoch {change.life.epoch}",
                change.subject,
            )
        elif change.new == "ALIVE":
            self._informed(
                (change.subject, change.life, change.incarnation, change.new),
                f"incarnation {change.incarnation}",
                change.subject,
                is_refutation=True,
            )

    def _record_changed(self, host: Host, event: RecordChanged) -> None:
        if event.node == host.node:
            return
        hosts = self.world.by_node.get(event.node)
        subject = hosts[0].index if hosts else -1
        key = (subject, hosts[0].life if hosts else None, event.agent, event.version, event.present)
        verb = "offered" if event.present else "withdrawn"
        self._informed(key, f"{event.agent} {verb}", subject)

    def _informed(self, key: tuple[Any, ...], what: str, subject: int, is_refutation: bool = False) -> None:
        update = self.updates.get(key)
        if update is None:
            if len(self.updates) >= UPDATES_MAX:
                self.overflow["updates whose spreading is not followed"] += 1
                return
            others = max(len(self._running) - 1, 1)
            update = self.updates[key] = Update(what, subject, self._now(), others, [], is_refutation)
        if len(update.times) < 4 * update.others:
            update.times.append(self._now() - update.at)

    def _host_name(self, index: int) -> str:
        return self.world.nodes[index].name if index >= 0 else "a stranger"

    # What is looked at again and again

    def _look(self) -> None:
        """Sample, less often the more nodes there are: a look at all views costs n² at worst."""
        now = self.world.now
        if now - self._sampled_at >= SAMPLE_INTERVAL * max(1.0, len(self.world.nodes) / SAMPLED_FULLY) - 1e-9:
            self._sample()

    def _sample(self) -> None:
        world = self.world
        self._sampled_at = world.now
        running = world.running
        count = len(running)
        truth = world.alive_fingerprint()
        views_right = beliefs_right = views_equal = 0.0
        if count:
            right = [
                truth is not None
                and (life := host.life) is not None
                and host.view.alive ^ fingerprint(life) == truth
                for host in running
            ]
            views_right = sum(right) / count
            if all(right):
                beliefs_right = 1.0
                hashes = Counter(host.engine.view_hash() for host in running)
                views_equal = max(hashes.values()) / count
            elif len(world.nodes) <= BELIEFS_OBSERVERS_MAX:
                beliefs_right = self._beliefs_right(running)
        routes_equal, routes_right = self._routes(running)
        sent = (world.network.sent, world.network.sent_bytes)
        suspected = sum(self.beliefs.counts(host.index)[1] for host in world.nodes)
        self.samples.add(
            round(world.now, 6),
            count,
            views_right,
            beliefs_right,
            views_equal,
            routes_equal,
            routes_right,
            suspected,
            *sent,
        )
        self.lives.look(count)
        disturbed_at = world.history.last_change_at
        if views_equal < 1.0 or suspected:
            self._is_settled = False
        elif count > 1 and not self._is_settled:
            self._is_settled = True
            budget = budgets.healing(count, world.protocol, world.network.worst()[0])
            self.settled.append(Settled(self._equal_at, disturbed_at, world.now, budget))
            self.travel.mark("views equal")
        if self._is_settled:
            self._equal_at = world.now

    def _beliefs_right(self, running: list[Host]) -> float:
        """Share of beliefs (one view, one machine) that are ALIVE exactly if the machine runs that life."""
        right = total = 0
        lives = [(host.node, host.life) for host in self.world.nodes]
        for observer in running:
            members = observer.view.members
            for node, life in lives:
                if node == observer.node:
                    continue
                held = members.get(node)
                is_alive = held is not None and held.state.value == "ALIVE"
                if life is None:
                    right += not is_alive
                else:
                    right += is_alive and held is not None and held.life == life
                total += 1
        return right / total if total else 1.0

    def _routes(self, running: list[Host]) -> tuple[float, float]:
        """Share of nodes that would offer the same instances as most do, and the right ones, over all capabilities."""
        offered: dict[str, list[NodeId]] = {}
        for host in running:
            for offer in host.application.offers:
                for capability in offer.spec.capabilities:
                    offered.setdefault(capability.name, []).append(host.node)
        if not offered or not running:
            return 1.0, 1.0
        equal = right = 0
        for name, nodes in offered.items():
            answers = [tuple(host.engine.routable(name)) for host in running]
            equal += max(Counter(answers).values())
            right += answers.count(tuple(sorted(set(nodes))))
        total = len(offered) * len(running)
        return equal / total, right / total


class _CountingVerifier:
    """Counts what one host checks."""

    def __init__(self, verifier: Verifier, host: int, travel: Travel) -> None:
        self._verifier = verifier
        self._host = host
        self._travel = travel

    def verify(self, node: NodeId, signature: bytes, data: bytes, /) -> bool:
        """See `Verifier`."""
        self._travel.checked(self._host)
        return self._verifier.verify(node, signature, data)


def short_fault(text: str) -> str:
    """The first words of a fault, for a label."""
    text = text.replace("..", "–")
    return text if len(text) <= 28 else text[:27] + "…"
