"""COSE_Sign1 (RFC 9052 §4.2), untagged, EdDSA only: how everything that must convince others later is signed.

One object has one form: the array [protected {1: -8}, unprotected {}, payload, signature of 64 bytes] in
deterministic CBOR. Because everything but the payload has a fixed size, reading compares bytes with a constant
instead of parsing; any other form (another algorithm, a header more, a longer way to write a length) is refused.
The external data carry purpose and cluster, which therefore cost no bytes (RFC 9052 §4.3).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reachp2p.core.wire.limits import WireError

PROTECTED = b"\xa1\x01\x27"
"""{1: -8}: algorithm EdDSA (RFC 9053 §2.2)."""
SIGNATURE_BYTES = 64

_START = b"\x84" + b"\x43" + PROTECTED + b"\xa0"
_SIGNATURE_HEAD = b"\x58\x40"
_CONTEXT = b"\x84" + b"\x6aSignature1"
_SHORT_HEADS = tuple(bytes((head,)) for head in range(256))


class Parsed(msgspec.Struct, frozen=True, gc=False):
    """The parts of a COSE_Sign1 object, not yet verified."""

    payload: bytes
    signature: bytes
    protected: bytes


def sign1(payload: bytes, external: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """The COSE_Sign1 object over `payload` and `external`; `sign` is called once with the bytes to be signed."""
    signature = sign(to_be_signed(PROTECTED, external, payload))
    return b"".join((_START, byte_string_head(len(payload)), payload, _SIGNATURE_HEAD, signature))


def parse1(data: bytes) -> Parsed:
    """Take a COSE_Sign1 object apart. Raises `WireError` ("cose") for any form but the one `sign1` makes."""
    start = len(_START)
    if not data.startswith(_START) or len(data) <= start:
        raise WireError("cose", "not a COSE_Sign1 object with EdDSA and no other header")
    info = data[start] - 0x40
    if 0 <= info < 24:
        begin = start + 1
        length = info
    elif 24 <= info <= 26:
        begin = start + 1 + (1 << (info - 24))
        length = int.from_bytes(data[start + 1 : begin], "big")
    else:
        raise WireError("cose", "the payload is not a byte string")
    end = begin + length
    if (
        len(data) != end + len(_SIGNATURE_HEAD) + SIGNATURE_BYTES
        or data[start:begin] != byte_string_head(length)
        or not data.startswith(_SIGNATURE_HEAD, end)
    ):
        raise WireError("cose", "payload or signature have another size than declared")
    return Parsed(data[begin:end], data[-SIGNATURE_BYTES:], PROTECTED)


def to_be_signed(protected: bytes, external: bytes, payload: bytes) -> bytes:
    """Sig_structure (RFC 9052 §4.4): ["Signature1", protected, external, payload] in deterministic CBOR."""
    start = before_external(protected, len(external))
    return b"".join((start, external, byte_string_head(len(payload)), payload))


def before_external(protected: bytes, length: int) -> bytes:
    """A Sig_structure as far as its external data, which has `length` bytes: the same for all of one kind."""
    return b"".join((_CONTEXT, byte_string_head(len(protected)), protected, byte_string_head(length)))


def byte_string_head(length: int) -> bytes:
    """The shortest CBOR head of a byte string (RFC 8949 §4.2.1)."""
    return _BYTE_STRING_HEADS[length] if length < _HEADS_READY else head(0x40, length)


def head(major: int, argument: int) -> bytes:
    """The shortest CBOR head with this major type (in the upper three bits) and argument."""
    if argument < 24:
        return _SHORT_HEADS[major | argument]
    if argument < 0x100:
        return bytes((major | 24, argument))
    if argument < 0x10000:
        return bytes((major | 25,)) + argument.to_bytes(2, "big")
    if argument < 0x100000000:
        return bytes((major | 26,)) + argument.to_bytes(4, "big")
    return bytes((major | 27,)) + argument.to_bytes(8, "big")


_HEADS_READY = 2_048
"""Lengths whose heads are made beforehand: all that fits into a datagram."""
_BYTE_STRING_HEADS = tuple(head(0x40, length) for length in range(_HEADS_READY))
