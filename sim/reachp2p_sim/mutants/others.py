"""Mutants of the rest: datagrams, queues, chance."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from reachp2p.core.dissemination.broadcast_queue import BroadcastQueue
from reachp2p.core.transmit import Transmitter
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
    caught_by="scenario",
)
def news_never_old(patches: Patches) -> None:
    def broken(self: BroadcastQueue, room: int, limit: int) -> list[bytes]:
        taken: list[bytes] = take(self, room, 1_000_000)
        return taken

    take = patches.replace(BroadcastQueue, "take", broken)


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
