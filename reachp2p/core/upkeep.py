"""What a node does without being asked: gossip, pulls, successor links, and sweeping up; `push_pull` compares views.

Everything here is a timer. Each is set again by its own handler or by the engine when there is something to do, so a
quiet node wakes for its probes and little else.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reachp2p.core.consequences import Consequences
from reachp2p.core.effects import ToNode
from reachp2p.core.events import MemberState
from reachp2p.core.hearing import Hearing
from reachp2p.core.ids import LinkId, NodeId
from reachp2p.core.membership.member import Member
from reachp2p.core.parts import Parts
from reachp2p.core.pulls import Pull, Pulls
from reachp2p.core.push_pull import PushPull
from reachp2p.core.wire.messages import DigestEntry

SWEEP_INTERVAL = 60.0
SUCCESSORS_INTERVAL = 5.0
"""Successor links that could not be opened are tried again this often."""
SUCCESSORS_STILL = 0.5
"""The links to our successors are seen to when the view has stood still for so long; while it grows, each newcomer
changes somebody's successors, and links would be opened that are not needed a moment later."""
SUCCESSORS_DELAY_MAX = 3.0
"""A view that never stands still waits no longer than this."""
GOSSIP_DRAWN = 4
"""Members drawn for each that gossip is sent to, where some hear none: enough do, unless most of a group is gone."""
PULL_DELAY = 0.3
"""A record usually follows its head by gossip within this time; what is still missing is pulled."""
PULLS_AT_ONCE = 64
PULL_DIALS = 1
"""Links dialled in one round for what is missing: whoever can be asked over it has most of the rest, too."""
CLOCK_SETTLES = 10.0
"""Seconds in which every driver of one machine has reported a step of its wall clock."""


class GossipDue(msgspec.Struct, frozen=True):
    """Tell a few members the news."""


class SuccessorsDue(msgspec.Struct, frozen=True):
    """See to the links to our successors."""


class PullDue(msgspec.Struct, frozen=True):
    """Fetch records that gossip has not brought."""


class SweepDue(msgspec.Struct, frozen=True):
    """Forget what is over, renew our head."""


class ClockSettled(msgspec.Struct, frozen=True):
    """Whoever shares our wall clock has noticed its step by now."""


class Upkeep:
    """The periodic work of a running node."""

    def __init__(
        self, parts: Parts, hearing: Hearing, consequences: Consequences, pulls: Pulls, push_pull: PushPull
    ) -> None:
        self._parts = parts
        self._protocol = parts.settings.protocol
        self._hearing = hearing
        self._consequences = consequences
        self._pulls = pulls
        self._last_gossip = float("-inf")
        self._push_pull = push_pull
        self._unsettled_since: float | None = None
        """When the ALIVE members first changed since the successors were last seen to."""
        self._gossips = False
        """Whether `GossipDue` is set."""
        self._pulls_due = False
        """Whether `PullDue` is set."""

    def start(self, now: float) -> None:
        """The life is announced from now on."""
        rng, timers = self._parts.rng, self._parts.timers
        self._parts.prober.start(now)
        self._parts.contacts.start(now)
        self._push_pull.start(now)
        timers.set(SweepDue(), now + SWEEP_INTERVAL * (0.75 + 0.5 * rng.random()))
        timers.set(SuccessorsDue(), now + SUCCESSORS_STILL)
        self._last_gossip = float("-inf")

    def stop(self) -> None:
        """Nothing more is done unasked."""
        for key in (GossipDue(), SuccessorsDue(), PullDue(), SweepDue(), ClockSettled()):
            self._parts.timers.cancel(key)
        self._gossips = self._pulls_due = False
        self._push_pull.stop()
        self._parts.rule_spreading.stop()
        self._parts.prober.stop()
        self._parts.relays.stop()
        self._parts.contacts.stop()
        self._parts.detector.stop()

    def arm(self, now: float) -> None:
        """Set the timers of whatever has become necessary; called after every input."""
        if not self._gossips and self._parts.queue.size:
            self._set_gossip(max(now, self._last_gossip + self._protocol.gossip_interval))
        if self._consequences.alive_changed:
            self._consequences.alive_changed = False
            self._on_alive_changed(now)
        if not self._pulls_due and self._pulls.due:
            self._set_pulls(now + PULL_DELAY * (1 + self._parts.rng.random()))

    def _on_alive_changed(self, now: float) -> None:
        if self._unsettled_since is None:
            self._unsettled_since = now
        self._parts.timers.set(
            SuccessorsDue(), min(now + SUCCESSORS_STILL, self._unsettled_since + SUCCESSORS_DELAY_MAX)
        )
        if self._parts.table.size == 1:
            self._parts.contacts.alone(now)

    def _set_gossip(self, at: float) -> None:
        self._gossips = True
        if self._protocol.rules.gossip_ticks:
            self._parts.timers.set(GossipDue(), at)

    def _set_pulls(self, at: float) -> None:
        self._pulls_due = True
        self._parts.timers.set(PullDue(), at)

    # Gossip

    def on_gossip_due(self, now: float) -> None:
        """Send news to `gossip_fanout` random members, the recently dead among them, so that they can refute."""
        self._last_gossip = now
        self._gossips = False
        parts = self._parts
        chosen = self._gossip_targets(now)
        for node in chosen:
            parts.effects.add(ToNode(node, None))
        if parts.queue:
            self._set_gossip(
                now + (self._protocol.gossip_interval if chosen else self._protocol.probe_interval)
            )

    def _gossip_targets(self, now: float) -> list[NodeId]:
        """Random members that hear gossip. Where some do not, a few more are drawn than needed: to look at every row
        five times a second would cost a large group more than all else that a tick does."""
        table, rng, fanout = self._parts.table, self._parts.rng, self._protocol.gossip_fanout
        reachable: Sequence[NodeId] = table.nodes
        if not table.all_present:
            spare = GOSSIP_DRAWN * fanout
            if self._protocol.rules.infection and len(reachable) > spare:
                drawn = [table.get(node) for node in rng.sample(reachable, spare)]
                hearing = [m.node for m in drawn if m is not None and self._hears_gossip(m, now)]
                if len(hearing) >= fanout:
                    return hearing[:fanout]
            reachable = [m.node for m in table if self._hears_gossip(m, now)]
        if not self._protocol.rules.infection:
            fanout = len(reachable)
        return rng.sample(reachable, min(fanout, len(reachable)))

    def _hears_gossip(self, member: Member, now: float) -> bool:
        if member.state is MemberState.DEAD:
            return now - member.since < self._protocol.gossip_to_dead
        return member.state is not MemberState.LEFT

    # Records that gossip did not bring

    def on_pull_due(self, now: float) -> None:
        """Ask whoever told us of a newer version, the node itself, or anybody we are linked with, for what is missing.

        Only if that has not helped is a link dialled for it: usually the record is on its way by gossip.
        """
        self._pulls_due = False
        parts = self._parts
        by_link: dict[LinkId, list[DigestEntry]] = {}
        dials, somebody = PULL_DIALS, self._any_link()
        for pull in self._pulls.take(PULLS_AT_ONCE):
            link = self._link_for(pull)
            if link is None and dials and pull.tries > 0:
                dials -= self._dial_for(pull, now)
            link = link or somebody
            if link is not None:
                by_link.setdefault(link, []).append(self._held(pull.node))
            self._pulls.retry(pull)
        for link, entries in by_link.items():
            parts.counters.add("sync.pulls", len(entries))
            parts.sync.pull(link, entries)
        if self._pulls:
            self._set_pulls(now + self._protocol.probe_interval)

    def _link_for(self, pull: Pull) -> LinkId | None:
        links = self._parts.links
        return links.link_to(pull.teller) or links.link_to(pull.node)

    def _dial_for(self, pull: Pull, now: float) -> bool:
        """Dial whoever surely has what is missing; whether a dial is under way."""
        parts = self._parts
        for node in (pull.teller, pull.node):
            member = parts.table.get(node)
            if member is not None and parts.links.ensure(node, member.addresses, now) is not None:
                return True
        return False

    def _any_link(self) -> LinkId | None:
        """A link to somebody else who probably has it by now."""
        parts = self._parts
        linked = parts.links.linked()
        return parts.links.link_to(linked[parts.rng.randrange(len(linked))]) if linked else None

    def _held(self, node: NodeId) -> DigestEntry:
        """What we hold about a member, as an entry that asks for its records only."""
        member = self._parts.table.get(node)
        assert member is not None, "pulls are for members"
        fact = member.head.fact
        complete = self._parts.store.complete(node)
        return DigestEntry(node, fact.life, fact.left, fact.incarnation, fact.version, complete)

    # Links that must exist

    def on_successors_due(self, now: float) -> None:
        """Keep links to our successors in NodeId order, so that somebody notices at once when a process is lost."""
        parts = self._parts
        self._unsettled_since = None
        parts.timers.set(SuccessorsDue(), now + SUCCESSORS_INTERVAL * (0.75 + 0.5 * parts.rng.random()))
        successors = parts.table.successors(self._protocol.successor_links)
        parts.links.pin(successors)
        for node in successors:
            member = parts.table.get(node)
            if member is not None:
                parts.links.ensure(node, member.addresses, now)

    # Wall time

    def _renew(self, now: float) -> bool:
        """Issue our head anew if half its life is over, or if it comes from a future that others would not believe."""
        parts = self._parts
        head, wall = parts.own.head(now).fact, parts.clock.at(now)
        is_due = wall > head.issued_at + head.valid_for / 2
        if is_due or head.issued_at > wall + self._protocol.clock_tolerance / 2:
            parts.own.next_version()
            parts.counters.add("head.renewed")
            return True
        return False

    def on_clock_stepped(self, now: float) -> None:
        """Our head may be expired now, or not valid yet, in the eyes of those whose clock has stepped with ours.

        They notice it at other moments, and refuse what we say until then: so it is said again when all have.
        """
        if self._renew(now):
            self._hearing.announce(now)
            self._parts.timers.set(
                ClockSettled(), now + CLOCK_SETTLES * (1 + 0.25 * self._parts.rng.random())
            )

    def on_clock_settled(self, now: float) -> None:
        """Say it again, and compare views: what was refused meanwhile has come from the wrong time."""
        self._hearing.announce(now)
        self._push_pull.on_push_pull_due(now)

    # Sweeping up

    def on_sweep_due(self, now: float) -> None:
        """Renew our head at half its life, let old tombstones go, forget the long dead and left."""
        parts = self._parts
        parts.timers.set(SweepDue(), now + SWEEP_INTERVAL * (0.75 + 0.5 * parts.rng.random()))
        parts.hops.expire(now)
        self._renew(now)  # that is not news: it travels by anti-entropy
        if parts.agents.expire(self._protocol.tombstone_retention, now):
            self._hearing.announce(now)
        over = [
            m.node
            for m in parts.table
            if m.state in (MemberState.DEAD, MemberState.LEFT)
            and now - m.since > self._protocol.tombstone_retention
        ]
        for node in over:
            change = parts.table.forget(node, "its retention is over")
            if change is not None:
                self._consequences.draw([change], now)
