"""Matching by parameter shape: which capability the parameters of a call fit, where the call names none.

Off unless a call or its node wants it. All capabilities of a group are looked at whose schemas are here; the
parameters must fit exactly one of them, in each version of its schema that placed instances declare. Anything else is
refused, with what it might have been: nothing here guesses.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId
from reachp2p.core.membership.table import PRESENT
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.groups import Group, Offers
from reachp2p.core.routing.stages import Selector
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.routing.unnamed import listed
from reachp2p.errors import ErrorCode

SCHEMAS_MAX = 256
"""Different schemas of one group. Among more nothing is matched: to leave some out would be a guess."""
TRIED_MAX = 32
"""Schemas that one call is checked against; those of other names cost it nothing."""
LOOKS_MAX = 500_000
"""Looks at places of the parameters that one call may take: 10 ms."""
COMPILED_MAX = 512
"""Compiled schemas kept (5 to 50 KB each): those of two full groups."""
PLANS_MAX = 16
"""Groups whose schemas are kept in order."""
NEAREST_SHOWN = 3
"""Capabilities of which a refusal says why they do not fit."""


class Shape(Protocol):
    """One compiled schema.

    `required`, `allowed`: the names that an object must have, and may have (None: any); `looks`: how often it may look
    at one place of a value.
    """

    required: frozenset[str]
    allowed: frozenset[str] | None
    looks: int

    def fits(self, value: object) -> bool:
        """Whether `value` is as it says."""

    def mismatch(self, value: object) -> str | None:
        """None, or where and how `value` does not fit."""


class ShapeUnreadable(ValueError):
    """A schema of another node that is not to be used; the text says why."""


class Matched(msgspec.Struct, frozen=True):
    """What was found, and how, in words."""

    capability: str
    words: str


class _Entry(msgspec.Struct):
    """One schema, and the capabilities that declare it."""

    shape: Shape
    capabilities: list[str]


class _Plan(msgspec.Struct):
    """The schemas of a group, each under the rarest name that it requires."""

    revision: tuple[int, int]
    entries: list[_Entry]
    by_name: dict[str, list[_Entry]]
    nameless: list[_Entry]
    """They require nothing."""
    uncounted: dict[str, str]
    """Capabilities without a schema that could be used, and why."""
    missing: list[bytes]
    """Hashes of schemas that are not here."""
    schemas: int
    """How many there are; beyond `SCHEMAS_MAX` none of them is in order."""

    def likely(self, names: Mapping[str, Any]) -> Iterator[_Entry]:
        """Those that require nothing else than what is given."""
        yield from self.nameless
        for name in names:
            yield from self.by_name.get(name, ())


class ShapeMatcher:
    """Finds the capability that parameters fit. Bounds: `COMPILED_MAX`, `PLANS_MAX`; the least recently used goes."""

    def __init__(self, read: Callable[[bytes], Shape], counters: Counters) -> None:
        """`read` compiles the bytes of a schema, or raises `ShapeUnreadable`."""
        self._read = read
        self._counters = counters
        self._compiled: OrderedDict[bytes, Shape | str] = OrderedDict()
        self._plans: OrderedDict[tuple[Selector, bool], _Plan] = OrderedDict()

    def __len__(self) -> int:
        """Compiled schemas."""
        return len(self._compiled)

    def missing(
        self, query: RouteQuery, group: Group, find: Callable[[bytes], bytes | None], learned: int
    ) -> Sequence[bytes]:
        """The hashes of schemas of a group that are not here; the arguments are those of `match`."""
        return self._plan(query, group, group.offers(streams=query.streams), find, learned).missing

    def match(
        self,
        query: RouteQuery,
        group: Group,
        params: object,
        size: int,
        find: Callable[[bytes], bytes | None],
        learned: int,
    ) -> Matched:
        """The capability of a group that these parameters (plain JSON values, `size` of them) fit.

        `find` gives a schema by its hash; `learned` grows whenever it finds more than before. Raises `RouteFailed`:
        1302 if there are several, or too many to be looked at; 1405 if there is none, with why for the nearest.
        """
        self._counters.add("shapes.matched_calls")
        offers = group.offers(streams=query.streams)
        if not offers:
            raise RouteFailed(ErrorCode.UNKNOWN_TARGET, "nobody that this node may call offers a capability")
        plan = self._plan(query, group, offers, find, learned)
        if plan.schemas > SCHEMAS_MAX:
            self._counters.add("shapes.refused.too_many")
            raise _too_many(f"there are {plan.schemas} schemas, and at most {SCHEMAS_MAX} are looked at")
        if not isinstance(params, dict):
            raise RouteFailed(
                ErrorCode.SCHEMA_MISMATCH, "only an object of parameters can be matched by its shape"
            )
        fitting: dict[str, int] = {}
        tried = looks = 0
        for entry in plan.likely(params):
            shape = entry.shape
            if not shape.required <= params.keys() or not (
                shape.allowed is None or params.keys() <= shape.allowed
            ):
                continue
            looks += shape.looks * size
            if tried == TRIED_MAX or looks > LOOKS_MAX:
                self._counters.add("shapes.refused.too_many")
                raise _too_many("the parameters have the names of too many schemas to compare all of them")
            tried += 1
            if shape.fits(params):
                for name in entry.capabilities:
                    fitting[name] = fitting.get(name, 0) + 1
        self._counters.add("shapes.tried", tried)
        among = _among(len(offers), group.selector)
        if len(fitting) == 1:
            ((name, versions),) = fitting.items()
            if versions == len(offers[name]):
                return Matched(name, f"the parameters fit {name} alone, of {among}{_left_out(plan)}")
            raise RouteFailed(
                ErrorCode.TARGET_NOT_SPECIFIED,
                f"the parameters fit {name} as some of its instances declare it, and not as others do: name it, with "
                "a range of versions",
            )
        if fitting:
            self._counters.add("shapes.refused.tie")
            found = listed({name: offers[name] for name in sorted(fitting)})
            raise RouteFailed(
                ErrorCode.TARGET_NOT_SPECIFIED,
                f"the parameters fit {len(fitting)} capabilities, name one: {found}",
            )
        self._counters.add("shapes.refused.none")
        raise RouteFailed(
            ErrorCode.SCHEMA_MISMATCH,
            f"the parameters fit none of {among}{_nearest(plan, params)}{_left_out(plan)}",
        )

    def _plan(
        self,
        query: RouteQuery,
        group: Group,
        offers: Offers,
        find: Callable[[bytes], bytes | None],
        learned: int,
    ) -> _Plan:
        kind = (group.selector, query.streams)
        plan = self._plans.get(kind)
        if plan is None or plan.revision != (group.revision, learned):
            plan = self._plans[kind] = self._order(offers, find, (group.revision, learned))
            if len(self._plans) > PLANS_MAX:
                self._plans.popitem(last=False)
        self._plans.move_to_end(kind)
        return plan

    def _order(
        self, offers: Offers, find: Callable[[bytes], bytes | None], revision: tuple[int, int]
    ) -> _Plan:
        by_hash: dict[bytes, list[str]] = {}
        uncounted: dict[str, str] = {}
        for name, schemas in sorted(offers.items()):
            for digest in schemas:
                if digest is None:
                    uncounted[name] = "it declares no schema"
                else:
                    by_hash.setdefault(digest, []).append(name)
        plan = _Plan(revision, [], {}, [], uncounted, [], len(by_hash))
        if plan.schemas > SCHEMAS_MAX:
            return plan
        for digest, names in by_hash.items():
            shape = self._shape(digest, find)
            if shape is None:
                plan.missing.append(digest)
                plan.uncounted.update(dict.fromkeys(names, "its schema is not here"))
            elif isinstance(shape, str):
                plan.uncounted.update(dict.fromkeys(names, shape))
            else:
                plan.entries.append(_Entry(shape, names))
        common: dict[str, int] = {}
        for entry in plan.entries:
            for name in entry.shape.required:
                common[name] = common.get(name, 0) + 1
        for entry in plan.entries:
            rarest = min(entry.shape.required, key=lambda name: (common[name], name), default=None)
            (plan.nameless if rarest is None else plan.by_name.setdefault(rarest, [])).append(entry)
        return plan

    def _shape(self, digest: bytes, find: Callable[[bytes], bytes | None]) -> Shape | str | None:
        """A compiled schema, or why it is not to be used; None if it is not here."""
        known = self._compiled.get(digest)
        if known is None:
            body = find(digest)
            if body is None:
                return None
            try:
                known = self._read(body)
            except ShapeUnreadable as error:
                self._counters.add("shapes.unreadable")
                known = f"its schema is not to be used: {error}"
            self._compiled[digest] = known
            if len(self._compiled) > COMPILED_MAX:
                self._compiled.popitem(last=False)
                self._counters.add("shapes.evicted")
        self._compiled.move_to_end(digest)
        return known


def declaring(table: RoutingTable, hashes: Collection[bytes]) -> dict[bytes, list[NodeId]]:
    """Which nodes that are there declare parameter schemas of these hashes, in key order. Looks at every instance."""
    wanted = dict.fromkeys(hashes)
    found: dict[bytes, list[NodeId]] = {}
    for instance in table.instances():
        if instance.state not in PRESENT or instance.node_life != instance.info.life:
            continue
        for info in instance.info.capabilities.values():
            if info.parameters is not None and info.parameters in wanted:
                nodes = found.setdefault(info.parameters, [])
                if instance.node not in nodes[-1:]:
                    nodes.append(instance.node)
    return found


def _among(count: int, selector: Selector) -> str:
    words = "1 capability" if count == 1 else f"{count} capabilities"
    return f"{words} of {selector}" if selector.tags or selector.version is not None else words


def _too_many(what: str) -> RouteFailed:
    return RouteFailed(
        ErrorCode.TARGET_NOT_SPECIFIED, f"{what}: name a capability, or narrow the choice by tags"
    )


def _nearest(plan: _Plan, params: dict[str, Any]) -> str:
    """Why those do not fit that have the most names in common with the parameters."""

    def distance(entry: _Entry) -> tuple[int, str]:
        known = entry.shape.required if entry.shape.allowed is None else entry.shape.allowed
        lacking = len(entry.shape.required - params.keys())
        return lacking - 2 * len(known & params.keys()), entry.capabilities[0]

    nearest = sorted(plan.entries, key=distance)[:NEAREST_SHOWN]
    return "".join(f"; {entry.capabilities[0]}: {entry.shape.mismatch(params)}" for entry in nearest)


def _left_out(plan: _Plan) -> str:
    """Which do not count, and why."""
    shown = [f"{name}: {why}" for name, why in list(plan.uncounted.items())[:NEAREST_SHOWN]]
    more = len(plan.uncounted) - len(shown)
    told = "; ".join(shown) + (f"; and {more} more" if more else "")
    return f" (not counted: {told})" if told else ""
