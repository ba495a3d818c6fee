"""One UDP payload: a clear header, a body of messages, a signature (docs/protocol/wire.md).

    0        1      2            6            38     44       60       68                n-64        n
    +--------+------+------------+------------+------+--------+--------+- - - - - - - - -+-----------+
    |version |flags |cluster tag | NodeId     |epoch |life id |counter | body            | signature |
    +--------+------+------------+------------+------+--------+--------+- - - - - - - - -+-----------+

The sender signs cluster id, header, body and, when the datagram is addressed, the NodeId of the one it is meant for,
which therefore costs no bytes. The bytes signed are COSE's Sig_structure (RFC 9052 §4.4) with the body as payload.

Sealing comes in a later issue, here: with flag SEALED, what follows the header is body and signature, encrypted with
ChaCha20-Poly1305 under a key of (gossip key, NodeId, epoch, life id), nonce = counter, the header as associated data.
The header has all it needs already; until then a sealed datagram is refused by its flag.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import msgspec

from reachp2p.core.ids import LIFE_ID_BYTES, NODE_ID_BYTES, Life, NodeId
from reachp2p.core.wire.cose import PROTECTED, SIGNATURE_BYTES, to_be_signed
from reachp2p.core.wire.limits import DATAGRAM_BYTES_MAX, WireError
from reachp2p.core.wire.messages import WIRE_VERSION

ADDRESSED = 0x01
"""Flag: the signature names the audience; nobody else accepts the datagram."""
SEALED = 0x02
"""Flag reserved for sealing."""
CLUSTER_TAG_BYTES = 4
HEADER_BYTES = 68
OVERHEAD_BYTES = HEADER_BYTES + SIGNATURE_BYTES
BODY_BYTES_MAX = DATAGRAM_BYTES_MAX - OVERHEAD_BYTES

_NODE = 2 + CLUSTER_TAG_BYTES
_EPOCH = _NODE + NODE_ID_BYTES
_LIFE_ID = _EPOCH + 6
_COUNTER = _LIFE_ID + LIFE_ID_BYTES


class Datagram(msgspec.Struct, frozen=True, gc=False):
    """A datagram taken apart, not yet verified. `header` holds its exact first 68 bytes."""

    addressed: bool
    cluster_tag: bytes
    node: NodeId
    life: Life
    counter: int
    header: bytes
    body: bytes
    signature: bytes

    def signed_bytes(self, cluster_id: str, audience: NodeId) -> bytes:
        """What `node` has signed if this datagram is of `cluster_id` and, when addressed, meant for `audience`."""
        return _to_be_signed(cluster_id, self.header, audience if self.addressed else b"", self.body)


def cluster_tag(cluster_id: str) -> bytes:
    """Four bytes that tell clusters apart at a glance; the whole id is under the signature."""
    return blake2b(cluster_id.encode(), digest_size=CLUSTER_TAG_BYTES, person=b"reachp2p cluster").digest()


def pack_datagram(
    *,
    cluster_id: str,
    node: NodeId,
    life: Life,
    counter: int,
    body: bytes,
    audience: NodeId | None,
    sign: Callable[[bytes], bytes],
) -> bytes:
    """Header, body and signature. `body` is what `codec.pack_messages` made, at most `BODY_BYTES_MAX` bytes.

    Raises `ValueError` if `body` is empty or longer: the packer counts.
    """
    if not 0 < len(body) <= BODY_BYTES_MAX:
        raise ValueError(f"a datagram's body has 1 to {BODY_BYTES_MAX} bytes, not {len(body)}")
    header = b"".join(
        (
            bytes((WIRE_VERSION, 0 if audience is None else ADDRESSED)),
            cluster_tag(cluster_id),
            node,
            life.epoch.to_bytes(6, "big"),
            life.life_id,
            counter.to_bytes(8, "big"),
        )
    )
    return header + body + sign(_to_be_signed(cluster_id, header, audience or b"", body))


def parse_datagram(data: bytes) -> Datagram:
    """Take a datagram apart without looking into its body or verifying it.

    Raises `WireError`: `oversized`, `truncated`, `wire_version` (before anything else of the layout) or `flags`.
    """
    if len(data) > DATAGRAM_BYTES_MAX:
        raise WireError("oversized")
    if not data:
        raise WireError("truncated")
    if data[0] != WIRE_VERSION:
        raise WireError("wire_version")
    if len(data) <= OVERHEAD_BYTES:
        raise WireError("truncated")
    flags = data[1]
    if flags & ~ADDRESSED:
        raise WireError("flags")
    return Datagram(
        addressed=bool(flags & ADDRESSED),
        cluster_tag=data[2:_NODE],
        node=NodeId(data[_NODE:_EPOCH]),
        life=Life(int.from_bytes(data[_EPOCH:_LIFE_ID], "big"), data[_LIFE_ID:_COUNTER]),
        counter=int.from_bytes(data[_COUNTER:HEADER_BYTES], "big"),
        header=data[:HEADER_BYTES],
        body=data[HEADER_BYTES:-SIGNATURE_BYTES],
        signature=data[-SIGNATURE_BYTES:],
    )


def _to_be_signed(cluster_id: str, header: bytes, audience: bytes, body: bytes) -> bytes:
    # Header and audience have sizes that the header itself tells, so only one cluster id fits what is signed.
    external = b"".join((b"reachp2p datagram\x00", header, audience, cluster_id.encode()))
    return to_be_signed(PROTECTED, external, body)
