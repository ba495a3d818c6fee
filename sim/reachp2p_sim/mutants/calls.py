"""Mutants of calls: ends, results, handlers."""

from __future__ import annotations

from typing import Any

from reachp2p.core.calls.callee import Callee
from reachp2p.core.calls.caller import Caller
from reachp2p.core.effects import Effects
from reachp2p.core.events import CallEnded, Event
from reachp2p.core.registry.own_claims import ClaimState, OwnClaims
from reachp2p.core.routing import hashing, pool
from reachp2p.core.routing.budget import RetryBudget
from reachp2p_sim.mutants.base import Patches, mutant


@mutant(
    "call-ends-twice",
    "the end of a call is told twice",
    scenario="partition-halves",
    caught_by="single_outcome",
)
def call_ends_twice(patches: Patches) -> None:
    def broken(self: Effects, event: Event) -> None:
        notify(self, event)
        if isinstance(event, CallEnded):
            notify(self, event)

    notify = patches.replace(Effects, "notify", broken)


@mutant(
    "call-never-ends",
    "a call whose deadline passes is ended by neither side",
    scenario="hanging-handlers",
    caught_by="single_outcome",
)
def call_never_ends(patches: Patches) -> None:
    def broken(self: Any, key: Any, now: float) -> None:
        return None

    patches.replace(Caller, "on_timer", broken)
    patches.replace(Callee, "on_timer", broken)


@mutant(
    "retries-without-limit",
    "there is always a retry left in the budget",
    scenario="retry-storm",
    caught_by="retry_budget",
)
def retries_without_limit(patches: Patches) -> None:
    def broken(self: RetryBudget, now: float) -> bool:
        return True

    patches.replace(RetryBudget, "take", broken)


@mutant(
    "every-breaker-ejects",
    "all instances with an open breaker are skipped, however many of the pool they are",
    scenario="half-the-pool-fails",
    caught_by="ejection",
    nodes=8,
)
def every_breaker_ejects(patches: Patches) -> None:
    def broken(sound: int) -> int:
        return sound

    patches.replace(pool, "ejected_max", broken)


@mutant(
    "hot-key-unbounded",
    "the owner of a key gets all calls for it, whatever it has to do already",
    scenario="hot-key",
    caught_by="bounded_load",
    nodes=8,
)
def hot_key_unbounded(patches: Patches) -> None:
    def broken(choice: Any, sent: Any, instance: Any) -> bool:
        return True

    patches.replace(hashing, "_has_room", broken)


@mutant(
    "owner-never-yields",
    "an owner of an exclusive agent that hears of a higher claim goes on as before",
    scenario="exclusive-agent",
    caught_by="tokens",
)
def owner_never_yields(patches: Patches) -> None:
    def broken(self: OwnClaims, agent: str, now: float) -> None:
        if self.state_of(agent) is not ClaimState.HOLDING:
            changed(self, agent, now)

    changed = patches.replace(OwnClaims, "on_changed", broken)
