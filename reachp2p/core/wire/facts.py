"""What nodes sign: heads, accusations, agent records and rules, as the payload of a COSE_Sign1 object.

The signed bytes are kept and forwarded as they came; these structs are only how we read and write them. Like
messages they are CBOR maps with integer keys, the same rule for unknown keys applies, and `KEYS` is append-only.
Cluster id and purpose are inside the signature as COSE external data (RFC 9052 §4.3), so they cost no bytes.
"""

# No `from __future__ import annotations`: annotations are read at run time, and text would be evaluated each time.
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from reachp2p.core.ids import CLAIM_EPOCH_MAX, PATTERNS_MAX, Address, Life
from reachp2p.core.wire.messages import Counter, Extensions, Hash, LongText, NodeIdField, StreamField, Text

WallTime = Annotated[int, Meta(ge=0, le=2**40)]
"""Unix seconds. Judged with tolerance, for validity only."""
ClaimEpoch = Annotated[int, Meta(ge=0, le=CLAIM_EPOCH_MAX)]


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what is signed. `PURPOSE` goes into the signature, so that no fact can pass for another kind."""

    PURPOSE: ClassVar[str]
    KEYS: ClassVar[dict[str, int]]

    extensions: Extensions = {}


class Head(Fact, frozen=True, kw_only=True):
    """A node speaking of itself: ALIVE, or LEFT when `left`. Signed by `node`."""

    PURPOSE = "head"
    KEYS: ClassVar[dict[str, int]] = {
        "node": 1, "life": 2, "incarnation": 3, "version": 4, "left": 5, "issued_at": 6, "valid_for": 7, "name": 8,
        "addresses": 9, "floor": 10, "zone": 11, "certificate": 12, "wire_min": 13, "wire_max": 14, "features": 15,
        "placement": 16,
    }  # fmt: skip
    node: NodeIdField
    life: Life
    incarnation: Counter
    version: Counter
    issued_at: WallTime
    valid_for: Annotated[int, Meta(ge=1, le=604_800)]
    left: bool = False
    name: Annotated[str, Meta(max_length=64)] = ""
    addresses: Annotated[list[Address], Meta(max_length=4)] = []
    floor: Counter = 0
    zone: Annotated[str, Meta(max_length=64)] = ""
    certificate: Hash | None = None
    wire_min: Annotated[int, Meta(ge=0, le=255)] = 1
    wire_max: Annotated[int, Meta(ge=0, le=255)] = 1
    features: Annotated[int, Meta(ge=0, le=2**32)] = 0
    placement: Annotated[int, Meta(ge=0, le=255)] = 1
    """Version of the placement function (ring/placement.py), so that views which cannot agree are named."""


class Accusation(Fact, frozen=True, kw_only=True):
    """`accuser` doubts `subject` in this life and incarnation. Signed by `accuser`; only starts or shortens a timer."""

    PURPOSE = "accusation"
    KEYS: ClassVar[dict[str, int]] = {
        "accuser": 1, "subject": 2, "life": 3, "incarnation": 4, "grade": 5, "age_ms": 6, "issued_at": 7,
    }  # fmt: skip
    accuser: NodeIdField
    subject: NodeIdField
    life: Life
    incarnation: Counter
    grade: Annotated[int, Meta(ge=0, le=2)]
    """0 silence, 1 refusal, 2 dead in the accuser's view."""
    age_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 0
    issued_at: WallTime


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """One thing an agent can do. `parameters` and `result` are hashes of JSON Schemas, pulled on demand."""

    KEYS: ClassVar[dict[str, int]] = {
        "name": 1, "description": 2, "parameters": 3, "result": 4, "repeatable": 5, "timeout_ms": 6, "stream": 7,
        "parameter_item": 8, "task_ms": 9,
    }  # fmt: skip
    name: Text
    description: LongText = ""
    parameters: Hash | None = None
    result: Hash | None = None
    repeatable: bool = False
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None
    """Synchronous limit of a call that names none."""
    stream: StreamField = 0
    """If results are a stream, `result` is the schema of one item."""
    parameter_item: Hash | None = None
    """Hash of the schema of one item, if parameters are a stream."""
    task_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None
    """Deadline of a call that goes on as a task."""
    extensions: Extensions = {}


class Claim(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What a node says of its right to an exclusive agent (docs/protocol/claims.md)."""

    epoch: ClaimEpoch
    """The claim epoch that it holds, or 0: it stands by."""
    highest: ClaimEpoch
    """The highest epoch of this agent that it had heard of when it signed, its own included."""


class AgentRecord(Fact, frozen=True, kw_only=True):
    """One agent as one node offers it, or its withdrawal (a tombstone). Signed by `node`.

    `version` is the life's registry counter when this was said; `issued_at` starts the retention of a tombstone.
    """

    PURPOSE = "record"
    KEYS: ClassVar[dict[str, int]] = {
        "node": 1, "life": 2, "version": 3, "agent": 4, "withdrawn": 5, "issued_at": 6, "agent_version": 7,
        "description": 8, "owner": 9, "capabilities": 10, "tags": 11, "weight_percent": 12, "access": 13, "limits": 14,
        "callers": 15, "candidate_percent": 16, "claim": 19, "topics": 20,
    }  # fmt: skip
    node: NodeIdField
    life: Life
    version: Counter
    agent: Text
    issued_at: WallTime
    withdrawn: bool = False
    agent_version: Annotated[str, Meta(max_length=64)] = "0.0.0"
    description: LongText = ""
    owner: Text = ""
    capabilities: Annotated[list[Capability], Meta(max_length=64)] = []
    tags: Annotated[dict[str, str], Meta(max_length=32)] = {}
    weight_percent: Annotated[int, Meta(ge=10, le=1_000)] = 100
    """Weight 0.1 to 10, as an integer so that the encoding is canonical."""
    access: Annotated[int, Meta(ge=0, le=2)] = 0
    """0 public, 1 restricted, 2 private."""
    limits: dict[str, Any] = {}
    callers: Annotated[list[Text], Meta(max_length=64)] = []
    """Who may call a restricted agent: namespaces, agent ids, NodeIds in hex."""
    candidate_percent: Annotated[int, Meta(ge=0, le=100)] | None = None
    """Of a release candidate: its share of the calls."""
    claim: Claim | None = None
    """Of an exclusive agent, also when it is withdrawn; None of all others."""
    topics: Annotated[list[Text], Meta(max_length=PATTERNS_MAX)] = []
    """Patterns of the topics whose events this node wants for this agent (docs/protocol/events.md)."""


class RulesRecord(Fact, frozen=True, kw_only=True):
    """A rule set for the whole cluster. Signed by its `author`; of two the higher (version, author, digest) counts."""

    PURPOSE = "rules"
    KEYS: ClassVar[dict[str, int]] = {"author": 1, "version": 2, "issued_at": 3, "rules": 4, "comment": 5}
    author: NodeIdField
    version: Counter
    issued_at: WallTime
    """For people; nothing is judged by it."""
    rules: Annotated[bytes, Meta(min_length=1, max_length=32_768)]
    """Deterministic CBOR of its own, so that a version which does not know every word of it can pass it on."""
    comment: Text = ""
