"""Bytes that prove something between two nodes or about one: the mutual hello, and equivocation.

A link proves both node keys: after the two hellos each side signs a transcript of both under its role, so that
neither a proof sent back to its maker (reflection) nor one from another link (nonces) is worth anything. With TLS,
in a later issue, certificates prove the key and the transcript gains the channel binding (RFC 9266) as a third
part here; claims and receipts get their proofs beside these.
"""

from __future__ import annotations

from typing import Literal

from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.cose import PROTECTED, byte_string_head, to_be_signed
from reachp2p.core.wire.facts import Head

Role = Literal["dialler", "acceptor"]


def hello_transcript(dialler_hello: bytes, acceptor_hello: bytes, role: Role) -> bytes:
    """What the side with this role signs for its `HelloProof`: both hellos exactly as they were sent.

    The hellos carry cluster id, NodeIds, lives and nonces. The checking side calls it with the *other* side's role.
    """
    if role not in ("dialler", "acceptor"):
        raise ValueError(f"a link has a dialler and an acceptor, no {role!r}")
    external = b"reachp2p hello\x00" + role.encode()
    hellos = (byte_string_head(len(hello)) + hello for hello in (dialler_hello, acceptor_hello))
    return to_be_signed(PROTECTED, external, b"".join(hellos))


def equivocation(a: Checked[Head], b: Checked[Head]) -> bool:
    """Whether one node has signed two different heads for one (life, incarnation, version).

    The pair of bytes is the proof; anybody can check it. ALIVE and LEFT are two kinds of word, so one of each is
    none; neither are heads of two lives, even at one epoch: those are a clone's (docs/protocol/lives.md).
    """
    one, other = a.fact, b.fact
    return (
        one.node == other.node
        and one.life == other.life
        and one.incarnation == other.incarnation
        and one.version == other.version
        and one.left == other.left
        and a.data != b.data
    )
