"""Monotonicity (I-MONO): what a process holds about a member never moves backwards.

The order is that of the evidence: life, then LEFT, then incarnation, and inside one incarnation the rank;
the version grows inside a life. A new process starts anew, and so does the memory of a member that was forgotten.
"""

from __future__ import annotations

from array import array

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p.core.ids import Life, short
from reachp2p.core.views import MemberView
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.checkers.rounds import rounds
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World

RANK = {MemberState.ALIVE: 0, MemberState.SUSPECT: 1, MemberState.DEAD: 2, MemberState.LEFT: 0}
EMPTY: array[int] = array("Q")
Evidence = tuple[Life, bool, int, int]


def evidence(life: Life, state: MemberState, incarnation: int) -> Evidence:
    """What is held about a member, in the order of evidence."""
    has_left = state is MemberState.LEFT
    return (life, has_left, 0 if has_left else incarnation, RANK[state])


class Monotonicity(Checker):
    """Follows every `MemberChanged`, and compares member lists in turn for what no event tells (versions)."""

    name = "monotonicity"
    invariant = "I-MONO"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._versions: dict[int, tuple[int, array[int]]] = {}
        """By host: its process, and the numbers that it holds about each machine, packed."""
        world.on_event.append(self._on_event)
        rounds(world).on_look.append(self._look)

    def _on_event(self, host: Host, event: Event) -> None:
        if not isinstance(event, MemberChanged):
            return
        before = host.view.before
        if event.new is None or before is None:
            return
        new = evidence(event.life, event.new, event.incarnation)
        old = evidence(before.life, before.state, before.incarnation)
        if new < old:
            self.fail(
                f"{event.name or short(event.node)} went from {_told(old)} back to {_told(new)} ({event.reason})",
                host,
            )

    def _look(self, host: Host, members: list[MemberView]) -> None:
        process, versions = self._versions.get(host.index, (0, EMPTY))
        if process != host.process_number:
            versions = array("Q")
        versions.extend([0] * (len(self.world.nodes) - len(versions)))
        self._versions[host.index] = (host.process_number, versions)
        for member in members:
            machines = self.world.by_node.get(member.node, ())
            if len(machines) != 1:
                continue  # of two lives at one epoch either may have gone further
            if machines[0].is_hostile or member.life.epoch >= EPOCHS:
                continue  # it counts as it likes
            index = machines[0].index
            old, new = versions[index], _packed(member)
            if new < old:
                self.fail(
                    f"{member.name} went from epoch, incarnation, version {_unpacked(old)} back to {_unpacked(new)}",
                    host,
                )
            versions[index] = new


EPOCHS = 1 << 20
"""Epochs that fit; honest nodes of a run do not come near."""


def _packed(member: MemberView) -> int:
    """Eight bytes a pair of nodes, because there are n² of them: epoch (12 bits), the highest 20 bits of the life id,
    LEFT, incarnation (12) and version (19). A number that has no room counts as the largest that has."""
    life, left = member.life, member.state is MemberState.LEFT
    epoch, incarnation = min(life.epoch, 0xFFF), min(member.incarnation, 0xFFF)
    life_id = int.from_bytes(life.life_id[:3], "big") >> 4
    return epoch << 52 | life_id << 32 | left << 31 | incarnation << 19 | min(member.version, 0x7FFFF)


def _unpacked(numbers: int) -> tuple[int, int, int]:
    return numbers >> 52, numbers >> 19 & 0xFFF, numbers & 0x7FFFF


def _told(held: Evidence) -> str:
    life, has_left, incarnation, rank = held
    state = "LEFT" if has_left else ("ALIVE", "SUSPECT", "DEAD")[rank]
    return f"{state} in life {life}, incarnation {incarnation}"
