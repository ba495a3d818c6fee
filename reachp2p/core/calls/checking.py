"""What the hops of a session prove to be missing, and how far the clocks of its nodes are apart.

Both sides of an attempt have one message id and attempt number, and whoever calls on behalf of a call names its span;
so each hop proves others, whatever was lost between. Order is taken from what caused what, never from clocks
(docs/protocol/sessions.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

import msgspec

from reachp2p.core.calls.gathering import Gathered, Heard, Missing
from reachp2p.core.calls.hops import Hop, Side
from reachp2p.core.calls.trace import asked_span, served_span
from reachp2p.core.ids import NodeId

_Attempt: TypeAlias = tuple[bytes, int]
"""Message id and attempt number."""


class Kind(Enum):
    """What a finding is about."""

    ASKED_LOST = "asked_lost"
    SERVED_LOST = "served_lost"
    PARENT_LOST = "parent_lost"
    TRACE_BROKEN = "trace_broken"
    CLOCKS = "clocks"


class Because(Enum):
    """What is known of a hop that is missing."""

    GONE = "gone"
    """Its node has not answered."""
    RESTARTED = "restarted"
    """Its node records only since a later moment."""
    EVICTED = "evicted"
    """Its node has dropped hops of that time."""
    LOST = "lost"
    """Its node has answered, and has not recorded it."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong with the hops of a session."""

    kind: Kind
    node: NodeId
    """Whose hop is missing, or whose call or clock it is."""
    because: Because | None = None
    message_id: bytes | None = None
    attempt: int = 0
    """With `message_id`, which attempt is missing a side, or (TRACE_BROKEN) which call it is."""
    span: bytes | None = None
    """Of the hop that is missing."""
    agent: str = ""
    capability: str = ""
    other: NodeId | None = None
    """CLOCKS: the node whose clock is compared with that of `node`."""
    offset: float = 0.0
    """CLOCKS: seconds by which the clock of `node` is ahead of that of `other`, about."""
    uncertain: float = 0.0
    """CLOCKS: and how far that may be wrong."""


class Offset(msgspec.Struct, frozen=True):
    """How far the clock of a node seems to be ahead of that of the first node, and how far that may be wrong."""

    seconds: float
    uncertain: float


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """The hops of a session in order, and what is wrong with them."""

    hops: list[Hop]
    """What caused others comes before them; those of one cause in the order of their starts."""
    levels: list[int]
    """How deep each of them lies."""
    offsets: dict[NodeId, Offset]
    """Of nodes whose clock differs noticeably from that of the first one."""
    findings: list[Finding]


def chain(gathered: Gathered, session: bytes) -> Chain:
    """Put the hops of a session in order and check them."""
    strays = [hop for hop in gathered.hops if session not in (hop.session, hop.trace)]
    hops = _without_repeats(hop for hop in gathered.hops if session in (hop.session, hop.trace))
    links = _Links(hops)
    offsets = _offsets(hops, links)
    ordered, levels = _in_order(hops, links, offsets)
    nodes = _Nodes(gathered.heard, gathered.missing)
    findings = [*_lost(hops, links, nodes), *_broken(hops, strays), *_clocks(links)]
    return Chain(hops=ordered, levels=levels, offsets=offsets, findings=findings)


class _Links:
    """Which hop belongs to which."""

    def __init__(self, hops: Sequence[Hop]) -> None:
        self.asked: dict[_Attempt, Hop] = {}
        self.served: dict[_Attempt, Hop] = {}
        self.served_spans: dict[bytes, Hop] = {}
        for hop in hops:
            attempt = (hop.message_id, hop.attempt)
            if hop.side is Side.ASKED:
                self.asked[attempt] = hop
            else:
                self.served[attempt] = hop
                self.served_spans[hop.span] = hop

    def cause(self, hop: Hop) -> Hop | None:
        """The hop that has caused this one, if it is here."""
        if hop.side is Side.SERVED:
            return self.asked.get((hop.message_id, hop.attempt))
        return None if hop.parent is None else self.served_spans.get(hop.parent)

    def pairs(self) -> Iterable[tuple[Hop, Hop]]:
        """Both sides of each attempt that has both."""
        for attempt, asked in self.asked.items():
            served = self.served.get(attempt)
            if served is not None:
                yield asked, served


class _Nodes:
    """What is known of the nodes whose hops may be missing."""

    def __init__(self, heard: Sequence[Heard], missing: Sequence[Missing]) -> None:
        self._heard = {one.node: one for one in heard}
        self._missing = {one.node for one in missing}

    def because(self, node: NodeId, at: float) -> Because:
        """Why a hop of a node is not here that was there at this time, by another node's clock."""
        heard = self._heard.get(node)
        if heard is None:
            return Because.GONE
        if at < heard.since:
            return Because.RESTARTED
        if heard.left_out or at < heard.complete_since:
            return Because.EVICTED
        return Because.LOST


def _without_repeats(hops: Iterable[Hop]) -> list[Hop]:
    """One hop for each side of each attempt; a node may have told of one twice."""
    found: dict[tuple[bytes, int, Side], Hop] = {}
    for hop in hops:
        found.setdefault((hop.message_id, hop.attempt, hop.side), hop)
    return list(found.values())


# What is lost


def _lost(hops: Sequence[Hop], links: _Links, nodes: _Nodes) -> list[Finding]:
    """Each hop that another one proves, once."""
    found: dict[tuple[Kind, bytes, int], Finding] = {}

    def add(kind: Kind, node: NodeId, span: bytes, by: Hop, attempt: _Attempt | None) -> None:
        key = (kind, *attempt) if attempt is not None else (kind, span, 0)
        if key not in found:
            found[key] = Finding(
                kind=kind,
                node=node,
                because=nodes.because(node, by.ended),
                message_id=None if attempt is None else attempt[0],
                attempt=0 if attempt is None else attempt[1],
                span=span,
                agent=by.agent if attempt is not None else "",
                capability=by.capability if attempt is not None else "",
            )

    by_span = {served_span(*attempt): attempt for attempt in links.asked}
    for hop in hops:
        attempt = (hop.message_id, hop.attempt)
        if hop.side is Side.SERVED:
            if attempt not in links.asked and hop.other is not None:
                add(Kind.ASKED_LOST, hop.other, hop.parent or asked_span(*attempt), hop, attempt)
            continue
        if hop.answered and attempt not in links.served and hop.other is not None:
            add(Kind.SERVED_LOST, hop.other, served_span(*attempt), hop, attempt)
        if hop.parent is not None and hop.depth and hop.parent not in links.served_spans:
            proven = by_span.get(hop.parent)
            if proven is None:
                add(Kind.PARENT_LOST, hop.node, hop.parent, hop, None)
            else:  # its caller is here, so what is missing can be named
                add(Kind.SERVED_LOST, hop.node, hop.parent, links.asked[proven], proven)
    return list(found.values())


def _broken(hops: Sequence[Hop], strays: Sequence[Hop]) -> list[Finding]:
    """Calls that began a trace of their own on a node while it served this session; of several hops that were being
    served then, the one that ended last is named."""
    served: dict[NodeId, _Windows] = {}
    for hop in sorted((hop for hop in hops if hop.side is Side.SERVED), key=_begun):
        served.setdefault(hop.node, _Windows()).add(hop)
    found = []
    for stray in strays:
        if (
            stray.side is not Side.ASKED
            or stray.depth
            or stray.parent is not None
            or stray.node not in served
        ):
            continue
        around = served[stray.node].at(stray.started)
        if around is not None:
            found.append(
                Finding(
                    kind=Kind.TRACE_BROKEN,
                    node=stray.node,
                    message_id=stray.message_id,
                    attempt=stray.attempt,
                    span=around.span,
                    agent=around.agent,
                    capability=stray.capability,
                )
            )
    return found


def _begun(hop: Hop) -> float:
    """When the handler of a served hop began."""
    return hop.started + hop.queued


class _Windows:
    """The times in which one node served, by their beginnings. A node may tell of 20,000: nothing looks at all."""

    def __init__(self) -> None:
        self._begun: list[float] = []
        self._last: list[Hop] = []
        """Of those that had begun by then, the one that ends last."""

    def add(self, hop: Hop) -> None:
        """One that began no sooner than those before."""
        self._begun.append(_begun(hop))
        last = self._last[-1] if self._last else hop
        self._last.append(hop if hop.ended >= last.ended else last)

    def at(self, time: float) -> Hop | None:
        """One that was being served at this time."""
        place = bisect_right(self._begun, time)
        last = self._last[place - 1] if place else None
        return last if last is not None and time < last.ended else None


# Clocks


def _between(asked: Hop, served: Hop) -> tuple[float, float, bool]:
    """By how many seconds the clock of the callee is ahead of the caller's, how far that may be wrong, and whether the
    hops themselves show that there is a difference (RFC 5905, section 8: theta and delta)."""
    sent = asked.started + asked.queued
    before = served.started - sent
    after = served.ended - asked.ended
    offset = (before + after) / 2
    uncertain = abs(asked.ended - sent - served.duration) / 2
    return offset, uncertain, abs(offset) > uncertain + RESOLUTION


RESOLUTION = 0.002
"""Seconds: starts travel in milliseconds, one at each side."""


def _best(links: _Links) -> dict[tuple[NodeId, NodeId], tuple[float, float, bool, bool]]:
    """For each pair of nodes (caller, callee) the least uncertain estimate, and whether any hop between them is shorter
    than the offset."""
    best: dict[tuple[NodeId, NodeId], tuple[float, float, bool, bool]] = {}
    for asked, served in links.pairs():
        if asked.node == served.node:
            continue
        offset, uncertain, is_shown = _between(asked, served)
        is_long = is_shown and abs(offset) > asked.duration
        key = (asked.node, served.node)
        former = best.get(key)
        if former is None or uncertain < former[1]:
            best[key] = (offset, uncertain, is_shown, is_long or (former is not None and former[3]))
        elif is_long and not former[3]:
            best[key] = (*former[:3], True)
    return best


def _clocks(links: _Links) -> list[Finding]:
    return [
        Finding(kind=Kind.CLOCKS, node=callee, other=caller, offset=offset, uncertain=uncertain)
        for (caller, callee), (offset, uncertain, _, is_long) in _best(links).items()
        if is_long
    ]


def _offsets(hops: Sequence[Hop], links: _Links) -> dict[NodeId, Offset]:
    """The clocks of all nodes against that of the first one, along the pairs of hops that connect them."""
    ways: dict[NodeId, dict[NodeId, tuple[float, float]]] = {}
    for (caller, callee), (offset, uncertain, is_shown, _) in _best(links).items():
        told = (offset, uncertain) if is_shown else (0.0, 0.0)
        ways.setdefault(caller, {}).setdefault(callee, told)
        ways.setdefault(callee, {}).setdefault(caller, (-told[0], told[1]))
    if not hops:
        return {}
    first = min(hops, key=lambda hop: (hop.depth, hop.side is Side.SERVED, hop.started)).node
    found = {first: Offset(0.0, 0.0)}
    todo = [first]
    for node in todo:  # grows
        for other, (offset, uncertain) in ways.get(node, {}).items():
            if other not in found:
                known = found[node]
                found[other] = Offset(known.seconds + offset, known.uncertain + uncertain)
                todo.append(other)
    return {node: offset for node, offset in found.items() if offset.seconds}


# Order


def _in_order(
    hops: Sequence[Hop], links: _Links, offsets: Mapping[NodeId, Offset]
) -> tuple[list[Hop], list[int]]:
    """Depth first, from those without a cause; what follows from one cause by its start."""
    none = Offset(0.0, 0.0)

    def start(hop: Hop) -> tuple[float, int, bytes]:
        return hop.started - offsets.get(hop.node, none).seconds, hop.attempt, hop.message_id

    effects: dict[int, list[Hop]] = {}
    roots: list[Hop] = []
    for hop in hops:
        cause = links.cause(hop)
        if cause is None or cause is hop:
            roots.append(hop)
        else:
            effects.setdefault(id(cause), []).append(hop)
    ordered: list[Hop] = []
    levels: list[int] = []
    seen: set[int] = set()
    waiting = [(hop, 0) for hop in sorted(roots, key=start, reverse=True)]
    # A node may tell of hops that cause each other: each is shown once all the same.
    rest = iter(sorted(hops, key=start))
    while waiting or len(ordered) < len(hops):
        if not waiting:
            waiting = [(next(hop for hop in rest if id(hop) not in seen), 0)]
        hop, level = waiting.pop()
        if id(hop) in seen:
            continue
        seen.add(id(hop))
        ordered.append(hop)
        levels.append(level)
        after = sorted(effects.get(id(hop), ()), key=start, reverse=True)
        waiting += [(one, level + 1) for one in after]
    return ordered, levels
