"""The failure detector: from unanswered probes, refusals and accusations to SUSPECT and DEAD.

It keeps one `Suspicion` for each doubted member and is the only place that raises a member's rank. A member is
declared DEAD when its timer has ended *and* a probe of our own inside the timer has failed; accusations shorten the
timer and never kill. A refusal (the host says the process is gone) shortens it further, once another member says so,
too.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import msgspec

from reachp2p.core.clock import WallClock
from reachp2p.core.counters import Counters
from reachp2p.core.dissemination.broadcast_queue import BroadcastQueue, Kind
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Address, NodeId, Rng
from reachp2p.core.membership.health import LocalHealth
from reachp2p.core.membership.member import Member
from reachp2p.core.membership.probe import Prober, ProbeResult
from reachp2p.core.membership.suspicion import Grade, Suspicion, kept_accusers, suspicion_min
from reachp2p.core.membership.table import PRESENT, Change, MemberTable
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.trust.facts import Checked, FactSigner
from reachp2p.core.wire.engine_codec import CODEC, Codec
from reachp2p.core.wire.facts import Accusation
from reachp2p.core.wire.messages import AccusationUpdate

AGE_MS_MAX = 86_400_000
REFUTATION_PERIODS = 2
"""Periods for which no timer ends once a doubt is known to more than us: a live node hears of it, and answers."""
VERIFY_WINDOW = (0.1, 0.6)
"""The own probe starts at a random moment in this part of the timer's minimum, so that members do not probe in step."""
LAST_LOOK = (2.0, 1.25)
"""Periods before the end of a timer, between which the last of several own probes starts."""


class SuspicionEnds(msgspec.Struct, frozen=True):
    """The timer of a suspicion is over."""

    node: NodeId


class VerifyDue(msgspec.Struct, frozen=True):
    """Probe a suspect ourselves before it may be buried."""

    node: NodeId


class RefusalDialDue(msgspec.Struct, frozen=True):
    """Look for ourselves whether a suspect's host refuses."""

    node: NodeId


def is_chosen_dialer(subject: NodeId, own: NodeId, others: list[NodeId], count: int) -> bool:
    """Whether we are among the `count` members that dial a lost process at once: those with the lowest
    BLAKE2b-64(subject ‖ member), so that every member chooses the same without a word."""

    def score(node: NodeId) -> bytes:
        return blake2b(subject + node, digest_size=8).digest()

    mine = score(own)
    return sum(score(node) < mine for node in others) < count


def _confirm_slot(node: NodeId) -> tuple[NodeId, NodeId]:
    """Where a Confirm circulates: nobody accuses itself, so no accusation is ever there."""
    return (node, node)


class Detector:
    """Doubts about members. Size: one suspicion for each member at most."""

    def __init__(
        self,
        protocol: Protocol,
        table: MemberTable,
        prober: Prober,
        health: LocalHealth,
        queue: BroadcastQueue,
        signer: FactSigner,
        clock: WallClock,
        dial: Callable[[Member, float], None],
        *,
        own: NodeId,
        timers: Timers,
        rng: Rng,
        counters: Counters,
        codec: Codec = CODEC,
    ) -> None:
        self._protocol = protocol
        self._rules = protocol.rules
        self._table = table
        self._prober = prober
        self._health = health
        self._queue = queue
        self._signer = signer
        self._clock = clock
        self._dial = dial
        self._own = own
        self._timers = timers
        self._rng = rng
        self._counters = counters
        self._codec = codec
        self._suspicions: dict[NodeId, Suspicion] = {}
        self._accusations: dict[NodeId, tuple[tuple[object, ...], bytes]] = {}
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
            self._schedule_verify(suspicion, now)
        else:
            suspicion.probe_failed, suspicion.failed_at = True, now
        self._accuse(suspicion, Grade.SILENCE, now)
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
            self._schedule_verify(suspicion, now)
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
            self._accuse(suspicion, Grade.REFUSAL, now)
            self._verify(suspicion, member, now)
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
            self._schedule_verify(suspicion, now)
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
            self._spread(suspicion, NodeId(accusation.accuser), checked.data)
            if grade >= Grade.REFUSAL and suspicion.own_refusal_at is None and member.reached:
                self._schedule_dial(node, now)
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

    def _schedule_verify(self, suspicion: Suspicion, now: float) -> None:
        if not self._rules.own_verdict:
            return
        low, high = VERIFY_WINDOW
        delay = suspicion.minimum * (low + (high - low) * self._rng.random())
        self._timers.set(VerifyDue(suspicion.node), now + delay)

    def _schedule_dial(self, node: NodeId, now: float) -> None:
        others = [m.node for m in self._table if m.state is MemberState.ALIVE and m.node != node]
        at_once = is_chosen_dialer(node, self._own, others, self._protocol.refusal_dialers)
        delay = 0.0 if at_once else self._rng.random() * self._protocol.probe_interval
        self._timers.set(RefusalDialDue(node), now + delay)

    def on_refusal_dial_due(self, node: NodeId, now: float) -> None:
        """Dial a suspect whose process is said to be gone."""
        member = self._table.get(node)
        if member is not None and member.state is MemberState.SUSPECT:
            self._dial(member, now)

    def on_verify_due(self, node: NodeId, now: float) -> None:
        """Start the own probe inside the timer."""
        member, suspicion = self._table.get(node), self._suspicions.get(node)
        if member is not None and suspicion is not None:
            self._verify(suspicion, member, now, is_last=suspicion.probe_failed)

    def _verify(self, suspicion: Suspicion, member: Member, now: float, *, is_last: bool = False) -> bool:
        """Probe it now; false if nothing could answer, which counts as a failed probe."""
        self._timers.cancel(VerifyDue(member.node))
        if self._prober.is_probing(member.node) or self._prober.probe(member, now, is_last=is_last):
            suspicion.probe_running = True
            return True
        suspicion.probe_failed = True  # it has no address
        return False

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
        if not suspicion.probe_running and not self._verify(suspicion, member, now, is_last=True):
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
            update = self._codec.encode(AccusationUpdate(accusation=confirmed))
            self._queue.put(Kind.ACCUSATION, _confirm_slot(member.node), update)
        return [change]

    def _rearm(self, suspicion: Suspicion, member: Member, now: float) -> None:
        if suspicion.timer_ended:
            return
        round_trip = self._protocol.probe_timeout if member.rtt is None else member.rtt
        ends = suspicion.ends_at(self._protocol.probe_interval + 2 * round_trip)
        self._timers.set(SuspicionEnds(member.node), max(now, ends))
        if suspicion.probe_failed and self._rules.own_verdict:
            self._look_again(suspicion, ends, now)

    def _look_again(self, suspicion: Suspicion, ends: float, now: float) -> None:
        """Where few share our doubt the timer is long, and a probe that failed at its beginning says little about its
        end: probe once more before that. The timer does not wait for it, so nobody is buried later."""
        period = self._protocol.probe_interval * self._health.multiplier
        earliest, latest = (ends - periods * period for periods in LAST_LOOK)
        if earliest < max(now, suspicion.failed_at + suspicion.minimum):
            return
        pending = self._timers.due_at(VerifyDue(suspicion.node))
        if pending is None or pending > latest:
            at = earliest + (latest - earliest) * self._rng.random()
            self._timers.set(VerifyDue(suspicion.node), at)

    def _accuse(self, suspicion: Suspicion, grade: Grade, now: float) -> None:
        """Say once for each grade that we doubt, too, unless enough others have said so.

        As long as nobody else has said it, all that we sent may be lost (in a partition, most of it is): then each
        failed probe of ours says it again, so that its object hears of it before the timer ends.
        """
        is_heard = bool(suspicion.others) or not self._rules.own_verdict
        again = suspicion.own and grade is not Grade.REFUSAL and is_heard
        suspicion.own = True
        as_much = sum(told >= grade for told in suspicion.others.values())
        if again or as_much >= kept_accusers(suspicion.expected):
            return
        suspicion.word = self._sign(suspicion, grade, suspicion.started, now)
        self._spread(suspicion, self._own, suspicion.word)
        self._counters.add("suspicion.accused")

    def _spread(self, suspicion: Suspicion, accuser: NodeId, accusation: bytes) -> None:
        if accuser != self._own and not self._rules.infection:
            return
        update = self._codec.encode(AccusationUpdate(accusation=accusation))
        slot = (suspicion.node, accuser)
        if not self._rules.own_verdict:  # memberlist's queue has one place for all that is said of a member
            slot = _confirm_slot(suspicion.node)
        self._queue.put(Kind.ACCUSATION, slot, update)
        suspicion.spread[accuser] = None

    def _sign(self, about: Suspicion | Member, grade: Grade, started: float, now: float) -> bytes:
        age_ms = int(max(0.0, now - started) * 1000)
        return self._signer.sign(
            Accusation(
                accuser=self._own,
                subject=about.node,
                life=about.life,
                incarnation=about.incarnation,
                grade=grade,
                age_ms=min(AGE_MS_MAX, age_ms),
                issued_at=self._clock.at(now),
            )
        )

    def end(self, node: NodeId) -> None:
        """A suspicion has no object any more (refuted, a new life, left or forgotten): accusations stop circulating."""
        self._queue.drop(Kind.ACCUSATION, _confirm_slot(node))
        suspicion = self._forget(node)
        if suspicion is not None:
            for accuser in suspicion.spread:
                self._queue.drop(Kind.ACCUSATION, (node, accuser))

    def _forget(self, node: NodeId) -> Suspicion | None:
        suspicion = self._suspicions.pop(node, None)
        if suspicion is not None:
            for key in (SuspicionEnds(node), VerifyDue(node), RefusalDialDue(node)):
                self._timers.cancel(key)
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
        if member.state not in (MemberState.SUSPECT, MemberState.DEAD):
            return None
        grade = Grade.DEAD if member.state is MemberState.DEAD else Grade.SILENCE
        key = (member.life, member.incarnation, grade)
        held = self._accusations.get(member.node)
        if held is not None and held[0] == key:
            return held[1]
        suspicion = self._suspicions.get(member.node)
        started = suspicion.started if suspicion is not None else member.since
        signed = self._sign(member, grade, started, now)
        self._accusations[member.node] = (key, signed)
        return signed

    def forget(self, node: NodeId) -> None:
        """The member's row is gone."""
        self.end(node)
        self._accusations.pop(node, None)

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
