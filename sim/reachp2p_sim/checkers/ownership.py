"""Authenticity (I-OWN, I-EPOCH): nothing is believed that its subject's own key has not signed, or that is out of date.

The world keeps every fact that any key has signed. Whatever a node says it holds (life, incarnation, LEFT; version and
addresses, looked at one node a second; agents as they are registered) must be among them, in the life that is held, and
a head must have been valid by the node's own wall clock when it was taken up.
"""

from __future__ import annotations

from reachp2p.core.events import Event, MemberChanged, MemberState, RecordChanged
from reachp2p.core.ids import NodeId, short
from reachp2p.core.views import MemberView
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.checkers.rounds import rounds
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World

CLOCK_SLACK = 2.0
"""Seconds: heads count whole ones, and clocks drift between two reports."""


class Ownership(Checker):
    """Follows every `MemberChanged` and `RecordChanged`, and looks at one member list a second."""

    name = "ownership"
    invariant = "I-OWN"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._right: dict[NodeId, MemberView] = {}
        """The last row about each node that was found right: most nodes hold the same."""
        world.on_event.append(self._on_event)
        rounds(world).on_look.append(self._look)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, MemberChanged) and event.new is not None:
            self._judge_member(host, event)
        elif isinstance(event, RecordChanged) and event.present:
            self._judge_record(host, event)

    def _judge_member(self, host: Host, event: MemberChanged) -> None:
        said = self.world.signed.heads.get((event.node, event.life, event.incarnation))
        if said is None:
            self.fail(f"believes in {_told(event)}, which its key has never signed", host)
        is_left = event.new is MemberState.LEFT
        heads = [one.head for one in said if one.head.left is is_left]
        if not heads:
            self.fail(
                f"holds {_told(event)} {event.new}, and its key has only said the contrary (LEFT or not)",
                host,
            )
        if event.new is not MemberState.ALIVE and not is_left:
            return  # a doubt, about a head that was taken up earlier
        wall = host.told_wall
        tolerance = self.world.protocol.clock_tolerance + CLOCK_SLACK
        if all(wall > head.issued_at + head.valid_for + tolerance for head in heads):
            self.fail(f"takes up {_told(event)}, whose last head has expired by its own wall clock", host)
        if all(head.issued_at > wall + tolerance for head in heads):
            self.fail(f"takes up {_told(event)}, which comes from the future by its own wall clock", host)

    def _judge_record(self, host: Host, event: RecordChanged) -> None:
        if event.node == host.node:
            life = host.life
        else:
            held = host.view.members.get(event.node)
            life = held.life if held is not None else None
        if life is None:
            self.fail(f"has agent {event.agent} of {short(event.node)}, whom it does not know", host)
        said = self.world.signed.records.get((event.node, life, event.agent, event.version))
        if said is None or all(record.withdrawn for record in said):
            what = f"version {event.version} of {event.agent} on {short(event.node)}"
            self.fail(f"offers {what}, which its key has not signed in the life {life} that is held", host)

    def _look(self, host: Host, members: list[MemberView]) -> None:
        for member in members:
            known = self._right.get(member.node)
            if (
                known is not None
                and known.version == member.version
                and known.incarnation == member.incarnation
                and known.state is member.state
                and known.life == member.life
                and known.addresses == member.addresses
            ):
                continue
            if not member.is_self:
                self._judge_row(host, member)
            self._right[member.node] = member

    def _judge_row(self, host: Host, member: MemberView) -> None:
        left = member.state is MemberState.LEFT
        said = self.world.signed.heads.get((member.node, member.life, member.incarnation), ())
        if not any(
            one.head.version == member.version
            and one.head.left is left
            and tuple(one.head.addresses) == member.addresses
            for one in said
        ):
            self.fail(
                f"holds version {member.version} of {member.name} at {[str(a) for a in member.addresses]}, which its "
                "key has never signed so",
                host,
            )


def _told(event: MemberChanged) -> str:
    return f"life {event.life}, incarnation {event.incarnation} of {event.name or short(event.node)}"
