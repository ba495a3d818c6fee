"""The lives of a run: who opened which, how it ended, and what became of two that wanted one key (epoch conflicts)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from reachp2p.core.events import CloneSeen, Event, Fenced, MemberState, Paused, Resumed, Started, StartRefused
from reachp2p.core.ids import Life, NodeId
from reachp2p_sim.machines.host import Host
from reachp2p_sim.recording.beliefs import Beliefs

LIVES_MAX = 20_000
CONFLICTS_MAX = 1_000
CONFLICT_EVENTS_MAX = 40


@dataclass(slots=True)
class LifeSpan:
    """One life: which host opened it, when, and how it ended (None while it runs)."""

    host: int
    node: NodeId
    life: Life
    began_at: float
    ended_at: float | None = None
    how: str | None = None


@dataclass(slots=True)
class Conflict:
    """Several lives wanted one key. `winner` is the life that went on; None if none or more than one did."""

    node: NodeId
    opened_at: float
    lives: list[LifeSpan] = field(default_factory=list)
    events: list[tuple[float, int, str]] = field(default_factory=list)
    """When, which host, what happened there."""
    events_dropped: int = 0
    met_at: float | None = None
    """When one of them first heard of another."""
    decided_at: float | None = None
    """When all but one had stopped."""
    winner: LifeSpan | None = None
    agreed_at: float | None = None
    """When every running view held the winner's life, ALIVE."""

    @property
    def is_of_two(self) -> bool:
        """Whether two lives ran at once. If not, one heard of a life that is over: its own, before it lost its disk."""
        spans = sorted(self.lives, key=lambda span: span.began_at)
        return any(
            before.ended_at is None or before.ended_at > after.began_at for before, after in pairwise(spans)
        )

    @property
    def time_to_agree(self) -> float | None:
        """Seconds from the first contact of the two to views that all hold the winner."""
        return None if self.agreed_at is None or self.met_at is None else self.agreed_at - self.met_at


class Lives:
    """Follows what nodes say of their own lives."""

    def __init__(self, now: Callable[[], float], beliefs: Beliefs) -> None:
        self._now = now
        self._beliefs = beliefs
        self._running: dict[int, LifeSpan] = {}
        self._disputed: dict[NodeId, Conflict] = {}
        self.spans: list[LifeSpan] = []
        self.conflicts: list[Conflict] = []
        self.dropped = 0

    def on_event(self, host: Host, event: Event) -> None:
        """A node told its application something."""
        match event:
            case Started(life=life):
                self._open(host, life)
                self._tell(host, f"opened epoch {life.epoch}")
            case Resumed(life=life):
                self._end(host.index, "gave way to a life above it")
                self._open(host, life)
                self._tell(host, f"heard no answer and goes on under epoch {life.epoch}")
            case Paused(other=other):
                self._tell(
                    host, f"heard of epoch {other.epoch} of its own key and starts nothing new", met=True
                )
            case CloneSeen(other=other):
                self._tell(host, f"saw the lower life of epoch {other.epoch} and tells it to stop", met=True)
            case Fenced(other=other):
                self._tell(host, f"stopped for good: epoch {other.epoch} lives and answers", met=True)
                self._end(host.index, "fenced")
            case StartRefused():
                self._tell(host, f"refused to start: {event.reason}", met=True)
            case _:
                pass

    def process_ended(self, host: Host) -> None:
        """A process is gone; why, if nothing else ended its life."""
        self._end(host.index, "process ended")

    def look(self, running: int) -> None:
        """See whether the views agree on the winner of each conflict; `running` processes there are."""
        for node, conflict in list(self._disputed.items()):
            rivals = [s for s in self._running.values() if s.node == node]
            if len(rivals) > 1 or conflict.met_at is None:
                conflict.decided_at = None
                continue
            if not rivals:
                continue
            winner = rivals[0]
            if conflict.decided_at is None:
                ended = [s.ended_at for s in conflict.lives if s is not winner and s.ended_at is not None]
                conflict.decided_at = max([*ended, conflict.met_at])
            conflict.winner = winner
            held = self._beliefs.holders_of(winner.life, node, MemberState.ALIVE)
            if held >= running - 1 and conflict.agreed_at is None:
                conflict.agreed_at = self._now()

    def _open(self, host: Host, life: Life) -> None:
        if len(self.spans) >= LIVES_MAX:
            self.dropped += 1
            return
        span = LifeSpan(host.index, host.node, life, self._now())
        self._running[host.index] = span
        self.spans.append(span)
        self._beliefs.opened(host, life)
        rivals = [s for s in self._running.values() if s.node == host.node]
        if len(rivals) > 1:
            conflict = self._conflict(host.node)
            if conflict is not None:
                conflict.lives += [s for s in rivals if s not in conflict.lives]
        elif host.node in self._disputed:
            self._disputed[host.node].lives.append(span)

    def _end(self, host: int, how: str) -> None:
        span = self._running.pop(host, None)
        if span is not None:
            span.ended_at, span.how = self._now(), how

    def _tell(self, host: Host, text: str, met: bool = False) -> None:
        conflict = self._conflict(host.node) if met else self._disputed.get(host.node)
        if conflict is None:
            return
        if met and conflict.met_at is None:
            conflict.met_at = self._now()
        if len(conflict.events) < CONFLICT_EVENTS_MAX:
            conflict.events.append((self._now(), host.index, text))
        else:
            conflict.events_dropped += 1

    def _conflict(self, node: NodeId) -> Conflict | None:
        conflict = self._disputed.get(node)
        if conflict is None:
            if len(self.conflicts) >= CONFLICTS_MAX:
                self.dropped += 1
                return None
            conflict = self._disputed[node] = Conflict(node, self._now())
            conflict.lives += [s for s in self._running.values() if s.node == node]
            self.conflicts.append(conflict)
        return conflict
