"""Truthful events: what a node has told its application adds up to what it answers when asked.

The other checkers follow events; this one compares them with `engine.members()`, node by node in turn, so that a change
without an event cannot hide from them.
"""

from __future__ import annotations

from reachp2p.core.ids import short
from reachp2p.core.views import MemberView
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.checkers.rounds import rounds
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.view import Held
from reachp2p_sim.world.world import World


class TruthfulEvents(Checker):
    """Looks at one node a second."""

    name = "truthful_events"
    invariant = "I-SANE"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        rounds(world).on_look.append(self._compare)

    def finish(self) -> None:
        """Compare every node once more, but for those whose words still wait for a processor."""
        for host in [host for host in self.world.running if host.hindered is None]:
            self._compare(host, host.engine.members())

    def _compare(self, host: Host, members: list[MemberView]) -> None:
        if host.processor.is_blocked:
            return  # what it has to tell is held up with what it has to send
        told = host.view.members
        others = 0
        for member in members:
            if not member.is_self:
                others += 1
                known = told.get(member.node)
                if (
                    known is None
                    or known.state is not member.state
                    or (known.life is not member.life and known.life != member.life)
                ):
                    self._fail(host, member.name, known, f"{member.state.value} in life {member.life}")
        if others != len(told):
            answered = {member.node for member in members}
            node = next(node for node in told if node not in answered)
            self._fail(host, short(node), told[node], "nothing")

    def _fail(self, host: Host, name: str, told: Held | None, answers: str) -> None:
        said = "nothing" if told is None else f"{told.state.value} in life {told.life}"
        self.fail(f"told its application {said} about {name} and answers {answers}", host)
