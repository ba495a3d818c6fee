"""Mutants of membership: merging, detection, removal, repair."""

from __future__ import annotations

from typing import Any

import msgspec

from reachp2p.core.consequences import Consequences
from reachp2p.core.events import MemberState
from reachp2p.core.ids import NodeId
from reachp2p.core.membership import table
from reachp2p.core.membership.accuser import Accuser
from reachp2p.core.membership.contacts import Contacts
from reachp2p.core.membership.detector import Detector
from reachp2p.core.membership.member import Member, Precedence, precedence
from reachp2p.core.membership.own import OwnNode
from reachp2p.core.membership.probe import Prober, ProbeResult
from reachp2p.core.membership.suspicion import Grade
from reachp2p.core.membership.table import Change, MemberTable
from reachp2p.core.push_pull import PushPull
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.trust.facts import Checked
from reachp2p.core.upkeep import Upkeep
from reachp2p.core.wire.facts import Accusation, Head
from reachp2p_sim.mutants.base import Patches, mutant


@mutant(
    "lower-incarnation-wins",
    "the merge lets any other incarnation win, also a lower one",
    scenario="random-faults",
    caught_by="monotonicity or load",
)
def lower_incarnation_wins(patches: Patches) -> None:
    def broken(new: Checked[Head], held: Checked[Head]) -> Precedence:
        same_run = new.fact.life == held.fact.life and new.fact.left == held.fact.left
        if same_run and new.fact.incarnation != held.fact.incarnation:
            return Precedence.REFUTES
        return precedence(new, held)

    patches.replace(table, "precedence", broken)


@mutant(
    "lower-life-wins",
    "the merge lets any other life win, also a former one",
    scenario="crash-restart",
    caught_by="monotonicity",
    nodes=8,
)
def lower_life_wins(patches: Patches) -> None:
    def broken(new: Checked[Head], held: Checked[Head]) -> Precedence:
        return Precedence.NEW_LIFE if new.fact.life != held.fact.life else precedence(new, held)

    patches.replace(table, "precedence", broken)


@mutant(
    "dead-by-hearsay",
    "whoever is told that a member is DEAD believes it, without an own probe",
    scenario="pause",
    caught_by="verdicts",
)
def dead_by_hearsay(patches: Patches) -> None:
    def broken(
        self: Any, checked: Checked[Accusation], now: float, *, newcomer: bool = False
    ) -> list[Change]:
        changes: list[Change] = heard(self, checked, now, newcomer=newcomer)
        node = NodeId(checked.fact.subject)
        if (
            checked.fact.grade >= Grade.DEAD
            or len(self._suspicions[node].others if node in self._suspicions else ()) > 1
        ):
            change = self._table.doubt(node, MemberState.DEAD, now, "hearsay")
            self.end(node)
            changes += [change] if change is not None else []
        return changes

    heard = patches.replace(Detector, "on_accusation", broken)


@mutant(
    "dead-at-once",
    "one unanswered probe, without helpers, is enough for DEAD",
    scenario="lossy",
    caught_by="verdicts or accuracy",
)
def dead_at_once(patches: Patches) -> None:
    def broken(self: Any, result: Any, now: float) -> list[Change]:
        changes: list[Change] = on_probe(self, result, now)
        if not result.answered and not result.void:
            change = self._table.doubt(result.node, MemberState.DEAD, now, "one probe")
            self.end(result.node)
            changes += [change] if change is not None else []
        return changes

    patches.limit(indirect_probes=0)
    on_probe = patches.replace(Detector, "on_probe", broken)


@mutant(
    "answers-unheard",
    "an answered probe counts as a failed one, and the doubted are not told",
    scenario="steady",
    caught_by="accuracy",
)
def answers_unheard(patches: Patches) -> None:
    def broken(self: Any, result: ProbeResult, now: float) -> list[Change]:
        changes: list[Change] = on_probe(self, msgspec.structs.replace(result, answered=False), now)
        return changes

    on_probe = patches.replace(Detector, "on_probe", broken)
    patches.replace(Accuser, "accuse", lambda self, *arguments: None)
    patches.replace(Detector, "doubt", lambda self, *arguments: None)


@mutant(
    "never-dead",
    "a suspicion never ends",
    scenario="crash",
    caught_by="completeness or convergence",
)
def never_dead(patches: Patches) -> None:
    def broken(self: Any, member: Member, now: float) -> list[Change]:
        return []

    patches.replace(Detector, "_judge", broken)


@mutant(
    "never-refutes",
    "a node that is accused says nothing",
    scenario="pause",
    caught_by="refutation",
)
def never_refutes(patches: Patches) -> None:
    def broken(self: OwnNode, incarnation: int) -> bool:
        return False

    patches.replace(OwnNode, "refute", broken)


@mutant(
    "refutes-by-ten",
    "a refutation raises the incarnation by ten",
    scenario="pause",
    caught_by="refutation",
)
def refutes_by_ten(patches: Patches) -> None:
    def broken(self: OwnNode, incarnation: int) -> bool:
        rises = refute(self, incarnation)
        self.incarnation += 9 if rises else 0
        return bool(rises)

    refute = patches.replace(OwnNode, "refute", broken)


@mutant(
    "refutes-unasked",
    "a node that is told of any doubt, old or new, raises its own incarnation",
    scenario="pause",
    caught_by="refutation",
)
def refutes_unasked(patches: Patches) -> None:
    def broken(self: OwnNode, incarnation: int) -> bool:
        return bool(refute(self, self.incarnation))

    refute = patches.replace(OwnNode, "refute", broken)


@mutant(
    "buried-unprobed",
    "a suspicion whose timer has ended is DEAD, without a probe of one's own",
    scenario="pause",
    caught_by="verdicts",
)
def buried_unprobed(patches: Patches) -> None:
    def broken(self: Any, node: NodeId, now: float) -> list[Change]:
        suspicion = self._suspicions.get(node)
        if suspicion is not None:
            suspicion.probe_failed = True
        changes: list[Change] = ends(self, node, now)
        return changes

    ends = patches.replace(Detector, "on_suspicion_ends", broken)
    patches.replace(Detector, "on_verify_due", lambda self, node, now: None)


@mutant(
    "dead-is-left",
    "a member that others say is DEAD is taken for one that has left",
    scenario="crash",
    caught_by="ownership",
)
def dead_is_left(patches: Patches) -> None:
    def broken(self: Any, node: NodeId, state: MemberState, now: float, reason: str) -> Change | None:
        change: Change | None = doubt(self, node, state, now, reason)
        if change is None or state is not MemberState.DEAD:
            return change
        change.member.state = MemberState.LEFT
        return msgspec.structs.replace(change, new=MemberState.LEFT)

    doubt = patches.replace(MemberTable, "doubt", broken)


@mutant(
    "tombstone-dropped",
    "a member that left is forgotten by the next sweep, so old news of it is believed again",
    scenario="leave-unheard",
    caught_by="no_resurrection",
    nodes=4,
)
def tombstone_dropped(patches: Patches) -> None:
    def broken(self: Any, now: float) -> None:
        sweep(self, now)
        for member in [m for m in self._parts.table if m.state is MemberState.LEFT]:
            change = self._parts.table.forget(member.node, "forgotten at once")
            self._consequences.draw([change], now)

    sweep = patches.replace(Upkeep, "on_sweep_due", broken)


@mutant(
    "no-anti-entropy",
    "views are never compared",
    scenario="partition-halves",
    caught_by="convergence",
)
def no_anti_entropy(patches: Patches) -> None:
    def broken(self: PushPull, member: Member, now: float) -> None:
        return None

    patches.replace(PushPull, "sync_with", broken)


@mutant(
    "lost-are-given-up",
    "whoever has joined once looks for nobody any more",
    scenario="partition-long",
    caught_by="convergence",
    nodes=4,
)
def lost_are_given_up(patches: Patches) -> None:
    def broken(self: Contacts, now: float) -> None:
        if not self.has_joined:
            look(self, now)

    look = patches.replace(Contacts, "on_contact_due", broken)


@mutant(
    "silent-change",
    "a member that becomes SUSPECT is changed without an event",
    scenario="crash",
    caught_by="truthful_events",
)
def silent_change(patches: Patches) -> None:
    def broken(self: Any, change: Change, now: float) -> None:
        if change.new is not MemberState.SUSPECT:
            tell(self, change, now)

    tell = patches.replace(Consequences, "_notify", broken)


@mutant(
    "table-without-limit",
    "the member table takes more rows than it may",
    scenario="steady",
    caught_by="bounded",
)
def table_without_limit(patches: Patches) -> None:
    patches.limit(members_max=4)

    def broken(self: Any, node: NodeId, head: Checked[Head], now: float) -> Any:
        self._members_max = 1_000_000
        return insert(self, node, head, now)

    insert = patches.replace(MemberTable, "_insert", broken)


@mutant(
    "sweeps-the-living",
    "the retention of tombstones is applied to the living",
    scenario="partition-long",
    caught_by="accuracy",
    nodes=4,
)
def sweeps_the_living(patches: Patches) -> None:
    def broken(self: Any, now: float) -> None:
        sweep(self, now)
        old = [m.node for m in self._parts.table if now - m.since > 600]
        for node in old:
            change = self._parts.table.forget(node, "swept by mistake")
            if change is not None:
                self._consequences.draw([change], now)

    sweep = patches.replace(Upkeep, "on_sweep_due", broken)


@mutant(
    "deaf-refutes",
    "a node that thinks most others dead takes the fault for its own, and refutes by the clock",
    scenario="one-way",
    caught_by="flapping or refutation",
)
def deaf_refutes(patches: Patches) -> None:
    def broken(self: Any, now: float) -> None:
        due(self, now)
        own = self._parts.own
        dead = sum(member.state is MemberState.DEAD for member in self._parts.table)
        if 2 * dead > len(self._parts.table) and own.refute(own.incarnation):
            self._hearing.announce(now)

    due = patches.replace(Upkeep, "on_successors_due", broken)


@mutant(
    "routes-to-the-dead",
    "an instance stays in the routing table when its node is DEAD",
    scenario="partition-halves",
    caught_by="availability",
)
def routes_to_the_dead(patches: Patches) -> None:
    def broken(self: Any, node: NodeId, state: MemberState | None, *arguments: Any) -> bool:
        believed = MemberState.ALIVE if state is MemberState.DEAD else state
        return bool(set_node(self, node, believed, *arguments))

    set_node = patches.replace(RoutingTable, "set_node", broken)
    patches.replace(RoutingTable, "set_unreached", lambda self, node, unreached: False)


@mutant(
    "no-route-after-a-death",
    "with a member that dies all instances go out of the routing table",
    scenario="partition-halves",
    caught_by="availability",
)
def no_route_after_a_death(patches: Patches) -> None:
    def broken(self: Any, node: NodeId, state: MemberState | None, *arguments: Any) -> bool:
        if state is MemberState.DEAD:
            for other in list(self._nodes):
                set_node(self, other, MemberState.DEAD, *arguments)
        return bool(set_node(self, node, state, *arguments))

    set_node = patches.replace(RoutingTable, "set_node", broken)


@mutant(
    "reshuffle-skips",
    "a pass of probes leaves out the last member of the list",
    scenario="crash",
    caught_by="completeness or convergence",
)
def reshuffle_skips(patches: Patches) -> None:
    def broken(self: Any) -> Member | None:
        chosen: Member | None = following(self)
        skipped = max(self._order, default=None)
        return None if chosen is not None and chosen.node == skipped else chosen

    following = patches.replace(Prober, "_next", broken)
