"""Mutants of calls: ends, results, handlers."""

from __future__ import annotations

from typing import Any

from reachp2p.core.calls.callee import Callee
from reachp2p.core.calls.caller import Caller
from reachp2p.core.effects import Effects
from reachp2p.core.events import CallEnded, Event
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
