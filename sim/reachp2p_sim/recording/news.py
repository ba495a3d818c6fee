"""How news spread: when each node heard of a new life, a refutation, a goodbye, or of an agent offered or withdrawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reachp2p.core.events import RecordChanged
from reachp2p_sim.machines.host import Host
from reachp2p_sim.recording.beliefs import Change

UPDATES_MAX = 2_000
"""Pieces of news whose spreading is followed; the later ones are counted only."""


@dataclass(slots=True)
class Update:
    """A piece of news and when each node had it. `subject` is the host that it is about, `what` it says."""

    what: str
    subject: int
    at: float
    others: int
    """Nodes that ran when it appeared, the origin apart."""
    times: list[float]
    """Seconds after `at`, in order; at most four for each of the others, which may hear it in several lives."""
    is_refutation: bool = False
    """It is news only for those who doubted: nobody else tells its application."""

    @property
    def whole(self) -> int:
        """How many nodes it was news for, as far as known."""
        return max(len(self.times), 1) if self.is_refutation else self.others


class News:
    """All updates of a run, in order of their appearance. `overflow` counts what did not fit."""

    def __init__(self, now: Callable[[], float], running: Callable[[], int], overflow: Counter[str]) -> None:
        self._now = now
        self._running = running
        self._overflow = overflow
        self._updates: dict[tuple[Any, ...], Update] = {}

    @property
    def updates(self) -> list[Update]:
        """What was followed."""
        return list(self._updates.values())

    def member_changed(self, change: Change) -> None:
        """A view has changed."""
        key = (change.subject, change.life, change.incarnation, change.new)
        if change.new == "LEFT" or (change.new == "ALIVE" and change.old is None):
            self._heard(key, f"{change.new} epoch {change.life.epoch}", change.subject)
        elif change.new == "ALIVE":
            self._heard(key, f"incarnation {change.incarnation}", change.subject, is_refutation=True)

    def record_changed(self, observer: Host, event: RecordChanged) -> None:
        """A node has heard of an agent that is offered, or withdrawn, by another."""
        if event.node == observer.node:
            return
        hosts = observer.world.by_node.get(event.node)
        subject = hosts[0].index if hosts else -1
        key = (subject, hosts[0].life if hosts else None, event.agent, event.version, event.present)
        self._heard(key, f"{event.agent} {'offered' if event.present else 'withdrawn'}", subject)

    def _heard(self, key: tuple[Any, ...], what: str, subject: int, *, is_refutation: bool = False) -> None:
        update = self._updates.get(key)
        if update is None:
            if len(self._updates) >= UPDATES_MAX:
                self._overflow["updates whose spreading is not followed"] += 1
                return
            others = max(self._running() - 1, 1)
            update = self._updates[key] = Update(what, subject, self._now(), others, [], is_refutation)
        if len(update.times) < 4 * update.others:
            update.times.append(self._now() - update.at)
