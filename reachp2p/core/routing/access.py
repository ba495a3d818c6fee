"""The access stage: may this node call that agent? Whoever may not is told so here, before anything is sent."""

from __future__ import annotations

import msgspec

from reachp2p.core.ids import NodeId
from reachp2p.core.registry.access import Access, may_call
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.stages import Selector, Stage, Verdict
from reachp2p.errors import ErrorCode


class Identity(msgspec.Struct, eq=False):
    """Who calls from here: this node, with the agents that it offers now. The routing table keeps it true."""

    node: NodeId
    offered: dict[str, None] = {}


class AccessStage(Stage):
    """Is this node among its callers? The callee asks again (`calls.admission`)."""

    name = "access"
    code = ErrorCode.ACCESS_DENIED
    depends_on_caller = True

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        """REMOVE what this node may not call."""
        info = instance.info
        if info.access == Access.PUBLIC:
            return Verdict.PASS
        caller = self._identity
        if instance.key[0] == caller.node:
            return Verdict.PASS
        allowed = may_call(info.access, info.callers, instance.agent, caller.node, caller.offered)
        return Verdict.PASS if allowed else Verdict.REMOVE

    def why(self, selector: Selector, instance: Instance) -> str:
        """Whom it wants."""
        if instance.info.access == Access.PRIVATE:
            return f"private to namespace {instance.agent.partition('/')[0]}"
        names = sorted(instance.info.callers)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"restricted to {', '.join(names[:3])}{more}"
