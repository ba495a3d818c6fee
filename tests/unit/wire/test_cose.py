"""COSE_Sign1 by hand, against pycose as an oracle in both directions."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest
from pycose.algorithms import EdDSA
from pycose.headers import Algorithm
from pycose.keys.curves import Ed25519
from pycose.keys.okp import OKPKey
from pycose.messages.sign1message import Sign1Message

from reachp2p.core.trust.ed25519 import Ed25519Signer, Ed25519Verifier
from reachp2p.core.wire.cose import PROTECTED, SIGNATURE_BYTES, Parsed, parse1, sign1, to_be_signed
from reachp2p.core.wire.limits import WireError

PRIVATE = bytes(range(32))
SIGNER = Ed25519Signer(PRIVATE)
EXTERNAL = b"reachp2p head\x00demo"
SIZES = [0, 1, 23, 24, 255, 256, 65_535, 65_536]


def no_signature(data: bytes) -> bytes:
    """64 bytes in its place."""
    return b"s" * SIGNATURE_BYTES


def oracle(data: bytes, external: bytes) -> Any:
    """Our bytes as pycose's message, with our public key (tag 18, on which its `decode` insists, is not sent)."""
    message: Any = Sign1Message.from_cose_obj(cbor2.loads(data), allow_unknown_attributes=False)
    message.external_aad = external
    message.key = oracle_key(private=False)
    return message


def oracle_key(*, private: bool) -> Any:
    """Our key as pycose's."""
    return OKPKey(crv=Ed25519, x=SIGNER.node, d=PRIVATE if private else b"")


@pytest.mark.parametrize("size", SIZES)
def test_pycose_verifies_what_we_sign(size: int) -> None:
    message = oracle(sign1(b"p" * size, EXTERNAL, SIGNER.sign), EXTERNAL)
    assert message.payload == b"p" * size
    assert message.verify_signature()


def test_pycose_refuses_it_for_another_purpose() -> None:
    data = sign1(b"payload", EXTERNAL, SIGNER.sign)
    assert not oracle(data, b"reachp2p record\x00demo").verify_signature()


@pytest.mark.parametrize("size", [1, 24, 256, 65_536])
def test_we_verify_what_pycose_signs(size: int) -> None:
    message = Sign1Message(phdr={Algorithm: EdDSA}, payload=b"p" * size, external_aad=EXTERNAL)
    message.key = oracle_key(private=True)
    data = message.encode(tag=False)
    parsed = parse1(data)
    assert parsed.payload == b"p" * size
    signed = to_be_signed(parsed.protected, EXTERNAL, parsed.payload)
    assert Ed25519Verifier().verify(SIGNER.node, parsed.signature, signed)
    assert data == sign1(b"p" * size, EXTERNAL, SIGNER.sign)


@pytest.mark.parametrize("size", SIZES)
def test_any_payload_comes_back(size: int) -> None:
    payload = b"p" * size
    assert parse1(sign1(payload, EXTERNAL, no_signature)) == Parsed(payload, b"s" * 64, PROTECTED)


GOOD = sign1(b"payload", EXTERNAL, no_signature)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GOOD[:6],
        GOOD[:7],
        GOOD[:-1],
        GOOD + b"\x00",
        b"\xd2" + GOOD,
        b"\x83" + GOOD[1:],
        GOOD.replace(b"\xa1\x01\x27", b"\xa1\x01\x26"),
        GOOD.replace(b"\x43\xa1\x01\x27", b"\x44\xa1\x01\x38\x07"),
        GOOD.replace(b"\x43\xa1\x01\x27", b"\x58\x03\xa1\x01\x27"),
        GOOD.replace(b"\x27\xa0", b"\x27\xa1\x04\x41k"),
        GOOD.replace(b"\x47payload", b"\x58\x07payload"),
        GOOD.replace(b"\x47payload", b"\x59\x00\x07payload"),
        GOOD.replace(b"\x47payload", b"\x67payload"),
        GOOD.replace(b"\x47payload", b"\xf6"),
        GOOD.replace(b"\x47payload", b"\x5fpayload"),
        GOOD.replace(b"\x47payload", b"\x46payload"),
        GOOD.replace(b"\x47payload", b"\x5b" + b"\xff" * 8),
        GOOD.replace(b"\x58\x40", b"\x59\x00\x40"),
        GOOD.replace(b"\x58\x40s", b"\x58\x3f"),
    ],
)
def test_any_other_form_is_refused(data: bytes) -> None:
    assert data != GOOD
    with pytest.raises(WireError, match="cose"):
        parse1(data)
