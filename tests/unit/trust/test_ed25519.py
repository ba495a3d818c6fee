"""Strict Ed25519: one rule for every node, and no input that raises."""

from __future__ import annotations

import pytest

from reachp2p.core.ids import NodeId
from reachp2p.core.trust.ed25519 import Ed25519Signer, Ed25519Verifier, generate_key, is_strong_key

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
VERIFIER = Ed25519Verifier()

# RFC 8032 §7.1, TEST 2
SECRET = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
SIGNATURE = bytes.fromhex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)

SMALL_ORDER = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
]
"""All eight points (Chalkias, Garillot, Nikolaenko: Taming the many EdDSAs, table 1)."""


class Zeros:
    """Entropy that is none."""

    def token(self, size: int, /) -> bytes:
        return bytes(size)


def test_the_vector_of_rfc_8032() -> None:
    signer = Ed25519Signer(SECRET)
    assert signer.node == PUBLIC
    assert signer.sign(b"\x72") == SIGNATURE
    assert VERIFIER.verify(NodeId(PUBLIC), SIGNATURE, b"\x72")


def test_a_key_is_32_bytes_of_entropy() -> None:
    assert generate_key(Zeros()) == bytes(32)
    with pytest.raises(ValueError, match="32"):
        Ed25519Signer(b"short")


def test_any_changed_bit_is_a_bad_signature() -> None:
    for position in range(64):
        wrong = bytearray(SIGNATURE)
        wrong[position] ^= 1
        assert not VERIFIER.verify(NodeId(PUBLIC), bytes(wrong), b"\x72")
    assert not VERIFIER.verify(NodeId(PUBLIC), SIGNATURE, b"\x73")


def test_a_signature_has_one_form() -> None:
    s = int.from_bytes(SIGNATURE[32:], "little") + ORDER
    assert not VERIFIER.verify(NodeId(PUBLIC), SIGNATURE[:32] + s.to_bytes(32, "little"), b"\x72")


@pytest.mark.parametrize("key", SMALL_ORDER)
def test_keys_under_which_anybody_can_sign_are_no_keys(key: str) -> None:
    node = NodeId(bytes.fromhex(key))
    assert not is_strong_key(node)
    identity = bytes.fromhex(SMALL_ORDER[0])
    for data in (
        bytes((n,)) for n in range(16)
    ):  # a forgery for one message in eight, if such keys were accepted
        assert not VERIFIER.verify(node, identity + bytes(32), data)


@pytest.mark.parametrize("y", [P, P + 1, P + 2, 2**255 - 1])
def test_keys_that_are_not_canonical_are_no_keys(y: int) -> None:
    assert not is_strong_key(y.to_bytes(32, "little"))
    assert not is_strong_key((y | 1 << 255).to_bytes(32, "little"))


@pytest.mark.parametrize("node", [b"", b"x" * 31, b"x" * 33, b"\x02" + bytes(31), b"\xff" * 32])
@pytest.mark.parametrize("signature", [b"", b"s" * 63, b"s" * 64, b"s" * 65, b"\xff" * 64])
def test_no_bytes_raise(node: bytes, signature: bytes) -> None:
    assert VERIFIER.verify(NodeId(node), signature, b"data") is False


def test_ordinary_keys_are_strong() -> None:
    for n in range(50):
        assert is_strong_key(Ed25519Signer(bytes((n,)) * 32).node)
