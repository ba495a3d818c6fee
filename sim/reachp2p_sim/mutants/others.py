"""Mutants of the rest: datagrams, queues, chance."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar
from zlib import crc32

from reachp2p.core.dissemination.broadcast_queue import BroadcastQueue
from reachp2p.core.ids import NodeId
from reachp2p.core.membership.probe import ProbeResult
from reachp2p.core.push_pull import PushPull
from reachp2p.core.registry.store import RecordStore
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.ring.ring import Ring
from reachp2p.core.transmit import Transmitter
from reachp2p.core.trust.facts import FactChecker
from reachp2p.core.upkeep import Upkeep
from reachp2p.core.wire import datagram
from reachp2p_sim.mutants.base import Patches, mutant

T = TypeVar("T")


@mutant(
    "datagram-too-large",
    "news is packed into datagrams without a limit",
    scenario="partition-halves",
    caught_by="bounded",
)
def datagram_too_large(patches: Patches) -> None:
    def broken(self: Any, *arguments: Any, **named: Any) -> None:
        build(self, *arguments, **named)
        self._room = 8_000

    build = patches.replace(Transmitter, "__init__", broken)
    patches.replace(datagram, "BODY_BYTES_MAX", 8_000)


@mutant(
    "datagram-signature-unchecked",
    "datagrams are taken apart and believed without a look at their signature",
    scenario="mangled-datagrams",
    caught_by="damage",
)
def datagram_signature_unchecked(patches: Patches) -> None:
    def broken(self: Any, data: bytes, audience: Any = None) -> datagram.Datagram:
        return datagram.parse_datagram(data)

    patches.replace(datagram.DatagramReader, "read", broken)


@mutant(
    "queue-without-limit",
    "the broadcast queue drops nothing when it is full",
    scenario="steady",
    caught_by="bounded",
)
def queue_without_limit(patches: Patches) -> None:
    patches.limit(broadcast_queue_max=4)

    def broken(self: Any) -> None:
        return None

    patches.replace(BroadcastQueue, "_evict", broken)


@mutant(
    "news-never-old",
    "an update goes on circulating for ever",
    scenario="steady",
    caught_by="load",
)
def news_never_old(patches: Patches) -> None:
    def broken(self: BroadcastQueue, room: int, limit: int) -> list[bytes]:
        taken: list[bytes] = take(self, room, 1_000_000)
        return taken

    take = patches.replace(BroadcastQueue, "take", broken)


@mutant(
    "news-sent-twice-as-often",
    "an update is sent twice as often as it may",
    scenario="pause",
    caught_by="load",
)
def news_sent_twice_as_often(patches: Patches) -> None:
    def broken(self: BroadcastQueue, room: int, limit: int) -> list[bytes]:
        taken: list[bytes] = take(self, room, 2 * limit)
        return taken

    take = patches.replace(BroadcastQueue, "take", broken)


@mutant(
    "hurries-for-ever",
    "whoever has ever buried somebody compares views a hundred times as often from then on",
    scenario="quiet-again",
    caught_by="quiet",
)
def hurries_for_ever(patches: Patches) -> None:
    def broken(self: Any) -> float:
        usual: float = interval(self)
        return usual / 100 if self._parts.counters.value("members.became_dead") else usual

    interval = patches.replace(PushPull, "_interval", broken)


@mutant(
    "all-signatures-unchecked",
    "datagrams and facts are taken without a look at their signatures",
    scenario="steady",
    caught_by="ownership or damage",
    weather__corrupt="0.2",
)
def all_signatures_unchecked(patches: Patches) -> None:
    class Credulous:
        def verify(self, node: NodeId, signature: bytes, data: bytes, /) -> bool:
            return True

    def trusting(self: Any, verifier: Any, *arguments: Any, **named: Any) -> None:
        build(self, Credulous(), *arguments, **named)

    def reading(self: Any, cluster_id: str, own: NodeId, verify: Any) -> None:
        begin(self, cluster_id, own, Credulous().verify)

    build = patches.replace(FactChecker, "__init__", trusting)
    begin = patches.replace(datagram.DatagramReader, "__init__", reading)


@mutant(
    "choice-by-hash",
    "members are drawn from a list in the order of Python's hash, which differs in each process",
    scenario="partition-halves",
    caught_by="determinism",
)
def choice_by_hash(patches: Patches) -> None:
    class HashOrder(Random):
        def sample(self, population: Sequence[T], k: int, *, counts: Any = None) -> list[T]:
            return super().sample(sorted(population, key=lambda item: hash(repr(item))), k)

    randomness = patches.world.randomness
    patches.replace(randomness, "stream", lambda *name: HashOrder(randomness.number(*name)))


@mutant(
    "owner-by-count",
    "the owner of a key is its checksum modulo the number of instances",
    scenario="crash",
    caught_by="placement",
    nodes=8,
)
def owner_by_count(patches: Patches) -> None:
    def broken(self: Ring, key: str) -> InstanceKey | None:
        instances = sorted(self.weights)
        return instances[crc32(key.encode()) % len(instances)] if instances else None

    patches.replace(Ring, "owner", broken)


@mutant(
    "records-not-told",
    "views are compared and called complete, and the records themselves stay behind",
    scenario="crash-restart",
    caught_by="registrations",
)
def records_not_told(patches: Patches) -> None:
    patches.replace(RecordStore, "after", lambda self, node, version: [])


@mutant(
    "version-not-raised",
    "a node whose wall clock was set signs its head anew under the version that it had",
    scenario="clock-jump",
    caught_by="equivocation",
)
def version_not_raised(patches: Patches) -> None:
    def broken(self: Any, now: float) -> None:
        self._parts.own._head = None
        self._hearing.announce(now)

    patches.replace(Upkeep, "on_clock_stepped", broken)


@mutant(
    "timers-by-wall-clock",
    "a wall clock that jumps makes all members look as if they had not answered for long",
    scenario="clock-jump",
    caught_by="wall_clock",
)
def timers_by_wall_clock(patches: Patches) -> None:
    def broken(self: Any, now: float) -> None:
        stepped(self, now)
        for member in list(self._parts.table):
            overdue = ProbeResult(member.node, member.life, answered=False)
            self._consequences.draw(self._parts.detector.on_probe(overdue, now), now)

    stepped = patches.replace(Upkeep, "on_clock_stepped", broken)
