"""What calls want of the router."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from reachp2p.core.commands import RouteQuery
from reachp2p.core.ids import NodeId
from reachp2p.core.routing.pick import Pick


class Picker(Protocol):
    """Chooses instances and hears how attempts at them end (`routing.router.Router`)."""

    def named(self, query: RouteQuery) -> RouteQuery:
        """The query with the capability that its tags mean, if it names nobody itself and they mean one."""

    def route(self, query: RouteQuery, exclude: Collection[NodeId] = (), now: float = 0.0) -> Pick:
        """Whom to ask, on none of the nodes in `exclude`. Raises `RouteFailed`."""

    def start(self, pick: Pick, now: float) -> None:
        """The attempt at what was picked begins."""

    def end(self, pick: Pick, code: int, now: float, *, callers_fault: bool = False) -> None:
        """It has ended with `code`; nothing happens if it has not begun, or has ended before."""
