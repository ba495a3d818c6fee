"""Calls that name nobody and go by the shape of their parameters: schemas fetched, the capability found.

The decision is the core's (`core.routing.shapes`); here are the waiting and the library that checks schemas, which is
loaded by the first call of this kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio
from msgspec.structs import replace

from reachp2p._payload import NotJson, to_json_model
from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.engine import Engine
from reachp2p.core.events import SchemasFetched
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.shapes import ShapeMatcher
from reachp2p.core.views import Explanation
from reachp2p.errors import ErrorCode
from reachp2p.runtime.driver import Driver

PARAMS_BYTES_MAX = 16_384
"""Parameters that are matched by shape: each of up to 32 schemas looks at all of them, on the event loop."""


class Shaping:
    """One node's matching by shape. Bounds: those of `ShapeMatcher`; tasks that wait are those of the core's rounds."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._matcher: ShapeMatcher | None = None
        self._waiting: dict[int, list[trio.Event]] = {}
        self._is_closed = False

    def gauges(self) -> dict[str, int]:
        """Sizes."""
        return {"size.shapes.compiled": 0 if self._matcher is None else len(self._matcher)}

    async def named(self, driver: Driver, query: RouteQuery, params: object, size: int) -> RouteQuery:
        """The query with the capability that its tags mean or its parameters (of `size` bytes) fit. Raises
        `RouteFailed`."""
        if query.tags:
            named = driver.engine.named(query)
            if named.capability is not None:
                return named
            if not driver.engine.group(query).offers(streams=query.streams):
                return query  # the engine says who is missing, or asks a fallback
        self._check_size(size)
        await self.fetch(driver, query)
        return self.look(driver.engine, query, params)[0]

    def look(self, engine: Engine, query: RouteQuery, params: object) -> tuple[RouteQuery, str]:
        """The same from the schemas that are here now, and how it was found, in words."""
        group = engine.group(query)
        from reachp2p._schema import size_of

        plain = _plain(params)
        size = size_of(plain, PARAMS_BYTES_MAX)
        matched = self._use().match(query, group, plain, size, engine.schema, engine.schemas_learned)
        return replace(query, capability=matched.capability), matched.words

    def explain(self, engine: Engine, query: RouteQuery, params: object) -> Explanation:
        """`Engine.explain`, also of a query that goes by shape with these parameters; schemas that are here count."""
        if not wants_shape(query) or engine.named(query).capability is not None:
            return engine.explain(query)
        try:
            named, words = self.look(engine, query, params)
        except RouteFailed as failure:
            told = engine.explain(query)
            return replace(told, code=int(failure.code), reason=failure.reason)
        return replace(engine.explain(named), named=words)

    async def fetch(self, driver: Driver, query: RouteQuery) -> None:
        """Get the schemas that this query may fit and that are not here; two seconds at most."""
        engine = driver.engine
        missing = self._use().missing(query, engine.group(query), engine.schema, engine.schemas_learned)
        number = engine.fetch_schemas(missing, driver.now) if missing and not self._is_closed else None
        if number is None:
            return
        event = trio.Event()
        self._waiting.setdefault(number, []).append(event)
        driver.wake()
        try:
            await event.wait()
        finally:
            waiting = self._waiting.get(number, [])
            if event in waiting:
                waiting.remove(event)
            if not waiting:
                self._waiting.pop(number, None)

    def on_fetched(self, event: SchemasFetched) -> None:
        """A round of the core has ended."""
        for waiting in self._waiting.pop(event.fetch, ()):
            waiting.set()

    def close(self) -> None:
        """The node has ended."""
        self._is_closed = True
        for events in self._waiting.values():
            for event in events:
                event.set()

    def _use(self) -> ShapeMatcher:
        if self._matcher is None:
            from reachp2p._shape import read_shape

            self._matcher = ShapeMatcher(read_shape, self._counters)
        return self._matcher

    def _check_size(self, size: int) -> None:
        if size > PARAMS_BYTES_MAX:
            self._counters.add("shapes.refused.too_large")
            raise RouteFailed(
                ErrorCode.TARGET_NOT_SPECIFIED,
                f"parameters of {size:,} bytes are not matched by their shape (at most {PARAMS_BYTES_MAX:,}): name a "
                "capability",
            )


def wants_shape(query: RouteQuery) -> bool:
    """Whether the capability of a query is to be found by the shape of its parameters."""
    return query.by_shape and query.capability is None and query.agent is None


def later(options: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The options of a call that has waited for so long."""
    shorter = {
        name: options[name] - seconds for name in ("timeout", "within") if options.get(name) is not None
    }
    return {**options, **shorter}


def _plain(params: object) -> Any:
    from reachp2p._shape import DEPTH_MAX

    try:
        return to_json_model({} if params is None else params, DEPTH_MAX)
    except NotJson as error:
        raise RouteFailed(
            ErrorCode.TARGET_NOT_SPECIFIED,
            f"these parameters are not matched by their shape ({error.path}: more than {DEPTH_MAX} levels deep, or no "
            "JSON): name a capability",
        ) from None
