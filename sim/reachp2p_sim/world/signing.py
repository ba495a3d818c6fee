"""Signers for the simulator: a keyed hash by default, real Ed25519 by switch.

A simulated run signs and verifies thousands of facts a second, and Ed25519 at 30 to 110 µs each would be most of it.
The keyed hash has the same sizes and the same failure: without the node's secret nobody can make a
signature that the verifier accepts. The verifier is an oracle that knows all secrets, which only a simulator can have.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest
from typing import Protocol

from reachp2p.core.ids import NODE_ID_BYTES, NodeId
from reachp2p.core.trust.signer import SIGNATURE_BYTES, Signer, Verifier
from reachp2p_sim.world.randomness import Randomness


class Signing(Protocol):
    """Makes keys, and verifies what they sign."""

    @property
    def verifier(self) -> Verifier:
        """The verifier that all nodes share. It keeps no memory, so nodes share no cache."""

    def signer(self, name: str) -> Signer:
        """The signer with the key of this name; the same name has the same key."""


class KeyedHashSigning:
    """Signatures are BLAKE2b-512 under a secret that the verifier looks up by NodeId."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._secrets: dict[NodeId, bytes] = {}

    @property
    def verifier(self) -> Verifier:
        """This object."""
        return self

    def signer(self, name: str) -> Signer:
        """Derive the key of `name` from the run seed."""
        secret = self._randomness.entropy("key", name).token(32)
        node = NodeId(blake2b(secret, digest_size=NODE_ID_BYTES, person=b"node id").digest())
        self._secrets[node] = secret
        return KeyedHashSigner(node, secret)

    def verify(self, node: NodeId, signature: bytes, data: bytes, /) -> bool:
        """Whether the holder of `node`'s secret signed `data`; an unknown node signs nothing."""
        secret = self._secrets.get(node)
        return secret is not None and compare_digest(signature, _keyed_hash(secret, data))


class KeyedHashSigner:
    """Holds one secret."""

    def __init__(self, node: NodeId, secret: bytes) -> None:
        self._node = node
        self._secret = secret

    @property
    def node(self) -> NodeId:
        """The id that the verifier finds the secret by."""
        return self._node

    def sign(self, data: bytes, /) -> bytes:
        """64 bytes."""
        return _keyed_hash(self._secret, data)


def _keyed_hash(secret: bytes, data: bytes) -> bytes:
    return blake2b(data, key=secret, digest_size=SIGNATURE_BYTES).digest()


class Ed25519Signing:
    """The signatures that ship, with keys from the run seed. Loaded when it is asked for: most runs do without."""

    def __init__(self, randomness: Randomness) -> None:
        from reachp2p.core.trust.ed25519 import Ed25519Signer, Ed25519Verifier

        self._randomness = randomness
        self._signer = Ed25519Signer
        self._verifier = Ed25519Verifier()

    @property
    def verifier(self) -> Verifier:
        """The one that ships; it keeps no memory."""
        return self._verifier

    def signer(self, name: str) -> Signer:
        """Derive the key of `name` from the run seed."""
        return self._signer(self._randomness.entropy("key", name).token(32))
