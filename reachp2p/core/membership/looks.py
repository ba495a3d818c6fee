"""When a node looks for itself at a doubted member: probes inside the timer, and a dial when its process is said to be
gone.

Nobody is buried on anybody's word, so each member needs a failed probe of its own before its timer ends. The moments
are spread by chance, so that a group does not probe one member in step. What a look has shown is judged elsewhere
(`detector`).
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import msgspec

from reachp2p.core.events import MemberState
from reachp2p.core.ids import NodeId, Rng
from reachp2p.core.membership.health import LocalHealth
from reachp2p.core.membership.member import Member
from reachp2p.core.membership.probe import Prober
from reachp2p.core.membership.suspicion import Suspicion
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers

VERIFY_WINDOW = (0.1, 0.6)
"""The own probe starts at a random moment in this part of the timer's minimum, so that members do not probe in step."""
LAST_LOOK = (2.0, 1.25)
"""Periods before the end of a timer, between which the last of several own probes starts."""


class VerifyDue(msgspec.Struct, frozen=True):
    """Probe a suspect ourselves before it may be buried."""

    node: NodeId


class RefusalDialDue(msgspec.Struct, frozen=True):
    """Look for ourselves whether a suspect's host refuses."""

    node: NodeId


class Looks:
    """Plans own looks: one timer of each kind for each suspicion at most."""

    def __init__(
        self,
        protocol: Protocol,
        table: MemberTable,
        prober: Prober,
        health: LocalHealth,
        dial: Callable[[Member, float], None],
        *,
        own: NodeId,
        timers: Timers,
        rng: Rng,
    ) -> None:
        self._protocol = protocol
        self._table = table
        self._prober = prober
        self._health = health
        self._dial = dial
        self._own = own
        self._timers = timers
        self._rng = rng

    # Probes

    def plan(self, suspicion: Suspicion, now: float) -> None:
        """Probe its member at a random moment early in the timer."""
        if not self._protocol.rules.own_verdict:
            return
        low, high = VERIFY_WINDOW
        delay = suspicion.minimum * (low + (high - low) * self._rng.random())
        self._timers.set(VerifyDue(suspicion.node), now + delay)

    def plan_last(self, suspicion: Suspicion, ends: float, now: float) -> None:
        """A probe has failed, and the timer ends at `ends`: where few share our doubt that is long after, and says
        little about the end. Probe once more before that. The timer does not wait for it, so nobody is buried later."""
        if not self._protocol.rules.own_verdict:
            return
        period = self._protocol.probe_interval * self._health.multiplier
        earliest, latest = (ends - periods * period for periods in LAST_LOOK)
        if earliest < max(now, suspicion.failed_at + suspicion.minimum):
            return
        pending = self._timers.due_at(VerifyDue(suspicion.node))
        if pending is None or pending > latest:
            at = earliest + (latest - earliest) * self._rng.random()
            self._timers.set(VerifyDue(suspicion.node), at)

    def probe(self, suspicion: Suspicion, member: Member, now: float, *, is_last: bool = False) -> bool:
        """Probe it now; false if nothing could answer, which counts as a failed probe."""
        self._timers.cancel(VerifyDue(member.node))
        if self._prober.is_probing(member.node) or self._prober.probe(member, now, is_last=is_last):
            suspicion.probe_running = True
            return True
        suspicion.probe_failed = True  # it has no address
        return False

    # Dials

    def plan_dial(self, node: NodeId, now: float) -> None:
        """Another member has been refused: dial, too, at once if we are chosen for that, else within a period."""
        others = [m.node for m in self._table if m.state is MemberState.ALIVE and m.node != node]
        at_once = is_chosen_dialer(node, self._own, others, self._protocol.refusal_dialers)
        delay = 0.0 if at_once else self._rng.random() * self._protocol.probe_interval
        self._timers.set(RefusalDialDue(node), now + delay)

    def on_refusal_dial_due(self, node: NodeId, now: float) -> None:
        """Dial a suspect whose process is said to be gone."""
        member = self._table.get(node)
        if member is not None and member.state is MemberState.SUSPECT:
            self._dial(member, now)

    def cancel(self, node: NodeId) -> None:
        """Its suspicion is over."""
        self._timers.cancel(VerifyDue(node))
        self._timers.cancel(RefusalDialDue(node))


def is_chosen_dialer(subject: NodeId, own: NodeId, others: list[NodeId], count: int) -> bool:
    """Whether we are among the `count` members that dial a lost process at once: those with the lowest
    BLAKE2b-64(subject ‖ member), so that every member chooses the same without a word."""

    def score(node: NodeId) -> bytes:
        return blake2b(subject + node, digest_size=8).digest()

    mine = score(own)
    return sum(score(node) < mine for node in others) < count
