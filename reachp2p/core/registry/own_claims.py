"""The exclusive agents that this node offers: standing by, claiming, holding (docs/protocol/claims.md).

A claim is on disk before anybody hears of it and before a handler runs under it. What follows from a step (a record
to sign, calls to hand back) is noted here and done by the engine (`core.claiming`) at the end of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import cbor2
import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, Table
from reachp2p.core.ids import CLAIM_EPOCH_MAX, NodeId, Ticket
from reachp2p.core.membership.suspicion import suspicion_min
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.registry.claims import Claims, fencing_token
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.facts import Claim
from reachp2p.core.wire.limits import WireError, load

HIGHEST_KEY = b"highest_claims"
"""Row of `Table.LIFE`: the CBOR map of agent to highest epoch. Behind the life's own keys: it displaces none."""
ROW_BYTES_MAX = 1_048_576
STORED_MAX = 1_024
"""Agents in that row: eight times as many as a node may offer."""
BURIED = 2.0
"""Suspicion minima for which an owner must have been DEAD here: a false verdict is refuted in less."""
STEP = 0.5
"""Suspicion minima between two turns: a claim reaches everybody in less. Like gossip, it grows with log n."""
TURNS_MAX = 16
"""Nobody waits longer than for so many before it: with that many gone at once, ties are the smaller evil."""
WITNESSES = 8
"""Those first in turn repeat the highest epoch in their records, so that it outlives its owner's."""


class ClaimState(Enum):
    """What this node does about one exclusive agent that it offers."""

    STANDING_BY = "standing by"
    CLAIMING = "claiming"
    """The epoch is being written to disk; nobody has heard of it."""
    HOLDING = "holding"
    """Handlers run under the token of the epoch."""


class ClaimInput(Enum):
    """What moves a claim."""

    TRIED = "nobody owns it, and it is our turn"
    STORED = "the epoch is on disk"
    FAILED = "the epoch could not be stored"
    OUTBID = "a higher epoch was heard of"
    ENDED = "the life or the offer is over"


TRANSITIONS: dict[tuple[ClaimState, ClaimInput], ClaimState] = {
    (ClaimState.STANDING_BY, ClaimInput.TRIED): ClaimState.CLAIMING,
    (ClaimState.CLAIMING, ClaimInput.STORED): ClaimState.HOLDING,
    (ClaimState.CLAIMING, ClaimInput.FAILED): ClaimState.STANDING_BY,
    (ClaimState.CLAIMING, ClaimInput.OUTBID): ClaimState.STANDING_BY,
    (ClaimState.CLAIMING, ClaimInput.ENDED): ClaimState.STANDING_BY,
    (ClaimState.HOLDING, ClaimInput.OUTBID): ClaimState.STANDING_BY,
    (ClaimState.HOLDING, ClaimInput.ENDED): ClaimState.STANDING_BY,
    (ClaimState.STANDING_BY, ClaimInput.ENDED): ClaimState.STANDING_BY,
}
"""What is not here cannot happen."""


class ClaimDue(msgspec.Struct, frozen=True):
    """It may be our turn to claim this agent."""

    agent: str


class OwnClaim(msgspec.Struct):
    """One exclusive agent of this node."""

    agent: str
    state: ClaimState = ClaimState.STANDING_BY
    epoch: int = 0
    """Being written, or held; 0 while it stands by."""
    ticket: Ticket | None = None
    not_before: float = float("-inf")
    """After a failed write."""
    said: int = 0
    """The highest epoch in the record as it was signed last."""

    def move(self, happened: ClaimInput) -> None:
        """Follow the table."""
        self.state = TRANSITIONS[self.state, happened]


class OwnClaims:
    """The claims of this node's own agents. Size: the exclusive agents that it offers, and `STORED_MAX` epochs."""

    def __init__(
        self,
        own: NodeId,
        protocol: Protocol,
        claims: Claims,
        table: MemberTable,
        *,
        effects: Effects,
        timers: Timers,
        counters: Counters,
    ) -> None:
        self._own = own
        self._protocol = protocol
        self._claims = claims
        self._table = table
        self._effects = effects
        self._timers = timers
        self._counters = counters
        self._agents: dict[str, OwnClaim] = {}
        self._stored: dict[str, int] = {}
        """What the row on disk says; of agents that are not offered any more, too."""
        self.tokens: dict[str, int] = {}
        """The fencing token of each agent that this node owns. Read only."""
        self.changed: dict[str, None] = {}
        """Agents whose record says something else now than was signed; the engine signs anew and clears it."""
        self.lost: dict[str, None] = {}
        """Agents whose claim has ended: what runs under it is to be cancelled; the engine clears it."""
        self.may_claim: Callable[[float], bool] = lambda now: True
        """Whether this node knows enough and is fit to claim anything; set by the engine."""

    # Questions

    def __contains__(self, agent: str) -> bool:
        return agent in self._agents

    def claim_of(self, agent: str) -> Claim | None:
        """What the record of an own agent is to say; None if it is not exclusive."""
        mine = self._agents.get(agent)
        if mine is None:
            return None
        held = mine.epoch if mine.state is ClaimState.HOLDING else 0
        return Claim(held, max(held, self._claims.highest(agent)))

    def state_of(self, agent: str) -> ClaimState | None:
        """Where an own exclusive agent is; None if it is none."""
        mine = self._agents.get(agent)
        return mine.state if mine is not None else None

    def suspicion_min(self) -> float:
        """S_min in seconds, for the group as it is."""
        return suspicion_min(self._protocol.suspicion_alpha, self._table.size, self._protocol.probe_interval)

    # Commands

    def offer(self, agent: str) -> None:
        """This node offers an exclusive agent; it stands by."""
        if agent not in self._agents:
            self._agents[agent] = OwnClaim(agent)

    def withdraw(self, agent: str) -> None:
        """It offers it no more, or not as exclusive."""
        mine = self._agents.get(agent)
        if mine is not None:
            self._end(mine, ClaimInput.ENDED)
            self._timers.cancel(ClaimDue(agent))
            self.changed.pop(agent, None)
            del self._agents[agent]

    def end_life(self) -> None:
        """What this life holds ends with it; the agents are offered on."""
        for mine in self._agents.values():
            self._end(mine, ClaimInput.ENDED)
            self._timers.cancel(ClaimDue(mine.agent))
        self.changed.clear()

    def recall(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """The rows of `Table.LIFE` at the start: the highest epochs that a former life knew of."""
        row = dict(rows).get(HIGHEST_KEY)
        if row is None:
            return
        try:
            known = msgspec.convert(load(row, bytes_max=ROW_BYTES_MAX), dict[str, int], strict=True)
        except (WireError, msgspec.ValidationError):
            self._counters.add("claims.row_damaged")  # the records of others tell, too
            return
        for agent, epoch in known.items():
            if 0 < epoch <= CLAIM_EPOCH_MAX:
                self._stored[agent] = epoch
                self._claims.recall(agent, epoch)

    # Inputs

    def on_changed(self, agent: str, now: float) -> None:
        """Something is new about an exclusive agent, or about a node that offers it."""
        mine = self._agents.get(agent)
        if mine is None:
            return
        highest, owner = self._claims.highest(agent), self._claims.owner(agent)
        is_outbid = highest > mine.epoch or (highest == mine.epoch and owner not in (None, self._own))
        if mine.state is not ClaimState.STANDING_BY and is_outbid:
            self._counters.add("claims.outbid")
            self._end(mine, ClaimInput.OUTBID)
            self.changed[agent] = None
        elif highest > mine.said and self._claims.turn(agent, self._own) < WITNESSES:
            self.changed[agent] = None
        self._plan(mine, now)

    def on_signed(self, agent: str, claim: Claim) -> None:
        """The record of an own exclusive agent says this now."""
        self._agents[agent].said = claim.highest

    def on_due(self, key: ClaimDue, now: float) -> None:
        """It may be our turn."""
        mine = self._agents.get(key.agent)
        if mine is None or mine.state is not ClaimState.STANDING_BY:
            return
        at = self._due_at(mine)
        if at is None:
            return
        if at > now:
            self._timers.set(key, at)
        elif not self.may_claim(now):
            self._timers.set(key, now + self._protocol.probe_interval)
        else:
            self._try(mine)

    def on_persisted(self, ticket: Ticket, now: float) -> None:
        """A row is on disk."""
        mine = self._by_ticket(ticket)
        if mine is not None:
            mine.ticket = None
            mine.move(ClaimInput.STORED)
            self._counters.add("claims.won")
            self.tokens[mine.agent] = fencing_token(mine.epoch, self._own)
            self.changed[mine.agent] = None

    def on_persist_failed(self, ticket: Ticket, now: float) -> None:
        """A row could not be written: nobody has heard of the claim, and we do not hold it."""
        mine = self._by_ticket(ticket)
        if mine is not None:
            self._counters.add("claims.not_stored")
            mine.not_before = now + self.suspicion_min()
            self._end(mine, ClaimInput.FAILED)
            self._plan(mine, now)

    # Inside

    def _by_ticket(self, ticket: Ticket) -> OwnClaim | None:
        return next((mine for mine in self._agents.values() if mine.ticket == ticket), None)

    def _plan(self, mine: OwnClaim, now: float) -> None:
        at = self._due_at(mine) if mine.state is ClaimState.STANDING_BY else None
        if at is None:
            self._timers.cancel(ClaimDue(mine.agent))
        else:
            self._timers.set(ClaimDue(mine.agent), max(at, now))

    def _due_at(self, mine: OwnClaim) -> float | None:
        minimum = self.suspicion_min()
        free_at = self._claims.free_at(mine.agent, self._own, BURIED * minimum)
        if free_at is None:
            return None
        turn = min(self._claims.turn(mine.agent, self._own), TURNS_MAX)
        return max(free_at + turn * STEP * minimum, mine.not_before)

    def _try(self, mine: OwnClaim) -> None:
        highest = self._claims.highest(mine.agent)
        if highest >= CLAIM_EPOCH_MAX:
            self._counters.add("claims.used_up")
            return
        mine.move(ClaimInput.TRIED)
        mine.epoch = highest + 1
        for one in self._agents.values():
            known = max(one.epoch, self._claims.highest(one.agent), self._stored.pop(one.agent, 0))
            if known:
                self._stored[one.agent] = known
        while len(self._stored) > STORED_MAX:
            del self._stored[next(iter(self._stored))]  # none of those offered, which have just been put last
            self._counters.add("claims.forgotten")
        self._counters.add("claims.tried")
        row = cbor2.dumps(self._stored, canonical=True)
        mine.ticket = self._effects.persist(Table.LIFE, HIGHEST_KEY, row)

    def _end(self, mine: OwnClaim, why: ClaimInput) -> None:
        if mine.state is ClaimState.HOLDING:
            del self.tokens[mine.agent]
            self.lost[mine.agent] = None
        mine.move(why)
        mine.epoch, mine.ticket = 0, None
