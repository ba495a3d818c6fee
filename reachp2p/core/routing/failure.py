"""Why a call cannot be routed: the code, and a reason a person can act on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

from reachp2p.core.ids import NodeId
from reachp2p.core.routing.stages import Selector, Verdict, judge
from reachp2p.core.routing.table import RoutingTable
from reachp2p.errors import CallFailed, ErrorCode

ALREADY_TRIED = "already tried"
UNDOUBTED = "ALIVE as far as is known here"
ISOLATED = "nobody answers this node, so the fault is probably here"
_LEAD = {
    ErrorCode.ACCESS_DENIED: "no access to",
    ErrorCode.ALL_OVERLOADED: "too much load on",
    ErrorCode.NO_SUCH_VERSION: "no such version of",
}
_SIMILAR = 0.6
"""difflib's own cutoff for close matches: `text.sumarize` finds `text.summarize`, `summarize` too."""
_CHEAP = 24
"""Names whose letters alone fit best get the full comparison; the others cannot be much better."""
_COMPARED_MAX = 2_000
"""Names compared: 4 µs each. When more are known, only those with the same first character count."""


class RouteFailed(CallFailed):
    """Nobody can be asked; nothing was sent. `code` is 13xx, or 1704 for a policy that is unknown or lacks its key."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(code, reason)
        self.reason = reason


def no_candidate(
    table: RoutingTable, selector: Selector, exclude: Collection[NodeId] = (), *, doubted: bool = False
) -> RouteFailed:
    """Why no instance is left for `selector`. The code is that of the last stage that any instance reached.

    `doubted`: instances that calls avoid do not count either, and those that nobody doubts are listed as such. So it
    is while this node is isolated, too.
    Looks at every instance under the name, and at every name if there is none: for the error path only.
    """
    doubted = doubted or table.is_isolated
    depth = -1
    code = ErrorCode.UNKNOWN_TARGET
    reasons: dict[str, int] = {}
    for instance in table.known(selector):
        verdict, stage = judge(table.stages, selector, instance)
        if verdict >= Verdict.WITHHOLD and stage is not None:
            reached, found, why = table.stages.index(stage), stage.code, stage.why(selector, instance)
        else:
            assert doubted or instance.node in exclude, "what is placed and was not tried is a candidate"
            reached, found, why = len(table.stages), ErrorCode.NO_HEALTHY_INSTANCE, UNDOUBTED
            if instance.node in exclude:
                why = ALREADY_TRIED
            elif stage is not None:
                why = stage.why(selector, instance)
        if reached > depth:
            depth, code = reached, found
        if reached > 0:
            reasons[why] = reasons.get(why, 0) + 1
    if code is ErrorCode.UNKNOWN_TARGET:
        return RouteFailed(code, _unknown(table, selector))
    counted = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    total = sum(reasons.values())
    words = ", ".join(f"{count} {why}" for why, count in counted)
    isolated = f"; {ISOLATED}" if table.is_isolated else ""
    lead = _LEAD.get(code, "no healthy instance of")
    return RouteFailed(code, f"{lead} {selector}: {total} known ({words}){isolated}")


def _unknown(table: RoutingTable, selector: Selector) -> str:
    """Words for a name that nobody offers, with the most similar name that somebody does."""
    if selector.agent is not None and "/" not in selector.agent and selector.capability is not None:
        return _unknown_in(table, selector.agent, selector.capability)
    if selector.agent is not None:
        agents = table.known(Selector(None, selector.agent))
        if not agents:
            if selector.agent in _namespaces(table):
                return f"{selector.agent!r} is a namespace: name one of its agents, or a capability, too"
            return f"unknown agent {selector.agent!r}{_did_you_mean(selector.agent, table.agents())}"
        offered = sorted({name for instance in agents for name in instance.info.capabilities})
        hint = _did_you_mean(selector.capability or "", offered) or _offers(offered)
        return f"agent {selector.agent!r} does not offer {selector.capability!r}{hint}"
    if selector.capability is None:
        return "nobody is known to offer anything"
    hint = _did_you_mean(selector.capability, table.capabilities())
    if table.known(Selector(None, selector.capability)):
        hint = "; it is the name of an agent"
    return f"unknown capability {selector.capability!r}{hint}"


def _unknown_in(table: RoutingTable, namespace: str, capability: str) -> str:
    """Words for a namespace in which nobody offers a capability."""
    prefix = f"{namespace}/"
    agents = [one for one in table.instances() if one.agent.startswith(prefix)]
    if not agents:
        hint = _did_you_mean(namespace, _namespaces(table)) or _did_you_mean(namespace, table.agents())
        return f"unknown namespace {namespace!r}{hint}"
    offered = sorted({name for instance in agents for name in instance.info.capabilities})
    hint = _did_you_mean(capability, offered) or _offers(offered)
    return f"no agent of namespace {namespace!r} offers {capability!r}{hint}"


def _namespaces(table: RoutingTable) -> list[str]:
    return sorted({name.partition("/")[0] for name in table.agents()})


def _offers(names: list[str]) -> str:
    if not names:
        return "; it offers nothing"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"; it offers {', '.join(names[:3])}{more}"


def _did_you_mean(name: str, known: Sequence[str]) -> str:
    suggestion = most_similar(name, known)
    return f"; did you mean {suggestion!r}?" if suggestion is not None else ""


def most_similar(name: str, known: Sequence[str]) -> str | None:
    """The known name most like `name`, or None if none is like it; ties go to the first in alphabetical order.

    All names get a comparison of their letters; the best of those, one that heeds the order of the letters.
    """
    from difflib import SequenceMatcher  # not before there is something to suggest

    if len(known) > _COMPARED_MAX:
        known = list(islice((other for other in known if other[:1] == name[:1]), _COMPARED_MAX))
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(name)
    likely: list[tuple[float, str]] = []
    for other in known:
        matcher.set_seq1(other)
        if matcher.real_quick_ratio() >= _SIMILAR:
            upper = matcher.quick_ratio()
            if upper >= _SIMILAR:
                likely.append((-upper, other))
    best: tuple[float, str] | None = None
    for _, other in sorted(likely)[:_CHEAP]:
        matcher.set_seq1(other)
        ratio = matcher.ratio()
        if ratio >= _SIMILAR and (best is None or ratio > best[0]):
            best = (ratio, other)
    return best[1] if best is not None else None
