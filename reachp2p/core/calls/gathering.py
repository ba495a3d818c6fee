"""Gathering hops from the nodes that recorded them (docs/protocol/sessions.md): a round object for each question.

A round follows a session from node to node, as its hops name them, or asks all present members for what fits a filter.
It ends in bounded time whatever others do, and names everybody who is missing, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import msgspec

from reachp2p.core.calls.hop_answers import hop_of, size_of, want_of
from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.hops import Hop, HopFilter, Recorded
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects
from reachp2p.core.events import HopsGathered, MemberState
from reachp2p.core.ids import Address, NodeId
from reachp2p.core.links.table import Links
from reachp2p.core.membership.table import PRESENT, MemberTable
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import HopPage
from reachp2p.errors import CallFailed, ErrorCode, LocalProtocolError

GATHERINGS_MAX = 8
ASKED_AT_ONCE = 16
NODES_MAX = 1_024
NODE_TIMEOUT = 3.0
"""Seconds for the link to one node and its answer: one dial of it may fail, and the next address answer."""
TAKE_WITHIN = 60.0
"""Seconds for which a result waits to be taken, and holds its place. Whoever waits for it is told at once."""
HOPS_MAX = 20_000
BYTES_MAX = 33_554_432


class Why(Enum):
    """Why a node's hops are missing."""

    DEAD = "dead"
    LEFT = "left"
    UNKNOWN = "unknown"
    """Its member is forgotten, or was never known here."""
    UNREACHABLE = "unreachable"
    """No link to it opened."""
    SILENT = "silent"
    """It did not answer in time."""
    REFUSED = "refused"
    NOT_ASKED = "not_asked"
    """The time was over before its turn, or too many nodes would have to be asked."""


class Missing(msgspec.Struct, frozen=True):
    """A node whose hops are not among those gathered."""

    node: NodeId
    why: Why


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A node that has answered. Times are Unix seconds of its own clock."""

    node: NodeId
    hops: int
    left_out: int
    since: float
    """It records since then."""
    complete_since: float
    """It has dropped nothing since then."""


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """What a gathering has found."""

    hops: list[Hop]
    heard: list[Heard]
    missing: list[Missing]
    left_out: int
    """Hops that fitted and were too many."""
    ended_at: float = 0.0


class GatherDue(msgspec.Struct, frozen=True, gc=False):
    """A node has had its time, or the gathering all of it."""

    gathering: int


class _Asked(msgspec.Struct):
    """A node that is being asked."""

    until: float
    is_sent: bool = False
    hops: int = 0


class Gathering(msgspec.Struct, eq=False, kw_only=True):
    """One question under way."""

    number: int
    wanted: HopFilter
    deadline: float
    known: dict[NodeId, None] = {}
    """Whose turn has come or will come."""
    todo: dict[NodeId, None] = {}
    asking: dict[NodeId, _Asked] = {}
    heard: dict[NodeId, Heard] = {}
    missing: dict[NodeId, Missing] = {}
    hops: list[Hop] = []
    size: int = 0
    left_out: int = 0
    is_wide: bool = False
    """All present members are asked, not only those that hops name."""

    @property
    def may_lack(self) -> bool:
        """Whether hops may be missing that would have named further nodes."""
        if self.missing or not self.hops:
            return True
        begun = min(hop.started for hop in self.hops)
        named = {hop.other for hop in self.hops}
        return any(
            one.node in named and (one.hops == 0 or one.left_out or one.complete_since > begun)
            for one in self.heard.values()
        )

    @property
    def follows(self) -> bool:
        """Whether it goes from node to node."""
        return self.wanted.session is not None


class Gatherings:
    """All questions of this node. Bound: `GATHERINGS_MAX`, ended ones included until `take`; beyond it 1406."""

    def __init__(
        self,
        *,
        own: NodeId,
        hops: HopStore,
        table: MemberTable,
        links: Links,
        addresses: Callable[[NodeId], Sequence[Address]],
        effects: Effects,
        timers: Timers,
        counters: Counters,
    ) -> None:
        self._own = own
        self._hops = hops
        self._table = table
        self._links = links
        self._addresses = addresses
        self._effects = effects
        self._timers = timers
        self._counters = counters
        self._running: dict[int, Gathering] = {}
        self._ended: dict[int, Gathered] = {}
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._running) + len(self._ended)

    # Commands

    def begin(self, wanted: HopFilter, timeout: float, now: float) -> int:
        """Ask for hops; ends with one `HopsGathered` within `timeout` seconds, which may be among the effects already.

        Raises `CallFailed` (1406) if too many questions are under way, or were answered and their results not taken.
        Those that nobody has taken for long make room (`hops.gatherings_dropped`).
        """
        for number in [n for n, found in self._ended.items() if now >= found.ended_at + TAKE_WITHIN]:
            del self._ended[number]
            self._counters.add("hops.gatherings_dropped")
        if len(self) >= GATHERINGS_MAX:
            raise CallFailed(
                ErrorCode.REFUSED_FULL, f"{GATHERINGS_MAX} questions for hops are under way already"
            )
        self._last_number += 1
        gathering = Gathering(
            number=self._last_number, wanted=wanted, deadline=now + timeout, known={self._own: None}
        )
        self._running[gathering.number] = gathering
        self._counters.add("hops.gatherings")
        self._add(gathering, self._own, self._hops.find(wanted, now))
        if not gathering.follows:
            self._widen(gathering)
        self._go_on(gathering, now)
        return gathering.number

    def take(self, number: int) -> Gathered:
        """The result of a gathering that has ended; once, within `TAKE_WITHIN` seconds. Else `LocalProtocolError`."""
        found = self._ended.pop(number, None)
        if found is None:
            raise LocalProtocolError(
                f"there is no result of gathering {number}: it has not ended, was taken or cancelled, or was not "
                f"taken within {TAKE_WITHIN:g} s"
            )
        return found

    def cancel(self, number: int) -> None:
        """Nobody waits for it any more."""
        if self._running.pop(number, None) is not None:
            self._timers.cancel(GatherDue(number))
        self._ended.pop(number, None)

    def end_all(self, now: float) -> None:
        """This node stops: what is gathered is all there will be."""
        for gathering in list(self._running.values()):
            self._give_up(gathering, now)

    # Inputs

    def on_page(self, node: NodeId, page: HopPage, now: float) -> None:
        """A node has answered, or a part of it."""
        gathering = self._running.get(page.query)
        asked = None if gathering is None else gathering.asking.get(node)
        if gathering is None or asked is None or not asked.is_sent:
            self._counters.add("hops.page_unmatched")
            return
        if page.code:
            self._miss(gathering, node, Why.REFUSED)
        else:
            found = [hop_of(entry, node) for entry in page.hops]
            asked.hops += len(found)
            is_over = page.last or asked.hops > gathering.wanted.limit
            self._keep(gathering, found)
            if is_over:
                del gathering.asking[node]
                gathering.left_out += page.left_out
                gathering.heard[node] = Heard(
                    node=node,
                    hops=asked.hops,
                    left_out=page.left_out,
                    since=page.since_ms / 1_000,
                    complete_since=page.complete_since_ms / 1_000,
                )
        self._go_on(gathering, now)

    def on_link_up(self, node: NodeId, now: float) -> None:
        """A link is open: who waits for it asks."""
        for gathering in list(self._running.values()):
            asked = gathering.asking.get(node)
            if asked is not None and not asked.is_sent:
                self._ask(gathering, node, asked)
                self._go_on(gathering, now)

    def on_link_down(self, node: NodeId, now: float) -> None:
        """A link has ended, or could not be opened; what was asked on it is not answered on another."""
        if not self._running or self._links.is_dialling(node):
            return
        for gathering in list(self._running.values()):
            asked = gathering.asking.get(node)
            if asked is None:
                continue
            if self._links.link_to(node) is not None:
                self._ask(gathering, node, asked)
            else:
                self._miss(gathering, node, Why.UNREACHABLE)
            self._go_on(gathering, now)

    def on_timer(self, key: GatherDue, now: float) -> None:
        """A node has had its time, or the gathering all of it."""
        gathering = self._running.get(key.gathering)
        if gathering is None:
            return
        if now >= gathering.deadline:
            self._give_up(gathering, now)
            return
        for node, asked in list(gathering.asking.items()):
            if now >= asked.until:
                self._miss(gathering, node, Why.SILENT if asked.is_sent else Why.UNREACHABLE)
        self._go_on(gathering, now)

    # Inside

    def _add(self, gathering: Gathering, node: NodeId, found: Recorded) -> None:
        self._keep(gathering, found.hops)
        gathering.left_out += found.left_out
        gathering.heard[node] = Heard(
            node=node,
            hops=len(found.hops),
            left_out=found.left_out,
            since=found.since,
            complete_since=found.complete_since,
        )

    def _keep(self, gathering: Gathering, found: Sequence[Hop]) -> None:
        """Keep hops within the bounds, and remember whom they name."""
        for hop in found:
            size = size_of(hop)
            if len(gathering.hops) >= HOPS_MAX or gathering.size + size > BYTES_MAX:
                gathering.left_out += 1
                continue
            gathering.hops.append(hop)
            gathering.size += size
            if gathering.follows and hop.other is not None:
                self._plan(gathering, hop.other)

    def _plan(self, gathering: Gathering, node: NodeId) -> None:
        if node in gathering.known:
            return
        gathering.known[node] = None
        if len(gathering.known) > NODES_MAX:
            gathering.missing[node] = Missing(node, Why.NOT_ASKED)
        else:
            gathering.todo[node] = None

    def _widen(self, gathering: Gathering) -> None:
        gathering.is_wide = True
        for member in self._table:
            if member.state in PRESENT:
                self._plan(gathering, member.node)

    def _miss(self, gathering: Gathering, node: NodeId, why: Why) -> None:
        gathering.asking.pop(node, None)
        gathering.missing[node] = Missing(node, why)

    def _go_on(self, gathering: Gathering, now: float) -> None:
        """Ask whose turn it is; end if nobody is left."""
        while True:
            while gathering.todo and len(gathering.asking) < ASKED_AT_ONCE:
                node = next(iter(gathering.todo))
                del gathering.todo[node]
                self._turn_to(gathering, node, now)
            if gathering.asking:
                until = min(asked.until for asked in gathering.asking.values())
                self._timers.set(GatherDue(gathering.number), min(until, gathering.deadline))
                return
            if gathering.todo:
                continue
            if gathering.is_wide or not gathering.may_lack:
                self._end(gathering, now)
                return
            self._widen(gathering)

    def _turn_to(self, gathering: Gathering, node: NodeId, now: float) -> None:
        member = self._table.get(node)
        if member is None:
            self._miss(gathering, node, Why.UNKNOWN)
        elif member.state not in PRESENT:
            self._miss(gathering, node, Why.LEFT if member.state is MemberState.LEFT else Why.DEAD)
        else:
            asked = _Asked(min(now + NODE_TIMEOUT, gathering.deadline))
            gathering.asking[node] = asked
            if self._links.link_to(node) is not None:
                self._ask(gathering, node, asked)
            elif self._links.ensure(node, self._addresses(node), now) is None:
                self._miss(gathering, node, Why.UNREACHABLE)

    def _ask(self, gathering: Gathering, node: NodeId, asked: _Asked) -> None:
        link = self._links.link_to(node)
        if link is None or not self._links.send(link, want_of(gathering.number, gathering.wanted)):
            self._miss(gathering, node, Why.UNREACHABLE)
        else:
            asked.is_sent = True

    def _give_up(self, gathering: Gathering, now: float) -> None:
        """Its time is over: whoever has not answered is missing."""
        for node, asked in list(gathering.asking.items()):
            self._miss(gathering, node, Why.SILENT if asked.is_sent else Why.UNREACHABLE)
        for node in gathering.todo:
            gathering.missing[node] = Missing(node, Why.NOT_ASKED)
        self._end(gathering, now)

    def _end(self, gathering: Gathering, now: float) -> None:
        del self._running[gathering.number]
        self._timers.cancel(GatherDue(gathering.number))
        self._ended[gathering.number] = Gathered(
            hops=gathering.hops,
            heard=list(gathering.heard.values()),
            missing=list(gathering.missing.values()),
            left_out=gathering.left_out,
            ended_at=now,
        )
        self._effects.notify(HopsGathered(at=now, gathering=gathering.number))
