"""One word (I-EQUIV, what nodes owe): nobody signs two different bodies for one set of numbers.

Two heads of one life, incarnation and version (both LEFT or both not), or two records of one agent and version, would
prove that their signer lies; every change a node makes must therefore take the next number first. Hostile nodes are not
expected to keep this.
"""

from __future__ import annotations

from reachp2p.core.ids import Life, NodeId
from reachp2p.core.wire.facts import AgentRecord, Fact, Head
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.world.world import World


class Equivocation(Checker):
    """Follows what is signed."""

    name = "equivocation"
    invariant = "I-EQUIV"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.signed.on_signed.append(self._on_signed)

    def _on_signed(self, node: NodeId, fact: Fact, payload: bytes) -> None:
        signed = self.world.signed
        if isinstance(fact, Head):
            numbers = (fact.version, fact.left)
            for one in signed.heads[node, fact.life, fact.incarnation]:
                if (one.head.version, one.head.left) == numbers and one.payload != payload:
                    what = "LEFT" if fact.left else f"incarnation {fact.incarnation}, version {fact.version}"
                    self._blame(node, fact.life, f"two different heads for {what}")
        elif isinstance(fact, AgentRecord):
            for record in signed.records[node, fact.life, fact.agent, fact.version]:
                if record != fact:
                    self._blame(
                        node, fact.life, f"two different records of {fact.agent}, version {fact.version}"
                    )

    def _blame(self, node: NodeId, life: Life, what: str) -> None:
        hosts = [host for host in self.world.by_node.get(node, ()) if host.life == life]
        if not any(host.is_hostile for host in hosts):
            self.fail(f"has signed {what} of life {life}", hosts[0] if hosts else None)
