"""Nodes that call each other over the fake links of `tests.unit.links.pair`; the test plays the handlers."""

from __future__ import annotations

from collections.abc import Collection

from reachp2p.core.calls.call import CallDue
from reachp2p.core.calls.callee import Callee
from reachp2p.core.calls.caller import Caller
from reachp2p.core.calls.dedupe import DedupeDue
from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.invocation import InvocationDue
from reachp2p.core.calls.stream import StreamDue
from reachp2p.core.calls.streams import Streams
from reachp2p.core.calls.tasks import TasksDue
from reachp2p.core.calls.waiting_cancels import WaitingCancelsDue
from reachp2p.core.calls.waiting_replies import WaitingRepliesDue
from reachp2p.core.clock import WallClock
from reachp2p.core.commands import (
    AgentSpec,
    CallSpec,
    CapabilitySpec,
    InvokeResult,
    Rate,
    RouteQuery,
    StreamKey,
    StreamKind,
)
from reachp2p.core.effects import CancelInvoke, Effect, Invoke, LinkEnd, Notify, StreamReady, ToLink
from reachp2p.core.events import CallEnded, CallOutlasted, MemberState
from reachp2p.core.ids import Address, Life, NodeId
from reachp2p.core.links.outputs import CallRejected, LinkDown, LinkMessage, LinkOutput, LinkUp
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.instance import CapabilityInfo, Instance, InstanceInfo
from reachp2p.core.routing.own_load import OwnLoad
from reachp2p.core.routing.pick import Pick
from reachp2p.core.routing.rules import RulesInForce
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.routing.unreached import Unreached
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import TimerKey
from reachp2p.core.wire.messages import (
    Cancel,
    Reply,
    Request,
    StreamCredit,
    StreamEnd,
    StreamItem,
    StreamResume,
)
from reachp2p.errors import ErrorCode
from tests.unit.links.pair import CountingEntropy, Net, Side, life, node_id

AGENT = "test/agent"
CAPABILITY = "test.work"


class Order:
    """Picks the first instance that was not tried, in the order in which they were added."""

    def __init__(self) -> None:
        self.instances: list[Instance] = []
        self.started: list[Pick] = []
        """Attempts in flight."""
        self.ended: list[tuple[NodeId, int]] = []
        """How the others have ended, in order."""
        self.excused: list[tuple[NodeId, int]] = []
        """Those among them that say nothing about the instance."""

    def route(self, query: RouteQuery, exclude: Collection[NodeId] = (), now: float = 0.0) -> Pick:
        for instance in self.instances:
            is_meant = query.agent in (None, instance.agent) and (
                query.capability is None or query.capability in instance.info.capabilities
            )
            if is_meant and instance.node not in exclude:
                return Pick(instance, query)
        raise RouteFailed(ErrorCode.NO_HEALTHY_INSTANCE, "no instance is left")

    def start(self, pick: Pick, now: float) -> None:
        assert pick not in self.started, "an attempt begins once"
        self.started.append(pick)

    def end(self, pick: Pick, code: int, now: float, *, callers_fault: bool = False) -> None:
        assert pick in self.started, "an attempt ends once, after it has begun"
        self.started.remove(pick)
        self.ended.append((pick.instance.node, int(code)))
        if callers_fault:
            self.excused.append((pick.instance.node, int(code)))


class Node(Side):
    """One engine's links, caller and callee."""

    def __init__(
        self, world: World, name: str, protocol: Protocol, cluster_id: str, node: NodeId, own: Life
    ) -> None:
        super().__init__(world, name, protocol, cluster_id, node, own)
        self.world = world
        self.has_started = True
        self.agents: dict[str, AgentSpec] = {}
        self.offered: dict[tuple[NodeId, Life], list[str]] = {}
        """What it has heard that others offer."""
        self.running: dict[int, Invoke] = {}
        self.invoked: list[Invoke] = []
        self.cancelled: list[CancelInvoke] = []
        self.ended: list[CallEnded] = []
        self.outlasted: list[CallOutlasted] = []
        self.started: list[bytes] = []
        self.ready: list[StreamKey] = []
        self._is_pumping = False
        clock = WallClock()
        clock.report(world.WALL, 0.0)
        self.hops = HopStore(
            protocol, own=node, own_life=lambda: self.life, clock=clock, counters=self.counters
        )
        self.streams = Streams(
            protocol,
            own=node,
            links=self.links,
            addresses=world.addresses,
            effects=self.effects,
            timers=self.timers,
            counters=self.counters,
        )
        self.load = OwnLoad(is_told=world.tells_load)
        self.callee = Callee(
            protocol,
            own_life=lambda: self.life if self.has_started else None,
            agents=self.agents,
            links=self.links,
            hops=self.hops,
            streams=self.streams,
            effects=self.effects,
            timers=self.timers,
            counters=self.counters,
            offered_by=lambda node, its_life: self.offered.get((node, its_life), ()),
            load=self.load,
        )
        self.table = RoutingTable(self.counters)
        """Knows the marks of nodes that could not be reached; the order of picks is the world's."""
        self.rules = RulesInForce(self.counters)
        self.caller = Caller(
            protocol,
            own=node,
            own_life=lambda: self.life,
            router=world.router,
            unreached=Unreached(self.table, self.timers, self.counters),
            links=self.links,
            callee=self.callee,
            hops=self.hops,
            streams=self.streams,
            addresses=world.addresses,
            entropy=CountingEntropy(f"calls {name}"),
            effects=self.effects,
            timers=self.timers,
            counters=self.counters,
            rules=self.rules,
        )
        self.is_busy = lambda other: (
            self.caller.is_busy(other) or self.callee.is_busy(other) or self.streams.is_busy(other)
        )
        self.on_output = self._dispatch
        self.on_timer = self._timer
        self.on_effect = self._effect
        self.on_unsent = self._unsent

    # What a test does

    def offer(
        self,
        *,
        agent: str = AGENT,
        capability: str = CAPABILITY,
        repeatable: bool = False,
        concurrency: int = 64,
        tier: str | None = None,
        timeout: float | None = None,
        task_timeout: float | None = None,
        queue: int | None = None,
        rate: Rate | None = None,
        stream: StreamKind = StreamKind.NONE,
    ) -> None:
        """Offer an agent and tell everybody."""
        spec = CapabilitySpec(
            name=capability,
            repeatable=repeatable,
            concurrency_max=concurrency,
            queue_max=queue,
            rate=rate,
            stream=stream,
        )
        info = CapabilityInfo(repeatable, timeout, task_timeout, stream)
        tags = {} if tier is None else {"tier": tier}
        self.agents[agent] = AgentSpec(agent=agent, capabilities=(spec,))
        self.world.router.instances.append(
            Instance(
                key=(self.node, agent),
                node_name=self.name,
                state=MemberState.ALIVE,
                refused=False,
                node_life=self.life,
                info=InstanceInfo(life=self.life, capabilities={capability: info}, tags=tags),
            )
        )

    def call(self, payload: bytes = b"question", **changes: object) -> bytes:
        fields: dict[str, object] = {"query": RouteQuery(capability=CAPABILITY), "payload": payload}
        call = self.caller.call(CallSpec(**{**fields, **changes}), self.net.now)  # type: ignore[arg-type]
        self.started.append(call)
        self.perform()
        return call

    def cancel(self, call: bytes) -> bool:
        found = self.caller.cancel(call, self.net.now)
        self.perform()
        return found

    def finish(self, number: int | None = None, result: InvokeResult | None = None) -> None:
        """Let a handler return; the one that has run longest if none is named."""
        if number is None:
            number = next(iter(self.running))
        self.running.pop(number, None)
        self.callee.on_invoke_result(number, result or InvokeResult(payload=b"answer"), self.net.now)
        self.perform()

    def gone(self, node: Node, its_life: Life | None = None, *, left: bool = False) -> None:
        """This node learns that a member's life is over."""
        self.caller.on_member_gone(node.node, its_life or node.life, self.net.now, left=left)
        self.callee.on_member_gone(node.node, its_life or node.life, self.net.now)
        self.perform()

    # What it sees

    def end_of(self, call: bytes) -> CallEnded:
        """The one end of a call."""
        (ended,) = [event for event in self.ended if event.call == call]
        return ended

    @property
    def leftovers(self) -> dict[str, int]:
        """Everything that should be zero once all calls have ended."""
        found = {
            "pending": self.caller.pending,
            "cancels": len(self.caller.waiting_cancels),
            "timers": 0,
            **self.callee.gauges(),
            **self.streams.gauges(),
        }
        for remembered in ("calls.rates", "calls.keys", "calls.key_bytes"):
            del found[remembered]  # on purpose, for a while
        found["timers"] = self.calls_due
        found["busy"] = sum(
            self.caller.is_busy(n.node) or self.callee.is_busy(n.node) for n in self.world.nodes
        )
        found["attempts"] = len(self.world.router.started)
        return {name: value for name, value in found.items() if value}

    @property
    def calls_due(self) -> int:
        """Timers of calls and invocations."""
        return sum(
            self.timers.due_at(key) is not None
            for key in [
                *(CallDue(call) for call in self.started),
                *(InvocationDue(invoke.invocation) for invoke in self.invoked),
                *(StreamDue(call) for call in self.started),
                *(StreamDue(invoke.invocation) for invoke in self.invoked),
            ]
        )

    def _dispatch(self, output: LinkOutput, now: float) -> None:
        match output:
            case LinkMessage(message=Request() as request):
                self.callee.on_request(output.link, output.node, output.life, request, now)
            case LinkMessage(message=Reply() as reply):
                self.caller.on_reply(output.link, output.node, output.life, reply, now)
            case LinkMessage(message=Cancel() as cancel):
                self.callee.on_cancel(output.node, output.life, cancel, now)
            case LinkMessage(message=StreamItem() | StreamCredit() | StreamEnd() | StreamResume() as said):
                self.streams.on_message(output.node, output.life, said, now)
            case CallRejected(call=call):
                side = self.callee if call.is_request else self.caller
                side.on_unreadable(output.link, output.node, output.life, call, now)
            case LinkUp():
                self.streams.on_link_up(output, now)
                self.caller.on_link_up(output, now)
            case LinkDown():
                self.streams.on_link_down(output, now)
                self.callee.on_link_down(output, now)
                self.caller.on_link_down(output, now)
            case _:
                raise AssertionError(output)

    def perform(self) -> None:
        super().perform()
        if self._is_pumping:
            return
        self._is_pumping = True
        while self.streams.is_ready and self.streams.pump(self.net.now):
            super().perform()
        self._is_pumping = False

    def _unsent(self, item: ToLink) -> None:
        if self.streams.on_unsent(item.link, item.message, self.net.now):
            return
        if isinstance(item.message, Request):
            self.caller.on_unsent(item.link, item.message, self.net.now)
        elif isinstance(item.message, Reply):
            self.callee.on_unsent(item.link, item.message, self.net.now)

    def _timer(self, key: TimerKey, now: float) -> None:
        if isinstance(key, CallDue):
            self.caller.on_timer(key, now)
        elif isinstance(key, DedupeDue):
            self.callee.dedupe.on_due(now)
        elif isinstance(key, TasksDue):
            self.caller.tasks.on_due(now)
        elif isinstance(key, WaitingCancelsDue):
            self.caller.waiting_cancels.on_due(now)
        elif isinstance(key, StreamDue):
            self.streams.on_timer(key, now)
        elif isinstance(key, WaitingRepliesDue):
            self.callee.on_waiting_replies_due(now)
        else:
            assert isinstance(key, InvocationDue)
            self.callee.on_timer(key, now)

    def _effect(self, effect: Effect) -> None:
        match effect:
            case Invoke():
                assert effect.invocation not in self.running
                self.running[effect.invocation] = effect
                self.invoked.append(effect)
            case CancelInvoke():
                assert effect.invocation in self.running, "only what runs is cancelled"
                del self.running[effect.invocation]
                self.cancelled.append(effect)
            case Notify(event=CallOutlasted() as outlasted):
                self.outlasted.append(outlasted)
            case StreamReady():
                self.ready.append(effect.stream)
            case Notify(event=CallEnded() as ended):
                assert all(ended.call != earlier.call for earlier in self.ended), "a call ends once"
                self.ended.append(ended)
            case _:
                raise AssertionError(effect)


class World(Net):
    """All nodes of a test, and the one routing table they share."""

    WALL = 1_700_000_000.0
    """What all clocks say at the time 0."""
    tells_load = False
    """Whether nodes that are made from now on tell their load."""

    def __init__(self) -> None:
        super().__init__()
        self.router = Order()
        self.nodes: list[Node] = []

    def node(self, name: str, *, protocol: Protocol | None = None, own: Life | None = None) -> Node:
        node = Node(self, name, protocol or Protocol(), "test", node_id(name), own or life(1))
        self.sides[name] = node
        self.nodes.append(node)
        return node

    def addresses(self, node: NodeId) -> list[Address]:
        return [side.address for side in self.nodes if side.node == node]

    def lose(self, first: Node, second: Node) -> None:
        """Every link between two nodes breaks."""
        for wire in list(self.wires):
            if {end.side.name for end in wire.ends} <= {first.name, second.name}:
                self.cut(wire)
        self.run()

    def kill(self, node: Node) -> None:
        """The process is gone: its links are reset, dials to it are refused."""
        del self.sides[node.name]
        for wire in list(self.wires):
            for end in wire.ends:
                if end.side is node:
                    end.is_open = False
                    end.inbox.clear()
                    other = wire.other(end)
                    if other is not None and other.is_open:
                        other.inbox.clear()
                        other.inbox.append(LinkEnd.LOST)
                        if not other.is_told:
                            self.cut(wire)
