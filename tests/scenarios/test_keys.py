"""Idempotency keys in a small world: links break all the time, every call ends with its result, no key runs twice."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest
from reachp2p_sim.machines.host import Host
from reachp2p_sim.steps.work import CAPABILITY
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World

from reachp2p.core.commands import CallSpec, Lasting, RouteQuery
from reachp2p.core.effects import Invoke
from reachp2p.core.events import CallEnded, Event
from reachp2p.core.ids import NodeId
from reachp2p.errors import CallFailed

ROUNDS = 40


@pytest.mark.parametrize("lasting", [Lasting.END, Lasting.TASK])
def test_links_break_all_the_time_and_each_key_is_executed_once(lasting: Lasting) -> None:
    """Handlers may not run twice. Calls have keys of their own, or are tasks, which have one anyway."""
    world = World(seed=1)
    ends: dict[bytes, CallEnded] = {}
    executed: Counter[tuple[NodeId, str | None]] = Counter()

    def on_event(host: Host, event: Event) -> None:
        if isinstance(event, CallEnded):
            assert event.call not in ends, "a call ends once"
            ends[event.call] = event

    def on_invoke(host: Host, invoke: Invoke) -> None:
        executed[invoke.caller, invoke.idempotency_key] += 1

    world.listen(on_event, CallEnded)
    world.on_invoke.append(on_invoke)
    hosts = world.add_nodes(6, within=1.0)
    instances, callers = hosts[:2], hosts[2:]
    world.offer(*instances, repeatable=False, service_time=0.4)
    world.run(1)
    world.run_until(converged, limit=10)
    calls: list[bytes] = []
    for number in range(ROUNDS):
        if number % 2 == 0:
            world.block_dials(hosts, hosts, reset=True)
        if number % 8 != 4:  # else no link opens for a while
            world.allow_dials()
        for caller in callers:
            key = None if lasting is Lasting.TASK else f"{caller.name} {number}"
            spec = CallSpec(
                query=RouteQuery(capability=CAPABILITY),
                payload=b"work",
                timeout=20.0,
                lasting=lasting,
                idempotency_key=key,
            )
            with suppress(CallFailed):  # no link opens to any instance now
                calls.append(caller.engine.call(spec, caller.now))
            caller.settle()
        world.run(0.25)
    world.allow_dials()
    world.run(21)
    assert len(calls) > ROUNDS * len(callers) / 2
    assert max(executed.values()) == 1
    codes = Counter(ends[call].code for call in calls)
    assert codes[0] > 0.7 * len(calls), codes
    assert set(codes) <= {0, 1411}, codes  # 1411: nothing was executed, because no link opened
    rejoined = sum(caller.engine.diagnostics().get("calls.rejoined", 0) for caller in callers)
    assert rejoined > 20
    for host in hosts:
        sizes = host.engine.diagnostics()
        assert sizes["size.pending_calls"] == sizes["size.calls.serving"] == 0
