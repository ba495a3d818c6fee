"""Mutants of lives: epochs, fences, challenges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reachp2p.core.membership import life
from reachp2p.core.membership.life import LifeCycle, Step
from reachp2p.core.wire.messages import Challenge
from reachp2p_sim.mutants.base import Patches, mutant


@mutant(
    "epoch-reused",
    "a start takes the stored epoch instead of the next one, and asks nobody",
    scenario="crash-restart",
    caught_by="lives",
)
def epoch_reused(patches: Patches) -> None:
    def broken(self: Any, request: int, rows: Sequence[tuple[bytes, bytes]], now: float) -> Any:
        stored = dict(rows)
        epoch = int.from_bytes(stored.get(life.EPOCH_KEY, b""), "big")
        if epoch:
            stored[life.EPOCH_KEY] = (epoch - 1).to_bytes(life.EPOCH_BYTES, "big")
        return on_fetched(self, request, list(stored.items()), now)

    def asks_nobody(self: Any, contacts: int, now: float) -> Any:
        return asked(self, 0, now)

    on_fetched = patches.replace(LifeCycle, "on_fetched", broken)
    asked = patches.replace(LifeCycle, "asked", asks_nobody)  # who asks, outbids its own past


@mutant(
    "epoch-not-durable",
    "an epoch is used before it is on disk",
    scenario="crash-restart",
    caught_by="lives",
)
def epoch_not_durable(patches: Patches) -> None:
    def broken(self: Any, request: int, rows: Sequence[tuple[bytes, bytes]], now: float) -> Any:
        steps = on_fetched(self, request, rows, now)
        if steps is not None and self._epoch_ticket is not None:
            return [*steps, *self.on_persisted(self._epoch_ticket, now)]
        return steps

    on_fetched = patches.replace(LifeCycle, "on_fetched", broken)


@mutant(
    "fence-ignored",
    "a life that hears of a higher one goes on as before",
    scenario="epoch-clone-across-split",
    caught_by="fencing",
)
def fence_ignored(patches: Patches) -> None:
    def deaf(self: Any, *arguments: Any) -> list[Step]:
        return []

    patches.replace(LifeCycle, "on_own_head", deaf)
    patches.replace(LifeCycle, "on_other_life", deaf)


@mutant(
    "challenge-unanswered",
    "a life never answers a challenge, so two of one key go on outbidding each other",
    scenario="epoch-clone-across-split",
    caught_by="fencing",
)
def challenge_unanswered(patches: Patches) -> None:
    def broken(self: LifeCycle, challenge: Challenge) -> None:
        return None

    patches.replace(LifeCycle, "on_challenge", broken)
    patches.replace(LifeCycle, "on_other_life", lambda self, *arguments: [])


@mutant(
    "asks-nobody",
    "a start announces its life without asking what others hold",
    scenario="clone-beside",
    caught_by="scenario",
)
def asks_nobody(patches: Patches) -> None:
    def broken(self: Any, contacts: int, now: float) -> list[Step]:
        steps: list[Step] = asked(self, 0, now)
        return steps

    asked = patches.replace(LifeCycle, "asked", broken)
