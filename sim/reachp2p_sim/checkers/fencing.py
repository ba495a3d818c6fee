"""Fencing (I-FENCE): of two lives of one key the lower one stops for good, and nobody asks it for anything any more.

A process that has said `Paused` runs no handler until it says `Resumed`; one that has said `Fenced` does nothing more
but end its own calls with an error. A life that has been handed a head of a higher life of its own key serves no longer
than one period after that, and neither signs nor sends a head of its own again. Who holds a higher life of a node does
not take a call's result from a lower one, and sends it no request. And two running processes with one key that reach
each other do not both outlast a challenge.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from reachp2p.core.effects import Invoke
from reachp2p.core.events import (
    CallEnded,
    DrainFinished,
    Event,
    Fenced,
    MemberChanged,
    Paused,
    Resumed,
    Started,
    StartRefused,
)
from reachp2p.core.ids import Address, Life, LinkId, NodeId, short
from reachp2p.core.wire.facts import Fact, Head
from reachp2p_sim.checkers.accepted import accepted
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.listening import listen
from reachp2p_sim.machines.workload import read_reply
from reachp2p_sim.measuring.budgets import dissemination, healing, suspicion_maximum
from reachp2p_sim.world.world import World

LOOK_INTERVAL = 1.0
ON_THE_WAY_MAX = 12.0
"""Seconds that a request may have been under way: the longest delay of a path, and a period."""


class Fencing(Checker):
    """Follows events, handlers and results; looks once a second for two processes with one key."""

    name = "fencing"
    invariant = "I-FENCE"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._stopped: dict[tuple[int, int], str] = {}
        self._together_since: dict[NodeId, float] = {}
        self._learned: dict[tuple[int, int, NodeId], float] = {}
        """By observing process and node: since when it knows that a former life is over."""
        self._serving: dict[int, Life] = {}
        self._told_at: dict[tuple[int, Life], float] = {}
        """By host and life: when it was handed a head of a higher one."""
        self._listening: dict[int, Callable[[], None]] = {}
        world.signed.on_signed.append(self._on_signed)
        world.on_event.append(self._on_event)
        world.on_invoke.append(self._on_invoke)
        world.every(LOOK_INTERVAL, self._look)

    def _on_event(self, host: Host, event: Event) -> None:
        process = (host.index, host.process_number)
        if self._stopped.get(process) == "fenced" and not (isinstance(event, CallEnded) and event.code):
            self.fail(f"said {type(event).__name__} after it was fenced", host)
        if isinstance(event, MemberChanged):
            before = host.view.before
            if before is not None and event.new is not None and before.life != event.life:
                self._learned[host.index, host.process_number, event.node] = self.world.now
        elif isinstance(event, Started | Resumed):
            self._serving[host.index] = event.life
            self._listen(host)
        elif isinstance(event, Paused | Fenced | DrainFinished | StartRefused):
            self._serving.pop(host.index, None)
        if isinstance(event, Paused):
            self._stopped[process] = "paused"
        elif isinstance(event, Resumed):
            self._stopped.pop(process, None)
        elif isinstance(event, Fenced):
            self._stopped[process] = "fenced"
        elif isinstance(event, CallEnded) and event.code == 0 and event.payload:
            self._on_result(host, event)

    def _on_result(self, host: Host, event: CallEnded) -> None:
        node, life = read_reply(event.payload)
        held = host.view.members.get(node)
        if held is not None and life < held.life:
            self.fail(
                f"took a result of life {life} of {short(node)} although it holds life {held.life}", host
            )

    def _on_invoke(self, host: Host, invoke: Invoke) -> None:
        stopped = self._stopped.get((host.index, host.process_number))
        if stopped is not None:
            self.fail(f"runs a handler of {invoke.agent} while it is {stopped}", host)
        callers = self.world.by_node.get(invoke.caller, ())
        if callers and all(self._has_long_known(caller, host) for caller in callers):
            since = min(self._learned[caller.index, caller.process_number, host.node] for caller in callers)
            self.fail(
                f"is asked by {callers[0].name}, which has held a higher life of it since {since:.3f} s", host
            )

    def _has_long_known(self, caller: Host, host: Host) -> bool:
        """Whether nothing that this caller sent may still be under way to a life that it did not know to be over.

        A request names its caller's key alone, so of machines with one key each must have known.
        """
        held = caller.view.members.get(host.node)
        if held is None or host.life is None or host.life >= held.life:
            return False
        learned_at = self._learned.get((caller.index, caller.process_number, host.node), inf)
        since = self.world.now - ON_THE_WAY_MAX
        return learned_at < since and self.world.history.last_change_at < since

    # A life that is told of a higher one

    def _listen(self, host: Host) -> None:
        """Only keys with more than one machine have anything to be told."""
        hosts = self.world.by_node[host.node]
        if len(hosts) < 2:
            return
        for twin in hosts:
            if twin.is_running and twin.index not in self._listening:
                self._listening[twin.index] = listen(twin, heard=self._on_heard, sent=self._on_sent)

    def _on_heard(self, host: Host, data: bytes, link: LinkId | None) -> None:
        life = host.life
        if life is None or link is not None or self._serving.get(host.index) != life:
            return
        if (host.index, life) in self._told_at or host.application.is_leaving:
            return
        higher = [
            one.payload
            for (node, other, _), said in self.world.signed.heads.items()
            if node == host.node and other > life
            for one in said
        ]
        if any(payload in data for payload in higher) and accepted(host, data) is not None:
            self._told_at[host.index, life] = self.world.now
            self.world.timeline.after(self._patience, self._judge, (host, host.process_number, life))

    @property
    def _patience(self) -> float:
        return self.world.protocol.probe_interval

    def _judge(self, told: tuple[Host, int, Life]) -> None:
        host, process, life = told
        if host.process_number == process and self._serving.get(host.index) == life and not host.is_paused:
            self.fail(
                f"still serves in life {life}, {self._patience:g} s after it was told of a higher one", host
            )

    def _is_over(self, host: Host, life: Life) -> bool:
        return self.world.now > self._told_at.get((host.index, life), inf) + self._patience

    def _on_signed(self, node: NodeId, fact: Fact, payload: bytes) -> None:
        if not isinstance(fact, Head) or fact.left or not self._told_at:
            return
        for host in self.world.by_node.get(node, ()):
            if host.life == fact.life and self._is_over(host, fact.life):
                self.fail(f"signs a head of life {fact.life}, which it knows to be over", host)

    def _on_sent(self, host: Host, data: bytes, to: Address | LinkId) -> None:
        life = host.life
        if life is None or not self._is_over(host, life):
            return
        said = [
            said
            for (node, own, _), said in self.world.signed.heads.items()
            if (node, own) == (host.node, life)
        ]
        if any(one.payload in data for heads in said for one in heads):
            self.fail(f"goes on saying that life {life} is ALIVE, which it knows to be over", host)

    # Two processes at once

    def _look(self) -> None:
        world = self.world
        if len(world.by_node) == len(world.nodes):
            return  # no key has two machines
        for node, hosts in world.by_node.items():
            if len(hosts) < 2:
                continue
            running = [host for host in hosts if host.is_running and host.life is not None]
            if len(running) < 2 or not world.is_calm:
                self._together_since.pop(node, None)
                continue
            since = self._together_since.setdefault(node, world.now)
            since = max(since, world.history.last_change_at)
            n = len(world.running)
            budget = (
                healing(n, world.protocol)
                + suspicion_maximum(n, world.protocol)
                + dissemination(n, world.protocol)
            )
            if world.now - since > budget:
                names = " and ".join(f"{host.name} (life {host.life})" for host in running)
                self.fail(f"{names} run under one key for {budget:.0f} s, connected and undisturbed")
