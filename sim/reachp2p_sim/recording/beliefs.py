"""Who believes what of whom: every change of a view, and for each machine how many views hold it for what.

A change belongs to the machine that opened the life in question, so that two machines under one key (a clone) are seen
apart: what one loses the other gains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reachp2p.core.events import MemberChanged, MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p_sim.machines.host import Host
from reachp2p_sim.recording.series import StateSeries

CHANGES_MAX = 200_000
APPEARANCES_MAX = CHANGES_MAX // 2
"""At most so many changes may be first sightings, of which a start of n nodes makes n²."""
STATES = (MemberState.ALIVE, MemberState.SUSPECT, MemberState.DEAD, MemberState.LEFT)
_COLUMN = {state: column for column, state in enumerate(STATES)}


@dataclass(slots=True, frozen=True)
class Change:
    """One view changed. `observer` and `subject` are host numbers; `subject` is -1 for a life that no host opened."""

    at: float
    observer: int
    subject: int
    life: Life
    incarnation: int
    old: str | None
    new: str | None
    """ALIVE, SUSPECT, DEAD, LEFT, or None for a member not held."""
    reason: str


class Beliefs:
    """Follows `MemberChanged` of all nodes."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._holders: dict[tuple[NodeId, Life], int] = {}
        """Which host opened a life."""
        self._held: dict[int, dict[NodeId, tuple[int, MemberState, Life, int]]] = {}
        self._counts: dict[int, list[int]] = {}
        self._appearances = 0
        self.changes: list[Change] = []
        self.dropped = 0
        self.series: dict[int, StateSeries] = {}
        """By subject: ALIVE, SUSPECT, DEAD, LEFT over the running observers."""

    def opened(self, host: Host, life: Life) -> None:
        """A host has opened a life."""
        self._holders[host.node, life] = host.index

    def opened_by(self, node: NodeId, life: Life) -> int | None:
        """The host that opened a life, or None if none did."""
        return self._holders.get((node, life))

    def changed(self, observer: Host, event: MemberChanged) -> Change:
        """A view changed; returns it in our terms. A member seen under a new life has no `old` state in it."""
        subject = self._holders.get((event.node, event.life), -1)
        views = self._held.setdefault(observer.index, {})
        before = views.pop(event.node, None)
        if before is not None:
            self._count(before[0], before[1], -1)
        if event.new is not None:
            views[event.node] = (subject, event.new, event.life, event.incarnation)
            self._count(subject, event.new, 1)
        same_life = before is not None and before[2] == event.life
        change = Change(
            self._now(),
            observer.index,
            subject,
            event.life,
            event.incarnation,
            event.old.value if event.old is not None and same_life else None,
            event.new.value if event.new is not None else None,
            event.reason,
        )
        self._keep(change)
        return change

    def process_ended(self, host: int) -> None:
        """A view is gone with its process."""
        for subject, state, _, _ in self._held.pop(host, {}).values():
            self._count(subject, state, -1)

    def counts(self, subject: int) -> tuple[int, ...]:
        """How many views hold a host's lives ALIVE, SUSPECT, DEAD, LEFT just now."""
        return tuple(self._counts.get(subject, (0, 0, 0, 0)))

    def holders_of(self, life: Life, node: NodeId, state: MemberState) -> int:
        """How many views hold this very life in this state."""
        return sum(
            held is not None and held[1] is state and held[2] == life
            for held in (views.get(node) for views in self._held.values())
        )

    def _count(self, subject: int, state: MemberState, step: int) -> None:
        counts = self._counts.get(subject)
        if counts is None:
            counts = self._counts[subject] = [0, 0, 0, 0]
            self.series[subject] = StateSeries()
        counts[_COLUMN[state]] += step
        self.series[subject].note(self._now(), counts)

    def _keep(self, change: Change) -> None:
        is_appearance = change.old is None and change.new == "ALIVE"
        if len(self.changes) >= CHANGES_MAX or (is_appearance and self._appearances >= APPEARANCES_MAX):
            self.dropped += 1
            return
        self._appearances += is_appearance
        self.changes.append(change)
