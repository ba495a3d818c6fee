"""Fencing (I-FENCE): of two lives of one key the lower one stops for good, and nobody takes its results any more.

Three rules. A process that has said `Paused` runs no handler until it says `Resumed`; one that has said `Fenced` does
nothing more but end its own calls with an error. Who holds a higher life of a node does not take a call's result from
a lower one. And two running processes with one key that reach each other do not both outlast a challenge.
"""

from __future__ import annotations

from reachp2p.core.effects import Invoke
from reachp2p.core.events import CallEnded, Event, Fenced, Paused, Resumed
from reachp2p.core.ids import NodeId, short
from reachp2p_sim.budgets import dissemination, healing, suspicion_maximum
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.host import Host
from reachp2p_sim.workload import read_reply
from reachp2p_sim.world import World

LOOK_INTERVAL = 1.0


class Fencing(Checker):
    """Follows events, handlers and results; looks once a second for two processes with one key."""

    name = "fencing"
    invariant = "I-FENCE"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._stopped: dict[tuple[int, int], str] = {}
        self._together_since: dict[NodeId, float] = {}
        world.on_event.append(self._on_event)
        world.on_invoke.append(self._on_invoke)
        world.every(LOOK_INTERVAL, self._look)

    def _on_event(self, host: Host, event: Event) -> None:
        process = (host.index, host.process)
        if self._stopped.get(process) == "fenced" and not (isinstance(event, CallEnded) and event.code):
            self.fail(f"said {type(event).__name__} after it was fenced", host)
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
        stopped = self._stopped.get((host.index, host.process))
        if stopped is not None:
            self.fail(f"runs a handler of {invoke.agent} while it is {stopped}", host)

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
