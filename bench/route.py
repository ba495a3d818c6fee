"""Routing: `python bench/route.py [--instances 1000] [--seconds 2]` prints one JSON object.

One decision among N instances of a capability, for every policy and for a call that names tags alone, with all stages
on, and with the start and the end of its attempt, while the table changes ten times a second (records with new weights,
nodes that turn SUSPECT and back, instances that come and go); adding and removing one instance,
up to the moment at which the ring has followed; memory; and references from the same run, because only ratios survive
another machine. Times are CPU time of this process. Decisions are timed in batches of 100; a change falls between
batches, and what it postpones (the ring) falls on the decision after it, so `mean` has it and `median` has not.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import time
import tracemalloc
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from statistics import median

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.ring.ring import Ring
from reachp2p.core.routing.access import AccessStage, Identity
from reachp2p.core.routing.breakers import Breakers, BreakerStage
from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.instance import CapabilityInfo, InstanceInfo
from reachp2p.core.routing.load import Loads, LoadStage
from reachp2p.core.routing.load_report import LoadReport
from reachp2p.core.routing.measures import Measures
from reachp2p.core.routing.policies import BUILT_IN
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.stages import STAGES, Selector
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.routing.traffic import TrafficTable
from reachp2p.core.timers import Timers

CAPABILITY = "text.summarize"
AGENT = "nlp/summarizer"
LIFE = Life(1, bytes(16))
BATCH = 100
DECISION_LIMIT_US = 10.0
CHANGE_LIMIT_MS = 10.0
POLICIES = tuple(BUILT_IN)


def node(number: int) -> NodeId:
    return NodeId(blake2b(str(number).encode(), digest_size=32).digest())


def info(weight_percent: int = 100) -> InstanceInfo:
    return InstanceInfo(
        life=LIFE,
        version="1.2.0",
        capabilities={CAPABILITY: CapabilityInfo(repeatable=True)},
        tags={"env": "prod"},
        weight_percent=weight_percent,
    )


def put(table: RoutingTable, number: int) -> None:
    table.set_node(node(number), MemberState.ALIVE, False, f"node-{number}", LIFE)
    table.put_instance(node(number), AGENT, info())


def drop(table: RoutingTable, number: int) -> None:
    table.remove_instance(node(number), AGENT)
    table.set_node(node(number), None)


def filled(count: int) -> RoutingTable:
    table = RoutingTable(Counters())
    for number in range(count):
        put(table, number)
    return table


def routed(count: int) -> Router:
    """A router with everything on: a table of `count` instances behind all stages, breakers, a load report of each."""
    counters, timers = Counters(), Timers()
    traffic, loads = TrafficTable(counters), Loads(timers, counters)
    identity = Identity(node(count + 1))
    stages = (*STAGES[:-1], AccessStage(identity), STAGES[-1], BreakerStage(traffic), LoadStage(loads))
    table = RoutingTable(counters, stages=stages, identity=identity)
    breakers = Breakers(traffic, timers, counters)
    breakers.changed, loads.changed = table.reconsider, table.reconsider_node
    for number in range(count):
        put(table, number)
        loads.on_report(node(number), LIFE, LoadReport(1, number % 5, 0, 0.05).write(), 0.0)
    return Router(table, Random(1), counters, measures=Measures(traffic, loads), breakers=breakers)


def seconds_of(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def change(table: RoutingTable, number: int, count: int) -> None:
    """The `number`th change; after a round of eight the table is as before."""
    subject = node(number // 8 % count)
    match number % 8:
        case 0:
            table.set_node(subject, MemberState.SUSPECT, False, "suspect", LIFE)
        case 1:
            table.put_instance(subject, AGENT, info(150))
        case 2:
            table.set_node(subject, MemberState.ALIVE, False, "alive", LIFE)
        case 3:
            put(table, count)
        case 4:
            table.put_instance(subject, AGENT, info())
        case 5:
            drop(table, count)
        case 6:
            table.set_node(subject, MemberState.DEAD, False, "dead", LIFE)
        case _:
            table.set_node(subject, MemberState.ALIVE, False, "alive", LIFE)


def decisions(
    policy: str, count: int, seconds: float, changes_per_second: float, *, by_tags: bool = False
) -> dict[str, float | int | bool]:
    """Time per decision; the changes themselves are not in it."""
    router = routed(count)
    table = router.table
    queries = [
        RouteQuery(
            capability=None if by_tags else CAPABILITY,
            policy=policy,
            key=f"user:{k}",
            version="^1.1",
            tags={"env": "prod"},
        )
        for k in range(1_000)
    ]
    for query in queries:
        router.pick(router.named(query))
    samples: list[float] = []
    attempts: list[float] = []
    changes = 0
    start = now = time.perf_counter()  # changes come by the wall clock
    while now - start < seconds:
        if (now - start) * changes_per_second > changes:
            change(table, changes, count)
            changes += 1
        first = len(samples) * BATCH
        batch = [queries[(first + k) % 1_000] for k in range(BATCH)]
        named, route, start_attempt, end_attempt = router.named, router.route, router.start, router.end
        before = time.process_time()
        if by_tags:
            picks = [route(named(query), (), 0.1) for query in batch]
        else:
            picks = [route(query, (), 0.1) for query in batch]
        between = time.process_time()
        for one in picks:
            start_attempt(one, 0.1)
            end_attempt(one, 0, 0.15)
        samples.append((between - before) / BATCH * 1e6)
        attempts.append((time.process_time() - between) / BATCH * 1e6)
        now = time.perf_counter()
    ordered = sorted(samples)
    mean = sum(samples) / len(samples)
    return {
        "decisions": len(samples) * BATCH,
        "changes": changes,
        "us_median": round(median(samples), 3),
        "us_mean": round(mean, 3),
        "us_p99_of_batches": round(ordered[int(len(ordered) * 0.99)], 3),
        "us_worst_batch": round(ordered[-1], 3),
        "us_start_and_end_median": round(median(attempts), 3),
        "ok": mean < DECISION_LIMIT_US,
    }


def changing(count: int, rounds: int = 100) -> dict[str, float | bool]:
    """One instance more and one less, each until the table, its pool and the pool's ring have followed."""
    table = filled(count)
    pool = table.pool(Selector(CAPABILITY, None))
    assert pool is not None
    pool.ring()
    adding, removing, ring_only = [], [], []
    for number in range(count, count + rounds):
        adding.append(seconds_of(lambda number=number: (put(table, number), pool.ring())))
        removing.append(seconds_of(lambda number=number: (drop(table, number), pool.ring())))
    ring = pool.ring()
    for number in range(count, count + rounds):
        ring_only.append(seconds_of(lambda number=number: ring.add((node(number), AGENT))))
        ring.remove((node(number), AGENT))
    return {
        "add_ms_median": round(median(adding) * 1e3, 3),
        "add_ms_max": round(max(adding) * 1e3, 3),
        "remove_ms_median": round(median(removing) * 1e3, 3),
        "remove_ms_max": round(max(removing) * 1e3, 3),
        "ring_add_ms_median": round(median(ring_only) * 1e3, 3),
        "limit_ms": CHANGE_LIMIT_MS,
        "ok": max(median(adding), median(removing)) * 1e3 < CHANGE_LIMIT_MS,
    }


def once(count: int) -> dict[str, float]:
    """What is paid once: the first decision that needs a pool, the first that needs its ring, an explanation."""
    table = filled(count)
    router = Router(table, Random(1), Counters())
    plain = RouteQuery(capability=CAPABILITY)
    keyed = RouteQuery(capability=CAPABILITY, policy="consistent_hash", key="k")
    pool_ms = seconds_of(lambda: router.pick(plain)) * 1e3
    ring_ms = seconds_of(lambda: router.pick(keyed)) * 1e3
    return {
        "first_decision_ms": round(pool_ms, 3),
        "first_keyed_decision_ms": round(ring_ms, 3),
        "explain_ms": round(seconds_of(lambda: explain(router, plain)) * 1e3, 3),
        "explain_keyed_ms": round(seconds_of(lambda: explain(router, keyed)) * 1e3, 3),
    }


def memory(count: int) -> dict[str, float]:
    """Bytes per instance, by what is held: tracemalloc, what came before subtracted."""

    def traced(work: Callable[[], object]) -> tuple[object, float, float]:
        gc.collect()
        tracemalloc.start()
        held = work()
        now, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return held, now / count, peak / count

    node_ids = [node(number) for number in range(count)]
    records = [info() for _ in range(count)]

    def fill() -> RoutingTable:
        table = RoutingTable(Counters())
        for number, record in zip(node_ids, records, strict=True):
            table.set_node(number, MemberState.ALIVE, False, "node", LIFE)
            table.put_instance(number, AGENT, record)
        return table

    table, per_instance, _ = traced(fill)
    assert isinstance(table, RoutingTable)
    selector = Selector(CAPABILITY, None)
    pool, per_pool, _ = traced(lambda: table.pool(selector))
    assert pool is not None
    ring, per_ring, ring_peak = traced(lambda: table.pool(selector).ring())  # type: ignore[union-attr]
    assert isinstance(ring, Ring)
    _, per_record, _ = traced(lambda: [info() for _ in range(count)])
    return {
        "record_bytes": round(per_record, 1),
        "table_bytes_per_instance": round(per_instance, 1),
        "pool_bytes_per_instance": round(per_pool, 1),
        "ring_bytes_per_instance": round(per_ring, 1),
        "ring_build_peak_bytes_per_instance": round(ring_peak, 1),
    }


def references(count: int) -> dict[str, float]:
    """µs each: what a caller with a plain list or dict would pay in this run."""
    repeat = 100_000
    items = [node(number) for number in range(count)]
    table = {item: number for number, item in enumerate(items)}
    keys = [f"user:{k}" for k in range(1_000)]
    choose = Random(1).choice

    def choices() -> None:
        for _ in range(repeat):
            choose(items)

    def look_ups() -> None:
        for k in range(repeat):
            table[items[k % count]]

    def hashes() -> None:
        for k in range(repeat):
            blake2b(keys[k % 1_000].encode(), digest_size=8).digest()

    work = {"random.choice": choices, "dict_look_up": look_ups, "blake2b_of_a_key": hashes}
    return {
        name: round(min(seconds_of(run) for _ in range(3)) / repeat * 1e6, 4) for name, run in work.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=2.0, help="per policy")
    parser.add_argument("--changes-per-second", type=float, default=10.0)
    options = parser.parse_args()
    reference = references(options.instances)
    by_policy = {
        policy: decisions(policy, options.instances, options.seconds, options.changes_per_second)
        for policy in POLICIES
    }
    by_policy["random, by tags alone"] = decisions(
        "random", options.instances, options.seconds, options.changes_per_second, by_tags=True
    )
    for figures in by_policy.values():
        figures["times_random.choice"] = round(figures["us_median"] / reference["random.choice"], 1)
    report = {
        "bench": "route",
        "python": platform.python_version(),
        "instances": options.instances,
        "virtual_nodes": 150,
        "decision_limit_us": DECISION_LIMIT_US,
        "decision": by_policy,
        "change": changing(options.instances),
        "once": once(options.instances),
        "memory": memory(options.instances),
        "reference_us": reference,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
