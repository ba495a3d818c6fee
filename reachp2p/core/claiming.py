"""What follows from steps of own claims: records signed anew, calls handed back, news for the application.

`registry.own_claims` notes the steps during an input; at its end the engine has them carried out here.
"""

from __future__ import annotations

from reachp2p.core.events import ClaimChanged
from reachp2p.core.hearing import Hearing
from reachp2p.core.parts import Parts
from reachp2p.core.push_pull import PushPull

UNSYNCED_PATIENCE = 2.0
"""Suspicion minima after the start of a life for which it waits to compare its view with somebody's."""


class Claiming:
    """Carries out what own claims ask for. Keeps nothing but when the life began."""

    def __init__(self, parts: Parts, hearing: Hearing, push_pull: PushPull) -> None:
        self._parts = parts
        self._hearing = hearing
        self._push_pull = push_pull
        self._begun_at = 0.0
        parts.own_claims.may_claim = self._may_claim

    def begin(self, now: float) -> None:
        """A life begins to run: what was held before is over, and its agents stand by."""
        self._begun_at = now
        self._parts.own_claims.end_life()

    def _may_claim(self, now: float) -> bool:
        """Whether this node is fit to claim, and knows what others hold as far as it can."""
        parts = self._parts
        if not parts.life.is_running or parts.life.is_leaving or parts.routing.is_isolated:
            return False
        is_founder = not parts.contacts.seeds and not len(parts.table)
        patience = UNSYNCED_PATIENCE * parts.own_claims.suspicion_min()
        return self._push_pull.has_synced or is_founder or now >= self._begun_at + patience

    def carry_out(self, now: float) -> None:
        """Do what steps of this input ask for; called after every input in which there were any."""
        parts = self._parts
        own = parts.own_claims
        while own.lost or own.changed:
            lost, own.lost = own.lost, {}
            for agent in lost:
                parts.callee.hand_back(agent, now)
                parts.event_handlers.hand_back(agent, now)
                parts.effects.notify(ClaimChanged(at=now, agent=agent, epoch=0, token=None))
            changed, own.changed = own.changed, {}
            for agent in changed:
                record = parts.agents.sign_again(agent, now)
                if record is not None and parts.life.is_running:
                    self._hearing.own_record(record, now)
                claim = own.claim_of(agent)
                if claim is not None and claim.epoch and agent in own.tokens:
                    won = ClaimChanged(at=now, agent=agent, epoch=claim.epoch, token=own.tokens[agent])
                    parts.effects.notify(won)
