"""What is encoded reads back, what arrives raises nothing but `WireError`, and nobody's extension is lost.

The strategies are derived from the structs themselves, bounds included, so a new message is covered at once.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from datetime import UTC
from functools import partial
from typing import Annotated, Any, Union, get_args, get_origin

import cbor2
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Meta

from reachp2p.core.counters import Counters
from reachp2p.core.ids import COUNTER_MAX
from reachp2p.core.trust.facts import Checked, FactChecker, FactRejected
from reachp2p.core.wire.codec import (
    decode_fact,
    decode_message,
    decode_messages,
    encode_fact,
    encode_message,
    pack_messages,
)
from reachp2p.core.wire.cose import Parsed, parse1, sign1
from reachp2p.core.wire.datagram import parse_datagram
from reachp2p.core.wire.facts import Accusation, AgentRecord, Fact, Head, RulesRecord
from reachp2p.core.wire.limits import WireError, load, scan
from reachp2p.core.wire.messages import MESSAGES, Message

FEWER = settings(max_examples=settings().max_examples // 4)
"""For what runs once per kind of message."""

FACTS: tuple[type[Fact], ...] = (Head, Accusation, AgentRecord, RulesRecord)

# Plain data that has one deterministic encoding

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.binary(max_size=4)
)
plain = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        | st.dictionaries(st.integers(0, 2**64 - 1), inner, max_size=3)
    ),
    max_leaves=6,
).filter(lambda value: depth(value) <= 4)
extensions = st.dictionaries(st.integers(128, 2**64 - 1), plain, max_size=3)


def depth(value: object) -> int:
    """Levels of containers."""
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 0


def structs(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Any struct of this kind within its bounds."""
    fields = {}
    for field in msgspec.structs.fields(kind):
        values = extensions if field.name == "extensions" else values_of(field.type, Meta())
        fields[field.name] = values if field.required else st.just(_default(field)) | values
    return st.builds(kind, **fields)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def values_of(annotation: Any, bounds: Meta) -> st.SearchStrategy[Any]:
    """Any value of a field's type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return values_of(arguments[0], arguments[1])
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(argument, Meta()) for argument in arguments])
    if origin is list:
        longest = min(bounds.max_length or 3, 3)
        return st.lists(values_of(arguments[0], Meta()), min_size=bounds.min_length or 0, max_size=longest)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0], Meta()), values_of(arguments[1], Meta()), max_size=3)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return structs(annotation)
    low, high = bounds.min_length or 0, bounds.max_length
    if bounds.pattern is not None:
        return st.from_regex(bounds.pattern).filter(lambda text: low <= len(text) <= (high or len(text)))
    plain_types: dict[Any, st.SearchStrategy[Any]] = {
        types.NoneType: st.none(),
        Any: plain,
        bool: st.booleans(),
        int: st.integers(int(bounds.ge or 0), 2**64 - 1 if bounds.le is None else int(bounds.le)),
        str: st.text(min_size=low, max_size=min(high or 20, max(low, 20))),
        bytes: st.binary(min_size=low, max_size=min(high or 40, max(low, 40))),
    }
    return plain_types[annotation]


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_message_reads_back_as_it_was(kind: type[Message]) -> None:
    @FEWER
    @given(structs(kind))
    def holds(message: Message) -> None:
        assert decode_message(encode_message(message)) == message
        assert decode_messages(
            pack_messages([encode_message(message)] * 2), bytes_max=1 << 20, messages_max=2
        ) == (
            [message] * 2,
            0,
        )

    holds()


@pytest.mark.parametrize("kind", FACTS)
def test_a_fact_reads_back_as_it_was_and_has_one_encoding(kind: type[Fact]) -> None:
    @FEWER
    @given(structs(kind))
    def holds(fact: Fact) -> None:
        data = encode_fact(fact)
        again = decode_fact(kind, data)
        assert again == fact
        assert encode_fact(again) == data
        assert deterministic(cbor2.loads(data)) == data

    holds()


def deterministic(value: object) -> bytes:
    """RFC 8949 §4.2.1 written out: map entries sorted by the bytes of their encoded keys."""
    if isinstance(value, list):
        return _head(0x80, len(value)) + b"".join(map(deterministic, value))
    if isinstance(value, dict):
        entries = sorted((deterministic(key), deterministic(item)) for key, item in value.items())
        return _head(0xA0, len(value)) + b"".join(key + item for key, item in entries)
    return cbor2.dumps(value, canonical=True)


def _head(major: int, length: int) -> bytes:
    head = bytearray(cbor2.dumps(length))
    head[0] |= major
    return bytes(head)


# Whatever arrives


class NoSignature:
    """A verifier that finds every signature good, so that everything behind it is reached."""

    def verify(self, node: bytes, signature: bytes, data: bytes, /) -> bool:
        return True


def read_in_every_way(data: bytes) -> None:
    """Everything in the core that reads bytes from outside."""
    reasons: list[str] = []
    ways: list[Callable[[], object]] = [
        lambda: load(data, bytes_max=65_536, elements_max=64),
        lambda: scan(data),
        lambda: decode_messages(data, bytes_max=65_536, messages_max=32),
        lambda: decode_messages(data, bytes_max=1_400, messages_max=32, datagram=True),
        lambda: decode_message(data),
        lambda: parse1(data),
        lambda: parse_datagram(data),
        *(partial(decode_fact, kind, data) for kind in FACTS),
        *(partial(open_fact, kind, data) for kind in FACTS),
    ]
    for way in ways:
        try:
            way()
        except (WireError, FactRejected) as error:
            reasons.append(error.reason)
    assert all(reason.replace("_", "").isalpha() for reason in reasons)
    rejected: list[str] = []
    try:
        decode_messages(data, bytes_max=65_536, messages_max=32, on_rejected=rejected.append)
    except WireError:
        assert not rejected


def open_fact(kind: type[Fact], payload: bytes) -> Checked[Any]:
    """A payload as if signed."""
    checker = FactChecker(NoSignature(), "demo", Counters())
    return checker.open(kind, sign1(payload, b"", lambda data: b"s" * 64))


@given(st.binary(max_size=300))
@example(b"\x9f" * 100)
@example(b"\xc2\x58\xff" + b"\xff" * 255)
@example(b"\xbb" + b"\xff" * 8)
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    read_in_every_way(data)


anything = st.recursive(
    leaves
    | st.floats()
    | st.just(cbor2.undefined)
    | st.integers(32, 255).map(cbor2.CBORSimpleValue)
    | st.integers(-(2**70), 2**70)
    | st.datetimes(timezones=st.just(UTC)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(leaves, inner, max_size=4)
        | st.builds(cbor2.CBORTag, st.integers(0, 300), inner)
    ),
    max_leaves=10,
)


@given(
    st.sampled_from([kind.NUMBER for kind in MESSAGES]),
    st.dictionaries(st.integers(0, 140), anything, max_size=5),
)
def test_no_well_formed_values_raise_anything_else(number: int, fields: dict[int, Any]) -> None:
    for item in ([number, fields], [[number, fields]], fields):
        read_in_every_way(cbor2.dumps(item))


@given(st.sampled_from(MESSAGES).flatmap(structs), st.data())
def test_no_damaged_message_raises_anything_else(message: Message, data: st.DataObject) -> None:
    damaged = bytearray(pack_messages([encode_message(message)]))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    read_in_every_way(bytes(damaged))
    read_in_every_way(bytes(damaged[1:]))


@given(st.sampled_from(FACTS).flatmap(structs), extensions)
def test_unknown_keys_of_facts_survive(fact: Fact, unknown: dict[int, Any]) -> None:
    fields = cbor2.loads(encode_fact(fact)) | unknown
    data = cbor2.dumps(fields, canonical=True)
    kept = decode_fact(type(fact), data)
    assert kept.extensions == fact.extensions | unknown
    assert encode_fact(kept) == data


@given(st.binary(max_size=2_000), st.binary(max_size=100))
def test_what_is_signed_comes_apart_as_it_was_put_together(payload: bytes, external: bytes) -> None:
    data = sign1(payload, external, lambda signed: b"s" * 64)
    assert parse1(data) == Parsed(payload, b"s" * 64, b"\xa1\x01\x27")
    assert cbor2.loads(data) == [b"\xa1\x01\x27", {}, payload, b"s" * 64]


@given(plain)
def test_scan_accepts_what_the_decoder_accepts(value: object) -> None:
    data = cbor2.dumps([value])
    scan(data)
    assert load(data, bytes_max=65_536) == [value]


@given(st.integers(0, 2**64 - 1))
def test_counters_are_taken_up_to_their_width(number: int) -> None:
    offer = cbor2.dumps([40, {1: number, 2: b"h" * 16, 3: 0}])
    if number <= COUNTER_MAX:
        message = decode_message(offer)
        assert message is not None
        assert encode_message(message) == offer
    else:
        with pytest.raises(WireError, match="bad_field"):
            decode_message(offer)
