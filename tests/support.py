"""What tests of the core share: nodes that sign with a keyed hash, chance from a seed, and short ways to read effects.

A keyed hash is as binding as a test needs, and a hundred times as fast as Ed25519; `tests/unit/trust` has the real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import Any

from msgspec.structs import replace

from reachp2p.core.clock import WallClock
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, Notify, ToLink, ToNode
from reachp2p.core.events import Event
from reachp2p.core.ids import Address, Life, NodeId, Rng
from reachp2p.core.settings import Protocol, Settings
from reachp2p.core.trust.facts import Checked, FactChecker, FactSigner
from reachp2p.core.wire.facts import Accusation, AgentRecord, Head
from reachp2p.core.wire.messages import Message

CLUSTER = "test"
WALL = 1_700_000_000
"""What the wall clock says at monotonic zero."""


def node_id(number: int) -> NodeId:
    """Ids in the order of their numbers (0 to 65,535)."""
    return NodeId(number.to_bytes(2, "big") * 16)


def life(epoch: int = 1, salt: int = 0) -> Life:
    """A life with this epoch; of two with one epoch the higher `salt` is the higher."""
    return Life(epoch, bytes([salt]) * 16)


def address(number: int, port: int = 7946) -> Address:
    """Where node `number` can be reached."""
    return Address(f"10.0.{number >> 8}.{number & 255}", port)


class KeyedHash:
    """Signs for one node and verifies for all, with a hash keyed by the NodeId."""

    def __init__(self, node: NodeId) -> None:
        self._node = node

    @property
    def node(self) -> NodeId:
        return self._node

    def sign(self, data: bytes, /) -> bytes:
        return blake2b(data, key=self._node).digest()

    def verify(self, node: NodeId, signature: bytes, data: bytes, /) -> bool:
        return signature == blake2b(data, key=node).digest()


class CountingEntropy:
    """Fresh bytes that are the same in each run."""

    def __init__(self, name: str = "entropy") -> None:
        self._name = name
        self._count = 0

    def token(self, size: int, /) -> bytes:
        self._count += 1
        return blake2b(f"{self._name} {self._count}".encode(), digest_size=size).digest()


class Steady:
    """Chance that is always in the middle, and never shuffles: for tests that compute when something is due."""

    def random(self) -> float:
        return 0.5

    def randrange(self, stop: int, /) -> int:
        return stop // 2

    def shuffle(self, items: list[Any], /) -> None:
        pass

    def sample(self, items: Sequence[Any], k: int, /) -> list[Any]:
        return list(items[:k])


def seeded(seed: int = 1) -> Rng:
    """Chance from a seed."""
    return Random(seed)


def wall_clock() -> WallClock:
    """A clock that says `WALL` at monotonic zero."""
    clock = WallClock()
    clock.report(WALL, 0.0)
    return clock


def checker(counters: Counters | None = None) -> FactChecker:
    """Opens facts of any node of the test cluster."""
    return FactChecker(KeyedHash(node_id(0)), CLUSTER, counters or Counters())


def settings(number: int, **protocol: Any) -> Settings:
    """Settings of node `number`, with some constants of the protocol replaced."""
    return Settings(
        cluster_id=CLUSTER,
        name=f"n{number}",
        addresses=(address(number),),
        protocol=replace(Protocol(), **protocol),
    )


class Author:
    """A node that signs whatever it is told to, true or not."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.node = node_id(number)
        self.address = address(number)
        self.signer = FactSigner(KeyedHash(self.node), CLUSTER)
        self._checker = checker()

    def head(
        self,
        epoch: int = 1,
        incarnation: int = 0,
        version: int = 0,
        *,
        left: bool = False,
        salt: int = 0,
        **fields: Any,
    ) -> Checked[Head]:
        """A head of this node; `salt` chooses among lives of one epoch."""
        values: dict[str, Any] = {
            "issued_at": WALL,
            "valid_for": 3_600,
            "name": f"n{self.number}",
            "addresses": [self.address],
        }
        head = Head(
            node=self.node,
            life=life(epoch, salt),
            incarnation=incarnation,
            version=version,
            left=left,
            **{**values, **fields},
        )
        return self._checker.open(Head, self.signer.sign(head))

    def accusation(
        self, subject: Checked[Head], grade: int = 0, age: float = 0.0, **fields: Any
    ) -> Checked[Accusation]:
        """This node doubts the life and incarnation of a head."""
        values: dict[str, Any] = {
            "subject": subject.fact.node,
            "life": subject.fact.life,
            "incarnation": subject.fact.incarnation,
        }
        accusation = Accusation(
            accuser=self.node,
            grade=grade,
            age_ms=int(age * 1_000),
            issued_at=WALL,
            **{**values, **fields},
        )
        return self._checker.open(Accusation, self.signer.sign(accusation))

    def record(
        self,
        agent: str = "nlp/summarizer",
        version: int = 1,
        *,
        epoch: int = 1,
        salt: int = 0,
        withdrawn: bool = False,
        **fields: Any,
    ) -> Checked[AgentRecord]:
        """A record of this node, or a tombstone."""
        record = AgentRecord(
            node=self.node,
            life=life(epoch, salt),
            version=version,
            agent=agent,
            withdrawn=withdrawn,
            **{"issued_at": WALL, **fields},
        )
        return self._checker.open(AgentRecord, self.signer.sign(record))


def events(effects: Effects) -> list[Event]:
    """The events among the effects; the other effects stay."""
    items = effects.take()
    for item in items:
        if not isinstance(item, Notify):
            effects.add(item)
    return [item.event for item in items if isinstance(item, Notify)]


def messages(effects: Effects) -> list[tuple[NodeId, Message | None]]:
    """The messages for nodes among the effects; the other effects stay."""
    items = effects.take()
    for item in items:
        if not isinstance(item, ToNode):
            effects.add(item)
    return [(item.node, item.message) for item in items if isinstance(item, ToNode)]


def link_messages(effects: Effects) -> list[tuple[int, Message]]:
    """The messages for links among the effects; the other effects stay."""
    items = effects.take()
    for item in items:
        if not isinstance(item, ToLink):
            effects.add(item)
    return [(item.link, item.message) for item in items if isinstance(item, ToLink)]
