"""Single outcome: every call ends exactly once, and in time.

A call whose caller's process ended first has nobody to be told and counts as abandoned.
"""

from __future__ import annotations

from reachp2p.core.events import CallEnded, Event
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World

LOOK_INTERVAL = 1.0
GRACE = 1.0
"""Seconds after its deadline by which a call must have said how it ended."""


class SingleOutcome(Checker):
    """Follows every `CallEnded`, and looks once a second for calls that are overdue."""

    name = "single_outcome"
    invariant = "I-ONCE"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.listen(self._on_event, CallEnded)
        world.every(LOOK_INTERVAL, self._look)

    def _on_event(self, host: Host, event: Event) -> None:
        if not isinstance(event, CallEnded):
            return
        key = (host.index, host.process_number, event.call)
        if key in self.world.ledger.ended:
            self.fail(f"call {event.call.hex()[:8]} ended a second time, with {event.code}", host)
        if key not in self.world.ledger.pending:
            self.fail(f"a call that nobody made ended: {event.call.hex()[:8]}", host)

    def _look(self) -> None:
        now = self.world.now
        for call in self.world.ledger.pending.values():
            host = self.world.nodes[call.host]
            if now > call.deadline + GRACE and not self.world.history.was_absent(call.host, call.started_at):
                self.fail(
                    f"a call of {call.started_at:.3f} s has not ended {now - call.deadline:.1f} s past its deadline",
                    host,
                )
