"""Exclusive agents: who holds which claim, as far as this node knows (docs/protocol/claims.md).

The owner is a pure function of the records held: the highest (claim epoch, NodeId), if that epoch is the highest that
was ever heard of. It does not depend on the order in which records come, so views that hold the same records name the
same owner, and no token goes down in a view that has converged.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import NodeId
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.wire.facts import Claim

REMEMBERED_MAX = 4_096
"""Agents without instances whose highest epoch is remembered, in case somebody offers them again."""
FIRST = 0.5
"""Of `patience`: how long nobody claims what nobody has ever owned, so that those who stand by have heard of each
other."""
TOKEN_NODE_BYTES = 4
"""Of the NodeId, in a fencing token. NodeIds are public keys: two holders of one epoch share them once in 2^32."""


def fencing_token(epoch: int, node: NodeId) -> int:
    """The number that tells one holder from all others: ordered as (epoch, node), below 2^63."""
    return (epoch << 8 * TOKEN_NODE_BYTES) | int.from_bytes(node[:TOKEN_NODE_BYTES], "big")


def turn_key(agent: str, node: NodeId) -> bytes:
    """Where a node stands among those who stand by for an agent: the lowest claims first."""
    return blake2b(node + agent.encode(), digest_size=8).digest()


def owner_of(epochs: Mapping[NodeId, int], highest: int) -> NodeId | None:
    """Who holds the highest epoch that was ever heard of; of several the highest NodeId."""
    if not highest:
        return None
    return max((node for node, epoch in epochs.items() if epoch == highest), default=None)


class AgentClaims(msgspec.Struct):
    """What is known of one exclusive agent."""

    epochs: dict[NodeId, int]
    """The claim epoch of each node that offers it, 0 if it stands by."""
    highest: int
    """The highest epoch that was ever heard of."""
    owner: NodeId | None
    """`owner_of` these, dead or alive."""
    since: float
    """When it became the owner here."""
    free_at: float
    """From when on nobody is expected to hold `highest`, if there is no owner. Monotonic seconds."""


def _follow(view: AgentClaims, highest: int, now: float, patience: float) -> NodeId | None:
    """Draw the conclusions of a change of epochs, with which `highest` was told; returns the owner before."""
    before = view.owner
    is_raised = highest > view.highest
    if is_raised:
        view.highest, view.free_at = highest, now + patience
    view.owner = owner_of(view.epochs, view.highest)
    if view.owner != before:
        view.since = now
    if before is not None and view.owner is None and not is_raised:
        view.free_at = now  # it has gone or stepped back, and nobody is known to have claimed above it
    return before


class Claims:
    """All exclusive agents. Size: their records, and `REMEMBERED_MAX` epochs of others."""

    def __init__(self, table: MemberTable, counters: Counters) -> None:
        self._table = table
        self._counters = counters
        self._agents: dict[str, AgentClaims] = {}
        self._by_node: dict[NodeId, dict[str, None]] = {}
        self._remembered: dict[str, int] = {}

    # Inputs

    def on_record(self, node: NodeId, agent: str, claim: Claim, now: float, patience: float) -> NodeId | None:
        """A node offers an exclusive agent and says this; returns the owner before.

        `patience`: seconds that the claim of an epoch may take longer to come than the word of it.
        """
        view = self._agents.get(agent)
        if view is None:
            highest = self._remembered.pop(agent, 0)
            free_at = now + (patience if highest else patience * FIRST)
            view = self._agents[agent] = AgentClaims({}, highest, None, now, free_at)
        self._by_node.setdefault(node, {})[agent] = None
        view.epochs[node] = claim.epoch
        return _follow(view, max(claim.epoch, claim.highest), now, patience)

    def on_gone(
        self, node: NodeId, agent: str, claim: Claim | None, now: float, patience: float
    ) -> NodeId | None:
        """A node offers it no more: withdrawn, saying `claim` for the last time, or its life is over. Returns the owner
        before."""
        highest = max(claim.epoch, claim.highest) if claim is not None else 0
        view = self._agents.get(agent)
        if view is None:
            self._remember(agent, highest)
            return None
        view.epochs.pop(node, None)
        agents = self._by_node.get(node, {})
        agents.pop(agent, None)
        if not agents:
            self._by_node.pop(node, None)
        before = _follow(view, highest, now, patience)
        if not view.epochs:
            del self._agents[agent]
            self._remember(agent, view.highest)
        return before

    def recall(self, agent: str, highest: int) -> None:
        """An epoch that this node has known in a former life."""
        view = self._agents.get(agent)
        if view is None:
            self._remember(agent, highest)
        elif highest > view.highest:
            view.highest, view.owner = highest, None

    def _remember(self, agent: str, highest: int) -> None:
        highest = max(highest, self._remembered.pop(agent, 0))
        if not highest:
            return
        self._remembered[agent] = highest
        if len(self._remembered) > REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
            self._counters.add("claims.forgotten")

    # Questions

    def owner(self, agent: str) -> NodeId | None:
        """Who holds the claim of an exclusive agent, dead or alive; None if nobody does."""
        view = self._agents.get(agent)
        return view.owner if view is not None else None

    def highest(self, agent: str) -> int:
        """The highest epoch that was ever heard of."""
        view = self._agents.get(agent)
        return view.highest if view is not None else self._remembered.get(agent, 0)

    def offers(self, node: NodeId, agent: str) -> bool:
        """Whether a node offers this agent as an exclusive one."""
        return agent in self._by_node.get(node, ())

    def agents_of(self, node: NodeId) -> list[str]:
        """The exclusive agents that a node offers."""
        return list(self._by_node.get(node, ()))

    def free_at(self, agent: str, own: NodeId, buried: float) -> float | None:
        """From when on somebody else may claim; None while the owner is there, or is this very node.

        `buried`: seconds that an owner must have been DEAD, and known as the owner, in our view.
        """
        view = self._agents.get(agent)
        if view is None or view.owner == own:
            return None
        member = self._table.get(view.owner) if view.owner is not None else None
        if member is None:
            return view.free_at
        match member.state:
            case MemberState.DEAD:
                # A claim that we have only now heard of: after a heal its owner will be ALIVE in a moment.
                return max(member.since, view.since) + buried
            case MemberState.LEFT:
                return member.since
            case _:
                return None

    def turn(self, agent: str, own: NodeId) -> int:
        """How many of those who stand by and may be alive come before this node; it offers the agent, too."""
        view = self._agents.get(agent)
        if view is None:
            return 0
        mine = turn_key(agent, own)
        return sum(
            turn_key(agent, node) < mine
            for node in view.epochs
            if node not in (own, view.owner) and self._may_be_alive(node)
        )

    def _may_be_alive(self, node: NodeId) -> bool:
        member = self._table.get(node)
        return member is not None and member.state in (MemberState.ALIVE, MemberState.SUSPECT)

    def sizes(self) -> dict[str, int]:
        """Gauges, by name."""
        return {"claims.agents": len(self._agents), "claims.remembered": len(self._remembered)}
