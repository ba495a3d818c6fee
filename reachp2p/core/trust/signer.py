"""Who signs and who checks: passed in, so that the simulator can use a keyed hash."""

from __future__ import annotations

from typing import Protocol

from reachp2p.core.ids import NodeId

SIGNATURE_BYTES = 64


class Signer(Protocol):
    """Holds one node's private key."""

    @property
    def node(self) -> NodeId:
        """The public key, which is the node's id."""

    def sign(self, data: bytes, /) -> bytes:
        """64 bytes: the signature over `data`."""


class Verifier(Protocol):
    """Checks signatures of any node."""

    def verify(self, node: NodeId, signature: bytes, data: bytes, /) -> bool:
        """Whether `signature` over `data` was made by `node`'s key. Never raises."""
