"""Failure detection, one member at a time (SWIM §3.1 and §4.3, Lifeguard §IV.A).

Every period the next member of a shuffled list is pinged; without an Ack in time, `indirect_probes` helpers ping it for
us and a probe over a link runs beside them (UDP may be blocked). One helper is a successor of the target in NodeId
order, to which it keeps a link: so a member is reached behind an address translator that lets nothing in. Whoever
answers at any time in the round ends it. We depart from SWIM in who the others are: not drawn anew each time, or a
member that only one other still reaches is buried whenever chance passes over that one.
A round that is not answered fails; what that means is decided elsewhere (`detector`). The same round object serves the
probe that must fail before a member is buried (docs/protocol/membership.md).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects
from reachp2p.core.events import MemberState
from reachp2p.core.ids import NONCE_BYTES, Address, Entropy, Life, NodeId, Rng
from reachp2p.core.membership.health import LocalHealth
from reachp2p.core.membership.member import Member
from reachp2p.core.membership.table import PRESENT, MemberTable
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import AccusationUpdate, Ack, Extensions, Ping, PingReq

RTT_FACTOR = 5.0
"""The direct probe waits this many smoothed round trips, within [PROBE_TIMEOUT_FLOOR, probe_timeout]: later Acks still
end the round, so a short wait costs only indirect probes."""
PROBE_TIMEOUT_FLOOR = 0.2
LAST_FACTOR = 2
"""Times `indirect_probes` helpers are asked in the last look before a burial."""
FAILED_MAX = 16
"""Failed rounds whose late Acks are still known from replays; the oldest is forgotten first."""


class ProbeDue(msgspec.Struct, frozen=True):
    """Time to probe the next member."""


class DirectProbeDue(msgspec.Struct, frozen=True):
    """The direct Ack of a round is late."""

    nonce: bytes


class ProbeEnds(msgspec.Struct, frozen=True):
    """A round has had its period."""

    nonce: bytes


class ProbeResult(msgspec.Struct, frozen=True):
    """How a round ended. `void`: we were late ourselves, nothing can be concluded.

    `helped`: helpers that have shown that they hear us, by the Ack that they brought or a Nack; `silent`: those that
    sent neither in a round that has failed.
    """

    node: NodeId
    life: Life
    answered: bool
    void: bool = False
    helped: tuple[NodeId, ...] = ()
    silent: tuple[NodeId, ...] = ()
    round_trip: float | None = None
    """Seconds, if the target has answered directly and at once."""


class Round(msgspec.Struct):
    """One probe of one member."""

    node: NodeId
    life: Life
    address: Address
    started: float
    ends: float
    """When it fails; armed once the direct answer is late, which most are not."""
    is_last: bool = False
    """One has failed already, or the timer has ended: if this one fails, too, the member is buried."""
    helpers: list[NodeId] = []
    nacks: list[NodeId] = []
    indirect: bool = False


class Prober:
    """Runs probe rounds; at most one routine round a period and one more for each running suspicion. It remembers
    `FAILED_MAX` failed ones."""

    def __init__(
        self,
        protocol: Protocol,
        table: MemberTable,
        health: LocalHealth,
        probe_link: Callable[[NodeId, bytes, float], None],
        doubt: Callable[[NodeId], bytes | None],
        *,
        effects: Effects,
        timers: Timers,
        rng: Rng,
        entropy: Entropy,
        counters: Counters,
    ) -> None:
        self._protocol = protocol
        self._table = table
        self._health = health
        self._probe_link = probe_link
        self._doubt = doubt
        self._effects = effects
        self._timers = timers
        self._rng = rng
        self._entropy = entropy
        self._counters = counters
        self._rounds: dict[bytes, Round] = {}
        self._failed: dict[bytes, tuple[NodeId, Life]] = {}
        """The nonces of the latest failed rounds: with whom, in which life."""
        self._last_helper: NodeId | None = None
        """Who brought us an Ack of somebody last: perhaps it reaches others that we do not reach, too."""
        self._order: list[NodeId] = []
        self._position = 0
        self._to_come: dict[NodeId, None] = {}

    def start(self, now: float) -> None:
        """Begin probing at a random phase, so that a cluster started at once does not probe in step."""
        self._timers.set(ProbeDue(), now + self._rng.random() * self._protocol.probe_interval)

    def stop(self) -> None:
        """Forget all rounds."""
        self._timers.cancel(ProbeDue())
        for nonce in list(self._rounds):
            self._drop(nonce)
        self._failed.clear()

    def add(self, node: NodeId) -> None:
        """A new member takes a random place among those still to come (SWIM §4.3), so that detection times of members
        that joined together are independent. One still to come keeps its place: restarts lengthen no pass."""
        if node in self._to_come:
            return
        self._to_come[node] = None
        span = len(self._order) - self._position
        self._order.insert(self._position + self._rng.randrange(span + 1), node)

    def void_rounds(self) -> list[ProbeResult]:
        """End all rounds without a conclusion: this node did not run for a while."""
        results = [ProbeResult(r.node, r.life, answered=False, void=True) for r in self._rounds.values()]
        for nonce in list(self._rounds):
            self._drop(nonce)
        return results

    def __len__(self) -> int:
        return len(self._rounds)

    # Rounds

    def on_probe_due(self, now: float) -> None:
        """Start the next routine round, and the next period."""
        self._timers.set(ProbeDue(), now + self._protocol.probe_interval * self._health.multiplier)
        member = self._next()
        if member is not None:
            self.probe(member, now)

    def _next(self) -> Member | None:
        if not self._protocol.rules.round_robin:
            present = [m for m in self._table if m.state in PRESENT]
            return present[self._rng.randrange(len(present))] if present else None
        for _ in range(2):
            while self._position < len(self._order):
                node = self._order[self._position]
                self._position += 1
                del self._to_come[node]
                member = self._table.get(node)
                if member is not None and member.state in PRESENT:
                    return member
            self._order = [m.node for m in self._table if m.state in PRESENT]
            self._rng.shuffle(self._order)
            self._position = 0
            self._to_come = dict.fromkeys(self._order)
        return None

    def probe(self, member: Member, now: float, *, is_last: bool = False) -> bool:
        """Start a round with `member`; false if one is running already or it has no address. `is_last`: the member is
        about to be buried."""
        address = member.address
        if address is None or (self._rounds and self.is_probing(member.node)):
            return False
        nonce = self._entropy.token(NONCE_BYTES)
        scale = self._health.multiplier
        ends = now + self._protocol.probe_interval * scale
        self._rounds[nonce] = Round(member.node, member.life, address, now, ends, is_last)
        self._effects.send(member.node, Ping(nonce=nonce))
        self._timers.set(DirectProbeDue(nonce), now + self._direct_timeout(member) * scale)
        return True

    def _direct_timeout(self, member: Member) -> float:
        longest = self._protocol.probe_timeout
        if member.rtt is None or not self._protocol.rules.adaptive_timeout:
            return longest
        return min(longest, max(PROBE_TIMEOUT_FLOOR, RTT_FACTOR * member.rtt))

    def on_direct_late(self, nonce: bytes, now: float) -> None:
        """No direct Ack in time: ask helpers, and try a link beside them."""
        round_ = self._rounds.get(nonce)
        if round_ is None:
            return
        round_.indirect = True
        round_.helpers = self._choose_helpers(round_)
        self._timers.set(ProbeEnds(nonce), round_.ends)
        timeout_ms = min(60_000, max(1, int((round_.ends - now) * 1000)))
        doubt = self._doubt(round_.node) if self._protocol.rules.helpers_told else None
        for helper in round_.helpers:
            self._effects.send(helper, PingReq(nonce=nonce, target=round_.node, timeout_ms=timeout_ms))
            if doubt is not None:  # in the same datagram, so that the helper's ping tells the target
                self._effects.send(helper, AccusationUpdate(accusation=doubt))
        self._counters.add("probe.indirect")
        self._probe_link(round_.node, nonce, now)

    def _choose_helpers(self, round_: Round) -> list[NodeId]:
        """ALIVE members, one of them a successor of the target, which keeps a link to it; if possible one that has
        answered us, for two may be out of reach of each other."""
        target = round_.node
        others = [m.node for m in self._table if m.state is MemberState.ALIVE and m.node != target]
        member = self._table.get(target)
        asked: tuple[NodeId, ...] = ()
        if self._protocol.rules.other_helpers and member is not None and member.life == round_.life:
            helpers = self._choose_others(member, others, round_.is_last)
            asked = member.asked
        else:
            helpers = self._rng.sample(others, min(self._protocol.indirect_probes, len(others)))
        if helpers and self._protocol.rules.link_probes:
            successors = self._table.successors(self._protocol.successor_links, of=target)
            linked = [node for node in successors if self._has_answered(node)] or successors
            if linked and not any(node in linked for node in helpers):
                linked = [node for node in linked if node not in asked] or linked
                helpers[-1] = linked[self._rng.randrange(len(linked))]
        return helpers

    def _choose_others(self, member: Member, others: list[NodeId], is_last: bool) -> list[NodeId]:
        """First of all whoever brought its last Ack, or else anybody's; then those not yet asked in vain since it last
        answered, in any order; then the rest, and all begin anew."""
        count = self._protocol.indirect_probes * (LAST_FACTOR if is_last else 1)
        fresh = [node for node in others if node not in member.asked]
        proven = [node for node in (member.helper, self._last_helper) if node in fresh][: min(1, count)]
        unproven = [node for node in fresh if node not in proven]
        helpers = proven + self._rng.sample(unproven, min(count - len(proven), len(unproven)))
        wanted = min(count, len(others)) - len(helpers)
        if wanted:
            helpers += self._rng.sample([node for node in others if node in member.asked], wanted)
            member.asked = ()
        return helpers

    def _has_answered(self, node: NodeId) -> bool:
        member = self._table.get(node)
        return member is not None and bool(member.reached)

    def on_ack(
        self,
        nonce: bytes,
        source: NodeId,
        life: Life,
        address: Address | None,
        now: float,
        *,
        helper: NodeId | None = None,
    ) -> ProbeResult | None:
        """An Ack for one of our rounds, signed by `source` in `life`; `address` is None if it was relayed (by `helper`)
        or came over a link. Late ones, and answers of another life, are counted and end nothing."""
        round_ = self._rounds.get(nonce)
        if round_ is None:
            self._counters.add("probe.ack_late")
            return None
        if source != round_.node or life != round_.life:
            self._counters.add(
                "dropped.ack.other_life" if source == round_.node else "dropped.ack.wrong_source"
            )
            return None
        if round_.nacks:
            self._counters.add("probe.ack_after_nack")
        member = self._table.get(source)
        if member is not None and member.life == life:
            member.asked = ()
            if address is not None:
                if not round_.indirect:
                    member.measured(now - round_.started)
                member.answered_at(round_.address)
            if helper in round_.helpers:
                member.helper = self._last_helper = helper
        self._drop(nonce)
        self._health.better()
        helped = (helper,) if helper is not None and helper in round_.helpers else ()
        is_direct = address is not None and not round_.indirect
        round_trip = now - round_.started if is_direct else None
        return ProbeResult(round_.node, round_.life, answered=True, helped=helped, round_trip=round_trip)

    def take_late(self, nonce: bytes, source: NodeId, life: Life) -> bool:
        """Whether an Ack signed by `source` in `life` answers one of the latest failed rounds; true once for each."""
        if self._failed.get(nonce) != (source, life):
            return False
        del self._failed[nonce]
        self._counters.add("probe.ack_late")
        return True

    def on_nack(self, nonce: bytes, helper: NodeId) -> None:
        """A helper works but has not heard the target."""
        round_ = self._rounds.get(nonce)
        if round_ is not None and helper in round_.helpers and helper not in round_.nacks:
            round_.nacks.append(helper)

    def on_probe_ends(self, nonce: bytes) -> ProbeResult | None:
        """The period of a round is over and nobody has answered."""
        round_ = self._rounds.get(nonce)
        if round_ is None:
            return None
        self._drop(nonce)
        if len(self._failed) >= FAILED_MAX:
            del self._failed[next(iter(self._failed))]
            self._counters.add("probe.failed_forgotten")
        self._failed[nonce] = (round_.node, round_.life)
        member = self._table.get(round_.node)
        if self._protocol.rules.other_helpers and member is not None and member.life == round_.life:
            member.asked += tuple(node for node in round_.helpers if node not in member.asked)
        missing = len(round_.helpers) - len(round_.nacks)
        # memberlist: a failed probe costs one per missing nack, and one if nobody could have sent a nack
        self._health.worse(min(missing, self._protocol.indirect_probes) if round_.helpers else 1)
        self._counters.add("probe.failed")
        silent = tuple(node for node in round_.helpers if node not in round_.nacks)
        if not self._protocol.rules.lha_probe:
            silent = ()  # nobody sends Nacks
        return ProbeResult(
            round_.node, round_.life, answered=False, helped=tuple(round_.nacks), silent=silent
        )

    def is_probing(self, node: NodeId) -> bool:
        """Whether a round with `node` is running."""
        return any(r.node == node for r in self._rounds.values())

    def _drop(self, nonce: bytes) -> None:
        indirect = self._rounds.pop(nonce).indirect
        self._timers.cancel(ProbeEnds(nonce) if indirect else DirectProbeDue(nonce))


def answer(ping: Ping, extensions: Extensions | None = None) -> Ack:
    """The Ack to a Ping; `extensions` if it has any."""
    if extensions:
        return Ack(nonce=ping.nonce, origin=ping.origin, extensions=extensions)
    return Ack(nonce=ping.nonce, origin=ping.origin)
