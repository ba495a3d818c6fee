"""Availability (I-AVAIL): whoever can reach a provider finds one, whatever has happened to the others.

Judged while the world has stood still for S_max + D·T: by then each side of a partition has buried the other, so a call
must not fail for want of an instance while its caller holds a running, reachable node ALIVE that has offered the
capability all along; and of all such calls at most one in a hundred may be sent to a node that its caller cannot reach
(each call counts with the share of such nodes among those it may go to).
"""

from __future__ import annotations

from reachp2p.core.commands import RouteQuery
from reachp2p.core.events import CallEnded, Event, MemberState, RecordChanged
from reachp2p.core.ids import NodeId, short
from reachp2p.errors import ErrorCode
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import dissemination, suspicion_maximum
from reachp2p_sim.world.world import World

NO_ROUTE = (int(ErrorCode.UNKNOWN_TARGET), int(ErrorCode.NO_HEALTHY_INSTANCE))
MISROUTED_SHARE = 0.01
LOSS_MAX = 0.1


class Availability(Checker):
    """Follows calls."""

    name = "availability"
    invariant = "I-AVAIL"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._changed_at = 0.0
        self._judged: dict[tuple[int, int, bytes], None] = {}
        """Calls under way that were made when the world had stood still."""
        self.calls = 0
        self.misrouted = 0.0
        world.on_call.append(self._on_call)
        world.listen(self._on_event, RecordChanged, CallEnded)

    def _on_call(self, host: Host, query: RouteQuery, call: bytes, code: int) -> None:
        if query.capability is None or not host.is_sound or not self._stands_still():
            return  # nothing is promised to a caller whose clock is wrong or whose processor is slow
        providers = self._providers(host, query.capability)
        if not providers:
            return
        if code in NO_ROUTE:
            self.fail(
                f"finds nobody for {query.capability} ({code}) and could reach {providers[0].name}", host
            )
        if code:
            return
        self._judged[host.index, host.process_number, call] = None
        routable = host.engine.routable(query.capability)
        lost = [node for node in routable if not self._is_reachable(host, node)]
        self.calls += 1
        self.misrouted += len(lost) / len(routable) if routable else 0.0
        if self.misrouted > max(1.0, MISROUTED_SHARE * self.calls):
            self.fail(
                f"would send calls of {query.capability} to {', '.join(short(node) for node in lost)}, which it cannot "
                f"reach; {self.misrouted:.1f} of {self.calls} calls so far",
                host,
            )

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, RecordChanged) and event.node == host.node:
            self._changed_at = self.world.now
        elif isinstance(event, CallEnded):
            key = (host.index, host.process_number, event.call)
            if key in self._judged:
                del self._judged[key]
                if event.code in NO_ROUTE:
                    self.fail(f"a call found nobody ({event.code}) although a provider was reachable", host)

    def _is_reachable(self, caller: Host, node: NodeId) -> bool:
        targets = self.world.by_node.get(node, ())
        return any(
            _is_doubtful(target)
            or self._reach_each_other(caller, target)
            or self._is_vouched_for(caller, target)
            for target in targets
        )

    def _is_vouched_for(self, caller: Host, target: Host) -> bool:
        """Somebody in between reaches both: then it is held ALIVE, and rightly so."""
        return target.is_running and any(
            self._reach_each_other(caller, between) and self._reach_each_other(between, target)
            for between in self.world.running
        )

    def _stands_still(self) -> bool:
        world = self.world
        n = len(world.running)
        since = max(world.history.last_change_at, self._changed_at)
        least = suspicion_maximum(n, world.protocol) + dissemination(n, world.protocol)
        return world.now - since > least and world.network.paths.worst()[0] <= LOSS_MAX

    def _providers(self, caller: Host, capability: str) -> list[Host]:
        """Machines that offer it, run, are reached both ways, and are held ALIVE in their present life."""
        return [
            host
            for host in self.world.running
            if any(
                capability == one.name
                for offer in host.application.offers
                if not offer.spec.exclusive  # while nobody owns it, calls fail
                for one in offer.spec.capabilities
            )
            and not host.application.is_leaving
            and self._reach_each_other(caller, host)
            and (host is caller or _holds_alive(caller, host))
        ]

    def _reach_each_other(self, one: Host, other: Host) -> bool:
        if one is other:
            return True
        paths = (one.cut | one.held) >> other.index & 1 or (other.cut | other.held) >> one.index & 1
        return other.is_running and other.is_sound and one.is_sound and not paths


def _is_doubtful(host: Host) -> bool:
    """Whether it may be reached and yet nothing is promised of it: it is hostile or slow, or its clock is wrong."""
    return host.is_hostile or (host.is_running and not host.is_paused and not host.is_sound)


def _holds_alive(caller: Host, host: Host) -> bool:
    held = caller.view.members.get(host.node)
    return held is not None and held.state is MemberState.ALIVE and held.life == host.life
