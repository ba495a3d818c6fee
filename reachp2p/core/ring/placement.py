"""Placement: how instances and keys become positions on the ring (Karger et al. 1997), pinned bit for bit.

Every node computes placement alone, so every process, Python version and platform must compute the same: nothing here
depends on `hash()`, on byte order or on history. The bytes are written down in docs/protocol/placement.md and pinned by
tests/unit/ring/golden.json, which an independent implementation made (tests/unit/ring/reference.py).

To change placement (other bytes, another digest, another rounding): raise `PLACEMENT_VERSION`, change the document and
the reference, let the reference write a new golden file, and keep the former version selectable while a cluster may
hold nodes of both, because keys move wherever two nodes place differently. The version is part of every hashed string
and of the fingerprint, so nodes of different versions can never agree by accident.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from struct import Struct
from typing import TypeAlias

from reachp2p.core.ids import NODE_ID_BYTES, NodeId

PLACEMENT_VERSION = 1

InstanceKey: TypeAlias = tuple[NodeId, str]
"""An instance: one agent (by id) on one node. Ordered by node, then by the code points of the agent id."""

WEIGHT_PERCENT_MIN = 10
WEIGHT_PERCENT_MAX = 1_000
"""Weights are 0.1 to 10, kept as integers of 1/100 so that no float rounding decides a placement."""

_VERSION_BYTES = PLACEMENT_VERSION.to_bytes(2, "big")
_EIGHT = Struct(">8Q").unpack
_WEIGHT = Struct(">H").pack
_COUNTS = Struct(">IQ").pack
_TOKEN, _KEY, _RING = b"reachp2p token", b"reachp2p key", b"reachp2p ring"
"""BLAKE2b personalisation: a token, a key and a fingerprint never hash the same string."""
_KEY_BASE = blake2b(_VERSION_BYTES, digest_size=8, person=_KEY)
"""Copied for each key: half the time of a digest set up anew, and this is paid by every keyed call."""


def token_count(virtual_nodes: int, weight_percent: int) -> int:
    """Tokens of one instance: `virtual_nodes` times its weight, rounded half up, at least 1."""
    assert WEIGHT_PERCENT_MIN <= weight_percent <= WEIGHT_PERCENT_MAX, weight_percent
    return max(1, (virtual_nodes * weight_percent + 50) // 100)


def instance_tokens(instance: InstanceKey, count: int) -> list[int]:
    """The first `count` tokens of an instance, each 0 to 2**64 - 1, unsorted; fewer are a prefix of more.

    One BLAKE2b-512 digest gives eight tokens: 15 µs for 150 of them, an eighth of a digest each.
    """
    node, agent = instance
    assert len(node) == NODE_ID_BYTES, "the node's fixed width keeps the hashed string unambiguous"
    base = blake2b(_VERSION_BYTES + node + _utf8(agent), digest_size=64, person=_TOKEN)
    tokens: list[int] = []
    for block in range((count + 7) // 8):
        digest = base.copy()
        digest.update(block.to_bytes(4, "big"))
        tokens += _EIGHT(digest.digest())
    del tokens[count:]
    return tokens


def key_position(key: str) -> int:
    """Where a routing key lies on the circle, 0 to 2**64 - 1. The first token at or after it is the owner's."""
    digest = _KEY_BASE.copy()
    digest.update(_utf8(key))
    return int.from_bytes(digest.digest(), "big")


def fingerprint(weights: Mapping[InstanceKey, int], virtual_nodes: int) -> str:
    """16 hex digits over exactly what decides placement: version, virtual nodes, instances and weights (percent).

    Equal fingerprints: equal owners of all keys. Health, load, names and versions are left out on purpose (a flapping
    bystander must not look like a disagreement). About 1 ms for 1,000 instances; in any order.
    """
    digest = blake2b(_VERSION_BYTES + _COUNTS(virtual_nodes, len(weights)), digest_size=8, person=_RING)
    for instance in sorted(weights):
        node, agent = instance
        name = _utf8(agent)
        digest.update(node + _WEIGHT(weights[instance]) + _WEIGHT(len(name)) + name)
    return digest.hexdigest()


def _utf8(text: str) -> bytes:
    """Stable bytes of any string a caller may hold: a lone surrogate is a poor key, not an exception."""
    return text.encode("utf-8", "surrogatepass")
