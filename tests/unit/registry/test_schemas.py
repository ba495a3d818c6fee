"""JSON Schemas by hash: own ones stay as long as they are offered, pulled ones are a cache."""

from __future__ import annotations

from reachp2p.core.counters import Counters
from reachp2p.core.registry.record import SCHEMA_BYTES_MAX, schema_hash
from reachp2p.core.registry.schemas import PULLED_MAX, Schemas


def test_a_schema_is_found_by_its_hash() -> None:
    schemas = Schemas(Counters())
    assert schemas.get(schema_hash(b"{}")) is None
    assert schemas.learn(b"{}") == schema_hash(b"{}")
    assert schemas.get(schema_hash(b"{}")) == b"{}"


def test_an_empty_schema_is_one_too() -> None:
    schemas = Schemas(Counters())
    schemas.keep_own({schema_hash(b""): b""})
    assert schemas.get(schema_hash(b"")) == b""


def test_a_schema_that_is_too_large_is_not_kept() -> None:
    counters = Counters()
    schemas = Schemas(counters)
    large = bytes(SCHEMA_BYTES_MAX + 1)
    assert schemas.learn(large) is None
    assert schemas.get(schema_hash(large)) is None
    assert counters.value("dropped.schema.too_large") == 1


def test_of_too_many_the_least_recently_used_is_forgotten() -> None:
    counters = Counters()
    schemas = Schemas(counters)
    for number in range(PULLED_MAX):
        schemas.learn(b"%d" % number)
    assert schemas.get(schema_hash(b"0")) == b"0"  # used just now
    schemas.learn(b"2")  # heard again
    schemas.learn(b"new")
    schemas.learn(b"newer")
    assert [schemas.get(schema_hash(b"%d" % n)) for n in range(5)] == [b"0", None, b"2", None, b"4"]
    assert counters.value("schemas.evicted") == 2


def test_no_flood_of_pulled_schemas_removes_an_own_one() -> None:
    schemas = Schemas(Counters())
    schemas.keep_own({schema_hash(b"own"): b"own"})
    for number in range(PULLED_MAX + 10):
        schemas.learn(b"%d" % number)
    assert schemas.get(schema_hash(b"own")) == b"own"


def test_own_schemas_that_are_no_longer_offered_are_let_go() -> None:
    schemas = Schemas(Counters())
    schemas.keep_own({schema_hash(b"old"): b"old", schema_hash(b"both"): b"both"})
    schemas.keep_own({schema_hash(b"both"): b"both", schema_hash(b"new"): b"new"})
    assert schemas.get(schema_hash(b"old")) is None
    assert schemas.get(schema_hash(b"both")) == b"both"
    assert schemas.get(schema_hash(b"new")) == b"new"
