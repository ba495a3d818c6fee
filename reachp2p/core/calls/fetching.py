"""Fetching JSON Schemas from the nodes that declare them: a round object for each need (docs/protocol/registry.md).

Records carry hashes; the bodies are asked for over links when somebody needs them (`routing.shapes`). A round ends when
all are here, or its time is over. What nobody has sent then is not asked for again for a while, so that calls do not
wait for it again and again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects
from reachp2p.core.events import SchemasFetched
from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.core.links.table import Links
from reachp2p.core.registry.schemas import Schemas
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import SCHEMA_HASHES_MAX, SchemaBodies, SchemaWant

ROUNDS_MAX = 8
NODES_PER_SCHEMA = 3
"""So many of those that declare a schema are asked at once; a body has 64 KiB at most."""
NODES_MAX = 32
"""Nodes asked by one round."""
FETCH_TIMEOUT = 2.0
PAGE_BYTES_MAX = 262_144
"""Of the schemas in one message: half of the least that a link must carry (`Engine`: `RECORDS_BYTES_MAX`)."""
VAIN_TIME = 10.0
"""Seconds for which a schema that nobody has sent is not asked for again."""
VAIN_MAX = 1_024


class FetchDue(msgspec.Struct, frozen=True, gc=False):
    """A round has had its time."""

    fetch: int


class _Round(msgspec.Struct, eq=False):
    deadline: float
    missing: dict[bytes, None]
    asks: dict[NodeId, list[bytes]]
    """Who is still to be asked, once a link to it is open."""


class Fetches:
    """All rounds of this node. Bounds: `ROUNDS_MAX`, beyond it nothing is fetched (`schemas.fetches_full`)."""

    def __init__(
        self,
        *,
        schemas: Schemas,
        links: Links,
        addresses: Callable[[NodeId], Sequence[Address]],
        effects: Effects,
        timers: Timers,
        counters: Counters,
    ) -> None:
        self._schemas = schemas
        self._links = links
        self._addresses = addresses
        self._effects = effects
        self._timers = timers
        self._counters = counters
        self._running: dict[int, _Round] = {}
        self._vain: OrderedDict[bytes, float] = OrderedDict()
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._running)

    def gauges(self) -> dict[str, int]:
        """Sizes."""
        return {"schemas.fetches": len(self._running), "schemas.in_vain": len(self._vain)}

    def worth(self, hashes: Sequence[bytes], now: float) -> list[bytes]:
        """Those that were not asked for in vain a moment ago."""
        return [one for one in hashes if self._vain.get(one, now) <= now] if self._vain else list(hashes)

    def begin(self, wanted: Mapping[bytes, Sequence[NodeId]], now: float) -> int | None:
        """Fetch schemas, each from the nodes that declare it; the number of the one `SchemasFetched` that follows
        within `FETCH_TIMEOUT`, of a round that is under way if that is for all of them. None if there is nothing that
        is worth asking for."""
        missing = dict.fromkeys(self.worth(list(wanted), now))
        if not missing:
            return None
        for number, one in self._running.items():
            if missing.keys() <= one.missing.keys():
                return number
        if len(self._running) >= ROUNDS_MAX:
            self._counters.add("schemas.fetches_full")
            return None
        asks: dict[NodeId, list[bytes]] = {}
        for digest in missing:
            nodes = sorted(wanted[digest], key=lambda node: self._links.link_to(node) is None)
            for node in nodes[:NODES_PER_SCHEMA]:
                if node in asks or len(asks) < NODES_MAX:
                    asks.setdefault(node, []).append(digest)
        self._last_number += 1
        number = self._last_number
        found = self._running[number] = _Round(now + FETCH_TIMEOUT, missing, asks)
        self._counters.add("schemas.fetches")
        self._timers.set(FetchDue(number), found.deadline)
        for node in list(asks):
            if self._links.link_to(node) is not None:
                self._ask(found, node)
            else:
                self._links.ensure(node, self._addresses(node), now)
        return number

    def on_want(self, link: LinkId, want: SchemaWant) -> None:
        """Another node asks: send what is here, in as many messages as it needs."""
        page: list[bytes] = []
        size = 0
        for digest in want.hashes:
            body = self._schemas.get(digest)
            if body is None:
                continue
            if page and size + len(body) > PAGE_BYTES_MAX:
                self._links.send(link, SchemaBodies(bodies=page))
                page, size = [], 0
            page.append(body)
            size += len(body)
        self._links.send(link, SchemaBodies(bodies=page))

    def learn(self, bodies: Sequence[bytes], now: float) -> None:
        """A node has sent schemas. Only what was asked for is kept: others would push out what is in use."""
        for body in bodies:
            digest = self._schemas.digest_of(body)
            if digest is None or not any(digest in one.missing for one in self._running.values()):
                self._counters.add("dropped.schema.unasked")
                continue
            self._schemas.learn(body)
            for one in self._running.values():
                one.missing.pop(digest, None)
        for number, one in list(self._running.items()):
            if not one.missing:
                self._end(number, now)

    def on_link_up(self, node: NodeId) -> None:
        """A link is open: who waits for it asks."""
        for one in self._running.values():
            if node in one.asks:
                self._ask(one, node)

    def on_timer(self, key: FetchDue, now: float) -> None:
        """A round has had its time: what is missing now is not asked for again for a while."""
        found = self._running.get(key.fetch)
        if found is None:
            return
        for digest in found.missing:
            self._vain[digest] = now + VAIN_TIME
            self._vain.move_to_end(digest)
            if len(self._vain) > VAIN_MAX:
                self._vain.popitem(last=False)
        self._counters.add("schemas.not_fetched", len(found.missing))
        self._end(key.fetch, now)

    def end_all(self, now: float) -> None:
        """This node stops: nobody will send anything."""
        for number in list(self._running):
            self._end(number, now)

    def _ask(self, found: _Round, node: NodeId) -> None:
        link = self._links.link_to(node)
        hashes = found.asks.pop(node)
        if link is not None:
            for at in range(0, len(hashes), SCHEMA_HASHES_MAX):
                self._links.send(link, SchemaWant(hashes=hashes[at : at + SCHEMA_HASHES_MAX]))

    def _end(self, number: int, now: float) -> None:
        del self._running[number]
        self._timers.cancel(FetchDue(number))
        self._effects.notify(SchemasFetched(at=now, fetch=number))
