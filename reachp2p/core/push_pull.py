"""With whom views are compared, and when (docs/protocol/anti_entropy.md): regularly with anybody, first after a start,
and with whoever has a link that calls for it.

The conversation is `dissemination.anti_entropy`; here it is begun, on the link there is or on a new one, and its end is
heard.
"""

from __future__ import annotations

from math import ceil, inf, log2

import msgspec

from reachp2p.core.dissemination.anti_entropy import ExchangeOver
from reachp2p.core.events import MemberState
from reachp2p.core.hearing import Hearing
from reachp2p.core.ids import LinkId, NodeId
from reachp2p.core.membership.member import Member
from reachp2p.core.membership.table import PRESENT
from reachp2p.core.parts import Parts
from reachp2p.core.wire.messages import AccusationUpdate

DRAWS_MAX = 8
"""Draws among all members until an ALIVE one is found: with half of them dead, a list of a thousand members is then
made once in 256 exchanges."""
FIRST_SYNC_RETRY = 1.0
"""Seconds after which the first exchange is tried with somebody else; doubled each time."""
FIRST_SYNC_RETRY_MAX = 8.0
PUSH_PULL_FIRST = 0.5
"""Seconds from the first exchange to the next; longer each time until it is `push_pull_interval`. What is new here
spreads while we learn it, and gossip alone misses somebody now and then; equal views cost two small messages."""
PUSH_PULL_SLOWER = 2.0
"""How much longer each time in a view that has stood still since the last one."""
PUSH_PULL_SLOWER_CHANGING = 1.25
"""In a view that has changed: a crowd that joins at once is still on its way."""


class PushPullDue(msgspec.Struct, frozen=True):
    """Compare views with a random member."""


class FirstSyncDue(msgspec.Struct, frozen=True):
    """Nobody has completed a first exchange with us yet: try somebody else."""


class PushPull:
    """Begins exchanges. Sizes: at most `links_max` nodes that an exchange waits for, three members to ask first."""

    def __init__(self, parts: Parts, hearing: Hearing) -> None:
        self._parts = parts
        self._protocol = parts.settings.protocol
        self._hearing = hearing
        self._wanted: dict[NodeId, None] = {}
        """With whom an exchange begins as soon as there is a link."""
        self._regular: NodeId | None = None
        """Whom a regular comparison is meant for, while there is no link yet."""
        self._first_targets: list[NodeId] = []
        self._first_target: NodeId | None = None
        self._contact: NodeId | None = None
        """Who has answered us first after our start; usually a seed."""
        self._first_retry = FIRST_SYNC_RETRY
        self._next = PUSH_PULL_FIRST
        """Seconds to the next comparison, while that is less than the interval."""
        self._compared_at = -1
        """The version of the view when it was last compared."""
        self.has_synced = False

    def start(self, now: float) -> None:
        """The life is announced from now on."""
        self._parts.timers.set(PushPullDue(), now + self._interval() * self._parts.rng.random())
        self._parts.timers.set(FirstSyncDue(), now + FIRST_SYNC_RETRY)

    def stop(self) -> None:
        """No exchange is begun unasked, and the next life waits for none that this one has meant to begin."""
        self._parts.timers.cancel(PushPullDue())
        self._parts.timers.cancel(FirstSyncDue())
        self._wanted.clear()
        self._regular = None
        self._first_targets = []
        self._first_target = None
        self._first_retry = FIRST_SYNC_RETRY

    def assume_synced(self) -> None:
        """What we hold is what everybody holds: no first comparison is needed, and none soon after it."""
        self.has_synced = True
        self._hearing.spreads = True
        self._next = inf
        self._first_targets = []
        self._parts.timers.cancel(FirstSyncDue())

    def _interval(self) -> float:
        n = self._parts.table.size
        scale = ceil(log2(n) - log2(32)) + 1 if n > 32 else 1
        return self._protocol.push_pull_interval * scale

    def on_push_pull_due(self, now: float) -> None:
        """Compare views with a random ALIVE member; soon after our start with one that we are linked with."""
        parts = self._parts
        interval = self._interval()
        is_new = self._next < interval
        if not is_new and not self._protocol.rules.push_pull:
            return
        if is_new:
            interval = self._next
            stood_still = parts.table.version == self._compared_at
            self._compared_at = parts.table.version
            self._next *= PUSH_PULL_SLOWER if stood_still else PUSH_PULL_SLOWER_CHANGING
        parts.timers.set(PushPullDue(), now + interval * (0.75 + 0.5 * parts.rng.random()))
        member = self._random_linked() if is_new else None
        member = member or self._random_alive()
        if member is not None:
            self._regular = None if parts.links.link_to(member.node) is not None else member.node
            self.sync_with(member, now)

    def _compare_instead(self, unreached: NodeId, now: float) -> None:
        """Nobody has answered for the member that chance chose: so compare with one that has answered before.

        Heads cost nothing to invent, and with hundreds of such members chance alone would seldom find a real one.
        """
        reached = [
            m for m in self._parts.table if m.state is MemberState.ALIVE and m.reached and m.node != unreached
        ]
        if reached:
            self._parts.counters.add("sync.instead")
            self.sync_with(reached[self._parts.rng.randrange(len(reached))], now)

    def _random_linked(self) -> Member | None:
        """An ALIVE member that we have a link with: our contact only if there is no other.

        Every newcomer is linked with its contact, and a seed would serve them all, again and again.
        """
        found = [self._parts.table.get(node) for node in self._parts.links.linked()]
        linked = [m for m in found if m is not None and m.state is MemberState.ALIVE and m.addresses]
        others = [m for m in linked if m.node != self._contact] or linked
        return others[self._parts.rng.randrange(len(others))] if others else None

    def _random_alive(self) -> Member | None:
        """An ALIVE member, each as likely as any other: drawn from all, and from a list of them if that fails."""
        table, rng = self._parts.table, self._parts.rng
        for _ in range(min(DRAWS_MAX, len(table))):
            member = table.get(table.nodes[rng.randrange(len(table))])
            if member is not None and member.state is MemberState.ALIVE and member.addresses:
                return member
        alive = [m for m in table if m.state is MemberState.ALIVE and m.addresses]
        return alive[rng.randrange(len(alive))] if alive else None

    def sync_with(self, member: Member, now: float) -> None:
        """Begin an exchange with `member`, over the link there is or a new one."""
        parts = self._parts
        link = parts.links.link_to(member.node)
        if link is not None:
            self._begin(link, member.node, now)
        elif parts.links.ensure(member.node, member.addresses, now) is not None:
            if member.node not in self._wanted and len(self._wanted) >= self._protocol.links_max:
                del self._wanted[next(iter(self._wanted))]
                parts.counters.add("sync.wanted_forgotten")
            self._wanted[member.node] = None

    def on_link_up(self, link: LinkId, node: NodeId, now: float) -> None:
        """A link is proven: begin the exchange that waits for it, or one that is needed because of who it is."""
        parts = self._parts
        wanted = node in self._wanted
        self._wanted.pop(node, None)
        if node == self._regular:
            self._regular = None
        member = parts.table.get(node)
        unknown = member is None or member.state in (MemberState.DEAD, MemberState.LEFT)
        if wanted or (unknown and self.has_synced):
            self._begin(link, node, now)

    def _begin(self, link: LinkId, node: NodeId, now: float) -> None:
        if self._parts.sync.begin(link, node, now):
            self.tell_doubts(link, now)

    def tell_doubts(self, link: LinkId, now: float) -> None:
        """Views are compared over this link: where the rules are memberlist's, all of our doubts go with ours."""
        if not self._protocol.rules.doubts_told_once:
            for accusation in self._parts.detector.doubts(now):
                self._parts.links.send(link, AccusationUpdate(accusation=accusation))

    def on_link_down(self, node: NodeId, now: float) -> None:
        """The last link or dial to a node has ended: whom we meant to compare with first is not there, so the next."""
        self._wanted.pop(node, None)
        if node == self._regular:
            self._regular = None
            self._compare_instead(node, now)
        if node == self._first_target and not self.has_synced:
            self._next_first_sync(now)

    def first_sync(self, contact: NodeId, heads: list[NodeId], now: float) -> None:
        """A contact has answered after our start: pull state from one of the members it named, and compare with another
        afterwards, so that one seed neither serves nor misleads every newcomer (docs/protocol/anti_entropy.md)."""
        parts = self._parts
        if self.has_synced or self._first_targets or self._first_target is not None:
            return
        self._contact = contact
        named = [node for node in heads if node != contact and self._is_present(node)]
        self._first_targets = [*parts.rng.sample(named, min(2, len(named))), contact]
        self._next_first_sync(now)

    def _is_present(self, node: NodeId) -> bool:
        member = self._parts.table.get(node)
        return member is not None and member.state in PRESENT

    def _next_first_sync(self, now: float) -> None:
        self._first_target = None
        while self._first_targets:
            member = self._parts.table.get(self._first_targets.pop(0))
            if member is not None:
                self._first_target = member.node
                self.sync_with(member, now)
                break
        self._parts.timers.set(FirstSyncDue(), now + self._first_retry)
        self._first_retry = min(2 * self._first_retry, FIRST_SYNC_RETRY_MAX)

    def on_first_sync_due(self, now: float) -> None:
        """The last one tried has not answered in time."""
        if self.has_synced:
            return
        if not self._first_targets:
            alive = [m.node for m in self._parts.table if m.state is MemberState.ALIVE and m.addresses]
            self._first_targets = self._parts.rng.sample(alive, min(3, len(alive)))
        self._next_first_sync(now)

    def on_exchange_over(self, over: ExchangeOver, now: float) -> None:
        """An exchange that we began has ended."""
        if over.outcome not in ("equal", "done"):
            return
        if not self.has_synced:
            self.has_synced = True
            self._hearing.spreads = True
            if not self._protocol.rules.infection:  # nobody else will say that we have come
                self._hearing.announce(now)
            self._parts.timers.set(
                PushPullDue(), now + PUSH_PULL_FIRST * (0.75 + 0.5 * self._parts.rng.random())
            )
            self._parts.timers.cancel(FirstSyncDue())
            if self._first_targets:  # compare with a second one
                member = self._parts.table.get(self._first_targets[0])
                if member is not None and member.node != over.node:
                    self.sync_with(member, now)
            self._first_targets = []
