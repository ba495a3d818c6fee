"""One decision of the router, from the choice to the end of the attempt that it leads to."""

from __future__ import annotations

import msgspec

from reachp2p.core.commands import RouteQuery
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.policy import Choice, Policy
from reachp2p.core.routing.traffic import Traffic


class Pick(msgspec.Struct, eq=False):
    """Whom to ask, and what for: `query` is the one that found it, which is a fallback's if the first found nobody.

    `Router.start` when the attempt begins, `Router.end` when it ends; a pick that was never started needs no end.
    """

    instance: Instance
    query: RouteQuery
    choice: Choice | None = None
    policy: Policy | None = None
    traffic: Traffic | None = None
    """While the attempt is in flight."""
    started_at: float = 0.0
    is_stream: bool = False
    """How long it takes says nothing about the instance: its consumer may be slow."""
