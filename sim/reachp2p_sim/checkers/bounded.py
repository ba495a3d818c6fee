"""Everything bounded (I-BOUND, I-LOAD): datagrams keep their size limit, tables their caps.

The gauges in an engine's diagnostics are compared with the constants that limit them. A gauge without a bound is a
violation, too: whoever adds a table says here how large it may become.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reachp2p.core.calls.bulkheads import QUEUED_BYTES_MAX
from reachp2p.core.calls.dedupe import ENDS_BYTES_MAX, ENDS_MAX
from reachp2p.core.calls.fetching import ROUNDS_MAX, VAIN_MAX
from reachp2p.core.calls.gathering import GATHERINGS_MAX
from reachp2p.core.calls.hop_answers import ASKERS_MAX
from reachp2p.core.calls.rates import BUCKETS_MAX
from reachp2p.core.calls.stream_pump import FAREWELLS_MAX
from reachp2p.core.calls.tasks import RESULTS_BYTES_MAX
from reachp2p.core.calls.waiting_cancels import CANCELS_MAX
from reachp2p.core.calls.waiting_replies import WAITING_BYTES_MAX
from reachp2p.core.dissemination.anti_entropy import ANSWERED_MAX, INITIATED_MAX
from reachp2p.core.ids import PATTERNS_MAX
from reachp2p.core.links.incoming import ASSEMBLIES_MAX
from reachp2p.core.membership.contacts import BOOK_MAX
from reachp2p.core.membership.relays import RELAYS_MAX
from reachp2p.core.registry.claims import REMEMBERED_MAX
from reachp2p.core.registry.record import TOPICS_MAX
from reachp2p.core.routing.groups import GROUPS_MAX
from reachp2p.core.routing.load import LOADS_MAX
from reachp2p.core.routing.places import PLACES_MAX
from reachp2p.core.routing.rule_book import HISTORY_MAX
from reachp2p.core.routing.rule_spreading import WANTS_MAX
from reachp2p.core.routing.rules import MEMORY_MAX
from reachp2p.core.routing.table import POOLS_MAX
from reachp2p.core.routing.traffic import TRAFFIC_MAX
from reachp2p.core.settings import Protocol
from reachp2p.core.topics.handling import RUNNING_MAX, WAITING_MAX
from reachp2p.core.topics.interest import PATTERNS_PER_NODE_MAX
from reachp2p.core.topics.publisher import ALL_WAITING_BYTES_MAX, ALL_WAITING_MAX
from reachp2p.core.topics.subscriber import PUBLISHERS_MAX, SUBSCRIPTIONS_MAX
from reachp2p.core.trust.facts import CACHE_MAX
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World

LOOK_INTERVAL = 1.0
TIMERS_FIXED = 64
"""Timers that a node has whatever it does, generously."""
TIMERS_EACH = 4
"""Timers that one suspicion, round, exchange, link or call has at most."""


def _timers(sizes: Mapping[str, int], _: Protocol) -> int:
    """A timer belongs to something that is counted, too."""
    owners = ("suspicions", "exchanges", "pending_calls", "links", "links.dials", "links.nodes")
    more = (
        "calls.serving",
        "calls.bulkheads",
        "calls.replies_waiting",
        "streams",
        "probe.rounds",
        "probe.relays",
        "routing.traffic",
        "routing.loads",
        "claims.agents",
        "topics.handling",
    )
    return TIMERS_FIXED + TIMERS_EACH * sum(sizes.get(f"size.{name}", 0) for name in (*owners, *more))


BOUNDS: dict[str, Callable[[Mapping[str, int], Protocol], int]] = {
    "size.members": lambda _, p: p.members_max,
    "size.records": lambda _, p: (p.members_max + 1) * p.records_per_node_max,
    "size.broadcast_queue": lambda _, p: p.broadcast_queue_max,
    "size.suspicions": lambda sizes, _: sizes["size.members"],
    "size.exchanges": lambda _, p: INITIATED_MAX + ANSWERED_MAX,
    "size.timers": _timers,
    "size.address_book": lambda _, p: BOOK_MAX,
    "size.facts_cached": lambda _, p: CACHE_MAX,
    "size.links": lambda _, p: p.links_max,
    "size.links.nodes": lambda _, p: p.links_max,
    "size.links.dials": lambda _, p: p.links_max,
    "size.links.queued_bytes": lambda _, p: p.links_max * p.link_queue_max,
    "size.links.assembling": lambda _, p: p.links_max * ASSEMBLIES_MAX,
    "size.pending_calls": lambda _, p: p.pending_calls_max,
    "size.tasks": lambda _, p: p.tasks_max,
    "size.task_result_bytes": lambda _, p: RESULTS_BYTES_MAX,
    "size.calls.running": lambda _, p: p.invocations_max,
    "size.calls.serving": lambda _, p: p.pending_calls_max,
    "size.calls.queued_bytes": lambda _, p: QUEUED_BYTES_MAX,
    "size.calls.bulkheads": lambda _, p: p.records_per_node_max * p.invocations_max,
    "size.calls.rates": lambda _, p: BUCKETS_MAX,
    "size.calls.cancels_waiting": lambda _, p: CANCELS_MAX,
    "size.calls.keys": lambda _, p: ENDS_MAX + p.pending_calls_max,
    "size.calls.key_bytes": lambda _, p: ENDS_BYTES_MAX,
    "size.calls.replies_waiting": lambda _, p: p.pending_calls_max,
    "size.calls.replies_waiting_bytes": lambda _, p: WAITING_BYTES_MAX,
    "size.hops.askers": lambda _, p: ASKERS_MAX,
    "size.hops.gatherings": lambda _, p: GATHERINGS_MAX,
    "size.schemas.fetches": lambda _, p: ROUNDS_MAX,
    "size.schemas.in_vain": lambda _, p: VAIN_MAX,
    "size.hops": lambda _, p: p.hops_kept_max,
    "size.hops.failed": lambda _, p: p.hops_failed_max,
    "size.hops.payload_bytes": lambda _, p: 2 * p.hop_payload_bytes_max,
    "size.rules.book": lambda _, p: HISTORY_MAX,
    "size.rules.wants": lambda _, p: WANTS_MAX,
    "size.rules.memory": lambda _, p: MEMORY_MAX,
    "size.streams": lambda _, p: p.streams_max,
    "size.streams.bytes": lambda _, p: p.stream_bytes_max,
    "size.streams.farewells": lambda _, p: FAREWELLS_MAX,
    "size.probe.rounds": lambda sizes, _: sizes["size.members"] + 1,
    "size.probe.relays": lambda _, p: RELAYS_MAX,
    "size.routing.touch_marks": lambda sizes, _: sizes["size.members"],
    "size.routing.traffic": lambda _, p: TRAFFIC_MAX + p.pending_calls_max,
    "size.routing.loads": lambda _, p: LOADS_MAX,
    "size.coordinates.places": lambda _, p: PLACES_MAX,
    "size.routing.nodes": lambda sizes, _: sizes["size.members"] + 1,
    "size.routing.instances": lambda sizes, _: sizes["size.records"],
    "size.routing.capabilities": lambda sizes, p: sizes["size.records"] * p.records_per_node_max,
    "size.routing.pools": lambda _, p: POOLS_MAX,
    "size.routing.groups": lambda _, p: GROUPS_MAX,
    "size.topics.patterns": lambda sizes, _: (sizes["size.members"] + 1) * PATTERNS_PER_NODE_MAX,
    "size.topics.sequences": lambda sizes, _: sizes["size.members"] + 1,
    "size.topics.waiting": lambda _, p: ALL_WAITING_MAX,
    "size.topics.waiting_bytes": lambda _, p: ALL_WAITING_BYTES_MAX,
    "size.topics.subscriptions": lambda _, p: SUBSCRIPTIONS_MAX,
    "size.topics.own_patterns": lambda _, p: PATTERNS_MAX,
    "size.topics.publishers": lambda _, p: PUBLISHERS_MAX,
    "size.topics.handling": lambda _, p: RUNNING_MAX,
    "size.topics.handlers": lambda _, p: p.records_per_node_max * TOPICS_MAX,
    "size.topics.handler_waiting": lambda _, p: p.records_per_node_max * TOPICS_MAX * WAITING_MAX,
    "size.claims.agents": lambda sizes, _: sizes["size.records"],
    "size.claims.remembered": lambda _, p: REMEMBERED_MAX,
    "health": lambda _, p: p.health_max,
}
"""What each gauge may be at most, given the other gauges and the constants of the protocol."""


class Bounded(Checker):
    """Judges every datagram as it is sent, and the gauges of one node after the other, one a second."""

    name = "bounded"
    invariant = "I-BOUND"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.network.on_oversized = self._on_oversized
        self._turn = 0
        world.every(LOOK_INTERVAL, self._look)

    def _on_oversized(self, host_name: str, size: int) -> None:
        self.fail(
            f"{host_name} sends a datagram of {size} bytes; {self.world.protocol.datagram_max} are allowed"
        )

    def _look(self) -> None:
        running = self.world.running
        if running:
            self._judge(running[self._turn % len(running)])
            self._turn += 1

    def finish(self) -> None:
        """Judge every node once more."""
        for host in self.world.running:
            self._judge(host)

    def _judge(self, host: Host) -> None:
        diagnostics = host.engine.diagnostics()
        for name, size in diagnostics.items():
            bound = BOUNDS.get(name)
            if bound is None:
                if name.startswith("size."):
                    self.fail(f"{name} is {size}, and nobody has said how large it may become", host)
            elif size > bound(diagnostics, self.world.protocol):
                most = bound(diagnostics, self.world.protocol)
                self.fail(f"{name} is {size}; at most {most} are allowed", host)
