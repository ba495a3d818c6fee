"""Explanations: every instance under a name, the stage that took it out and why, and what the next call would get.

An explanation asks the same functions as a call and changes nothing: no turn is taken, no number drawn, no pool cached
or evicted, nothing counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from msgspec.structs import replace

from reachp2p.core.commands import RouteQuery
from reachp2p.core.events import MemberState
from reachp2p.core.ids import NodeId
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.failure import ALREADY_TRIED, ISOLATED
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.least_loaded import words
from reachp2p.core.routing.policy import Account
from reachp2p.core.routing.pool import Pool
from reachp2p.core.routing.release import key_percentile
from reachp2p.core.routing.router import Decision, Router
from reachp2p.core.routing.stages import Selector, Verdict, judge
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.views import CandidateView, Explanation

RETRY = "retry"
"""The name, among the stages, of the rule that one call does not ask a node twice."""
TOUCH = "touch"
"""That of the rule that nobody is a last resort for a node that is isolated."""
WHAT_IF_MAX = 100_000
"""Keys of one `what_if`: a second or so."""


def explain(
    router: Router, query: RouteQuery, exclude: Collection[NodeId] = (), now: float = 0.0
) -> Explanation:
    """Why a call with this query, after attempts on `exclude`, would go where it would go. Never raises."""
    table = router.table
    decision = router.decide(query, exclude, now, table.peek)
    asked = decision.query
    selector = decision.selector if decision.selector is not None else Selector.of(asked)
    picked = decision.instance
    account = Account("", [])
    code, reason = 0, ""
    if decision.failure is not None:
        code, reason = int(decision.failure.code), decision.failure.reason
    elif decision.policy is not None and decision.choice is not None and picked is not None:
        account = decision.policy.account(decision.choice, picked)
        reason = f"{picked.agent} on {picked.node_name or picked.node[:4].hex()}: {account.because}"
    pool = decision.choice.pool if decision.choice is not None else table.peek(selector)
    ask = decision.choice.candidates if decision.choice is not None and picked is not None else None
    shares = dict(zip(ask.keys, account.shares, strict=True)) if ask is not None else {}
    candidates = []
    for instance in table.known(selector):
        is_candidate = not table.is_isolated if ask is None else ask.get(instance.key) is not None
        removed_by, why = _stage(table, selector, instance, exclude, is_candidate)
        if instance is picked:
            why = f"{why}; {account.because}"
        traffic = router.measures.traffic.get(instance)
        candidates.append(
            CandidateView(
                agent=instance.agent,
                node=instance.node,
                node_name=instance.node_name,
                state=instance.state or MemberState.DEAD,
                version=instance.info.version,
                weight=instance.weight,
                removed_by=removed_by,
                why=why,
                position=account.positions.get(instance.key),
                share=shares.get(instance.key),
                zone=instance.zone,
                release=instance.info.side,
                candidate_percent=instance.info.candidate_percent,
                breaker=traffic.breaker.state.value if traffic is not None else None,
                in_flight=traffic.in_flight if traffic is not None else 0,
                latency=traffic.latency if traffic is not None else None,
                load=words(instance, router.measures, now),
            )
        )
    return Explanation(
        capability=query.capability,
        agent=query.agent,
        policy=query.policy_name,
        key=query.key,
        candidates=tuple(candidates),
        picked=picked.node if picked is not None else None,
        picked_agent=picked.agent if picked is not None else None,
        code=code,
        reason=reason,
        table_version=table.version,
        ring_fingerprint=pool.fingerprint() if pool is not None else None,
        target=str(selector) if asked.capability or asked.agent or asked.tags else "",
        fell_back=asked is not query,
        release=_release(decision),
    )


def what_if(
    router: Router, query: RouteQuery, keys: Iterable[str], now: float = 0.0
) -> dict[InstanceKey | None, int]:
    """How many of the keys would go to each instance, if each were the next call's; None stands for nobody. Changes
    nothing. At most `WHAT_IF_MAX` keys count."""
    counts: dict[InstanceKey | None, int] = {}
    pools: dict[Selector, Pool | None] = {}

    def find(selector: Selector) -> Pool | None:
        if selector not in pools:
            pools[selector] = router.table.peek(selector)
        return pools[selector]

    for key in islice(keys, WHAT_IF_MAX):
        instance = router.decide(replace(query, key=key), (), now, find).instance
        where = instance.key if instance is not None else None
        counts[where] = counts.get(where, 0) + 1
    return counts


def _release(decision: Decision) -> str:
    """The side of the release split, in words; empty if nothing is split."""
    if decision.side is None:
        return ""
    if decision.query.release is not None:
        why = "asked for"
    elif decision.percent in (None, 0):
        why = "candidates get 0 %"
    elif decision.is_drawn:
        why = f"drawn for the next call; candidates get {decision.percent} %"
    elif decision.query.key is None:
        why = f"candidates get {decision.percent} %"
    else:
        stands_at = key_percentile(decision.query.key)
        why = f"the key stands at {stands_at:.2f} %, candidates get {decision.percent} %"
    crossing = "; nobody there can be asked, so the other side is" if decision.is_crossing else ""
    return f"{decision.side}: {why}{crossing}"


def _stage(
    table: RoutingTable,
    selector: Selector,
    instance: Instance,
    exclude: Collection[NodeId],
    is_candidate: bool,
) -> tuple[str | None, str]:
    """The stage that took an instance out, or None, and the words for it."""
    verdict, stage = judge(table.stages, selector, instance)
    if stage is None:
        if instance.node in exclude:
            return RETRY, ALREADY_TRIED
        return None, instance.state.value if instance.state is not None else ""
    why = stage.why(selector, instance)
    if verdict is Verdict.REMOVE:
        return stage.name, why
    if instance.node in exclude:
        return RETRY, ALREADY_TRIED
    if verdict is Verdict.WITHHOLD:
        return stage.name, why
    if is_candidate:
        but = "no more of the pool may be skipped" if verdict is Verdict.EJECT else "nobody better is left"
        return None, f"{why}, but {but}"
    if table.is_isolated:
        return TOUCH, f"{why}; {ISOLATED}"
    return stage.name, f"{why}: skipped while another candidate exists"
