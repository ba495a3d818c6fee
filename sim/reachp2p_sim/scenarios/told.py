"""What nodes told their applications about each other while a story went on, for the story to judge."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p_sim.machines.host import Host
from reachp2p_sim.scenarios.base import require
from reachp2p_sim.world.world import World


class Word(msgspec.Struct, frozen=True):
    """One change of one view: when, whose, about whom, what it was and is, and why."""

    at: float
    observer: Host
    subject: Host
    old: MemberState | None
    new: MemberState | None
    reason: str

    def __str__(self) -> str:
        was, new = (state.value if state else "unknown" for state in (self.old, self.new))
        return f"at {self.at:.1f} s {self.observer.name} held {self.subject.name} {new} after {was}: {self.reason}"


class Told:
    """Every change of a view about a machine of the world, from now on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.words: list[Word] = []
        world.on_event.append(self._on_event)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, MemberChanged):
            hosts = self._world.by_node.get(event.node)
            if hosts:
                word = Word(self._world.now, host, hosts[0], event.old, event.new, event.reason)
                self.words.append(word)

    def about(
        self,
        subjects: Iterable[Host],
        observers: Iterable[Host] | None = None,
        *states: MemberState,
    ) -> list[Word]:
        """What was said of some machines, by some or all, to be in one of these states (or in any)."""
        of, by = list(subjects), None if observers is None else list(observers)
        return [
            word
            for word in self.words
            if word.subject in of
            and (by is None or word.observer in by)
            and (not states or word.new in states)
        ]

    def given_up(self, subjects: Iterable[Host], observers: Iterable[Host] | None = None) -> list[Word]:
        """Who of these was declared DEAD, or forgotten, by whom."""
        return [w for w in self.about(subjects, observers) if w.new in (MemberState.DEAD, None)]

    def suspected(self, subjects: Iterable[Host], observers: Iterable[Host] | None = None) -> list[Word]:
        """Who of these was suspected by whom."""
        return self.about(subjects, observers, MemberState.SUSPECT)

    def changes(self, subjects: Iterable[Host]) -> int:
        """The most changes of state that one view saw in one of these."""
        counts: dict[tuple[str, str], int] = {}
        for word in self.about(subjects):
            if word.old is not word.new:
                key = (word.observer.name, word.subject.name)
                counts[key] = counts.get(key, 0) + 1
        return max(counts.values(), default=0)

    def buried(self, subjects: Iterable[Host], observers: Iterable[Host] | None = None) -> list[Word]:
        """Who of these was declared DEAD by whom."""
        return self.about(subjects, observers, MemberState.DEAD)

    def demand_not_buried(self, well: list[Host]) -> None:
        """Raise `Violation` if any of these, with whom nothing was wrong, was declared DEAD by another of them."""
        buried = self.buried(well, well)
        require(self._world, not buried, f"a member that was well was buried by another: {first(buried)}")

    def flips(self, subjects: Iterable[Host], observers: Iterable[Host]) -> int:
        """The most changes to and from DEAD of one pair."""
        counts: dict[tuple[str, str], int] = {}
        for word in self.about(subjects, observers):
            if (word.old is MemberState.DEAD) is not (word.new is MemberState.DEAD):
                key = (word.observer.name, word.subject.name)
                counts[key] = counts.get(key, 0) + 1
        return max(counts.values(), default=0)


def counted(hosts: Iterable[Host], prefix: str) -> int:
    """The sum of all counters of some running nodes whose name begins so."""
    return sum(
        count
        for host in hosts
        if host.is_running
        for name, count in host.engine.diagnostics().items()
        if name.startswith(prefix)
    )


def first(words: list[Word]) -> str:
    """The first of some words, for the message of a violation."""
    return str(words[0]) if words else "nobody"
