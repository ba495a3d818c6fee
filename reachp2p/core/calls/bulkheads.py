"""The places of all capabilities: who may start, who waits, who is next (docs/protocol/calls.md).

Each capability has a bulkhead of its own, all share the `invocations_max` of the node. A free place goes to one
bulkhead after the other, so that no capability starves the others.
"""

from __future__ import annotations

from reachp2p.core.calls.invocation import Bulkhead, Invocation, InvocationState
from reachp2p.core.commands import CapabilitySpec
from reachp2p.core.views import BulkheadView

QUEUED_BYTES_MAX = 67_108_864
"""Payloads of requests that wait for a place, over all capabilities: 64 of the largest; beyond it 1406."""


class Bulkheads:
    """Bounds: each bulkhead's own, `running_max` handlers at once, `QUEUED_BYTES_MAX` that wait."""

    def __init__(self, running_max: int) -> None:
        self._max = running_max
        self._bulkheads: dict[tuple[str, str], Bulkhead] = {}
        self._waiting: dict[tuple[str, str], Bulkhead] = {}
        """Those with a queue; whoever got a place last goes to the end."""
        self.running = 0
        """Handlers that run now. Read only."""
        self.queued_bytes = 0
        """Payloads that wait. Read only."""
        self.queued = 0
        """Requests that wait. Read only."""

    def __len__(self) -> int:
        return len(self._bulkheads)

    def of(self, agent: str, spec: CapabilitySpec) -> Bulkhead:
        """The bulkhead of a capability, with the limits it has now. It is kept when something enters it."""
        key = (agent, spec.name)
        limit = spec.concurrency_max
        queue_limit = limit if spec.queue_max is None else spec.queue_max
        bulkhead = self._bulkheads.get(key)
        if bulkhead is None:
            return Bulkhead(key, limit, queue_limit)
        bulkhead.limit, bulkhead.queue_limit = limit, queue_limit
        return bulkhead

    def view(self, agent: str, spec: CapabilitySpec) -> BulkheadView:
        """How full the bulkhead of a capability is."""
        bulkhead = self.of(agent, spec)
        return BulkheadView(
            agent=agent,
            capability=spec.name,
            running=bulkhead.running,
            waiting=len(bulkhead.queue),
            concurrency=bulkhead.limit,
            queue=bulkhead.queue_limit,
        )

    def by_agent(self) -> list[tuple[str, int, int]]:
        """How many handlers of each agent run, and how many requests wait for it, where any do."""
        sums: dict[str, tuple[int, int]] = {}
        for (agent, _), bulkhead in self._bulkheads.items():
            running, waiting = sums.get(agent, (0, 0))
            sums[agent] = (running + bulkhead.running, waiting + len(bulkhead.queue))
        return [(agent, running, waiting) for agent, (running, waiting) in sums.items()]

    def may_start(self, bulkhead: Bulkhead) -> bool:
        """Whether a new request need not wait."""
        return bulkhead.has_place and not bulkhead.queue and self.running < self._max

    def may_wait(self, bulkhead: Bulkhead, size: int) -> bool:
        """Whether a new request may wait, with a payload of so many bytes."""
        return len(bulkhead.queue) < bulkhead.queue_limit and self.queued_bytes + size <= QUEUED_BYTES_MAX

    def start(self, invocation: Invocation) -> None:
        """It takes a place."""
        bulkhead = invocation.bulkhead
        self._bulkheads[bulkhead.key] = bulkhead
        bulkhead.running += 1
        self.running += 1

    def wait(self, invocation: Invocation) -> None:
        """It waits for a place."""
        bulkhead = invocation.bulkhead
        self._bulkheads[bulkhead.key] = bulkhead
        bulkhead.queue[invocation.number] = invocation
        self._waiting[bulkhead.key] = bulkhead
        self.queued_bytes += len(invocation.request.payload)
        self.queued += 1

    def replace(self, former: Invocation, heir: Invocation) -> None:
        """Another request with its idempotency key, and so with its payload, waits in the place of one."""
        bulkhead = heir.bulkhead = former.bulkhead
        waiting = list(bulkhead.queue.values())
        bulkhead.queue.clear()
        for one in waiting:
            stays = heir if one is former else one
            bulkhead.queue[stays.number] = stays

    def leave(self, invocation: Invocation) -> None:
        """It ends: its place is free again, or it waits no more."""
        bulkhead = invocation.bulkhead
        if invocation.state is InvocationState.RUNNING:
            bulkhead.running -= 1
            self.running -= 1
        else:
            self._unqueue(invocation)
        if not bulkhead.running and not bulkhead.queue:
            del self._bulkheads[bulkhead.key]

    def take_next(self) -> Invocation | None:
        """Who gets the place that is free now, and waits no more; None if there is none or nobody waits for it."""
        if not self._waiting or self.running >= self._max:
            return None
        key = next((key for key, bulkhead in self._waiting.items() if bulkhead.has_place), None)
        if key is None:
            return None
        bulkhead = self._waiting.pop(key)
        invocation = next(iter(bulkhead.queue.values()))
        self._unqueue(invocation)
        if bulkhead.queue:
            self._waiting[key] = bulkhead
        return invocation

    def _unqueue(self, invocation: Invocation) -> None:
        bulkhead = invocation.bulkhead
        del bulkhead.queue[invocation.number]
        self.queued_bytes -= len(invocation.request.payload)
        self.queued -= 1
        if not bulkhead.queue:
            self._waiting.pop(bulkhead.key, None)
