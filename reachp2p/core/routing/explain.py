"""Explanations: every instance under a name, the stage that took it out and why, and what the next call would get.

An explanation asks the same functions as a call and changes nothing: no turn is taken, no number drawn, no pool cached
or evicted, nothing counted.
"""

from __future__ import annotations

from collections.abc import Collection

from reachp2p.core.commands import RouteQuery
from reachp2p.core.events import MemberState
from reachp2p.core.ids import NodeId
from reachp2p.core.routing.failure import ALREADY_TRIED, ISOLATED, RouteFailed
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.policies import Account, Choice
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.stages import Selector, Verdict, judge
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.views import CandidateView, Explanation

RETRY = "retry"
"""The name, among the stages, of the rule that one call does not ask a node twice."""
TOUCH = "touch"
"""That of the rule that nobody is a last resort for a node that is isolated."""


def explain(router: Router, query: RouteQuery, exclude: Collection[NodeId] = ()) -> Explanation:
    """Why a call with this query, after attempts on `exclude`, would go where it would go. Never raises."""
    table = router.table
    selector = Selector.of(query)
    pool = table.peek(selector)
    choice: Choice | None = None
    picked: Instance | None = None
    account = Account("", [])
    code, reason = 0, ""
    try:
        policy, _ = router.read(query)
        choice, picked = router.choose(policy, query, selector, pool, exclude)
    except RouteFailed as failure:
        code, reason = int(failure.code), failure.reason
    else:
        account = policy.account(choice, picked)
        reason = f"{picked.agent} on {picked.node_name or picked.node[:4].hex()}: {account.because}"
    ask = choice.candidates if choice is not None else None
    shares = dict(zip(ask.keys, account.shares, strict=True)) if ask is not None else {}
    candidates = []
    for instance in table.known(selector):
        is_candidate = not table.is_isolated if ask is None else ask.get(instance.key) is not None
        removed_by, why = _stage(table, selector, instance, exclude, is_candidate)
        if instance is picked:
            why = f"{why}; {account.because}"
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
            )
        )
    return Explanation(
        capability=query.capability,
        agent=query.agent,
        policy=query.policy,
        key=query.key,
        candidates=tuple(candidates),
        picked=picked.node if picked is not None else None,
        picked_agent=picked.agent if picked is not None else None,
        code=code,
        reason=reason,
        table_version=table.version,
        ring_fingerprint=pool.fingerprint() if pool is not None else None,
    )


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
    if is_candidate:
        return None, f"{why}, but nobody better is left"
    if table.is_isolated:
        return TOUCH, f"{why}; {ISOLATED}"
    return stage.name, f"{why}: skipped while another candidate exists"
