"""The mutual hello cannot be reflected or replayed; equivocation is two words for one number."""

from __future__ import annotations

import msgspec
import pytest

from reachp2p.core.ids import Life
from reachp2p.core.trust.ed25519 import Ed25519Signer, Ed25519Verifier
from reachp2p.core.trust.facts import Checked, fact_digest
from reachp2p.core.trust.proofs import equivocation, hello_transcript
from reachp2p.core.wire.facts import Head

SIGNER = Ed25519Signer(b"\x01" * 32)
LIFE = Life(5, b"l" * 16)
HEAD = Head(node=SIGNER.node, life=LIFE, incarnation=1, version=2, issued_at=1_700_000_000, valid_for=3_600)


def checked(head: Head, data: bytes) -> Checked[Head]:
    """A head as if its signature had been checked."""
    return Checked(head, fact_digest(data), data)


def test_a_proof_is_good_for_its_role_and_its_two_hellos_only() -> None:
    proof = SIGNER.sign(hello_transcript(b"dialler", b"acceptor", "dialler"))

    def proves(transcript: bytes) -> bool:
        return Ed25519Verifier().verify(SIGNER.node, proof, transcript)

    assert proves(hello_transcript(b"dialler", b"acceptor", "dialler"))
    assert not proves(hello_transcript(b"dialler", b"acceptor", "acceptor"))
    assert not proves(hello_transcript(b"acceptor", b"dialler", "dialler"))
    assert not proves(hello_transcript(b"dialler", b"acceptor of another link", "dialler"))


def test_no_two_pairs_of_hellos_share_a_transcript() -> None:
    assert hello_transcript(b"ab", b"c", "dialler") != hello_transcript(b"a", b"bc", "dialler")
    assert hello_transcript(b"a\x41b", b"c", "dialler") != hello_transcript(b"a", b"b\x41c", "dialler")


def test_there_are_two_roles() -> None:
    with pytest.raises(ValueError, match="role"):
        hello_transcript(b"a", b"b", "role")  # type: ignore[arg-type]


def test_two_different_heads_for_one_number_are_an_equivocation() -> None:
    one = checked(HEAD, b"one")
    other = checked(msgspec.structs.replace(HEAD, name="other"), b"other")
    assert equivocation(one, other)
    assert equivocation(other, one)


def test_the_same_bytes_twice_are_none() -> None:
    assert not equivocation(checked(HEAD, b"one"), checked(HEAD, b"one"))


@pytest.mark.parametrize(
    "change",
    [
        {"node": b"x" * 32},
        {"life": Life(6, b"l" * 16)},
        {"life": Life(5, b"m" * 16)},
        {"incarnation": 2},
        {"version": 3},
        {"left": True},
    ],
)
def test_another_node_life_number_or_kind_is_none(change: dict[str, object]) -> None:
    assert not equivocation(checked(HEAD, b"one"), checked(msgspec.structs.replace(HEAD, **change), b"other"))
