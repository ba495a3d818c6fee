"""What happens when a timer fires: each key to the machine that set it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from reachp2p.core.calls.call import CallDue
from reachp2p.core.calls.dedupe import DedupeDue
from reachp2p.core.calls.fetching import FetchDue
from reachp2p.core.calls.gathering import GatherDue
from reachp2p.core.calls.invocation import InvocationDue
from reachp2p.core.calls.stream import StreamDue
from reachp2p.core.calls.tasks import TasksDue
from reachp2p.core.calls.waiting_cancels import WaitingCancelsDue
from reachp2p.core.calls.waiting_replies import WaitingRepliesDue
from reachp2p.core.consequences import Consequences
from reachp2p.core.dissemination.anti_entropy import ExchangeEnds
from reachp2p.core.effects import ToNode
from reachp2p.core.inbound import Inbound
from reachp2p.core.leaving import DrainEnds, Leaving, LeftSpread, Withdrawn
from reachp2p.core.links.link import LinkDue
from reachp2p.core.membership.challenge import ChallengeDue, ChallengeEnds
from reachp2p.core.membership.contacts import ContactDue
from reachp2p.core.membership.detector import SuspicionEnds
from reachp2p.core.membership.life import AskEnds, Step
from reachp2p.core.membership.looks import RefusalDialDue, VerifyDue
from reachp2p.core.membership.probe import DirectProbeDue, ProbeDue, ProbeEnds
from reachp2p.core.membership.relays import RelayEnds, RelayNackDue
from reachp2p.core.parts import Parts
from reachp2p.core.push_pull import FirstSyncDue, PushPull, PushPullDue
from reachp2p.core.registry.own_claims import ClaimDue
from reachp2p.core.routing.breakers import BreakerDue
from reachp2p.core.routing.load import LoadDue
from reachp2p.core.routing.rule_spreading import RulesDue
from reachp2p.core.routing.unreached import UnreachedEnds
from reachp2p.core.routing.unsteady import SteadyDue
from reachp2p.core.snapshot import SnapshotDue
from reachp2p.core.subscribing import Subscribing
from reachp2p.core.timers import TimerKey
from reachp2p.core.topics.handling import EventHandlingDue
from reachp2p.core.topics.publisher import WaitingEventsDue
from reachp2p.core.topics.subscriber import SubscriptionsDue
from reachp2p.core.upkeep import (
    ClockSettled,
    GossipDue,
    PullDue,
    SuccessorsDue,
    SweepDue,
    Upkeep,
)


class Timing:
    """Fires timers: a table of who owns which kind of key."""

    def __init__(
        self,
        parts: Parts,
        consequences: Consequences,
        upkeep: Upkeep,
        push_pull: PushPull,
        inbound: Inbound,
        leaving: Leaving,
        subscribing: Subscribing,
        *,
        left_spread: Callable[[float], None],
    ) -> None:
        self._parts = parts
        self._consequences = consequences
        self._push_pull = push_pull
        self._inbound = inbound
        # What a key names besides its kind is read by the handler; most need the time alone.
        self._handlers: dict[type, Callable[[Any, float], Sequence[Step] | None]] = {
            ProbeDue: _at(parts.prober.on_probe_due),
            DirectProbeDue: self._on_direct_late,
            ProbeEnds: self._on_probe_ends,
            RelayNackDue: self._on_relay_nack_due,
            RelayEnds: self._on_relay_ends,
            SuspicionEnds: self._on_suspicion_ends,
            VerifyDue: self._on_verify_due,
            RefusalDialDue: self._on_refusal_dial_due,
            LinkDue: self._on_link_due,
            CallDue: parts.caller.on_timer,
            DedupeDue: _at(parts.callee.dedupe.on_due),
            TasksDue: _at(parts.caller.tasks.on_due),
            WaitingCancelsDue: _at(parts.caller.waiting_cancels.on_due),
            InvocationDue: parts.callee.on_timer,
            StreamDue: parts.streams.on_timer,
            GatherDue: parts.gatherings.on_timer,
            FetchDue: parts.fetches.on_timer,
            WaitingRepliesDue: _at(parts.callee.on_waiting_replies_due),
            UnreachedEnds: self._on_unreached_ends,
            SteadyDue: parts.unsteady.on_timer,
            BreakerDue: parts.breakers.on_timer,
            LoadDue: self._on_load_due,
            RulesDue: _at(parts.rule_spreading.on_due),
            ClaimDue: self._on_claim_due,
            SubscriptionsDue: _at(subscribing.on_due),
            WaitingEventsDue: _at(parts.publisher.on_waiting_due),
            EventHandlingDue: parts.event_handlers.on_due,
            AskEnds: _at(parts.life.on_ask_ends),
            ChallengeDue: self._on_challenge_due,
            ChallengeEnds: _at(parts.life.on_challenge_ends),
            ContactDue: _at(parts.contacts.on_contact_due),
            SnapshotDue: _at(parts.snapshot.on_due),
            ExchangeEnds: self._on_exchange_ends,
            GossipDue: _at(upkeep.on_gossip_due),
            PushPullDue: _at(push_pull.on_push_pull_due),
            SuccessorsDue: _at(upkeep.on_successors_due),
            PullDue: _at(upkeep.on_pull_due),
            SweepDue: _at(upkeep.on_sweep_due),
            ClockSettled: _at(upkeep.on_clock_settled),
            FirstSyncDue: _at(push_pull.on_first_sync_due),
            Withdrawn: _at(leaving.on_withdrawn),
            DrainEnds: _at(leaving.say_left),
            LeftSpread: _at(left_spread),
        }

    def fire(self, key: TimerKey, now: float) -> Sequence[Step] | None:
        """Hand one due key to its machine; returns steps of the life cycle, if any follow."""
        return self._handlers[type(key)](key, now)

    def _on_direct_late(self, key: DirectProbeDue, now: float) -> None:
        self._parts.prober.on_direct_late(key.nonce, now)

    def _on_probe_ends(self, key: ProbeEnds, now: float) -> None:
        result = self._parts.prober.on_probe_ends(key.nonce)
        if result is not None:
            self._consequences.probed(result, now)

    def _on_relay_nack_due(self, key: RelayNackDue, now: float) -> None:
        relayed = self._parts.relays.on_nack_due(key.nonce)
        if relayed is not None:
            origin, address, nack = relayed
            self._parts.effects.add(ToNode(origin, nack, address=address))

    def _on_relay_ends(self, key: RelayEnds, now: float) -> None:
        self._parts.relays.on_ends(key.nonce)

    def _on_suspicion_ends(self, key: SuspicionEnds, now: float) -> None:
        self._consequences.draw(self._parts.detector.on_suspicion_ends(key.node, now), now)

    def _on_verify_due(self, key: VerifyDue, now: float) -> None:
        self._parts.detector.on_verify_due(key.node, now)

    def _on_refusal_dial_due(self, key: RefusalDialDue, now: float) -> None:
        self._parts.looks.on_refusal_dial_due(key.node, now)

    def _on_link_due(self, key: LinkDue, now: float) -> None:
        self._inbound.link_outputs(self._parts.links.on_timer(key, now), now)

    def _on_unreached_ends(self, key: UnreachedEnds, now: float) -> None:
        self._parts.unreached.on_timer(key)

    def _on_load_due(self, key: LoadDue, now: float) -> None:
        self._parts.loads.on_timer(key)

    def _on_claim_due(self, key: ClaimDue, now: float) -> None:
        self._parts.own_claims.on_due(key, now)

    def _on_challenge_due(self, key: ChallengeDue, now: float) -> None:
        parts = self._parts
        if parts.life.on_challenge_due(now):
            for address in parts.life.challenged_addresses:
                parts.links.dial(address, None, now)

    def _on_exchange_ends(self, key: ExchangeEnds, now: float) -> None:
        for over in self._parts.sync.on_exchange_ends(key.link, key.exchange):
            self._push_pull.on_exchange_over(over, now)


R = TypeVar("R")


def _at(handler: Callable[[float], R]) -> Callable[[Any, float], R]:
    """A handler that needs no more than the time."""
    return lambda _, now: handler(now)
