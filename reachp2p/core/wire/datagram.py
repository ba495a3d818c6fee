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
from reachp2p.core.wire.cose import PROTECTED, SIGNATURE_BYTES, before_external, byte_string_head
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
_PURPOSE = b"reachp2p datagram\x00"
_STARTS = (bytes((WIRE_VERSION, 0)), bytes((WIRE_VERSION, ADDRESSED)))
"""How a datagram begins that may be taken."""


class Datagram(msgspec.Struct, frozen=True, gc=False):
    """A datagram taken apart, not yet verified. `header` holds its exact first 68 bytes."""

    header: bytes
    node: NodeId
    life: Life
    body: bytes
    signature: bytes

    @property
    def addressed(self) -> bool:
        """Whether the signature names the audience."""
        return bool(self.header[1] & ADDRESSED)

    @property
    def cluster_tag(self) -> bytes:
        """Which cluster it says to be of."""
        return self.header[2:_NODE]

    @property
    def counter(self) -> int:
        """How many datagrams of this life came before, and this one."""
        return int.from_bytes(self.header[_COUNTER:], "big")


def cluster_tag(cluster_id: str) -> bytes:
    """Four bytes that tell clusters apart at a glance; the whole id is under the signature."""
    return blake2b(cluster_id.encode(), digest_size=CLUSTER_TAG_BYTES, person=b"reachp2p cluster").digest()


class _Seal:
    """The bytes that are signed, for one cluster: COSE's Sig_structure, of which most is the same each time."""

    __slots__ = ("_addressed", "_cluster", "_to_all")

    def __init__(self, cluster_id: str) -> None:
        self._cluster = cluster_id.encode()
        length = len(_PURPOSE) + HEADER_BYTES + len(self._cluster)
        self._to_all = before_external(PROTECTED, length) + _PURPOSE
        self._addressed = before_external(PROTECTED, length + NODE_ID_BYTES) + _PURPOSE

    def signed_bytes(self, header: bytes, audience: NodeId | None, body: bytes) -> bytes:
        """What the sender signs."""
        # Header and audience have sizes that the header itself tells, so only one cluster id fits what is signed.
        length = byte_string_head(len(body))
        if audience is None:
            return b"".join((self._to_all, header, self._cluster, length, body))
        return b"".join((self._addressed, header, audience, self._cluster, length, body))


class DatagramWriter:
    """Makes the datagrams of one life. What is the same in all of them is made once."""

    __slots__ = ("_addressed", "_seal", "_sign", "_to_all", "counter")

    def __init__(
        self, cluster_id: str, node: NodeId, life: Life, sign: Callable[[bytes], bytes], *, counter: int = 0
    ) -> None:
        """`counter`: how many were sent before in this life."""
        start = b"".join((cluster_tag(cluster_id), node, life.epoch.to_bytes(6, "big"), life.life_id))
        self._addressed = bytes((WIRE_VERSION, ADDRESSED)) + start
        self._to_all = bytes((WIRE_VERSION, 0)) + start
        self._seal = _Seal(cluster_id)
        self._sign = sign
        self.counter = counter

    def write(self, body: bytes, audience: NodeId | None) -> bytes:
        """Header, body and signature. `body` is what `codec.pack_messages` made, at most `BODY_BYTES_MAX` bytes.

        Raises `ValueError` if `body` is empty or longer: the packer counts.
        """
        if not 0 < len(body) <= BODY_BYTES_MAX:
            raise ValueError(f"a datagram's body has 1 to {BODY_BYTES_MAX} bytes, not {len(body)}")
        header = self.next_header(audience)
        return header + body + self._sign(self._seal.signed_bytes(header, audience, body))

    def next_header(self, audience: NodeId | None) -> bytes:
        """The header of the next datagram."""
        self.counter += 1
        start = self._to_all if audience is None else self._addressed
        return start + self.counter.to_bytes(8, "big")


class DatagramReader:
    """Takes datagrams apart and verifies them, for one node. `verify(node, signature, data)` checks a signature."""

    __slots__ = ("_seal", "_tag", "_verify", "own")

    def __init__(self, cluster_id: str, own: NodeId, verify: Callable[[NodeId, bytes, bytes], bool]) -> None:
        self._seal = _Seal(cluster_id)
        self._tag = cluster_tag(cluster_id)
        self.own = own
        self._verify = verify

    def read(self, data: bytes, audience: NodeId | None = None) -> Datagram:
        """A datagram of this cluster that its sender has signed; if it is addressed, for `audience` (None: this node).

        Raises `WireError` as `parse_datagram` does, and with `cluster` or `bad_signature`.
        """
        datagram = parse_datagram(data)
        header, body = datagram.header, datagram.body
        self.check_cluster(header)
        reader = (audience or self.own) if header[1] & ADDRESSED else None
        signed = self._seal.signed_bytes(header, reader, body)
        if not self._verify(datagram.node, datagram.signature, signed):
            raise WireError("bad_signature")
        return datagram

    def check_cluster(self, header: bytes) -> None:
        """Raise `WireError` (`cluster`) if a datagram is of another cluster, as far as its tag tells."""
        if header[2:_NODE] != self._tag:
            raise WireError("cluster")


def parse_datagram(data: bytes) -> Datagram:
    """Take a datagram apart without looking into its body or verifying it.

    Raises `WireError`: `oversized`, `truncated`, `wire_version` (before anything else of the layout) or `flags`.
    """
    if not (OVERHEAD_BYTES < len(data) <= DATAGRAM_BYTES_MAX and data.startswith(_STARTS)):
        raise WireError(_why_not_taken(data))
    return Datagram(
        data[:HEADER_BYTES],
        NodeId(data[_NODE:_EPOCH]),
        Life(int.from_bytes(data[_EPOCH:_LIFE_ID], "big"), data[_LIFE_ID:_COUNTER]),
        data[HEADER_BYTES:-SIGNATURE_BYTES],
        data[-SIGNATURE_BYTES:],
    )


def _why_not_taken(data: bytes) -> str:
    if len(data) > DATAGRAM_BYTES_MAX:
        return "oversized"
    if not data:
        return "truncated"
    if data[0] != WIRE_VERSION:
        return "wire_version"
    if len(data) <= OVERHEAD_BYTES:
        return "truncated"
    return "flags"
