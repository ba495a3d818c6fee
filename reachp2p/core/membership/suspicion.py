"""Suspicion: timed doubt about one life and incarnation of a member (SWIM §4.2, Lifeguard §IV.B, DESIGN §3).

Others' accusations only shorten the timer; DEAD is this node's own verdict, and needs both the end of the timer and
a failed probe of its own. We depart from SWIM and Lifeguard there: nobody's word kills.

The timer's end is a pure function of what is known (start, distinct accusers, refusals), so views with equal knowledge
turn together; it never moves below a floor that leaves a live node the time to refute.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from math import ceil, log, log10

from reachp2p.core.ids import Life, NodeId


class Grade(IntEnum):
    """How much an accuser knows; on the wire in `facts.Accusation.grade`."""

    SILENCE = 0
    """A probe was not answered."""
    REFUSAL = 1
    """The host answered that the process is gone."""
    DEAD = 2
    """The accuser's own timer and probe have ended; a newcomer doubts at once and looks for itself."""


def suspicion_min(alpha: float, members: int, probe_interval: float) -> float:
    """α·max(1, log10 n)·T seconds (Lifeguard §IV.B; memberlist's `suspicionTimeout`)."""
    return alpha * max(1.0, log10(max(1, members))) * probe_interval


def suspicion_timeout(minimum: float, maximum: float, expected: int, confirmations: int) -> float:
    """max(Min, Max − (Max − Min)·log(C+1)/log(K+1)) seconds; `expected` is K, 0 when nobody could confirm."""
    if expected < 1:
        return minimum
    fraction = log(confirmations + 1) / log(expected + 1)
    return max(minimum, maximum - (maximum - minimum) * fraction)


def transmit_limit(multiplier: int, members: int) -> int:
    """λ·⌈ln(n+1)⌉ sends of one update by one node (SWIM §4.1, natural logarithm)."""
    return multiplier * ceil(log(members + 1))


def kept_accusers(expected: int) -> int:
    """How many distinct accusers are remembered: K, and the first one."""
    return expected + 1


@dataclass(slots=True)
class Suspicion:
    """One running suspicion. Times are monotonic seconds."""

    node: NodeId
    life: Life
    incarnation: int
    started: float
    """When doubt began anywhere, as far as known: own start, or earlier by an accusation's age."""
    minimum: float
    maximum: float
    expected: int
    """K for this group size."""
    floor: float
    """The earliest end: time for a live node to hear and refute."""
    own: bool = False
    """This node has accused, too."""
    own_refusal_at: float | None = None
    others: dict[NodeId, Grade] = field(default_factory=dict)
    """Distinct accusers but ourselves, at most `kept_accusers`; the lowest NodeIds are kept."""
    told_dead: bool = False
    """We heard of it first as DEAD: the timer is at its minimum."""
    probe_failed: bool = False
    """The latest own probe inside the timer has failed."""
    probe_running: bool = False
    timer_ended: bool = False

    def hear(self, accuser: NodeId, grade: Grade) -> bool:
        """Note another member's accusation; true if it changed what is kept (and is worth passing on)."""
        known = self.others.get(accuser)
        if known is not None:
            if grade <= known:
                return False
            self.others[accuser] = grade
            return True
        if len(self.others) >= kept_accusers(self.expected):
            highest = max(self.others)
            if accuser > highest:
                return False
            del self.others[highest]
        self.others[accuser] = grade
        return True

    @property
    def confirmations(self) -> int:
        """C: independent accusers beyond the first."""
        return max(0, min(self.expected, len(self.others) + self.own - 1))

    @property
    def is_refused(self) -> bool:
        """Own refusal plus one from another member: the process is gone."""
        return self.own_refusal_at is not None and any(g >= Grade.REFUSAL for g in self.others.values())

    def ends_at(self, refusal_floor: float) -> float:
        """When the timer ends, given what is known now. `refusal_floor`: one period plus two round trips, seconds."""
        if self.is_refused:
            assert self.own_refusal_at is not None
            return self.own_refusal_at + refusal_floor
        if self.told_dead:
            return max(self.floor, self.started + self.minimum)
        timeout = suspicion_timeout(self.minimum, self.maximum, self.expected, self.confirmations)
        return max(self.floor, self.started + timeout)
