"""Every message of wire version 1, as frozen structs. Numbers and keys are append-only.

A message travels as the CBOR array [number, {key: value}] (docs/protocol/wire.cddl). Integer keys from 128 on are
optional extensions: a receiver that does not know one keeps it and goes on; an unknown key below 128 rejects that
message; an unknown number is skipped. `KEYS` of each class maps its fields to their keys; fields equal to their
default are left out. Messages below 32 may travel in datagrams and in frames, the others only in frames.
"""

# No `from __future__ import annotations`: annotations are read at run time, and text would be evaluated each time.
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from reachp2p.core.ids import COUNTER_MAX, MESSAGE_ID_BYTES, NODE_ID_BYTES, NONCE_BYTES, Life
from reachp2p.core.settings import WINDOW_MAX

WIRE_VERSION = 1
"""Byte 0 of each datagram and of the hello."""
EXTENSION_KEY_MIN = 128
EXTENSIONS_MAX = 16
LOAD_EXTENSION = 128
"""On Acks and replies: how busy the sender is (`routing.load`)."""
COORDINATE_EXTENSION = 129
"""On Acks: where the sender is (`routing.places`)."""

NodeIdField = Annotated[bytes, Meta(min_length=NODE_ID_BYTES, max_length=NODE_ID_BYTES)]
Nonce = Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
MessageId = Annotated[bytes, Meta(min_length=MESSAGE_ID_BYTES, max_length=MESSAGE_ID_BYTES)]
Hash = Annotated[bytes, Meta(min_length=16, max_length=16)]
"""BLAKE2b-128."""
Counter = Annotated[int, Meta(ge=0, le=COUNTER_MAX)]
Signed = Annotated[bytes, Meta(min_length=70, max_length=65_536)]
"""A COSE_Sign1 object, byte for byte as its signer made it."""
SmallSigned = Annotated[bytes, Meta(min_length=70, max_length=1_200)]
"""A COSE_Sign1 object that fits a datagram."""
Text = Annotated[str, Meta(max_length=256)]
LongText = Annotated[str, Meta(max_length=4_096)]
StreamField = Annotated[int, Meta(ge=0, le=3)]
"""What of a call is a stream: 0 nothing, 1 results, 2 parameters, 3 both."""
Window = Annotated[int, Meta(ge=0, le=WINDOW_MAX)]
"""Bytes that one direction of a stream may be ahead."""
Extensions = dict[int, Any]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all messages. Subclasses say their `NUMBER` and the integer key of each field."""

    NUMBER: ClassVar[int]
    KEYS: ClassVar[dict[str, int]]

    extensions: Extensions = {}


# Failure detection (docs/protocol/membership.md)


class Ping(Message, frozen=True, kw_only=True):
    """Are you there? `origin` is the node that asked us to ask (PingReq), and None when we ask for ourselves."""

    NUMBER = 1
    KEYS: ClassVar[dict[str, int]] = {"nonce": 1, "origin": 2}
    nonce: Nonce
    origin: NodeIdField | None = None


class Ack(Message, frozen=True, kw_only=True):
    """Answer to a Ping. An Ack to a relayed Ping travels alone in its datagram, which the helper forwards whole."""

    NUMBER = 2
    KEYS: ClassVar[dict[str, int]] = {"nonce": 1, "origin": 2}
    nonce: Nonce
    origin: NodeIdField | None = None


class PingReq(Message, frozen=True, kw_only=True):
    """Please ping `target` for me (SWIM §3.1); answered by `RelayedAck` or, at 80 % of `timeout_ms`, by `Nack`."""

    NUMBER = 3
    KEYS: ClassVar[dict[str, int]] = {"nonce": 1, "target": 2, "timeout_ms": 3}
    nonce: Nonce
    target: NodeIdField
    timeout_ms: Annotated[int, Meta(ge=1, le=60_000)]


class Nack(Message, frozen=True, kw_only=True):
    """The helper heard nothing from the target yet (Lifeguard §IV.A): the path to the helper works."""

    NUMBER = 4
    KEYS: ClassVar[dict[str, int]] = {"nonce": 1}
    nonce: Nonce


class RelayedAck(Message, frozen=True, kw_only=True):
    """The target's whole Ack datagram, addressed to the helper and signed by the target, unchanged."""

    NUMBER = 5
    KEYS: ClassVar[dict[str, int]] = {"nonce": 1, "datagram": 2}
    nonce: Nonce
    datagram: Annotated[bytes, Meta(min_length=1, max_length=512)]


# Updates in circulation (docs/protocol/dissemination.md)


class HeadUpdate(Message, frozen=True, kw_only=True):
    """A node's signed head (ALIVE) or its signed LEFT."""

    NUMBER = 6
    KEYS: ClassVar[dict[str, int]] = {"head": 1}
    head: SmallSigned


class AccusationUpdate(Message, frozen=True, kw_only=True):
    """A signed accusation: it starts or shortens a refutable timer and raises nobody's numbers."""

    NUMBER = 7
    KEYS: ClassVar[dict[str, int]] = {"accusation": 1}
    accusation: SmallSigned


class RecordUpdate(Message, frozen=True, kw_only=True):
    """A signed agent record that fits a datagram."""

    NUMBER = 8
    KEYS: ClassVar[dict[str, int]] = {"record": 1}
    record: SmallSigned


class HeadRequest(Message, frozen=True, kw_only=True):
    """Send me what you hold about these nodes; answered by `HeadUpdate`s."""

    NUMBER = 9
    KEYS: ClassVar[dict[str, int]] = {"subjects": 1}
    subjects: Annotated[list[NodeIdField], Meta(min_length=1, max_length=16)]


class Challenge(Message, frozen=True, kw_only=True):
    """To whoever runs at this address under my own key: prove that you live (docs/protocol/lives.md)."""

    NUMBER = 10
    KEYS: ClassVar[dict[str, int]] = {"nonce": 1, "life": 2}
    nonce: Nonce
    life: Life


class ChallengeAnswer(Message, frozen=True, kw_only=True):
    """I live: signed in the datagram by the shared key, `life` being the answerer's."""

    NUMBER = 11
    KEYS: ClassVar[dict[str, int]] = {"nonce": 1, "life": 2}
    nonce: Nonce
    life: Life


# Rules of the cluster (docs/protocol/rules.md); the bodies are below, because they need links


class RulesEntry(
    msgspec.Struct, frozen=True, order=True, array_like=True, forbid_unknown_fields=True, gc=False
):
    """Which rules record: what orders two of them, and the digest of its signed bytes."""

    version: Counter
    author: NodeIdField
    digest: Hash


class RulesNotice(Message, frozen=True, kw_only=True):
    """There is this rules record; whoever lacks it asks the sender for it over a link."""

    NUMBER = 12
    KEYS: ClassVar[dict[str, int]] = {"version": 1, "author": 2, "digest": 3}
    version: Counter
    author: NodeIdField
    digest: Hash


# Links (docs/protocol/links.md)


class Hello(Message, frozen=True, kw_only=True):
    """First frame each way: who I am and what I understand. `intent` 0 member, 1 contact before announcing."""

    NUMBER = 32
    KEYS: ClassVar[dict[str, int]] = {
        "wire_version": 1, "cluster_id": 2, "node": 3, "life": 4, "nonce": 5, "wire_min": 6, "wire_max": 7,
        "features": 8,
    }  # fmt: skip
    wire_version: Annotated[int, Meta(ge=0, le=255)]
    cluster_id: Text
    node: NodeIdField
    life: Life
    nonce: Annotated[bytes, Meta(min_length=16, max_length=16)]
    wire_min: Annotated[int, Meta(ge=0, le=255)] = WIRE_VERSION
    wire_max: Annotated[int, Meta(ge=0, le=255)] = WIRE_VERSION
    features: Annotated[int, Meta(ge=0, le=2**32)] = 0


class HelloProof(Message, frozen=True, kw_only=True):
    """Second frame each way: signature over both hellos, in dialler-acceptor order (COSE external data)."""

    NUMBER = 33
    KEYS: ClassVar[dict[str, int]] = {"signature": 1}
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]


class Goodbye(Message, frozen=True, kw_only=True):
    """This link ends on purpose. `code` is an error code of reachp2p.errors or 0. `final`: the sender reads no more."""

    NUMBER = 34
    KEYS: ClassVar[dict[str, int]] = {"reason": 1, "code": 2, "final": 3}
    reason: Text = ""
    code: Annotated[int, Meta(ge=0, le=9_999)] = 0
    final: bool = False


class ContactRequest(Message, frozen=True, kw_only=True):
    """Before announcing myself: what do you hold for my own id? (amnesia rule, docs/protocol/lives.md)"""

    NUMBER = 35
    KEYS: ClassVar[dict[str, int]] = {"node": 1}
    node: NodeIdField


class ContactAnswer(Message, frozen=True, kw_only=True):
    """`held` is the head held for the asker or None; `heads` its own and those of up to 16 random members."""

    NUMBER = 36
    KEYS: ClassVar[dict[str, int]] = {"held": 1, "heads": 2}
    held: SmallSigned | None = None
    heads: Annotated[list[SmallSigned], Meta(max_length=17)] = []


class Chunk(Message, frozen=True, kw_only=True):
    """A slice of one encoded message too large for a frame of its own; slices of several may interleave."""

    NUMBER = 37
    KEYS: ClassVar[dict[str, int]] = {"sequence": 1, "offset": 2, "total": 3, "data": 4}
    sequence: Counter
    offset: Annotated[int, Meta(ge=0, le=2**31)]
    total: Annotated[int, Meta(ge=1, le=2**31)]
    data: Annotated[bytes, Meta(min_length=1, max_length=65_536)]


# Anti-entropy (docs/protocol/anti_entropy.md)


class DigestEntry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What is held about one node: its head's numbers, through which registry version its records are complete, and
    whether the holder believes it DEAD (its own verdict, told as a doubt and never adopted)."""

    node: NodeIdField
    life: Life
    left: bool
    incarnation: Counter
    version: Counter
    complete: Counter
    dead: bool = False


class SyncOffer(Message, frozen=True, kw_only=True):
    """Opens an exchange: a hash over my digest. Equal: answered by `SyncEnd`. Else by `SyncDigest`."""

    NUMBER = 40
    KEYS: ClassVar[dict[str, int]] = {"exchange": 1, "hash": 2, "nodes": 3}
    exchange: Counter
    hash: Hash
    nodes: Counter


class SyncDigest(Message, frozen=True, kw_only=True):
    """A page of the sender's digest in NodeId order; `last` closes it. Initiator answers with delta and wants."""

    NUMBER = 41
    KEYS: ClassVar[dict[str, int]] = {"exchange": 1, "entries": 2, "last": 3}
    exchange: Counter
    entries: Annotated[list[DigestEntry], Meta(max_length=512)]
    last: bool


class SyncWant(Message, frozen=True, kw_only=True):
    """Asks for what the receiver holds about these nodes beyond the given numbers (outside an exchange: a pull)."""

    NUMBER = 42
    KEYS: ClassVar[dict[str, int]] = {"exchange": 1, "entries": 2}
    exchange: Counter
    entries: Annotated[list[DigestEntry], Meta(max_length=512)]


class SyncDelta(Message, frozen=True, kw_only=True):
    """Heads and records the receiver lacks; the records of one node in version order and never split over two deltas.

    `through` says for each node up to which version its records are now complete; the delta then has every record of
    that node which the receiver lacks (Scuttlebutt, LADIS 2008 §3). `doubts` are accusations of
    nodes that the sender believes DEAD or SUSPECT: the receiver doubts them too and looks for itself. `last` ends the
    sender's part of the exchange.
    """

    NUMBER = 43
    KEYS: ClassVar[dict[str, int]] = {
        "exchange": 1,
        "heads": 2,
        "records": 3,
        "through": 4,
        "doubts": 5,
        "last": 6,
    }
    exchange: Counter
    heads: Annotated[list[SmallSigned], Meta(max_length=64)] = []
    records: Annotated[list[Signed], Meta(max_length=320)] = []
    through: Annotated[list[DigestEntry], Meta(max_length=64)] = []
    doubts: Annotated[list[SmallSigned], Meta(max_length=64)] = []
    last: bool = False


class SyncEnd(Message, frozen=True, kw_only=True):
    """The views are equal, or the sender has no more to say in this exchange."""

    NUMBER = 44
    KEYS: ClassVar[dict[str, int]] = {"exchange": 1, "equal": 2}
    exchange: Counter
    equal: bool = False


# Calls (docs/protocol/calls.md)


class Request(Message, frozen=True, kw_only=True):
    """Execute a capability of an agent of the receiving life. `remaining_ms`: what is left of the caller's deadline."""

    NUMBER = 50
    KEYS: ClassVar[dict[str, int]] = {
        "message_id": 1, "life": 2, "agent": 3, "capability": 4, "remaining_ms": 5, "hops_left": 6, "content_type": 7,
        "payload": 8, "session_id": 9, "idempotency_key": 10, "traceparent": 11, "attempt": 12, "path": 13,
        "stream": 14, "credit": 15, "asked_ms_ago": 17,
    }  # fmt: skip
    message_id: MessageId
    life: Life
    agent: Text
    capability: Text
    remaining_ms: Annotated[int, Meta(ge=1, le=86_400_000)]
    payload: bytes
    hops_left: Annotated[int, Meta(ge=0, le=64)] = 10
    content_type: Text = "application/cbor"
    session_id: MessageId | None = None
    idempotency_key: Text | None = None
    traceparent: Text | None = None
    attempt: Annotated[int, Meta(ge=1, le=100)] = 1
    path: Annotated[list[Text], Meta(max_length=16)] = []
    stream: StreamField = 0
    credit: Window = 0
    """Bytes of result items that may come before the first `StreamCredit`: the caller's window."""
    asked_ms_ago: Annotated[int, Meta(ge=0, le=86_400_000)] = 0
    """Not 0: this very request was sent so long ago on a link that is lost since, and may have been executed."""


class Reply(Message, frozen=True, kw_only=True):
    """The one end of a request. `code` 0 is a result; otherwise an error code, `payload` empty, `detail` for people.

    `executed` is false when the handler was certainly never started, so that a second attempt elsewhere is safe.
    `items` counts the result items of a stream, which the caller has to have before this is the end.
    """

    NUMBER = 51
    KEYS: ClassVar[dict[str, int]] = {
        "message_id": 1, "code": 2, "content_type": 3, "payload": 4, "detail": 5, "executed": 6, "items": 7,
        "caller_fault": 9, "retry_after_ms": 10,
    }  # fmt: skip
    message_id: MessageId
    code: Annotated[int, Meta(ge=0, le=9_999)] = 0
    content_type: Text = "application/cbor"
    payload: bytes = b""
    detail: LongText = ""
    executed: bool = True
    items: Counter = 0
    caller_fault: bool = False
    """The handler says that the caller is at fault, so that this says nothing about the instance."""
    retry_after_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None
    """When the callee would take another call of this caller (1410)."""


class Cancel(Message, frozen=True, kw_only=True):
    """The caller no longer wants the answer; the callee cancels the handler and sends no reply."""

    NUMBER = 52
    KEYS: ClassVar[dict[str, int]] = {"message_id": 1}
    message_id: MessageId


# Streams


class StreamItem(Message, frozen=True, kw_only=True):
    """One item of a stream: a result from the callee, a parameter from the caller. `offset` counts from 0."""

    NUMBER = 53
    KEYS: ClassVar[dict[str, int]] = {"message_id": 1, "offset": 2, "payload": 3, "content_type": 4}
    message_id: MessageId
    offset: Counter
    payload: bytes
    content_type: Text = "application/cbor"


class StreamCredit(Message, frozen=True, kw_only=True):
    """You may have sent `credit` bytes in all. `ended`: the reply and its items are here, forget the stream."""

    NUMBER = 54
    KEYS: ClassVar[dict[str, int]] = {"message_id": 1, "credit": 2, "ended": 3}
    message_id: MessageId
    credit: Counter = 0
    ended: bool = False


class StreamEnd(Message, frozen=True, kw_only=True):
    """The caller's parameters have ended; `items` is how many there were."""

    NUMBER = 55
    KEYS: ClassVar[dict[str, int]] = {"message_id": 1, "items": 2}
    message_id: MessageId
    items: Counter


class StreamResume(Message, frozen=True, kw_only=True):
    """After a broken link: I want your item `next`, and grant `credit` bytes in all. Answered by one with `answers`."""

    NUMBER = 56
    KEYS: ClassVar[dict[str, int]] = {"message_id": 1, "next": 2, "credit": 3, "answers": 4}
    message_id: MessageId
    next: Counter = 0
    credit: Counter = 0
    answers: bool = False


# Events of topics (docs/protocol/events.md)


class Publication(Message, frozen=True, kw_only=True):
    """An event that the sender publishes, for whoever subscribes to its topic on the receiving node.

    `sequence` counts what this life of the sender has sent to this life of the receiver, from 1: a gap is a loss.
    `published_at` is Unix milliseconds, for people.
    """

    NUMBER = 57
    KEYS: ClassVar[dict[str, int]] = {
        "topic": 1, "payload": 2, "sequence": 3, "published_at": 4, "content_type": 5, "agent": 6, "session_id": 7,
        "traceparent": 8, "hops_left": 9,
    }  # fmt: skip
    topic: Text
    payload: bytes
    sequence: Counter
    published_at: Annotated[int, Meta(ge=0, le=2**50)]
    content_type: Text = "application/cbor"
    agent: Text | None = None
    """The agent on whose behalf it is published."""
    session_id: MessageId | None = None
    traceparent: Text | None = None
    hops_left: Annotated[int, Meta(ge=0, le=64)] = 10
    """How many further calls and events the chain may have."""


# Sessions and traces (docs/protocol/sessions.md)

Span = Annotated[bytes, Meta(min_length=8, max_length=8)]
RecordedPayload = Annotated[bytes, Meta(max_length=65_536)]


class HopEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One attempt of one call as the sender saw it. Which node the sender is, its link has proven. Items that a later
    version appends are not looked at."""

    served: bool
    other: NodeIdField | None
    session: MessageId
    trace: MessageId
    span: Span
    parent: Span | None
    message_id: MessageId
    attempt: Annotated[int, Meta(ge=1, le=100)]
    depth: Annotated[int, Meta(ge=0, le=64)]
    agent: Text
    capability: Text
    started_ms: Counter
    """By the wall clock of the sender."""
    duration_us: Counter
    queued_us: Counter
    bytes_in: Counter
    bytes_out: Counter
    code: Annotated[int, Meta(ge=0, le=9_999)]
    detail: Text
    items: Counter
    handed: bool
    answered: bool
    payload_in: RecordedPayload | None = None
    payload_out: RecordedPayload | None = None


class HopWant(Message, frozen=True, kw_only=True):
    """Asks for recorded hops: of one session or trace, or all that fit; answered by `HopPage`s. `strays`: also calls
    that began a trace of their own while the receiver served that session. `age_ms`: ended at most so long ago."""

    NUMBER = 58
    KEYS: ClassVar[dict[str, int]] = {
        "query": 1, "session": 2, "strays": 3, "failed": 4, "age_ms": 5, "capability": 6, "agent": 7, "limit": 8,
    }  # fmt: skip
    query: Counter
    session: MessageId | None = None
    strays: bool = False
    failed: bool = False
    age_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None
    capability: Text | None = None
    agent: Text | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 1_000


class HopPage(Message, frozen=True, kw_only=True):
    """Part of the answer to a `HopWant`. The `last` one says how many hops fitted and were left out, since when (wall
    clock) the sender records, and since when it has dropped nothing; `code` is not 0 if it does not answer."""

    NUMBER = 59
    KEYS: ClassVar[dict[str, int]] = {
        "query": 1, "hops": 2, "last": 3, "left_out": 4, "since_ms": 5, "complete_since_ms": 6, "code": 7,
    }  # fmt: skip
    query: Counter
    hops: Annotated[list[HopEntry], Meta(max_length=128)] = []
    last: bool = False
    left_out: Counter = 0
    since_ms: Counter = 0
    complete_since_ms: Counter = 0
    code: Annotated[int, Meta(ge=0, le=9_999)] = 0


# Larger bodies


SCHEMA_HASHES_MAX = 32


class SchemaWant(Message, frozen=True, kw_only=True):
    """Asks for JSON Schemas by their content hash."""

    NUMBER = 60
    KEYS: ClassVar[dict[str, int]] = {"hashes": 1}
    hashes: Annotated[list[Hash], Meta(min_length=1, max_length=SCHEMA_HASHES_MAX)]


class SchemaBodies(Message, frozen=True, kw_only=True):
    """JSON Schemas as their exact bytes; the receiver checks each against its hash. Unknown ones are left out."""

    NUMBER = 61
    KEYS: ClassVar[dict[str, int]] = {"bodies": 1}
    bodies: Annotated[list[Annotated[bytes, Meta(max_length=65_536)]], Meta(max_length=32)]


# Rules of the cluster (docs/protocol/rules.md)

RULES_KEY = 130
"""Optional, in a `SyncOffer`: [version of the newest rules record held, hash over all that are held]."""
RULE_RECORDS_MAX = 16


class RulesList(Message, frozen=True, kw_only=True):
    """The rules records that the sender holds, the oldest first; answered by `RulesWant` and `RulesBodies`."""

    NUMBER = 62
    KEYS: ClassVar[dict[str, int]] = {"entries": 1}
    entries: Annotated[list[RulesEntry], Meta(max_length=RULE_RECORDS_MAX)] = []


class RulesWant(Message, frozen=True, kw_only=True):
    """Asks for rules records by the digests of their signed bytes."""

    NUMBER = 63
    KEYS: ClassVar[dict[str, int]] = {"digests": 1}
    digests: Annotated[list[Hash], Meta(min_length=1, max_length=RULE_RECORDS_MAX)]


class RulesBodies(Message, frozen=True, kw_only=True):
    """Signed rules records; those that the sender does not hold are left out."""

    NUMBER = 64
    KEYS: ClassVar[dict[str, int]] = {"records": 1}
    records: Annotated[list[Signed], Meta(max_length=RULE_RECORDS_MAX)] = []


MESSAGES: tuple[type[Message], ...] = (
    Ping, Ack, PingReq, Nack, RelayedAck, HeadUpdate, AccusationUpdate, RecordUpdate, HeadRequest, Challenge,
    ChallengeAnswer, Hello, HelloProof, Goodbye, ContactRequest, ContactAnswer, Chunk, SyncOffer, SyncDigest, SyncWant,
    SyncDelta, SyncEnd, Request, Reply, Cancel, StreamItem, StreamCredit, StreamEnd, StreamResume, Publication,
    HopWant, HopPage, SchemaWant, SchemaBodies, RulesNotice, RulesList, RulesWant, RulesBodies,
)  # fmt: skip
