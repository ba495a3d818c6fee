"""Suspicion: timed doubt about one life and incarnation of a member (SWIM §4.2, Lifeguard §IV.B).

Others' accusations only shorten the timer; DEAD is this node's own verdict, and needs both the end of the timer and
a failed probe of its own. We depart from SWIM and Lifeguard there: nobody's word kills.

The timer's end is a pure function of what is known (start, distinct accusers, refusals), so views with equal knowledge
turn together; it never moves below a floor that leaves a live node the time to refute.
"""

from __future__ import annotations

from enum import IntEnum
from math import ceil, log, log10

import msgspec

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


HEARD_MAX = 256
"""Accusations of one suspicion that are known to add nothing; those beyond are worked out each time."""


class Suspicion(msgspec.Struct):
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
    others: dict[NodeId, Grade] = {}
    """Distinct accusers but ourselves, at most `kept_accusers`; the lowest NodeIds are kept."""
    refused_elsewhere: bool = False
    """Another member knows of a refusal, too; true for good, whoever is kept in `others`."""
    spread: dict[NodeId, None] = {}
    """Whose accusations circulate because of us, our own among them: one a member at most."""
    heard: dict[bytes, None] = {}
    """Digests of accusations that have nothing more to add, at most `HEARD_MAX`."""
    told_dead: bool = False
    """We heard of it first as DEAD: the timer is at its minimum."""
    word: bytes | None = None
    """An accusation as it was signed: our own latest if there is one, else the first that we heard."""
    probe_failed: bool = False
    """The latest own probe inside the timer has failed."""
    failed_at: float = float("-inf")
    """When it did."""
    probe_running: bool = False
    timer_ended: bool = False

    def note_heard(self, digest: bytes) -> None:
        """This accusation, heard again, changes nothing."""
        if len(self.heard) < HEARD_MAX:
            self.heard[digest] = None

    def hear(self, accuser: NodeId, grade: Grade) -> bool:
        """Note another member's accusation; true if it is worth passing on. Of accusers who know no more than others
        that is K + 1, ourselves included (Lifeguard §IV.B): further ones shorten nothing."""
        is_first_refusal = grade >= Grade.REFUSAL and not self.refused_elsewhere
        self.refused_elsewhere = self.refused_elsewhere or is_first_refusal
        return self._keep(accuser, grade) or is_first_refusal

    def _keep(self, accuser: NodeId, grade: Grade) -> bool:
        if not self.expected and (self.own or self.others):
            return False  # nobody's second word would shorten anything
        known = self.others.get(accuser)
        if known is not None:
            if grade <= known:
                return False
            self.others[accuser] = grade
            return True
        is_enough = len(self.others) + self.own >= kept_accusers(self.expected)
        if len(self.others) >= kept_accusers(self.expected):
            highest = max(self.others)
            if accuser > highest:
                return False
            del self.others[highest]
        self.others[accuser] = grade
        return not is_enough or grade >= Grade.REFUSAL

    @property
    def confirmations(self) -> int:
        """C: independent accusers beyond the first."""
        return max(0, min(self.expected, len(self.others) + self.own - 1))

    def ends_at(self, refusal_floor: float) -> float:
        """When the timer ends, given what is known now. `refusal_floor`: one period plus two round trips, seconds."""
        if self.told_dead:
            timeout = self.minimum
        else:
            timeout = suspicion_timeout(self.minimum, self.maximum, self.expected, self.confirmations)
        ends = max(self.floor, self.started + timeout)
        if self.own_refusal_at is not None and self.refused_elsewhere:  # its process is gone
            return min(ends, self.own_refusal_at + refusal_floor)
        return ends
