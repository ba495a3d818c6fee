"""The claim stage: of an exclusive agent only the owner's instance serves (docs/protocol/claims.md)."""

from __future__ import annotations

from collections.abc import Callable

from reachp2p.core.ids import NodeId, short
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.stages import Selector, Stage, Verdict
from reachp2p.errors import ErrorCode


class ClaimStage(Stage):
    """Does it hold the claim? Where the answer changes for another instance, the table is asked to `reconsider`."""

    name = "claim"
    code = ErrorCode.NO_HEALTHY_INSTANCE

    def __init__(self, owner: Callable[[str], NodeId | None]) -> None:
        """`owner`: which node owns an exclusive agent now."""
        self._owner = owner

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        """REMOVE whoever stands by."""
        if not instance.info.exclusive or self._owner(instance.agent) == instance.node:
            return Verdict.PASS
        return Verdict.REMOVE

    def why(self, selector: Selector, instance: Instance) -> str:
        """Who owns it instead."""
        owner = self._owner(instance.agent)
        return "stands by, and nobody owns it now" if owner is None else f"stands by for node {short(owner)}"
