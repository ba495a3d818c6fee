"""JSON Schemas by their content hash: own ones stay, pulled ones are a cache (docs/protocol/registry.md)."""

from __future__ import annotations

from collections import OrderedDict

from reachp2p.core.counters import Counters
from reachp2p.core.registry.record import SCHEMA_BYTES_MAX, schema_hash

PULLED_MAX = 1_024
"""Least recently used ones are forgotten and can be pulled again."""


class Schemas:
    """Schema bytes by hash. Size: those of own agents, and `PULLED_MAX` others of at most 64 KiB."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._learned = 0
        self._own: dict[bytes, bytes] = {}
        self._pulled: OrderedDict[bytes, bytes] = OrderedDict()

    @property
    def learned(self) -> int:
        """Grows with every schema that was not here before, and with every change of the own ones."""
        return self._learned

    @staticmethod
    def digest_of(schema: bytes) -> bytes | None:
        """The hash of a schema; None if it is too large to be one."""
        return schema_hash(schema) if len(schema) <= SCHEMA_BYTES_MAX else None

    def keep_own(self, schemas: dict[bytes, bytes]) -> None:
        """These are our own, by hash; they replace the former ones."""
        self._own = schemas
        self._learned += 1

    def learn(self, schema: bytes) -> bytes | None:
        """Cache a schema that another node sent; its hash, or None if it is too large."""
        if len(schema) > SCHEMA_BYTES_MAX:
            self._counters.add("dropped.schema.too_large")
            return None
        digest = schema_hash(schema)
        self._learned += digest not in self._pulled
        self._pulled[digest] = schema
        self._pulled.move_to_end(digest)
        if len(self._pulled) > PULLED_MAX:
            self._pulled.popitem(last=False)
            self._counters.add("schemas.evicted")
        return digest

    def get(self, digest: bytes) -> bytes | None:
        """The schema with this hash, if it is here."""
        if digest in self._own:
            return self._own[digest]
        schema = self._pulled.get(digest)
        if schema is not None:
            self._pulled.move_to_end(digest)
        return schema
