"""What every input of an engine has around it: time that never goes back, lateness, and the steps of a life.

The machines are built here (`Parts`, and those that need each other); `engine` is the surface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reachp2p.core.claiming import Claiming
from reachp2p.core.consequences import Consequences
from reachp2p.core.events import DrainFinished, Lagged
from reachp2p.core.hearing import Hearing
from reachp2p.core.ids import Entropy, Rng
from reachp2p.core.inbound import Inbound
from reachp2p.core.introductions import Introductions
from reachp2p.core.leaving import Leaving
from reachp2p.core.membership.life import Step
from reachp2p.core.parts import Parts
from reachp2p.core.pulls import Pulls
from reachp2p.core.push_pull import PushPull
from reachp2p.core.questions import Questions
from reachp2p.core.recall import Recall
from reachp2p.core.registry.record import RECORDS_BYTES_MAX
from reachp2p.core.routing.policies import BUILT_IN
from reachp2p.core.routing.policy import PolicyFactory
from reachp2p.core.settings import Settings
from reachp2p.core.subscribing import Subscribing
from reachp2p.core.timing import Timing
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p.core.upkeep import Upkeep
from reachp2p.core.wire.engine_codec import CODEC, Codec
from reachp2p.errors import ConfigurationInvalid, ErrorCode

LAG_NOTICED = 0.25
"""Seconds by which a timer may be late before this node doubts itself (half the probe time-out)."""


class Frame:
    """The machines of one node, and what is done before and after each input."""

    def __init__(
        self,
        settings: Settings,
        *,
        signer: Signer,
        verifier: Verifier,
        rng: Rng,
        entropy: Entropy,
        codec: Codec = CODEC,
        policies: Mapping[str, PolicyFactory] = BUILT_IN,
    ) -> None:
        """`policies`: what makes each routing policy, by name; a factory is asked for when its policy first is."""
        if settings.protocol.payload_max < RECORDS_BYTES_MAX:
            raise ConfigurationInvalid(
                f"payload_max is {settings.protocol.payload_max}, at least {RECORDS_BYTES_MAX}: "
                "the records of one node travel in one message"
            )
        self._settings = settings
        self._parts = parts = Parts(
            settings,
            signer=signer,
            verifier=verifier,
            rng=rng,
            entropy=entropy,
            codec=codec,
            policies=policies,
        )
        self._timers = parts.timers
        self._consequences = Consequences(parts)
        pulls = Pulls(parts)
        self._hearing = Hearing(parts, self._consequences, pulls)
        self._push_pull = PushPull(parts, self._hearing)
        self._upkeep = Upkeep(parts, self._hearing, self._consequences, pulls, self._push_pull)
        self._subscribing = Subscribing(parts, self._hearing)
        self._claiming = Claiming(parts, self._hearing, self._push_pull)
        self._introductions = Introductions(parts, self._hearing, self._push_pull)
        self._recall = Recall(parts, self._hearing)
        self._inbound = Inbound(
            parts, self._hearing, self._consequences, self._push_pull, self._introductions
        )
        self._leaving = Leaving(parts, self._hearing)
        self._timing = Timing(
            parts,
            self._consequences,
            self._upkeep,
            self._push_pull,
            self._inbound,
            self._leaving,
            self._subscribing,
            left_spread=self._end_leaving,
        )
        self._questions = Questions(parts)
        self._now = float("-inf")
        self._late_deadline = float("-inf")
        self._life_rows: tuple[int, Sequence[tuple[bytes, bytes]]] | None = None
        self._is_loaded = False

    # The frame around every input

    def _enter(self, now: float) -> float:
        """Time never goes back; if our own timers are late, doubt ourselves before anybody else."""
        if now < self._now:
            now = self._now
        self._now = now
        deadline = self._timers.first
        if now - deadline > LAG_NOTICED:
            self._late(deadline, now)
        return now

    def _late(self, deadline: float, now: float) -> None:
        if not self._settings.protocol.rules.lateness:
            return
        if self._parts.life.is_running and deadline != self._late_deadline:
            self._late_deadline = deadline  # one sleep counts once, whatever has queued up meanwhile
            self._lagged(now - deadline, now)

    def _lagged(self, seconds: float, now: float) -> None:
        parts = self._parts
        parts.counters.add("lag.noticed")
        parts.own_load.on_late(now)
        parts.health.worse()
        parts.detector.on_lag(seconds, now)
        parts.links.on_lag(seconds)
        for result in parts.prober.void_rounds():
            self._consequences.probed(result, now)
        parts.touch.reset(now)
        if seconds >= self._settings.protocol.probe_interval:
            parts.effects.notify(Lagged(at=now, seconds=seconds))

    def _settle(self, now: float) -> None:
        """After every input: take the steps that facts have caused, set timers, see whether draining is done."""
        if self._hearing.steps:
            steps, self._hearing.steps = self._hearing.steps, []
            self._take_steps(steps, now)
        parts = self._parts
        if parts.own_claims.changed or parts.own_claims.lost:
            self._claiming.carry_out(now)
        if parts.life.is_running:
            self._upkeep.arm(now)
            if parts.own.is_used_up:
                self._take_steps(parts.life.outgrow(now), now)
            if parts.life.is_leaving:
                self._leaving.look(now)

    def _take_steps(self, steps: Sequence[Step], now: float) -> None:
        parts = self._parts
        for step in steps:
            match step:
                case Step.ASK:
                    self._open_life(now)
                    more = parts.life.asked(parts.contacts.ask(now), now)
                    self._take_steps(more, now)
                case Step.RUN:
                    self._run(now)
                case Step.PAUSE:
                    parts.callee.pause(now)
                    parts.event_handlers.pause()
                    parts.routing.set_node(
                        parts.own.node,
                        *self._questions.own_state(),
                        parts.own.name,
                        parts.own.life,
                        self._settings.zone,
                    )
                case Step.STOP:
                    self._stop(now)

    def _open_life(self, now: float) -> None:
        life = self._parts.life.life
        assert life is not None, "the life cycle has opened it"
        if self._parts.own.life != life:
            self._parts.own.open(life, now)

    def _run(self, now: float) -> None:
        """The life is ours: announce it, offer our agents, serve."""
        parts = self._parts
        is_first = parts.own.life == parts.life.life
        if not is_first:  # after a pause: what was said under the former life is over
            self._inbound.link_outputs(parts.links.close_all(now, "a new life of this node begins"), now)
            self._upkeep.stop()
        self._open_life(now)
        life = parts.own.life
        assert life is not None, "just opened"
        parts.routing.set_node(
            parts.own.node, *self._questions.own_state(), parts.own.name, life, self._settings.zone
        )
        self._claiming.begin(now)
        for record in parts.agents.open(life, now):
            self._hearing.own_record(record, now)
        self._hearing.announce(now)
        parts.callee.resume()
        parts.event_handlers.resume()
        parts.publisher.begin()
        parts.hops.begin(now)
        self._upkeep.start(now)
        self._introductions.after_start(now)

    def _stop(self, now: float) -> None:
        """This node is over: nothing runs, nothing is answered."""
        parts = self._parts
        self._upkeep.stop()
        parts.callee.stop(now)
        parts.event_handlers.pause()
        parts.gatherings.end_all(now)
        parts.fetches.end_all(now)
        code = 0 if parts.own.has_left else int(ErrorCode.FENCED)
        reason = "this node has left" if parts.own.has_left else "this node is over"
        parts.caller.end_all(ErrorCode(code) if code else ErrorCode.NODE_LOST, reason, now)
        self._inbound.link_outputs(parts.links.close_all(now, reason, code), now)

    # Leaving

    def _end_leaving(self, now: float) -> None:
        parts = self._parts
        unfinished = parts.callee.unfinished + parts.caller.pending + parts.event_handlers.running
        parts.snapshot.flush()
        parts.rules.write_again()
        parts.life.left()
        self._stop(now)
        parts.effects.notify(DrainFinished(at=now, unfinished=unfinished))
