"""Accuracy (I-ACC0): a healthy, connected member is neither declared DEAD nor forgotten.

Judged only where it is promised: both the one who declares and the one declared have run without a break, have reached
each other both ways, and the weather has been fair (loss at most 10 % with three helpers, delays far below the probe
time-out), all for as long as a suspicion can last and news can travel.
"""

from __future__ import annotations

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p.core.rules import Rules
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import dissemination, suspicion_maximum
from reachp2p_sim.world.world import World

LOSS_MAX = 0.1
"""B3.3: no DEAD of a healthy member at up to 10 % independent loss with k = 3."""
DELAY_SHARE_MAX = 0.1
"""Of the probe time-out that a mean one-way delay may take."""


class Accuracy(Checker):
    """Judges every DEAD verdict, and counts false suspicions."""

    name = "accuracy"
    invariant = "I-ACC0"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.false_suspicions = 0
        world.on_event.append(self._on_event)

    def _on_event(self, host: Host, event: Event) -> None:
        if not isinstance(event, MemberChanged) or event.new in (MemberState.ALIVE, MemberState.LEFT):
            return
        if self.world.protocol.rules != Rules():
            return  # promised of what ships; papers measure the rest
        subjects = self.world.by_node.get(event.node, [])
        if len(subjects) != 1 or subjects[0].life != event.life or len(self.world.by_node[host.node]) != 1:
            return  # of two machines with one key none is healthy
        if not self._was_healthy(host, subjects[0]):
            return
        if event.new is MemberState.SUSPECT:
            self.false_suspicions += 1
        else:
            did = (
                f"declared {subjects[0].name} DEAD"
                if event.new is MemberState.DEAD
                else f"forgot {subjects[0].name}"
            )
            self.fail(f"{did}, which was healthy and connected: {event.reason}", host)

    def _was_healthy(self, observer: Host, subject: Host) -> bool:
        world = self.world
        n = len(world.running)
        since = world.now - suspicion_maximum(n, world.protocol) - dissemination(n, world.protocol)
        history = world.history
        return (
            not history.was_absent(observer.index, since)
            and not history.was_absent(subject.index, since)
            and not history.were_cut(observer.index, subject.index, since)
            and history.worst_loss(since, observer.index, subject.index) <= LOSS_MAX
            and history.worst_delay(since, observer.index, subject.index)
            <= world.protocol.probe_timeout * DELAY_SHARE_MAX
        )
