"""Signed facts: who may sign what, what a signature is good for, and that it is checked once."""

from __future__ import annotations

import cbor2
import msgspec
import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.ids import Address, Life, NodeId
from reachp2p.core.trust import facts as facts_module
from reachp2p.core.trust.ed25519 import Ed25519Signer, Ed25519Verifier
from reachp2p.core.trust.facts import (
    FactChecker,
    FactRejected,
    FactSigner,
    external_data,
    fact_digest,
    signer_of,
)
from reachp2p.core.wire.codec import encode_fact
from reachp2p.core.wire.cose import sign1
from reachp2p.core.wire.facts import Accusation, AgentRecord, Fact, Head
from reachp2p.errors import LocalProtocolError

SIGNER = Ed25519Signer(b"\x01" * 32)
OTHER = Ed25519Signer(b"\x02" * 32)
LIFE = Life(5, b"l" * 16)
HEAD = Head(node=SIGNER.node, life=LIFE, incarnation=1, version=2, issued_at=1_700_000_000, valid_for=3_600)
ACCUSATION = Accusation(
    accuser=SIGNER.node, subject=OTHER.node, life=LIFE, incarnation=1, grade=0, issued_at=1_700_000_000
)
RECORD = AgentRecord(node=SIGNER.node, life=LIFE, version=2, agent="nlp/summarizer", issued_at=1_700_000_000)
ALL: list[Fact] = [HEAD, ACCUSATION, RECORD]


class CountingVerifier(Ed25519Verifier):
    """Knows how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def verify(self, node: NodeId, signature: bytes, data: bytes, /) -> bool:
        self.asked += 1
        return super().verify(node, signature, data)


class Checking:
    """A checker with its verifier and counters."""

    def __init__(self, cluster_id: str = "demo", cache_max: int = 100) -> None:
        self.verifier = CountingVerifier()
        self.counters = Counters()
        self.checker = FactChecker(self.verifier, cluster_id, self.counters, cache_max=cache_max)

    def reason(self, kind: type[Fact], data: bytes) -> str:
        """Why `data` is refused."""
        with pytest.raises(FactRejected) as caught:
            self.checker.open(kind, data)
        return caught.value.reason


def signed(fact: Fact, cluster_id: str = "demo") -> bytes:
    """A fact under our signer's key."""
    return FactSigner(SIGNER, cluster_id).sign(fact)


@pytest.mark.parametrize("fact", ALL)
def test_what_is_signed_can_be_opened(fact: Fact) -> None:
    data = signed(fact)
    checked = Checking().checker.open(type(fact), data)
    assert checked.fact == fact
    assert checked.data == data
    assert checked.digest == fact_digest(data)


@pytest.mark.parametrize("fact", ALL)
def test_each_fact_is_verified_once(fact: Fact) -> None:
    checking = Checking()
    data = signed(fact)
    first = checking.checker.open(type(fact), data)
    assert checking.checker.open(type(fact), bytes(bytearray(data))) is first
    assert checking.verifier.asked == 1
    assert checking.counters.snapshot() == {"facts.cache_hits": 1, "facts.verifications": 1}


def test_a_fact_is_signed_by_the_node_it_names() -> None:
    for fact in ALL:
        assert signer_of(fact) == SIGNER.node
        with pytest.raises(LocalProtocolError):
            FactSigner(OTHER, "demo").sign(fact)


def test_a_forged_fact_is_rejected_and_not_remembered() -> None:
    checking = Checking()
    forged = sign1(encode_fact(HEAD), external_data("head", "demo"), OTHER.sign)
    assert checking.reason(Head, forged) == "bad_signature"
    assert checking.reason(Head, forged) == "bad_signature"
    assert len(checking.checker) == 0


def test_nobody_raises_the_numbers_of_another() -> None:
    for number in (2**53, 2**63 - 1):
        raised = msgspec.structs.replace(HEAD, incarnation=number, version=number)
        forged = sign1(encode_fact(raised), external_data("head", "demo"), OTHER.sign)
        assert Checking().reason(Head, forged) == "bad_signature"


@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
def test_numbers_wider_than_63_bits_are_rejected_under_any_signature(number: int) -> None:
    fields = cbor2.loads(encode_fact(HEAD)) | {3: number}
    data = sign1(cbor2.dumps(fields, canonical=True), external_data("head", "demo"), SIGNER.sign)
    assert Checking().reason(Head, data) == "bad_field"


def test_a_fact_means_nothing_in_another_cluster() -> None:
    assert Checking().reason(Head, signed(HEAD, "elsewhere")) == "bad_signature"


def test_a_fact_does_not_pass_for_another_kind() -> None:
    data = sign1(encode_fact(ACCUSATION), external_data("head", "demo"), SIGNER.sign)
    assert Checking().reason(Accusation, data) == "bad_signature"
    checking = Checking()
    checking.checker.open(Head, signed(HEAD))
    assert checking.reason(AgentRecord, signed(HEAD)) == "wrong_kind"
    assert checking.checker.open(Fact, signed(HEAD)).fact == HEAD


def test_unknown_optional_keys_are_covered_by_the_signature_and_kept() -> None:
    payload = cbor2.dumps(cbor2.loads(encode_fact(RECORD)) | {200: "from a newer version"}, canonical=True)
    data = sign1(payload, external_data("record", "demo"), SIGNER.sign)
    checked = Checking().checker.open(AgentRecord, data)
    assert checked.fact.extensions == {200: "from a newer version"}
    assert checked.data == data
    tampered = data.replace(b"newer", b"later")
    assert Checking().reason(AgentRecord, tampered) == "bad_signature"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "cose"),
        (b"\x80", "cose"),
        (sign1(b"", b"", SIGNER.sign), "truncated"),
        (sign1(b"\x80", b"", SIGNER.sign), "bad_field"),
        (sign1(b"\xa0", b"", SIGNER.sign), "bad_field"),
        (sign1(b"\xc2\x41\x01", b"", SIGNER.sign), "tag"),
        (sign1(b"\x81" * 60_000 + b"\x80", b"", SIGNER.sign), "depth"),
        (sign1(b"\xa0" * 65_537, b"", SIGNER.sign), "too_large"),
    ],
)
def test_malformed_facts_are_rejected_before_any_verification(data: bytes, expected: str) -> None:
    checking = Checking()
    assert checking.reason(Head, data) == expected
    assert checking.verifier.asked == 0


@pytest.mark.parametrize("host", ["127.0.0.1\0", "a b", "\x1b[2J", "::1\n", "ж.example"])
def test_a_head_with_what_can_be_no_address_is_rejected(host: str) -> None:
    """It would come to a resolver, to HTTP headers and to terminals."""
    data = sign1(
        encode_fact(msgspec.structs.replace(HEAD, addresses=[Address(host, 7946)])), b"", SIGNER.sign
    )
    assert Checking().reason(Head, data) == "bad_field"
    fine = signed(msgspec.structs.replace(HEAD, addresses=[Address("fe80::1%eth0.7", 7946)]))
    assert Checking().checker.open(Head, fine).fact.addresses[0].host == "fe80::1%eth0.7"


def test_the_memory_forgets_the_oldest_first() -> None:
    checking = Checking(cache_max=2)
    facts = [signed(msgspec.structs.replace(HEAD, version=version)) for version in range(3)]
    for data in facts:
        checking.checker.open(Head, data)
    assert len(checking.checker) == 2
    assert checking.counters.value("facts.cache_evicted") == 1
    checking.checker.open(Head, facts[2])
    checking.checker.open(Head, facts[1])
    assert checking.verifier.asked == 3
    checking.checker.open(Head, facts[0])
    assert checking.verifier.asked == 4


def test_the_memory_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = [signed(msgspec.structs.replace(HEAD, version=version)) for version in range(3)]
    monkeypatch.setattr(facts_module, "CACHE_BYTES_MAX", 2 * len(facts[0]))
    checking = Checking()
    for data in facts:
        checking.checker.open(Head, data)
    assert len(checking.checker) == 2
    checking.checker.open(Head, facts[1])
    checking.checker.open(Head, facts[2])
    assert checking.verifier.asked == 3


@pytest.mark.parametrize(
    "fact",
    [
        msgspec.structs.replace(HEAD, incarnation=2**63),
        msgspec.structs.replace(HEAD, name="x" * 65),
        msgspec.structs.replace(RECORD, limits={1: "not text"}),
        msgspec.structs.replace(RECORD, description="x" * 4_097),
        msgspec.structs.replace(RECORD, limits={"a": "x" * 70_000}),
    ],
)
def test_what_nobody_would_accept_is_not_signed(fact: Fact) -> None:
    with pytest.raises(LocalProtocolError):
        signed(fact)
