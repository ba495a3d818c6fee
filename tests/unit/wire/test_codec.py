"""Rules of messages and facts: what is left out, kept, skipped, refused."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest

from reachp2p.core.ids import Address, Life
from reachp2p.core.wire.codec import (
    decode_fact,
    decode_message,
    decode_messages,
    encode_fact,
    encode_message,
    pack_messages,
)
from reachp2p.core.wire.facts import Accusation, AgentRecord, Capability, Head, RulesRecord
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import (
    MESSAGES,
    Ack,
    Cancel,
    Challenge,
    DigestEntry,
    Message,
    Ping,
    PingReq,
    Reply,
    SyncDigest,
    SyncOffer,
)
from reachp2p.errors import LocalProtocolError

NODE = b"n" * 32
LIFE = Life(5, b"l" * 16)
NONCE = b"8 bytes."
HEAD = Head(node=NODE, life=LIFE, incarnation=1, version=2, issued_at=1_700_000_000, valid_for=3_600)
RECORD = AgentRecord(node=NODE, life=LIFE, version=2, agent="nlp/summarizer", issued_at=1_700_000_000)


def decode(*items: object, **options: Any) -> tuple[list[Message], int]:
    """The messages of a body made of plain values."""
    return decode_messages(cbor2.dumps(list(items)), bytes_max=65_536, messages_max=32, **options)


def reason(*items: object, **options: Any) -> str:
    """Why such a body is refused."""
    with pytest.raises(WireError) as caught:
        decode(*items, **options)
    return caught.value.reason


def fact_reason(kind: type[Any], data: bytes) -> str:
    """Why such a fact is refused."""
    with pytest.raises(WireError) as caught:
        decode_fact(kind, data)
    return caught.value.reason


# Messages


@pytest.mark.parametrize("kind", [*MESSAGES, Head, Accusation, AgentRecord, Capability, RulesRecord])
def test_each_field_has_a_key_of_its_own(kind: type[Any]) -> None:
    assert {*kind.KEYS, "extensions"} == set(kind.__struct_fields__)
    assert len(set(kind.KEYS.values())) == len(kind.KEYS)


def test_fields_equal_to_their_default_are_left_out() -> None:
    assert cbor2.loads(encode_message(Ping(nonce=NONCE))) == [1, {1: NONCE}]
    assert cbor2.loads(encode_message(Reply(message_id=b"m" * 16))) == [51, {1: b"m" * 16}]


def test_lives_and_digest_entries_travel_as_arrays() -> None:
    entry = DigestEntry(NODE, LIFE, False, 1, 2, 3)
    life = [5, b"l" * 16]
    assert cbor2.loads(encode_message(Challenge(nonce=NONCE, life=LIFE))) == [10, {1: NONCE, 2: life}]
    message = SyncDigest(exchange=1, entries=[entry], last=True)
    assert cbor2.loads(encode_message(message)) == [
        41,
        {1: 1, 2: [[NODE, life, False, 1, 2, 3, False]], 3: True},
    ]


def test_a_body_holds_messages_encoded_once() -> None:
    messages: list[Message] = [Ping(nonce=NONCE), Ack(nonce=NONCE, origin=NODE)]
    body = pack_messages([encode_message(message) for message in messages])
    assert body == b"\x82" + encode_message(messages[0]) + encode_message(messages[1])
    assert decode_messages(body, bytes_max=1_400, messages_max=2) == (messages, 0)


@pytest.mark.parametrize("count", [0, 1, 23, 24, 255, 256])
def test_bodies_of_any_length(count: int) -> None:
    body = pack_messages([encode_message(Ping(nonce=NONCE))] * count)
    assert decode_messages(body, bytes_max=65_536, messages_max=256) == ([Ping(nonce=NONCE)] * count, 0)


def test_unknown_numbers_are_skipped_and_counted_whatever_they_carry() -> None:
    messages, skipped = decode([31, {1: NONCE}], [1, {1: NONCE}], [4_000, "anything"])
    assert (messages, skipped) == ([Ping(nonce=NONCE)], 2)
    assert decode_message(cbor2.dumps([4_000, 1])) is None


def test_an_unknown_key_below_128_rejects_its_message_only() -> None:
    rejected: list[str] = []
    messages, skipped = decode([2, {1: NONCE, 9: 1}], [1, {1: NONCE}], on_rejected=rejected.append)
    assert (messages, skipped, rejected) == ([Ping(nonce=NONCE)], 0, ["unknown_key"])


def test_without_a_listener_the_first_bad_message_is_an_error() -> None:
    assert reason([1, {1: NONCE}], [2, {1: NONCE, 127: 1}]) == "unknown_key"


def test_unknown_keys_from_128_on_are_kept() -> None:
    messages, _ = decode([1, {1: NONCE, 128: [1, {"a": b"b"}], 2**64 - 1: None}])
    assert messages[0].extensions == {128: [1, {"a": b"b"}], 2**64 - 1: None}
    assert decode_message(encode_message(messages[0])) == messages[0]


def test_extensions_are_bounded() -> None:
    extensions = {128 + n: n for n in range(17)}
    assert reason([1, {1: NONCE} | extensions]) == "extensions"
    with pytest.raises(LocalProtocolError):
        encode_message(Ping(nonce=NONCE, extensions=extensions))


@pytest.mark.parametrize(
    "extensions", [{127: 1}, {2**64: 1}, {128: {1, 2}}, {128: [[[[[[]]]]]]}, {128: {1: 1, "a": 1}}]
)
def test_extensions_that_nobody_could_read_are_not_sent(extensions: dict[int, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_message(Ping(nonce=NONCE, extensions=extensions))


def test_the_deepest_extension_that_is_sent_can_be_read() -> None:
    message = Ping(nonce=NONCE, extensions={128: [[[[[1]]]]]})
    body = pack_messages([encode_message(message)])
    assert decode_messages(body, bytes_max=1_400, messages_max=1) == ([message], 0)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (1, "not_a_message"),
        ([], "not_a_message"),
        ([1], "not_a_message"),
        ([1, {1: NONCE}, 3], "not_a_message"),
        (["1", {1: NONCE}], "not_a_message"),
        ([True, {1: NONCE}], "not_a_message"),
        ([-1, {1: NONCE}], "not_a_message"),
        ([1.0, {1: NONCE}], "not_a_message"),
        ([1, [NONCE]], "bad_field"),
        ([1, {}], "bad_field"),
        ([1, {1: NONCE[:7]}], "bad_field"),
        ([1, {1: NONCE + b"."}], "bad_field"),
        ([1, {1: NONCE.decode()}], "bad_field"),
        ([1, {1: [1]}], "bad_field"),
        ([1, {True: NONCE}], "bad_key"),
        ([1, {1.0: NONCE}], "bad_key"),
        ([1, {"1": NONCE}], "bad_key"),
        ([1, {1: NONCE, -1: 1}], "unknown_key"),
        ([1, {1: NONCE, 128: cbor2.undefined}], "bad_field"),
        ([1, {1: NONCE, 128: {1: 1, "a": 2}}], "bad_field"),
        ([1, {1: NONCE, 128: float("nan")}], "bad_field"),
        ([3, {1: NONCE, 2: NODE, 3: 1.0}], "bad_field"),
        ([3, {1: NONCE, 2: NODE, 3: True}], "bad_field"),
        ([3, {1: NONCE, 2: NODE, 3: 60_001}], "bad_field"),
        ([9, {1: []}], "bad_field"),
        ([9, {1: [NODE] * 17}], "bad_field"),
        ([10, {1: NONCE, 2: [5, b"l" * 16, 0]}], "bad_field"),
        ([10, {1: NONCE, 2: [5]}], "bad_field"),
        ([10, {1: NONCE, 2: [2**48, b"l" * 16]}], "bad_field"),
        ([10, {1: NONCE, 2: {"epoch": 5, "life_id": b"l" * 16}}], "bad_field"),
        ([51, {1: b"m" * 16, 6: 1}], "bad_field"),
    ],
)
def test_what_is_wrong_with_a_message_has_a_name(item: object, expected: str) -> None:
    assert reason(item) == expected


@pytest.mark.parametrize("number", [2**53, 2**63 - 1])
def test_counters_up_to_63_bits_are_numbers_like_others(number: int) -> None:
    messages, _ = decode([40, {1: number, 2: b"h" * 16, 3: 1}])
    assert messages == [SyncOffer(exchange=number, hash=b"h" * 16, nodes=1)]


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, -1])
def test_wider_counters_are_refused_not_wrapped(number: int) -> None:
    assert reason([40, {1: number, 2: b"h" * 16, 3: 1}]) == "bad_field"


def test_a_body_is_an_array_of_bounded_length() -> None:
    with pytest.raises(WireError, match="not_messages"):
        decode_messages(b"\xa0", bytes_max=100, messages_max=1)
    assert reason(*[[31, 0]] * 33) == "messages"


def test_messages_from_32_on_do_not_travel_in_datagrams() -> None:
    cancel = [52, {1: b"m" * 16}]
    assert decode(cancel) == ([Cancel(message_id=b"m" * 16)], 0)
    assert reason(cancel, datagram=True) == "frame_only"
    assert decode([3, {1: NONCE, 2: NODE, 3: 500}], datagram=True) == (
        [PingReq(nonce=NONCE, target=NODE, timeout_ms=500)],
        0,
    )


# Facts


def test_facts_read_back_as_they_were() -> None:
    record = AgentRecord(
        node=NODE,
        life=LIFE,
        version=2,
        agent="nlp/summarizer",
        issued_at=1,
        capabilities=[Capability(name="b"), Capability(name="a", repeatable=True, extensions={128: 1})],
        tags={"zone": "a", "env": "prod"},
        limits={"rate": 0.5, "n": 3},
    )
    head = Head(
        node=NODE,
        life=LIFE,
        incarnation=0,
        version=0,
        issued_at=1,
        valid_for=1,
        addresses=[Address("::1", 7946)],
    )
    accusation = Accusation(accuser=NODE, subject=NODE, life=LIFE, incarnation=0, grade=1, issued_at=1)
    for fact in (record, head, accusation):
        assert decode_fact(type(fact), encode_fact(fact)) == fact


def test_the_order_in_which_a_dict_was_filled_does_not_show() -> None:
    one = AgentRecord(
        node=NODE, life=LIFE, version=2, agent="a/b", issued_at=1, tags={"b": "1", "aa": "2", "a": "3"}
    )
    other = AgentRecord(
        node=NODE, life=LIFE, version=2, agent="a/b", issued_at=1, tags={"a": "3", "aa": "2", "b": "1"}
    )
    assert encode_fact(one) == encode_fact(other)
    assert b"\x61a" in encode_fact(one)
    assert encode_fact(one).index(b"\x61b") < encode_fact(one).index(b"\x62aa")  # RFC 8949 §4.2.1: bytewise


def test_unknown_keys_of_a_newer_version_survive_in_facts() -> None:
    sent = cbor2.loads(encode_fact(HEAD)) | {200: [1, {"b": 2}], 2**40: b"x"}
    data = cbor2.dumps(sent, canonical=True)
    head = decode_fact(Head, data)
    assert head.extensions == {200: [1, {"b": 2}], 2**40: b"x"}
    assert encode_fact(head) == data


def test_unknown_keys_inside_a_capability_survive_too() -> None:
    sent = cbor2.loads(encode_fact(RECORD)) | {10: [{1: "text.summarize", 130: "new"}]}
    record = decode_fact(AgentRecord, cbor2.dumps(sent, canonical=True))
    assert record.capabilities == [Capability(name="text.summarize", extensions={130: "new"})]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({127: 1}, "unknown_key"),
        ({5: 0}, "bad_field"),
        ({8: "x" * 65}, "bad_field"),
        ({9: [["127.0.0.1", 0]]}, "bad_field"),
        ({9: [["127.0.0.1", 1, 2]]}, "bad_field"),
        ({9: [["127.0.0.1", 1]] * 5}, "bad_field"),
        ({3: 2**63}, "bad_field"),
        ({4: 2**64 - 1}, "bad_field"),
        ({7: 0}, "bad_field"),
    ],
)
def test_what_is_wrong_with_a_head_has_a_name(change: dict[int, Any], expected: str) -> None:
    sent = cbor2.loads(encode_fact(HEAD)) | change
    assert fact_reason(Head, cbor2.dumps(sent, canonical=True)) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({10: [{1: "a", 100: 1}]}, "unknown_key"),
        ({10: [{2: "no name"}]}, "bad_field"),
        ({10: [[1]]}, "bad_field"),
        ({10: {1: "a"}}, "bad_field"),
        ({11: {1: "a"}}, "bad_field"),
        ({11: {"a": 1}}, "bad_field"),
        ({14: {"a": cbor2.CBORSimpleValue(99)}}, "bad_field"),
        ({14: {"a": [[[[[[1]]]]]]}}, "bad_field"),
        ({12: 9}, "bad_field"),
    ],
)
def test_what_is_wrong_with_a_record_has_a_name(change: dict[int, Any], expected: str) -> None:
    sent = cbor2.loads(encode_fact(RECORD)) | change
    assert fact_reason(AgentRecord, cbor2.dumps(sent, canonical=True)) == expected


def test_a_fact_has_one_encoding() -> None:
    data = encode_fact(HEAD)
    fields = cbor2.loads(data)
    backwards = cbor2.dumps(dict(reversed(fields.items())))
    long_integer = data.replace(b"\x03\x01", b"\x03\x18\x01", 1)
    long_key = data.replace(b"\x03\x01", b"\x18\x03\x01", 1)
    for other in (backwards, long_integer, long_key):
        assert cbor2.loads(other) == fields
        assert other != data
        assert fact_reason(Head, other) == "not_canonical"
    long_float = cbor2.dumps(cbor2.loads(encode_fact(RECORD)) | {14: {"rate": 0.5}})
    assert fact_reason(AgentRecord, long_float) == "not_canonical"


@pytest.mark.parametrize("limits", [{"a": {1, 2}}, {"a": float("nan")}, {"a": (1,)}, {"a": 2**64}])
def test_values_without_a_deterministic_encoding_are_not_signed(limits: dict[Any, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_fact(AgentRecord(node=NODE, life=LIFE, version=2, agent="a/b", issued_at=1, limits=limits))
