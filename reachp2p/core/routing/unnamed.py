"""Calls that name neither a capability nor an agent: which capability their tags mean, or why that cannot be said.

Tags mean the one capability that the instances carrying them offer, of those that can be called in this way. If there
are several it is a tie, which is refused with their names: nothing here guesses (docs/protocol/routing.md).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from reachp2p.core.commands import RouteQuery
from reachp2p.core.routing.failure import RouteFailed, no_candidate
from reachp2p.core.routing.groups import Group, Offers
from reachp2p.core.routing.stages import Selector
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.routing.versions import parse_range
from reachp2p.errors import ErrorCode, InvalidIdentifier

NAMES_SHOWN = 10
"""Capabilities that a refused tie lists, those of most instances first."""
NAME_ONE = "name a capability, an agent or tags"


def named(query: RouteQuery, find: Callable[[Selector], Group]) -> RouteQuery:
    """The query with the capability that its tags mean; unchanged if it names somebody, or nothing can be said. `find`
    gives the groups: `RoutingTable.group`, or `peek_group` for a look."""
    if query.capability is not None or query.agent is not None or not query.tags:
        return query
    if query.version is not None:
        try:
            parse_range(query.version)
        except InvalidIdentifier:
            return query  # whoever reads it says so
    offers = find(Selector.of(query)).offers(streams=query.streams)
    return replace(query, capability=next(iter(offers))) if len(offers) == 1 else query


def why_unnamed(table: RoutingTable, query: RouteQuery) -> RouteFailed:
    """Why `named` left a query as it was: 1302 a tie or nothing at all, 1405 the other way of calling, 13xx nobody."""
    if not query.tags:
        return RouteFailed(ErrorCode.TARGET_NOT_SPECIFIED, NAME_ONE)
    selector = Selector.of(query)
    group = table.peek_group(selector)
    offers = group.offers(streams=query.streams)
    if offers:
        return RouteFailed(
            ErrorCode.TARGET_NOT_SPECIFIED,
            f"{selector} may be one of {len(offers)} capabilities, name one: {listed(offers)}",
        )
    others = group.offers(streams=not query.streams)
    if others:
        how = (
            "streams: use stream(), not call()" if others is group.streams else "does not stream: use call()"
        )
        return RouteFailed(ErrorCode.SCHEMA_MISMATCH, f"{selector}: {listed(others)} {how}")
    if len(group):
        return RouteFailed(
            ErrorCode.UNKNOWN_TARGET, f"{selector}: {_instances(len(group))}, which offer no capability"
        )
    return no_candidate(table, selector)


def how_named(group: Group, query: RouteQuery) -> str:
    """Words for what `named` has found."""
    count = sum(group.offers(streams=query.streams)[query.capability or ""].values())
    return f"{group.selector} is {query.capability} ({_instances(count)})"


def listed(offers: Offers) -> str:
    """Capabilities with their instances, as in `text.summarize (3 instances), text.check (1 instance)`."""
    counts = sorted(
        ((-sum(schemas.values()), name) for name, schemas in offers.items()),
    )
    words = [f"{name} ({_instances(-count)})" for count, name in counts[:NAMES_SHOWN]]
    more = len(counts) - NAMES_SHOWN
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


def _instances(count: int) -> str:
    return f"{count} instance" if count == 1 else f"{count} instances"
