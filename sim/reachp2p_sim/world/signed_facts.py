"""Every fact that any key of a run has signed: the ground truth about who has said what.

Each host signs through a recorder. Heads, records and accusations are kept here with the exact bytes of their payload,
so that a checker can ask whether what a node believes was ever said, and can find a fact in what is under way.
Datagrams and hellos, which are signed too, are told apart by a few bytes and cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from reachp2p.core.ids import Life, NodeId
from reachp2p.core.trust.facts import external_data, signer_of
from reachp2p.core.trust.signer import Signer
from reachp2p.core.wire.codec import decode_fact
from reachp2p.core.wire.cose import PROTECTED, to_be_signed
from reachp2p.core.wire.facts import Accusation, AgentRecord, Fact, Head, RulesRecord

Listener: TypeAlias = "Callable[[NodeId, Fact, bytes], None]"
"""Told who has signed what, with the payload's bytes."""

ACCUSED_LIVES_MAX = 4
"""Lives of one subject of which accusations are kept, the highest: a clone's life is accused while the original's,
below it, still runs on the other side of a partition."""


class SaidHead(msgspec.Struct, frozen=True):
    """A head, and its bytes."""

    head: Head
    payload: bytes


class SaidAccusation(msgspec.Struct, frozen=True):
    """An accusation, and its bytes."""

    accusation: Accusation
    payload: bytes


class SignedFacts:
    """Facts by what they speak of. It grows with what is signed in a run, which is little: no fact is ever renewed more
    than twice an hour, and accusations are kept for the newest lives of their subject only."""

    def __init__(self, cluster_id: str) -> None:
        self._prefixes: dict[bytes, type[Fact]] = {
            to_be_signed(PROTECTED, external_data(kind.PURPOSE, cluster_id), b"")[:-1]: kind
            for kind in (Head, Accusation, AgentRecord, RulesRecord)
        }
        self.all_prefixes = tuple(self._prefixes)
        self.heads: dict[tuple[NodeId, Life, int], list[SaidHead]] = {}
        """By (node, life, incarnation), in the order of signing."""
        self.records: dict[tuple[NodeId, Life, str, int], list[AgentRecord]] = {}
        """By (node, life, agent, version)."""
        self.accused: dict[NodeId, dict[tuple[Life, int], list[SaidAccusation]]] = {}
        """By subject, then by the (life, incarnation) accused; `ACCUSED_LIVES_MAX` lives of each subject are kept."""
        self.on_signed: list[Listener] = []

    def recorder(self, signer: Signer) -> Signer:
        """A signer that does the same and is heard here. A clone signs with the recorder of the original."""
        return signer if isinstance(signer, RecordingSigner) else RecordingSigner(signer, self)

    def note(self, node: NodeId, data: bytes) -> None:
        """A node's key has signed these bytes, and they begin with one of `all_prefixes`.

        Who signs in another's name has said nothing that counts.
        """
        prefix = next(prefix for prefix in self.all_prefixes if data.startswith(prefix))
        start = len(prefix)
        info = data[start] - 0x40
        start += 1 if info < 24 else 1 + (1 << (info - 24))
        fact = decode_fact(self._prefixes[prefix], data[start:])
        if signer_of(fact) == node:
            self.add(fact, data[start:])

    def add(self, fact: Fact, payload: bytes = b"") -> None:
        """Remember that this was signed by the key it must be signed by."""
        match fact:
            case Head():
                node = NodeId(fact.node)
                self.heads.setdefault((node, fact.life, fact.incarnation), []).append(SaidHead(fact, payload))
            case AgentRecord():
                node = NodeId(fact.node)
                self.records.setdefault((node, fact.life, fact.agent, fact.version), []).append(fact)
            case Accusation():
                node = NodeId(fact.accuser)
                self._accused(fact, payload)
            case RulesRecord():
                node = NodeId(fact.author)
            case _:
                raise TypeError(f"no node signs a {type(fact).__name__}")
        for listener in self.on_signed:
            listener(node, fact, payload)

    def _accused(self, fact: Accusation, payload: bytes) -> None:
        about = self.accused.setdefault(NodeId(fact.subject), {})
        lives = dict.fromkeys(life for life, _ in about)
        if fact.life not in lives and len(lives) >= ACCUSED_LIVES_MAX:
            lowest = min(lives)
            for key in [key for key in about if key[0] == lowest]:
                del about[key]
        about.setdefault((fact.life, fact.incarnation), []).append(SaidAccusation(fact, payload))


class RecordingSigner:
    """Signs as another signer does, and tells of each fact."""

    def __init__(self, signer: Signer, facts: SignedFacts) -> None:
        self._sign = signer.sign
        self._node = signer.node
        self._facts = facts
        self._prefixes = facts.all_prefixes

    @property
    def node(self) -> NodeId:
        """The other signer's."""
        return self._node

    def sign(self, data: bytes, /) -> bytes:
        """The other signer's signature."""
        if data.startswith(self._prefixes):
            self._facts.note(self._node, data)
        return self._sign(data)
