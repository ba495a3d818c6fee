from __future__ import annotations

import pytest
from reachp2p_sim.world.randomness import Randomness
from reachp2p_sim.world.signing import Ed25519Signing, KeyedHashSigning, Signing

from reachp2p.core.ids import NODE_ID_BYTES, NodeId
from reachp2p.core.trust.signer import SIGNATURE_BYTES


@pytest.fixture(params=["keyed", "ed25519"])
def signing(request: pytest.FixtureRequest) -> Signing:
    randomness = Randomness(3)
    return KeyedHashSigning(randomness) if request.param == "keyed" else Ed25519Signing(randomness)


def test_a_signature_verifies_for_its_signer_and_its_bytes_only(signing: Signing) -> None:
    ada, bob = signing.signer("ada"), signing.signer("bob")
    signature = ada.sign(b"words")
    assert len(signature) == SIGNATURE_BYTES
    assert len(ada.node) == NODE_ID_BYTES
    assert signing.verifier.verify(ada.node, signature, b"words")
    assert not signing.verifier.verify(ada.node, signature, b"other words")
    assert not signing.verifier.verify(bob.node, signature, b"words")


def test_nobody_signs_for_an_unknown_node_and_nothing_raises(signing: Signing) -> None:
    assert not signing.verifier.verify(NodeId(bytes(NODE_ID_BYTES)), bytes(SIGNATURE_BYTES), b"words")
    assert not signing.verifier.verify(NodeId(b"short"), b"short", b"words")


def test_one_name_has_one_key(signing: Signing) -> None:
    assert signing.signer("ada").node == signing.signer("ada").node
    assert signing.signer("ada").node != signing.signer("bob").node
