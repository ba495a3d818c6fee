"""The failure detector: from unanswered probes, refusals and accusations to SUSPECT and DEAD.

It keeps one `Suspicion` for each doubted member and is the only place that raises a member's rank. A member is
declared DEAD when its timer has ended *and* a probe of our own inside the timer has failed; accusations shorten the
timer and never kill. A refusal (the host says the process is gone) shortens it further, once another member says so,
too. It judges; when we look for ourselves is planned by `looks`, and what we say of it is `accuser`'s.
"""

from __future__ import annotations

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Address, NodeId
from reachp2p.core.membership.accuser import Accuser
from reachp2p.core.membership.health import LocalHealth
from reachp2p.core.membership.looks import Looks
from reachp2p.core.membership.member import Member
from reachp2p.core.membership.probe import ProbeResult
from reachp2p.core.membership.suspicion import Grade, Suspicion, suspicion_min
from reachp2p.core.membership.table import PRESENT, Change, MemberTable
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import Accusation

REFUTATION_PERIODS = 2
"""Periods for which no timer ends once a doubt is known to more than us: a live node hears of it, and answers."""


class SuspicionEnds(msgspec.Struct, frozen=True):
    """The timer of a suspicion is over."""

    node: NodeId


class Detector:
    """Doubts about members. Size: one suspicion for each member at most."""

    def __init__(
        self,
        protocol: Protocol,
        table: MemberTable,
        looks: Looks,
        accuser: Accuser,
        health: LocalHealth,
        *,
        timers: Timers,
        counters: Counters,
    ) -> None:
        self._protocol = protocol
        self._rules = protocol.rules
        self._table = table
        self._looks = looks
        self._accuser = accuser
        self._health = health
        self._timers = timers
        self._counters = counters
        self._suspicions: dict[NodeId, Suspicion] = {}
        self._quiet_until = float("-inf")

    # What was observed

    def on_probe(self, result: ProbeResult, now: float) -> list[Change]:
        """A probe round of ours has ended."""
        member = self._table.get(result.node)
        suspicion = self._suspicions.get(result.node)
        if suspicion is not None:
            suspicion.probe_running = False
        if member is None or member.state not in PRESENT:
            return []
        if member.life != result.life:
            # A doubt of the present life may have waited for this round to end.
            return self._judge(member, now)
        if result.void or (not result.answered and now < self._quiet_until):
            self._counters.add("probe.void")
            return self._judge(member, now)
        if result.answered:
            return self._answered(member, now)
        changes: list[Change] = []
        if suspicion is None:
            suspicion, changes = self._start(member, now, now, "no answer to our probe")
            suspicion.probe_failed = (
                not self._rules.suspicion
            )  # without a timer no other probe can be inside it
            self._looks.plan(suspicion, now)
        else:
            suspicion.probe_failed, suspicion.failed_at = True, now
        self._accuser.accuse(suspicion, Grade.SILENCE, now)
        self._rearm(suspicion, member, now)
        return changes + self._judge(member, now)

    def _answered(self, member: Member, now: float) -> list[Change]:
        suspicion = self._suspicions.get(member.node)
        if suspicion is None:
            return []
        changes: list[Change] = []
        if member.refused:
            member.refused = False
            state = member.state
            changes = [Change(member.node, member, state, state, member.life, None, "it answers")]
        suspicion.probe_failed = False
        suspicion.own_refusal_at = None
        if suspicion.timer_ended:
            # It answers us, and every answer tells it to refute; look again in a while rather than bury it.
            self._counters.add("suspicion.extended")
            suspicion.timer_ended = False
            suspicion.floor = now + suspicion.minimum
            self._rearm(suspicion, member, now)
            self._looks.plan(suspicion, now)
        return changes

    def on_alive_link(self, node: NodeId, now: float) -> list[Change]:
        """A link to the current life of `node` has proven itself: as good as an answered probe."""
        member = self._table.get(node)
        return self._answered(member, now) if member is not None else []

    def on_refused(self, node: NodeId, address: Address, now: float) -> list[Change]:
        """Our dial to `address` was answered by RST. It counts only where this very life has answered us before."""
        member = self._table.get(node)
        if member is None or member.state not in PRESENT or now < self._quiet_until:
            return []
        if address not in member.reached:
            self._counters.add("refusal.unproven_address")
            return []
        self._counters.add("refusal.own")
        changes: list[Change] = []
        suspicion = self._suspicions.get(node)
        if suspicion is None:
            suspicion, changes = self._start(member, now, now, "its host refuses: the process is gone")
        if suspicion.own_refusal_at is None:
            suspicion.own_refusal_at = now
            member.refused = True
            if not changes:
                changes = [Change(node, member, member.state, member.state, member.life, None, "refused")]
            self._accuser.accuse(suspicion, Grade.REFUSAL, now)
            self._looks.probe(suspicion, member, now)
        self._rearm(suspicion, member, now)
        return changes + self._judge(member, now)

    def has_heard(self, node: NodeId, digest: bytes) -> bool:
        """Whether this very accusation has been heard under the present suspicion of `node` and added nothing: then it
        never will, because each time it says that the doubt is younger."""
        suspicion = self._suspicions.get(node)
        return suspicion is not None and digest in suspicion.heard

    def on_accusation(
        self, checked: Checked[Accusation], now: float, *, newcomer: bool = False
    ) -> list[Change]:
        """A verified accusation that quotes exactly the life and incarnation we hold. `newcomer`: the subject's row
        came with it, so a DEAD told about it starts the timer at its minimum."""
        accusation = checked.fact
        node = NodeId(accusation.subject)
        member = self._table.get(node)
        assert member is not None, "the caller has compared the numbers"
        assert member.life == accusation.life, "the caller has compared the lives"
        if member.state not in PRESENT:
            return []
        accuser = self._table.get(NodeId(accusation.accuser))
        if accuser is None:
            self._counters.add("dropped.accusation.stranger")
            return []
        if accuser.state is MemberState.DEAD and not self._rules.refutable_death:
            self._counters.add("dropped.accusation.of_the_dead")
            return []
        grade = Grade(accusation.grade)
        if grade is Grade.DEAD and not self._rules.own_verdict:
            return self._confirm(member, now, "confirmed by another member", checked.data)
        changes: list[Change] = []
        suspicion = self._suspicions.get(node)
        started = now - accusation.age_ms / 1000 if self._rules.accusation_ages else now
        if suspicion is None:
            suspicion, changes = self._start(member, started, now, "accused by another member")
            suspicion.told_dead = newcomer and grade is Grade.DEAD
            self._looks.plan(suspicion, now)
            is_older = True
        else:
            began_at = max(started, now - suspicion.maximum)
            is_older = began_at < suspicion.started
            if is_older:
                suspicion.started = began_at
        is_first = not suspicion.others
        is_news = suspicion.hear(NodeId(accusation.accuser), grade)
        if not is_older and not is_news:
            suspicion.note_heard(checked.digest)
            return []  # nothing has changed
        if is_news:
            suspicion.word = suspicion.word or checked.data
            if is_first and self._rules.suspicion and self._rules.own_verdict:
                # Until now nobody may have heard of our doubt: its object gets the time to answer this one.
                suspicion.floor = max(
                    suspicion.floor, now + REFUTATION_PERIODS * self._protocol.probe_interval
                )
            self._accuser.spread(suspicion, NodeId(accusation.accuser), checked.data)
            if grade >= Grade.REFUSAL and suspicion.own_refusal_at is None and member.reached:
                self._looks.plan_dial(node, now)
        self._rearm(suspicion, member, now)
        return changes + self._judge(member, now)

    # Suspicions

    def _start(
        self, member: Member, started: float, now: float, reason: str
    ) -> tuple[Suspicion, list[Change]]:
        n = self._table.size
        minimum = suspicion_min(self._protocol.suspicion_alpha, n, self._protocol.probe_interval)
        if not self._rules.suspicion:
            minimum = 0.0
        expected = self._protocol.suspicion_confirmations if self._rules.lha_suspicion else 0
        maximum = minimum * self._protocol.suspicion_beta
        suspicion = Suspicion(
            node=member.node,
            life=member.life,
            incarnation=member.incarnation,
            started=max(started, now - maximum),
            minimum=minimum,
            maximum=maximum,
            expected=max(0, min(expected, n - 2)),
            floor=now
            + (REFUTATION_PERIODS * self._protocol.probe_interval if self._rules.suspicion else 0.0),
        )
        self._suspicions[member.node] = suspicion
        self._counters.add("suspicion.started")
        change = self._table.doubt(member.node, MemberState.SUSPECT, now, reason)
        return suspicion, [change] if change else []

    def on_verify_due(self, node: NodeId, now: float) -> None:
        """Start the own probe inside the timer."""
        member, suspicion = self._table.get(node), self._suspicions.get(node)
        if member is not None and suspicion is not None:
            self._looks.probe(suspicion, member, now, is_last=suspicion.probe_failed)

    def on_suspicion_ends(self, node: NodeId, now: float) -> list[Change]:
        """The timer is over; bury the member if our own probe has failed, else look first."""
        member, suspicion = self._table.get(node), self._suspicions.get(node)
        if member is None or suspicion is None:
            return []
        suspicion.timer_ended = True
        return self._judge(member, now)

    def _judge(self, member: Member, now: float) -> list[Change]:
        suspicion = self._suspicions.get(member.node)
        if suspicion is None or not suspicion.timer_ended:
            return []
        if now < self._quiet_until:
            suspicion.timer_ended = False
            self._timers.set(SuspicionEnds(member.node), self._quiet_until)
            return []
        if not self._rules.own_verdict:
            return self._confirm(member, now, "its timer has ended")
        if suspicion.probe_failed:
            change = self._table.doubt(
                member.node, MemberState.DEAD, now, "its timer and our own probe have ended"
            )
            assert change is not None, "only a present member has a suspicion"
            # What is said of it goes on circulating: others have to look for themselves.
            self._forget(member.node)
            return [change]
        if not suspicion.probe_running and not self._looks.probe(suspicion, member, now, is_last=True):
            return self._judge(member, now)
        return []

    def _confirm(self, member: Member, now: float, reason: str, heard: bytes | None = None) -> list[Change]:
        """Without own verdicts: DEAD, and whoever hears that believes it, too (SWIM's Confirm, `heard` or our own)."""
        change = self._table.doubt(member.node, MemberState.DEAD, now, reason)
        assert change is not None, "only a present member is confirmed"
        self.end(member.node)
        confirmed = heard or self.doubt(member, now)
        assert confirmed is not None, "it is DEAD now"
        if heard is None or self._rules.infection:
            self._accuser.confirm(member.node, confirmed)
        return [change]

    def _rearm(self, suspicion: Suspicion, member: Member, now: float) -> None:
        if suspicion.timer_ended:
            return
        round_trip = self._protocol.probe_timeout if member.rtt is None else member.rtt
        ends = suspicion.ends_at(self._protocol.probe_interval + 2 * round_trip)
        self._timers.set(SuspicionEnds(member.node), max(now, ends))
        if suspicion.probe_failed:
            self._looks.plan_last(suspicion, ends, now)

    def end(self, node: NodeId) -> None:
        """A suspicion has no object any more (refuted, a new life, left or forgotten): accusations stop circulating."""
        self._accuser.withdraw(node, self._forget(node))

    def _forget(self, node: NodeId) -> Suspicion | None:
        suspicion = self._suspicions.pop(node, None)
        if suspicion is not None:
            self._timers.cancel(SuspicionEnds(node))
            self._looks.cancel(node)
        return suspicion

    def stop(self) -> None:
        """Forget all suspicions."""
        for node in list(self._suspicions):
            self.end(node)

    # What others are told

    def word(self, node: NodeId) -> bytes | None:
        """The accusation of a suspect for those whom we ask to probe it: as it circulates, so it is no news to most.
        None if it is not doubted."""
        suspicion = self._suspicions.get(node)
        return suspicion.word if suspicion is not None else None

    def doubt(self, member: Member, now: float) -> bytes | None:
        """Our signed accusation of a member that we hold SUSPECT or DEAD, for somebody who may not know; else None."""
        return self._accuser.doubt(member, self._suspicions.get(member.node), now)

    def doubts(self, now: float) -> list[bytes]:
        """Our signed accusations of all suspects, also of those that we have only heard of."""
        suspects = [member for node in self._suspicions if (member := self._table.get(node)) is not None]
        return [data for member in suspects if (data := self.doubt(member, now)) is not None]

    def forget(self, node: NodeId) -> None:
        """The member's row is gone."""
        self.end(node)
        self._accuser.forget(node)

    # Our own lateness

    def on_lag(self, seconds: float, now: float) -> None:
        """We did not run for `seconds`: accuse nobody for a period, and do not count the time we missed."""
        self._quiet_until = now + self._protocol.probe_interval * self._health.multiplier
        for suspicion in self._suspicions.values():
            suspicion.started += seconds
            suspicion.floor += seconds
            if suspicion.own_refusal_at is not None:
                suspicion.own_refusal_at += seconds
            member = self._table.get(suspicion.node)
            if member is not None:
                self._rearm(suspicion, member, now)

    def __len__(self) -> int:
        return len(self._suspicions)
