"""The bytes of wire version 1 never change: one full and one small example of each message and fact, pinned.

`golden.json` is append-only. `python tests/unit/wire/test_golden.py` prints what it would be now; a difference in a
line that exists is a new wire version, not a new golden file.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from reachp2p.core.ids import Address, Life, NodeId
from reachp2p.core.trust.ed25519 import Ed25519Signer
from reachp2p.core.trust.facts import FactSigner
from reachp2p.core.wire.codec import decode_fact, decode_message, encode_fact, encode_message, pack_messages
from reachp2p.core.wire.datagram import DatagramWriter
from reachp2p.core.wire.facts import Accusation, AgentRecord, Capability, Claim, Fact, Head, RulesRecord
from reachp2p.core.wire.messages import (
    MESSAGES,
    AccusationUpdate,
    Ack,
    Cancel,
    Challenge,
    ChallengeAnswer,
    Chunk,
    ContactAnswer,
    ContactRequest,
    DigestEntry,
    Goodbye,
    HeadRequest,
    HeadUpdate,
    Hello,
    HelloProof,
    HopEntry,
    HopPage,
    HopWant,
    Message,
    Nack,
    Ping,
    PingReq,
    Publication,
    RecordUpdate,
    RelayedAck,
    Reply,
    Request,
    RulesBodies,
    RulesEntry,
    RulesList,
    RulesNotice,
    RulesWant,
    SchemaBodies,
    SchemaWant,
    StreamCredit,
    StreamEnd,
    StreamItem,
    StreamResume,
    SyncDelta,
    SyncDigest,
    SyncEnd,
    SyncOffer,
    SyncWant,
)

GOLDEN = Path(__file__).with_name("golden.json")
CLUSTER = "golden"

SIGNER = Ed25519Signer(bytes(range(32)))
NODE = SIGNER.node
OTHER = bytes(range(32, 64))
LIFE = Life(2**40 + 7, bytes(range(16)))
NONCE = bytes(range(8))
ID = bytes(range(100, 116))
HASH = bytes(range(200, 216))
EXTENSIONS = {128: "kept", 1_000: [1, {"a": None}], 2**32: b"\x00"}
HOP = HopEntry(
    served=True,
    other=OTHER,
    session=ID,
    trace=bytes(range(16)),
    span=b"span own",
    parent=b"its call",
    message_id=ID,
    attempt=2,
    depth=1,
    agent="nlp/summarizer",
    capability="text.summarize",
    started_ms=1_700_000_000_123,
    duration_us=1_500_000,
    queued_us=24,
    bytes_in=300,
    bytes_out=70_000,
    code=1403,
    detail="ValueError: é",
    items=0,
    handed=True,
    answered=True,
    payload_in=b"{}",
    payload_out=b"",
)
HOP_ALONE = msgspec.structs.replace(
    HOP, served=False, other=None, parent=None, payload_in=None, payload_out=None
)
ENTRY = DigestEntry(NODE, LIFE, True, 3, 2**63 - 1, 24, True)

FACTS: dict[str, Fact] = {
    "Head": Head(node=NODE, life=LIFE, incarnation=0, version=1, issued_at=1_700_000_000, valid_for=3_600),
    "Head full": Head(
        node=NODE,
        life=LIFE,
        incarnation=2**63 - 1,
        version=256,
        left=True,
        issued_at=2**40,
        valid_for=604_800,
        name="büro-1",
        addresses=[Address("127.0.0.1", 7946), Address("2001:db8::1", 65_535)],
        floor=23,
        zone="eu-1",
        certificate=HASH,
        wire_min=2,
        wire_max=255,
        features=2**32,
        extensions=EXTENSIONS,
    ),
    "Accusation": Accusation(
        accuser=NODE, subject=OTHER, life=LIFE, incarnation=0, grade=0, issued_at=1_700_000_000
    ),
    "Accusation full": Accusation(
        accuser=NODE,
        subject=OTHER,
        life=LIFE,
        incarnation=65_536,
        grade=2,
        age_ms=86_400_000,
        issued_at=1_700_000_000,
        extensions=EXTENSIONS,
    ),
    "AgentRecord": AgentRecord(
        node=NODE, life=LIFE, version=1, agent="nlp/summarizer", issued_at=1_700_000_000, withdrawn=True
    ),
    "AgentRecord full": AgentRecord(
        node=NODE,
        life=LIFE,
        version=24,
        agent="nlp/summarizer",
        withdrawn=True,
        issued_at=1_700_000_000,
        agent_version="1.2.0-rc.1",
        description="Summaries of texts",
        owner="team-nlp",
        capabilities=[
            Capability(name="text.summarize"),
            Capability(
                name="text.keywords",
                description="Finds the words that matter",
                parameters=HASH,
                result=ID,
                repeatable=True,
                timeout_ms=86_400_000,
                extensions=EXTENSIONS,
            ),
        ],
        tags={"zone": "a", "env": "prod", "cost_tier": "low"},
        weight_percent=1_000,
        access=2,
        limits={"rate": 2.5, "concurrency": 4, "nested": {"bb": [True, None, -1], "a": 1e300}},
        extensions=EXTENSIONS,
    ),
    "AgentRecord candidate": AgentRecord(
        node=NODE,
        life=LIFE,
        version=3,
        agent="nlp/summarizer",
        issued_at=1_700_000_000,
        tags={"release": "candidate"},
        access=1,
        callers=["shop", "nlp/router", NODE.hex()],
        candidate_percent=100,
    ),
    "AgentRecord stream": AgentRecord(
        node=NODE,
        life=LIFE,
        version=2,
        agent="nlp/tokens",
        issued_at=1_700_000_000,
        capabilities=[Capability(name="text.tokens", result=HASH, stream=3, parameter_item=ID)],
    ),
    "AgentRecord exclusive": AgentRecord(
        node=NODE,
        life=LIFE,
        version=26,
        agent="pay/ledger",
        issued_at=1_700_000_000,
        claim=Claim(0, 2**31 - 1),
        topics=["orders.*.created", "orders.>"],
    ),
    "AgentRecord with a task": AgentRecord(
        node=NODE,
        life=LIFE,
        version=2,
        agent="nlp/indexer",
        issued_at=1_700_000_000,
        capabilities=[Capability(name="text.index", timeout_ms=300_000, task_ms=7_200_000)],
    ),
    "RulesRecord": RulesRecord(author=NODE, version=1, issued_at=1_700_000_000, rules=b"\xa1\x64rule\x80"),
    "RulesRecord full": RulesRecord(
        author=NODE,
        version=2**63 - 1,
        issued_at=2**40,
        rules=bytes(24),
        comment="carts stay where they are",
        extensions=EXTENSIONS,
    ),
}
SIGNED_HEAD = FactSigner(SIGNER, CLUSTER).sign(FACTS["Head"])
SIGNED_RECORD = FactSigner(SIGNER, CLUSTER).sign(FACTS["AgentRecord full"])
SIGNED_ACCUSATION = FactSigner(SIGNER, CLUSTER).sign(FACTS["Accusation full"])

MESSAGE_EXAMPLES: dict[str, Message] = {
    "Ping": Ping(nonce=NONCE),
    "Ping full": Ping(nonce=NONCE, origin=OTHER, extensions=EXTENSIONS),
    "Ack": Ack(nonce=NONCE),
    "Ack full": Ack(nonce=NONCE, origin=OTHER, extensions=EXTENSIONS),
    "PingReq": PingReq(nonce=NONCE, target=OTHER, timeout_ms=500),
    "Nack": Nack(nonce=NONCE),
    "RelayedAck": RelayedAck(nonce=NONCE, datagram=b"\x01" * 180),
    "HeadUpdate": HeadUpdate(head=SIGNED_HEAD),
    "AccusationUpdate": AccusationUpdate(accusation=SIGNED_ACCUSATION),
    "RecordUpdate": RecordUpdate(record=SIGNED_RECORD),
    "HeadRequest": HeadRequest(subjects=[NODE, OTHER]),
    "Challenge": Challenge(nonce=NONCE, life=LIFE),
    "ChallengeAnswer": ChallengeAnswer(nonce=NONCE, life=LIFE),
    "Hello": Hello(wire_version=1, cluster_id=CLUSTER, node=NODE, life=LIFE, nonce=ID),
    "Hello full": Hello(
        wire_version=1,
        cluster_id=CLUSTER,
        node=NODE,
        life=LIFE,
        nonce=ID,
        wire_min=0,
        wire_max=2,
        features=5,
        extensions=EXTENSIONS,
    ),
    "HelloProof": HelloProof(signature=bytes(range(64))),
    "Goodbye": Goodbye(),
    "Goodbye full": Goodbye(reason="leaving", code=1601, extensions=EXTENSIONS),
    "ContactRequest": ContactRequest(node=NODE),
    "ContactAnswer": ContactAnswer(),
    "ContactAnswer full": ContactAnswer(held=SIGNED_HEAD, heads=[SIGNED_HEAD] * 2, extensions=EXTENSIONS),
    "Chunk": Chunk(sequence=1, offset=0, total=2**31, data=b"slice"),
    "SyncOffer": SyncOffer(exchange=1, hash=HASH, nodes=64),
    "SyncDigest": SyncDigest(
        exchange=1, entries=[ENTRY, DigestEntry(OTHER, LIFE, False, 0, 0, 0)], last=True
    ),
    "SyncWant": SyncWant(exchange=1, entries=[ENTRY]),
    "SyncDelta": SyncDelta(exchange=1),
    "SyncDelta full": SyncDelta(
        exchange=1,
        heads=[SIGNED_HEAD],
        records=[SIGNED_RECORD],
        through=[ENTRY],
        doubts=[SIGNED_HEAD],
        last=True,
        extensions=EXTENSIONS,
    ),
    "SyncEnd": SyncEnd(exchange=1),
    "SyncEnd full": SyncEnd(exchange=1, equal=True, extensions=EXTENSIONS),
    "Request": Request(
        message_id=ID,
        life=LIFE,
        agent="nlp/summarizer",
        capability="text.summarize",
        remaining_ms=30_000,
        payload=b"\xa0",
    ),
    "Request full": Request(
        message_id=ID,
        life=LIFE,
        agent="nlp/summarizer",
        capability="text.summarize",
        remaining_ms=86_400_000,
        payload=b"{}",
        hops_left=64,
        content_type="application/json",
        session_id=HASH,
        idempotency_key="once",
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        attempt=2,
        path=["plan/planner"],
        extensions=EXTENSIONS,
    ),
    "Reply": Reply(message_id=ID),
    "Reply full": Reply(
        message_id=ID,
        code=1405,
        content_type="application/json",
        payload=b"{}",
        detail="sentences: not a number",
        executed=False,
        extensions=EXTENSIONS,
    ),
    "Cancel": Cancel(message_id=ID),
    "Request stream": Request(
        message_id=ID,
        life=LIFE,
        agent="nlp/summarizer",
        capability="text.tokens",
        remaining_ms=1,
        payload=b"",
        stream=3,
        credit=2**24,
    ),
    "Reply stream": Reply(message_id=ID, items=2**40),
    "Reply caller at fault": Reply(message_id=ID, code=1403, detail="no such order", caller_fault=True),
    "Reply too fast": Reply(message_id=ID, code=1410, executed=False, retry_after_ms=100),
    "StreamItem": StreamItem(message_id=ID, offset=0, payload=b""),
    "StreamItem full": StreamItem(
        message_id=ID, offset=2**40, payload=b"x" * 300, content_type="text/plain", extensions=EXTENSIONS
    ),
    "StreamCredit": StreamCredit(message_id=ID, credit=1_048_576),
    "StreamCredit full": StreamCredit(message_id=ID, credit=2**40, ended=True, extensions=EXTENSIONS),
    "StreamEnd": StreamEnd(message_id=ID, items=24),
    "StreamResume": StreamResume(message_id=ID),
    "StreamResume full": StreamResume(message_id=ID, next=256, credit=2**40, extensions=EXTENSIONS),
    "StreamResume answers": StreamResume(message_id=ID, next=1, answers=True),
    "Publication": Publication(topic="orders.eu.created", payload=b"\xa0", sequence=1, published_at=0),
    "Publication full": Publication(
        topic="Orders.4711.created_at",
        payload=b"{}",
        sequence=2**63 - 1,
        published_at=2**50,
        content_type="application/json",
        agent="shop/orders",
        session_id=HASH,
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        hops_left=64,
        extensions=EXTENSIONS,
    ),
    "HopWant": HopWant(query=1),
    "HopWant full": HopWant(
        query=2**40,
        session=ID,
        strays=True,
        failed=True,
        age_ms=86_400_000,
        capability="text.summarize",
        agent="nlp/summarizer",
        limit=64,
        extensions=EXTENSIONS,
    ),
    "HopPage": HopPage(query=1),
    "HopPage full": HopPage(
        query=2**40,
        hops=[
            HOP,
            msgspec.structs.replace(
                HOP, served=False, other=None, parent=None, payload_in=None, payload_out=None
            ),
        ],
        last=True,
        left_out=3,
        since_ms=1_700_000_000_000,
        complete_since_ms=1_700_000_000_001,
        code=1410,
        extensions=EXTENSIONS,
    ),
    "SchemaWant": SchemaWant(hashes=[HASH, ID]),
    "SchemaBodies": SchemaBodies(bodies=[b"{}", b""]),
    "RulesNotice": RulesNotice(version=2**63 - 1, author=NODE, digest=HASH, extensions=EXTENSIONS),
    "RulesList": RulesList(),
    "RulesList full": RulesList(
        entries=[RulesEntry(1, NODE, HASH), RulesEntry(1, OTHER, ID)], extensions=EXTENSIONS
    ),
    "RulesWant": RulesWant(digests=[HASH, ID], extensions=EXTENSIONS),
    "RulesBodies": RulesBodies(),
    "RulesBodies full": RulesBodies(records=[SIGNED_HEAD], extensions=EXTENSIONS),
}


def encoded() -> dict[str, str]:
    """All examples as bytes in hex, and the signed forms of some."""
    result = {name: encode_fact(fact).hex() for name, fact in FACTS.items()}
    result |= {name: encode_message(message).hex() for name, message in MESSAGE_EXAMPLES.items()}
    result |= {f"sign1 {name}": FactSigner(SIGNER, CLUSTER).sign(fact).hex() for name, fact in FACTS.items()}
    body = pack_messages(
        [encode_message(MESSAGE_EXAMPLES["Ping"]), encode_message(MESSAGE_EXAMPLES["HeadUpdate"])]
    )
    for name, audience in (("datagram", None), ("datagram addressed", NodeId(OTHER))):
        writer = DatagramWriter(CLUSTER, NODE, LIFE, SIGNER.sign, counter=2**64 - 2)
        result[name] = writer.write(body, audience).hex()
    return result


def test_every_encoding_is_as_it_was() -> None:
    assert encoded() == json.loads(GOLDEN.read_text())


def test_there_is_an_example_of_every_message_and_fact() -> None:
    assert {type(message) for message in MESSAGE_EXAMPLES.values()} == set(MESSAGES)
    assert {type(fact) for fact in FACTS.values()} == set(Fact.__subclasses__())


@pytest.mark.parametrize("name", MESSAGE_EXAMPLES)
def test_golden_messages_read_back(name: str) -> None:
    assert decode_message(bytes.fromhex(json.loads(GOLDEN.read_text())[name])) == MESSAGE_EXAMPLES[name]


@pytest.mark.parametrize("name", FACTS)
def test_golden_facts_read_back(name: str) -> None:
    fact = FACTS[name]
    assert decode_fact(type(fact), bytes.fromhex(json.loads(GOLDEN.read_text())[name])) == fact


if __name__ == "__main__":
    print(json.dumps(encoded(), indent=1))
