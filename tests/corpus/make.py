"""Makes the hostile files beside it, the same bytes every time: `python tests/corpus/make.py`.

A file is named `<what it does>.<reason>.<how it arrives>`: the reason is what it must be refused for, the ending says
which reader it is for (`cbor` the decoder, `body` a frame, `datagram`, `head`, `record`, `accusation`). Long files are
written once here and compared by the test, so that none can change unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cbor2

from reachp2p.core.ids import Life
from reachp2p.core.trust.ed25519 import Ed25519Signer
from reachp2p.core.trust.facts import external_data
from reachp2p.core.wire.codec import encode_fact, encode_message, pack_messages
from reachp2p.core.wire.cose import sign1
from reachp2p.core.wire.datagram import DatagramWriter
from reachp2p.core.wire.facts import Accusation, Head
from reachp2p.core.wire.messages import HeadUpdate, Ping

HERE = Path(__file__).parent
CLUSTER = "demo"
VICTIM = Ed25519Signer(b"\x01" * 32)
ATTACKER = Ed25519Signer(b"\x02" * 32)
LIFE = Life(5, b"l" * 16)
HEAD = Head(node=VICTIM.node, life=LIFE, incarnation=1, version=1, issued_at=1_700_000_000, valid_for=3_600)
ACCUSATION = Accusation(
    accuser=ATTACKER.node, subject=VICTIM.node, life=LIFE, incarnation=1, grade=0, issued_at=1_700_000_000
)
WIDE = {"2e53": 2**53, "2e63": 2**63, "2e64-1": 2**64 - 1}


def files() -> Iterator[tuple[str, bytes]]:
    """Name and content of each file."""
    yield from declared_lengths()
    yield from floods()
    yield from forbidden_forms()
    yield from wide_counters()
    yield from datagrams()


def declared_lengths() -> Iterator[tuple[str, bytes]]:
    """B61: ten bytes that declare a world."""
    for kind, major in (("bytes", 0x40), ("text", 0x60), ("array", 0x80), ("map", 0xA0)):
        for size, head in (
            ("2e31", b"\x1a\x80\x00\x00\x00"),
            ("2e40", b"\x1b\x00\x00\x01\x00\x00\x00\x00\x00"),
            ("2e64-1", b"\x1b" + b"\xff" * 8),
        ):
            data = bytes((head[0] | major,)) + head[1:]
            yield f"{kind}-of-{size}.truncated.cbor", data
            yield f"{kind}-of-{size}-inside.truncated.cbor", b"\x82\x01" + data + b"\x00" * 5_000
            yield f"{kind}-of-{size}.truncated.head", sign1(data, b"", no_signature)
            yield f"{kind}-of-{size}-in-ping.truncated.body", b"\x81\x82\x01\xa1\x01" + data


def floods() -> Iterator[tuple[str, bytes]]:
    """B63: much work in few bytes."""
    yield "nested-arrays-64k.depth.cbor", b"\x81" * 65_535 + b"\x80"
    yield "nested-arrays-4k.depth.cbor", b"\x81" * 4_095 + b"\x80"
    yield "nested-maps-64k.depth.cbor", b"\xa1\x00" * 32_767 + b"\xa0"
    yield "nested-keys-4k.bad_key.cbor", b"\xa1" * 4_095 + b"\x00"
    yield "nested-keys-64k.bad_key.cbor", b"\xa1" * 65_535 + b"\x00"
    yield "one-byte-elements-1m.elements.cbor", b"\x9a\x00\x0f\x42\x40" + b"\x00" * 1_000_000
    yield "one-byte-elements-split-1m.elements.cbor", b"\x98\xfa" + (b"\x99\x0f\x9f" + b"\x00" * 3_999) * 250
    yield "empty-arrays-64k.elements.cbor", b"\x99\xff\xf0" + b"\x80" * 0xFFF0
    yield "integer-100k.tag.cbor", b"\xc2\x5a\x00\x01\x86\xa0" + b"\xff" * 100_000
    yield "integer-4k.tag.cbor", b"\xc3\x59\x0f\xf0" + b"\xff" * 0xFF0
    yield "colliding-keys-array-64k.bad_key.cbor", colliding(4_600, b"\x82")
    yield "colliding-keys-map-64k.bad_key.cbor", colliding(4_600, b"\xa1")
    yield "shared-references.tag.cbor", b"\xd8\x1c\x82" + b"\xd8\x1d\x00" * 2
    yield "many-messages.messages.body", b"\x99\x3f\xf0" + b"\x80" * 0x3FF0
    yield "many-unknown-messages.messages.body", b"\x99\x10\x00" + b"\x82\x18\x1f\x80" * 4_096


def forbidden_forms() -> Iterator[tuple[str, bytes]]:
    """What is CBOR elsewhere, but not here."""
    yield "indefinite-array.indefinite.cbor", b"\x9f\x01\xff"
    yield "indefinite-text-64k.indefinite.cbor", b"\x7f" + b"\x61a" * 32_000 + b"\xff"
    yield "date.tag.cbor", b"\xc0\x74" + b"2013-03-21T20:04:00Z"
    yield "decimal.tag.cbor", b"\xc4\x82\x3a\x7f\xff\xff\xff\x01"
    yield "regular-expression.tag.cbor", b"\xd8\x23\x6a(a+)+(a+)+"
    yield "set-of-colliding.tag.cbor", b"\xd9\x01\x02\x82\x00\x01"
    yield "nested-tags-4k.tag.cbor", b"\xc6" * 4_095 + b"\x00"
    yield "bad-utf8.malformed.cbor", b"\x63\xed\xa0\x80"
    yield "duplicate-key.malformed.cbor", b"\xa2\x01\x01\x01\x02"
    yield "trailing.trailing.cbor", b"\x80\x00"
    yield "empty.truncated.cbor", b""
    yield "true-as-key-1.bad_key.body", cbor2.dumps([[1, {True: b"8 bytes."}]])
    yield "undefined.bad_field.body", cbor2.dumps([[1, {1: b"8 bytes.", 128: cbor2.undefined}]])
    head = cbor2.loads(encode_fact(HEAD))
    yield "keys-backwards.not_canonical.head", sign(VICTIM, "head", cbor2.dumps(dict(reversed(head.items()))))
    yield "unknown-key.unknown_key.head", sign(VICTIM, "head", cbor2.dumps(head | {99: 1}, canonical=True))


def wide_counters() -> Iterator[tuple[str, bytes]]:
    """B22: what would pin an ordering at its maximum, about a victim by an attacker, and by a careless subject."""
    head, accusation = cbor2.loads(encode_fact(HEAD)), cbor2.loads(encode_fact(ACCUSATION))
    for name, number in WIDE.items():
        fits = number < 2**63
        forged = cbor2.dumps(head | {3: number, 4: number}, canonical=True)
        reason = "bad_signature" if fits else "bad_field"
        yield f"forged-counters-{name}.{reason}.head", sign(ATTACKER, "head", forged)
        accused = cbor2.dumps(accusation | {4: number}, canonical=True)
        reason = "accepted" if fits else "bad_field"  # it may quote any number; it raises none
        yield f"accused-counter-{name}.{reason}.accusation", sign(ATTACKER, "accusation", accused)
        if not fits:
            yield f"own-counters-{name}.bad_field.head", sign(VICTIM, "head", forged)
            yield f"sync-counter-{name}.bad_field.body", cbor2.dumps([[44, {1: number}]])
    epoch = cbor2.dumps(head | {2: [2**48, b"l" * 16]}, canonical=True)
    yield "own-epoch-2e48.bad_field.head", sign(VICTIM, "head", epoch)


def datagrams() -> Iterator[tuple[str, bytes]]:
    """Datagrams that end before they are opened, and one whose body is hostile."""
    body = pack_messages(
        [
            encode_message(Ping(nonce=b"8 bytes.")),
            encode_message(HeadUpdate(head=sign(VICTIM, "head", encode_fact(HEAD)))),
        ]
    )
    good = DatagramWriter(CLUSTER, VICTIM.node, LIFE, VICTIM.sign).write(body, None)
    yield "empty.truncated.datagram", b""
    yield "header-only.truncated.datagram", good[:68]
    yield "no-body.truncated.datagram", good[:68] + good[-64:]
    yield "version-0.wire_version.datagram", b"\x00" + good[1:]
    yield "version-255.wire_version.datagram", b"\xff"
    yield "sealed.flags.datagram", good[:1] + b"\x02" + good[2:]
    yield "64k.oversized.datagram", good[:1] + b"\x00" * 65_506


def no_signature(data: bytes) -> bytes:
    """64 bytes in its place."""
    return b"s" * 64


def sign(signer: Ed25519Signer, purpose: str, payload: bytes) -> bytes:
    """Any payload, truly signed."""
    return sign1(payload, external_data(purpose, CLUSTER), signer.sign)


def colliding(count: int, container: bytes) -> bytes:
    """A map whose keys are pairs of integers with one hash in CPython: the second undoes what the first does.

    Its tuple hash is a chain of invertible steps (xxHash), without a secret.
    """
    mask = 2**64 - 1
    prime_1, prime_2, prime_5 = 11400714785074694791, 14029467366897019727, 2870177450012600261
    undo_1, undo_2 = pow(prime_1, -1, 2**64), pow(prime_2, -1, 2**64)
    wanted = 12_345
    before = (wanted * undo_1) & mask
    before = (before >> 31) | (before << 33) & mask
    entries: list[bytes] = []
    first = 0
    while len(entries) < count:
        accumulated = (prime_5 + first * prime_2) & mask
        accumulated = ((accumulated << 31) | (accumulated >> 33)) & mask
        accumulated = (accumulated * prime_1) & mask
        second = ((before - accumulated) * undo_2) & mask
        second -= 2**64 if second >= 2**63 else 0
        if abs(second) < 2**61 - 1 and second != -1:  # a hash that a plain integer has
            entries.append(container + cbor2.dumps(first) + cbor2.dumps(second) + b"\x00")
        first += 1
    return b"\xb9" + count.to_bytes(2, "big") + b"".join(entries)


if __name__ == "__main__":
    folder = HERE / "files"
    folder.mkdir(exist_ok=True)
    for name, data in files():
        (folder / name).write_bytes(data)
