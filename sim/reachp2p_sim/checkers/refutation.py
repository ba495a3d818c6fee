"""Refutation (I-REFUTE): who hears that it is doubted says so to the contrary at once, and raises its number by one.

Three rules. A running node that has handled a valid datagram with an accusation of its present life and incarnation has
signed a head with a higher incarnation before anything else happens. An incarnation grows by one at a time. And it
grows only after somebody has accused exactly the former one: nobody can make a node count up with words about others.
"""

from __future__ import annotations

from collections.abc import Callable

from reachp2p.core.events import DrainFinished, Event, Fenced, Paused, Resumed, Started, StartRefused
from reachp2p.core.ids import Life, LinkId, NodeId
from reachp2p.core.wire.facts import Accusation, Fact, Head
from reachp2p.core.wire.messages import AccusationUpdate
from reachp2p_sim.checkers.accepted import accepted
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.listening import listen
from reachp2p_sim.world.world import World


class Refutation(Checker):
    """Follows what is signed; listens to a node only while it stands accused."""

    name = "refutation"
    invariant = "I-REFUTE"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._said: dict[tuple[NodeId, Life], int] = {}
        """The highest incarnation that each life has signed."""
        self._left: dict[tuple[NodeId, Life], bool] = {}
        self._running: dict[int, Life] = {}
        """By host: the life in which it takes part."""
        self._listening: dict[int, Callable[[], None]] = {}
        world.listen(self._on_event, Started, Resumed, Paused, Fenced, StartRefused, DrainFinished)
        world.signed.on_signed.append(self._on_signed)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, Started | Resumed):
            self._running[host.index] = event.life
            self._ignore(host)
        elif isinstance(event, Paused | Fenced | StartRefused | DrainFinished):
            self._running.pop(host.index, None)
            self._ignore(host)

    def _on_signed(self, node: NodeId, fact: Fact, payload: bytes) -> None:
        if isinstance(fact, Head):
            self._on_head(node, fact)
        elif isinstance(fact, Accusation) and fact.accuser != fact.subject:
            subject = NodeId(fact.subject)
            if self._said.get((subject, fact.life)) == fact.incarnation:
                for host in self.world.by_node.get(subject, ()):
                    if host.life == fact.life and host.index not in self._listening:
                        self._listening[host.index] = listen(host, heard=self._on_heard)

    def _on_head(self, node: NodeId, head: Head) -> None:
        key = (node, head.life)
        former = self._said.get(key)
        self._left[key] = head.left or self._left.get(key, False)
        if former is not None and head.incarnation <= former:
            return
        self._said[key] = head.incarnation
        hosts = [host for host in self.world.by_node.get(node, ()) if host.life == head.life]
        if former is None:
            return
        if head.incarnation > former + 1:
            self._blame(hosts, f"raised its incarnation from {former} to {head.incarnation}; one step is due")
        if (head.life, former) not in self.world.signed.accused.get(node, {}):
            self._blame(
                hosts, f"raised its incarnation to {head.incarnation} although nobody doubts {former}"
            )
        for host in hosts:
            self._ignore(host)

    def _blame(self, hosts: list[Host], message: str) -> None:
        self.fail(message, hosts[0] if hosts else None)

    def _ignore(self, host: Host) -> None:
        stop = self._listening.pop(host.index, None)
        if stop is not None:
            stop()

    def _on_heard(self, host: Host, data: bytes, link: LinkId | None) -> None:
        life = host.life
        if life is None or self._running.get(host.index) != life or link is not None:
            return
        key = (host.node, life)
        incarnation = self._said.get(key, 0)
        accused = self.world.signed.accused.get(host.node, {}).get((life, incarnation), ())
        told = [one for one in accused if one.payload in data]
        if told and not self._left[key] and self._is_accepted(host, data):
            accuser = self.world.by_node[NodeId(told[0].accusation.accuser)][0]
            self.fail(
                f"was told that {accuser.name} doubts incarnation {incarnation} of its life {life}, and did not "
                "refute",
                host,
            )

    def _is_accepted(self, host: Host, data: bytes) -> bool:
        """Whether a node must take this datagram for what it says: whole, signed for it, by no life that is over."""
        found = accepted(host, data)
        if found is None:
            return False
        datagram, messages = found
        return datagram.node != host.node and any(isinstance(one, AccusationUpdate) for one in messages)
