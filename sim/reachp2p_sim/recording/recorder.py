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
from typing import Any

from reachp2p.core.commands import RouteQuery
from reachp2p.core.events import CallEnded, Event, MemberChanged, RecordChanged
from reachp2p.core.ids import NodeId
from reachp2p.core.settings import Settings
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.workload import read_reply
from reachp2p_sim.recording.agreement import SAMPLE_INTERVAL, Agreement
from reachp2p_sim.recording.beliefs import Beliefs
from reachp2p_sim.recording.lives import Lives
from reachp2p_sim.recording.news import News
from reachp2p_sim.recording.processes import Processes
from reachp2p_sim.recording.travel import Travel
from reachp2p_sim.running.run import RunResult
from reachp2p_sim.world.world import World

STARTS = ("start ", "add nodes ", "offer agent ", "call loop ")
SAID_MAX = 20_000


@dataclass(slots=True, frozen=True)
class Said:
    """What a node told its application, apart from changes of members and ends of calls."""

    at: float
    host: int
    kind: str
    event: Event


class Recorder:
    """Everything kept of one run."""

    def __init__(self) -> None:
        self._world: World | None = None
        self.travel = Travel(self._now, self.node_name)
        self.beliefs = Beliefs(self._now)
        self.lives = Lives(self._now, self.beliefs)
        self.agreement = Agreement(self.beliefs)
        self.overflow: Counter[str] = Counter()
        """What was not kept, by what it was."""
        self.processes = Processes(self._now, self.overflow)
        self.news = News(self._now, lambda: self.processes.running, self.overflow)
        self.said: list[Said] = []
        self.calls_by_node: Counter[int] = Counter()
        self.calls_by_code: Counter[int] = Counter()
        self.attempts: Counter[int] = Counter()
        self.result: RunResult | None = None
        self._marked: set[tuple[int, str]] = set()
        """Hosts of whose doubt, or death, the first is marked, until nobody doubts them."""

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
        world.on_call.append(self._on_call)
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
            ("events of conflicts", sum(conflict.events_dropped for conflict in self.lives.conflicts)),
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
        self.processes.changed(host, what)
        if what == "ended":
            self.beliefs.process_ended(host.index)
            self.lives.process_ended(host)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, CallEnded):
            self._call_ended(event)
        elif isinstance(event, MemberChanged):
            self._member_changed(host, event)
        elif isinstance(event, RecordChanged):
            self.news.record_changed(host, event)
        else:
            self.lives.on_event(host, event)
            if len(self.said) < SAID_MAX:
                self.said.append(Said(self._now(), host.index, type(event).__name__, event))
            else:
                self.overflow["things said"] += 1
            if type(event).__name__ in ("Fenced", "StartRefused", "Paused", "Resumed", "CloneSeen"):
                self.travel.mark(f"{host.name} {type(event).__name__}")

    def _on_call(self, host: Host, query: RouteQuery, call: bytes, code: int) -> None:
        if code:  # refused at once: no node was asked, and no event follows
            self.calls_by_code[code] += 1
            self.attempts[0] += 1

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
        subject = change.subject
        if change.new in ("SUSPECT", "DEAD") and change.old != change.new:
            if (subject, change.new) not in self._marked:
                self._marked.add((subject, change.new))
                self.travel.mark(f"{self._host_name(subject)} first {change.new}")
        elif change.new == "ALIVE" and self.beliefs.counts(subject)[1:3] == (0, 0):
            self._marked -= {(subject, "SUSPECT"), (subject, "DEAD")}
        self.news.member_changed(change)

    def _host_name(self, index: int) -> str:
        return self.world.nodes[index].name if index >= 0 else "a stranger"

    def _look(self) -> None:
        if self.agreement.is_due(self.world):
            self._sample()

    def _sample(self) -> None:
        has_settled = self.agreement.look(self.world)
        self.lives.look(len(self.world.running))
        if has_settled:
            self.travel.mark("views equal")


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
