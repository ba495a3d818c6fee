"""What a datagram or frame carries, told from its bytes: kinds of messages, their sizes, and whom they speak of.

Only a recorder reads messages from outside; nothing that happens in a run depends on it. Bytes that are no messages (a
corrupted datagram, a forged one) have the kind `unreadable`.
"""

from __future__ import annotations

from typing import Any

import cbor2

from reachp2p.core.trust.signer import SIGNATURE_BYTES
from reachp2p.core.wire.cose import parse1
from reachp2p.core.wire.datagram import HEADER_BYTES
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import MESSAGES, WIRE_VERSION

UNREADABLE = "unreadable"
OVERHEAD = "header and signature"
"""The kind under which the bytes of a datagram count that belong to none of its messages."""
FRAMING = "framing"
"""The same for frames."""

FAMILIES: dict[str, tuple[str, ...]] = {
    "lives": ("Challenge", "ChallengeAnswer", "ContactRequest", "ContactAnswer"),
    "news": ("HeadUpdate", "AccusationUpdate", "RecordUpdate", "HeadRequest", "RulesNotice"),
    "sync": ("SyncOffer", "SyncDigest", "SyncWant", "SyncDelta", "SyncEnd"),
    "calls": ("Request", "Reply", "Cancel", "SchemaWant", "SchemaBodies", "HopWant", "HopPage"),
    "rules": ("RulesList", "RulesWant", "RulesBodies"),
    "links": ("Hello", "HelloProof", "Goodbye", "Chunk"),
    "probes": ("Ping", "Ack", "PingReq", "Nack", "RelayedAck"),
}
"""Kinds by what they are for. A datagram with several messages is of the first family here that one of them is of."""

_NAMES = {kind.NUMBER: kind.__name__ for kind in MESSAGES}
_FAMILY = {kind: family for family, kinds in FAMILIES.items() for kind in kinds}
_SUBJECT_KEY = {"HeadUpdate": 1, "AccusationUpdate": 2, "RecordUpdate": 1}
"""Where the signed fact in a message names its subject (docs/protocol/wire.cddl)."""
_PINGREQ_TARGET = 2
_OPENING = bytes((WIRE_VERSION,))
"""The first frame of a link has a wire version before its message."""


def family(kinds: tuple[str, ...]) -> str:
    """The family that a datagram or frame with these kinds is shown as; `other` for none that is known."""
    found = {_FAMILY.get(kind, "other") for kind in kinds}
    return next((name for name in FAMILIES if name in found), "other")


def read(data: Any, is_frame: bool) -> list[tuple[str, int, Any]]:
    """Kind, size in bytes and content of each message in a datagram's or frame's bytes."""
    body = data[data[:1] == _OPENING :] if is_frame else data[HEADER_BYTES:-SIGNATURE_BYTES]
    try:
        items = cbor2.loads(body)
        if len(items) == 1:  # most: the array's head is one byte, the rest is the message
            number, fields = items[0]
            return [(_NAMES.get(number, f"number {number}"), len(body) - 1, fields)]
        return [
            (_NAMES.get(number, f"number {number}"), len(cbor2.dumps((number, fields))), fields)
            for number, fields in items
        ]
    except (cbor2.CBORDecodeError, cbor2.CBOREncodeError, TypeError, ValueError):
        return [(UNREADABLE, len(body), None)]


def subject(kind: str, fields: Any) -> bytes | None:
    """The NodeId that a message speaks of, or None if it speaks of none or cannot be read."""
    try:
        if kind == "PingReq":
            node = fields[_PINGREQ_TARGET]
        elif kind in _SUBJECT_KEY:
            node = cbor2.loads(parse1(fields[1]).payload)[_SUBJECT_KEY[kind]]
        else:
            return None
    except (WireError, cbor2.CBORDecodeError, KeyError, TypeError, ValueError):
        return None
    return node if isinstance(node, bytes) else None
