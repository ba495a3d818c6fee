"""What happens when a timer fires: each key to the machine that set it."""

from __future__ import annotations

import msgspec

from reachp2p.core.calls.call import CallDue
from reachp2p.core.calls.invocation import InvocationDue
from reachp2p.core.calls.waiting_replies import WaitingRepliesDue
from reachp2p.core.consequences import Consequences
from reachp2p.core.dissemination.anti_entropy import ExchangeEnds
from reachp2p.core.effects import ToNode
from reachp2p.core.inbound import Inbound
from reachp2p.core.links.link import LinkDue
from reachp2p.core.membership.contacts import ContactDue
from reachp2p.core.membership.detector import RefusalDialDue, SuspicionEnds, VerifyDue
from reachp2p.core.membership.life import AskEnds, ChallengeDue, ChallengeEnds, Step
from reachp2p.core.membership.probe import DirectProbeDue, ProbeDue, ProbeEnds, RelayEnds, RelayNackDue
from reachp2p.core.parts import Parts
from reachp2p.core.routing.unreached import UnreachedEnds
from reachp2p.core.snapshot import SnapshotDue
from reachp2p.core.timers import TimerKey
from reachp2p.core.upkeep import (
    ClockSettled,
    FirstSyncDue,
    GossipDue,
    PullDue,
    PushPullDue,
    SuccessorsDue,
    SweepDue,
    Upkeep,
)


class DrainEnds(msgspec.Struct, frozen=True):
    """What still runs has had its time: leave without it."""


class LeftSpread(msgspec.Struct, frozen=True):
    """LEFT has had its time to spread: close everything."""


class Timing:
    """Fires timers."""

    def __init__(self, parts: Parts, consequences: Consequences, upkeep: Upkeep, inbound: Inbound) -> None:
        self._parts = parts
        self._consequences = consequences
        self._upkeep = upkeep
        self._inbound = inbound

    def fire(self, key: TimerKey, now: float) -> list[Step]:
        """Hand one due key to its machine; returns steps of the life cycle."""
        parts = self._parts
        match key:
            case LinkDue():
                self._inbound.link_outputs(parts.links.on_timer(key, now), now)
            case CallDue():
                parts.caller.on_timer(key, now)
            case InvocationDue():
                parts.callee.on_timer(key, now)
            case WaitingRepliesDue():
                parts.callee.on_waiting_replies_due(now)
            case UnreachedEnds():
                parts.unreached.on_timer(key)
            case AskEnds():
                return parts.life.on_ask_ends(now)
            case ChallengeDue():
                if parts.life.on_challenge_due(now):
                    for address in parts.life.challenged_addresses:
                        parts.links.dial(address, None, now)
            case ChallengeEnds():
                return parts.life.on_challenge_ends(now)
            case ContactDue():
                parts.contacts.on_contact_due(now)
            case SnapshotDue():
                parts.snapshot.on_due(now)
            case ExchangeEnds(link=link, exchange=exchange):
                for over in parts.sync.on_exchange_ends(link, exchange):
                    self._upkeep.on_exchange_over(over, now)
            case _:
                if not self._detect(key, now):
                    self._keep_up(key, now)
        return []

    def _detect(self, key: TimerKey, now: float) -> bool:
        parts = self._parts
        match key:
            case ProbeDue():
                parts.prober.on_probe_due(now)
            case DirectProbeDue(nonce=nonce):
                parts.prober.on_direct_late(nonce, now)
            case ProbeEnds(nonce=nonce):
                result = parts.prober.on_probe_ends(nonce)
                if result is not None:
                    self._consequences.draw(parts.detector.on_probe(result, now), now)
            case RelayNackDue(nonce=nonce):
                relayed = parts.prober.on_relay_nack_due(nonce)
                if relayed is not None:
                    origin, address, nack = relayed
                    parts.effects.add(ToNode(origin, nack, address=address))
            case RelayEnds(nonce=nonce):
                parts.prober.on_relay_ends(nonce)
            case SuspicionEnds(node=node):
                self._consequences.draw(parts.detector.on_suspicion_ends(node, now), now)
            case VerifyDue(node=node):
                parts.detector.on_verify_due(node, now)
            case RefusalDialDue(node=node):
                parts.detector.on_refusal_dial_due(node, now)
            case _:
                return False
        return True

    def _keep_up(self, key: TimerKey, now: float) -> None:
        match key:
            case GossipDue():
                self._upkeep.on_gossip_due(now)
            case PushPullDue():
                self._upkeep.on_push_pull_due(now)
            case SuccessorsDue():
                self._upkeep.on_successors_due(now)
            case PullDue():
                self._upkeep.on_pull_due(now)
            case SweepDue():
                self._upkeep.on_sweep_due(now)
            case ClockSettled():
                self._upkeep.on_clock_settled(now)
            case FirstSyncDue():
                self._upkeep.on_first_sync_due(now)
            case _:
                raise AssertionError(f"nobody owns the timer {key!r}")
