"""Ed25519 (RFC 8032) for real nodes, on `cryptography` (OpenSSL). The simulator brings a keyed hash instead.

One strict rule for every node (case B48): OpenSSL's cofactorless verification, which refuses S >= L and
any other encoding of R; we add that the public key is canonically encoded (y < p) and not of small order, because
under such a key anybody can make signatures that verify.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from reachp2p.core.ids import NODE_ID_BYTES, Entropy, NodeId
from reachp2p.core.trust.signer import SIGNATURE_BYTES

PRIVATE_KEY_BYTES = 32


def generate_key(entropy: Entropy) -> bytes:
    """A fresh private key."""
    return entropy.token(PRIVATE_KEY_BYTES)


class Ed25519Signer:
    """One node's private key (32 bytes, RFC 8032 §5.1.5). Raises `ValueError` if `private` has another size."""

    def __init__(self, private: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self._node = NodeId(self._key.public_key().public_bytes_raw())

    @property
    def node(self) -> NodeId:
        """The public key, which is the node's id."""
        return self._node

    def sign(self, data: bytes, /) -> bytes:
        """The signature over `data`; about 35 µs."""
        return self._key.sign(data)


class Ed25519Verifier:
    """Checks signatures of any node, about 120 µs each. Bytes that cannot be a key fail like a bad signature."""

    def verify(self, node: NodeId, signature: bytes, data: bytes, /) -> bool:
        """Whether `signature` over `data` was made by `node`'s key. Never raises."""
        if len(signature) != SIGNATURE_BYTES or not is_strong_key(node):
            return False
        try:
            # Loading the key is 3 of the 120 µs: not worth a table of keys.
            Ed25519PublicKey.from_public_bytes(node).verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True


def is_strong_key(node: bytes) -> bool:
    """Whether these bytes can be a node's id: 32 bytes, canonical, not a point of small order."""
    if len(node) != NODE_ID_BYTES:
        return False
    y = int.from_bytes(node, "little") & _Y_MASK
    return y < _P and y not in _SMALL_ORDER_Y


_P = 2**255 - 19
_Y_MASK = 2**255 - 1
_ORDER_8_Y = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
_SMALL_ORDER_Y = (0, 1, _P - 1, _ORDER_8_Y, _P - _ORDER_8_Y)
"""The y of the eight points of small order: order 4, 1, 2, and twice order 8 (their x only differ in sign)."""
