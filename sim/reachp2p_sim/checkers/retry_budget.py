"""Retry budget (I-RETRY): second attempts are a fifth of the calls at most, and ten a second besides.

Judged at each second attempt of a node whose clock is right, over the nine seconds before it: the budget is kept in
whole seconds, ten of them, which hold these nine whatever their fractions are. A second attempt is a request for a call
that another node has been asked before, or that this very node has begun to serve; what follows a refusal of this very
node is not seen.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from reachp2p.core.commands import RouteQuery
from reachp2p.core.effects import Invoke
from reachp2p.core.events import CallEnded, Event
from reachp2p.core.routing.budget import CREDIT_SECONDS
from reachp2p.core.wire.messages import Request
from reachp2p_sim.checkers.asked import Asked
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World


@dataclass(slots=True)
class Calls:
    """Those of one process: when they began, when a second attempt was made, who was last asked for each."""

    process: int
    begun: deque[float] = field(default_factory=deque)
    again: deque[float] = field(default_factory=deque)
    asked: dict[bytes, int] = field(default_factory=dict)


class RetryBudget(Checker):
    """Counts the requests of each caller."""

    name = "retry_budget"
    invariant = "I-RETRY"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._calls: dict[int, Calls] = {}
        Asked.of(world).on_request.append(self._on_request)
        world.on_call.append(self._on_call)
        world.on_invoke.append(self._on_invoke)
        world.listen(self._on_event, CallEnded)

    def _of(self, host: Host) -> Calls:
        calls = self._calls.get(host.index)
        if calls is None or calls.process != host.process_number or not _is_exact(host):
            calls = self._calls[host.index] = Calls(host.process_number)
        return calls

    def _on_call(self, host: Host, query: RouteQuery, call: bytes, code: int) -> None:
        if not code:
            self._of(host).begun.append(self.world.now)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, CallEnded):
            self._of(host).asked.pop(event.call, None)

    def _on_invoke(self, host: Host, invoke: Invoke) -> None:
        if invoke.caller == host.node:
            self._of(host).asked.setdefault(invoke.message_id, host.index)

    def _on_request(self, host: Host, target: Host, request: Request) -> None:
        calls = self._of(host)
        before = calls.asked.get(request.message_id)
        calls.asked[request.message_id] = target.index
        if before is None or before == target.index:
            return
        now, protocol = self.world.now, self.world.protocol
        calls.again.append(now)
        _forget(calls.again, now - (CREDIT_SECONDS - 1))
        _forget(calls.begun, now - CREDIT_SECONDS)
        most = protocol.retry_percent / 100 * len(calls.begun) + protocol.retries_free * CREDIT_SECONDS
        if len(calls.again) > most and _is_exact(host):
            self.fail(
                f"has made {len(calls.again)} second attempts within {CREDIT_SECONDS - 1} s, and {len(calls.begun)} "
                f"calls within {CREDIT_SECONDS} s: {most:g} are allowed",
                host,
            )


def _is_exact(host: Host) -> bool:
    """Whether a second of its clock is one of ours."""
    return host.clock.rate == 1.0


def _forget(times: deque[float], before: float) -> None:
    while times and times[0] <= before:
        times.popleft()
