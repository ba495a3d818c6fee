"""A small workload: agents with simulated handlers, and callers that call a capability in a closed loop.

What a host offers and calls outlives its processes, as a program that is started again offers and calls the same. A
handler's reply names the life that computed it, so a checker can tell when a caller was given the result of a life that
it already knew to be over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reachp2p.core.commands import (
    AgentSpec,
    CallSpec,
    CapabilitySpec,
    InvokeResult,
    RouteQuery,
    StreamKey,
    StreamKind,
)
from reachp2p.core.effects import Invoke
from reachp2p.core.events import CallEnded, StreamEnded
from reachp2p.core.ids import Life, NodeId
from reachp2p.errors import CallFailed, ErrorCode
from reachp2p_sim.machines.streaming import Streaming, StreamLedger, Yielding
from reachp2p_sim.world import trace

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.machines.process import Process

FIRST_CALL_AFTER = 1.0
"""Seconds from the start of a process to its first call, at most; drawn."""

LOOK_AGAIN_AFTER = 0.05
"""Seconds between two looks of a caller that waits for an instance."""


@dataclass(slots=True, frozen=True)
class Handler:
    """How a simulated handler behaves. Times in seconds, shares 0 to 1."""

    service_time: float = 0.005
    """Mean of an exponential."""
    fails: float = 0.0
    """Share of calls that raise (1403)."""
    hangs: float = 0.0
    """Share of calls that never return."""
    items: int = 0
    """Items that a call of a streaming capability yields, each after a service time."""
    item_bytes: int = 100


@dataclass(slots=True, frozen=True)
class Offer:
    """One agent that a host offers, and how its handlers behave."""

    spec: AgentSpec
    handler: Handler

    @classmethod
    def simple(
        cls,
        agent: str,
        capability: str,
        handler: Handler,
        repeatable: bool = True,
        *,
        exclusive: bool = False,
    ) -> Offer:
        """An agent with one capability, which streams its results if its handler yields items."""
        stream = StreamKind.RESULTS if handler.items else StreamKind.NONE
        offered = CapabilitySpec(name=capability, repeatable=repeatable, stream=stream)
        spec = AgentSpec(agent=agent, capabilities=(offered,), exclusive=exclusive)
        return cls(spec, handler)


@dataclass(slots=True, frozen=True)
class Loop:
    """One caller: call, wait for the end, think, call again."""

    query: RouteQuery
    think_time: float = 1.0
    """Mean of an exponential, seconds."""
    timeout: float = 5.0
    waits: bool = False
    """Whether a process makes its first call only when there is an instance to rely on (`is_callable`)."""
    stream: bool = False
    """Whether the capability streams its results."""


@dataclass(slots=True)
class Call:
    """One call under way: who made it and by when it must have ended, in run time."""

    host: int
    process: int
    started_at: float
    deadline: float
    loop: int


@dataclass(slots=True)
class Ledger:
    """All calls of a run: those under way by (host, process, id), and how the others ended."""

    pending: dict[tuple[int, int, bytes], Call] = field(default_factory=dict)
    ended: dict[tuple[int, int, bytes], int] = field(default_factory=dict)
    codes: dict[int, int] = field(default_factory=dict)
    started: int = 0
    abandoned: int = 0
    """Calls whose caller's process ended first: nobody was left to be told."""
    invoked: int = 0
    streams: StreamLedger = field(default_factory=StreamLedger)


@dataclass(slots=True)
class Application:
    """What runs above one host's engine."""

    host: Host
    offers: list[Offer] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    is_leaving: bool = False
    """The process has been told to leave: a program that says goodbye begins nothing more."""
    _running: dict[int, str] = field(default_factory=dict)
    _ready: set[int] = field(default_factory=set)
    """The loops of this process that have made their first call."""
    _streaming: Streaming = field(init=False)

    def __post_init__(self) -> None:
        self._streaming = Streaming(self.host)

    # Life of the process

    def process_started(self, process: Process) -> None:
        """Offer what this host offers, and start its callers."""
        host = self.host
        self.is_leaving = False
        self._ready.clear()
        for offer in self.offers:
            process.engine.register(offer.spec, host.now)
        for number in range(len(self.loops)):
            wait = host.world.chance("callers", host).random() * FIRST_CALL_AFTER
            host.world.timeline.after(wait, self._call, (process, number))

    def process_ended(self) -> None:
        """Nobody is left to hear how the calls of this process end."""
        self._running.clear()
        self._streaming.clear()
        ledger = self.host.world.ledger
        for key in [key for key in ledger.pending if key[:2] == (self.host.index, self.host.process_number)]:
            del ledger.pending[key]
            ledger.abandoned += 1

    # Serving

    def offer(self, offer: Offer) -> None:
        """Offer an agent from now on, and after each restart."""
        self.offers = [old for old in self.offers if old.spec.agent != offer.spec.agent] + [offer]
        if self.host.is_running:
            self.host.engine.register(offer.spec, self.host.now)
            self.host.settle()

    def withdraw(self, agent: str) -> None:
        """Offer an agent no longer."""
        self.offers = [offer for offer in self.offers if offer.spec.agent != agent]
        self.host.engine.withdraw(agent, self.host.now)
        self.host.settle()

    def invoke(self, invoke: Invoke) -> None:
        """Run a handler: its end is planned, unless it never returns."""
        host = self.host
        host.world.ledger.invoked += 1
        host.world.invoked(host, invoke)
        self._running[invoke.invocation] = invoke.agent
        handler = next(offer.handler for offer in self.offers if offer.spec.agent == invoke.agent)
        if invoke.stream:
            self._streaming.serve(
                invoke.invocation, Yielding(handler.items, handler.item_bytes, handler.service_time)
            )
            return
        chance = host.world.chance("handlers", host)
        service_time = chance.expovariate(1.0 / handler.service_time) if handler.service_time else 0.0
        luck = chance.random()
        if luck >= handler.hangs:
            fails = luck < handler.hangs + handler.fails
            host.world.timeline.after(service_time, self._on_served, (host.process, invoke.invocation, fails))

    def cancel(self, invocation: int) -> None:
        """What this handler still returns is discarded."""
        self._running.pop(invocation, None)
        self._streaming.cancel(invocation)

    def stream_ready(self, stream: StreamKey) -> None:
        """An item may be given or taken now."""
        self._streaming.ready(stream)

    def _on_served(self, argument: tuple[Process, int, bool]) -> None:
        if not argument[0].is_over:
            self.host.when_awake(self._serve, argument)

    def _serve(self, argument: tuple[Process, int, bool]) -> None:
        process, invocation, fails = argument
        host = self.host
        if process.is_over or self._running.pop(invocation, None) is None:
            return
        life = process.engine.life
        assert life is not None
        result = (
            InvokeResult(code=int(ErrorCode.HANDLER_FAILED), detail="simulated failure")
            if fails
            else InvokeResult(payload=sign_reply(host.node, life))
        )
        process.invoke_ended(invocation, result)

    # Calling

    def call_in_a_loop(self, loop: Loop, *, at_once: bool = False) -> None:
        """Call from now on (`at_once`: this very moment), and after each restart."""
        self.loops.append(loop)
        if self.host.is_running:
            drawn = self.host.world.chance("callers", self.host).random() * FIRST_CALL_AFTER
            wait = 0.0 if at_once else drawn
            self.host.world.timeline.after(wait, self._call, (self.host.process, len(self.loops) - 1))

    def _call(self, argument: tuple[Process, int]) -> None:
        if not argument[0].is_over:
            self.host.when_awake(self._start_call, argument)

    def _start_call(self, argument: tuple[Process, int]) -> None:
        process, number = argument
        host, loop = self.host, self.loops[number]
        if process.is_over or self.is_leaving:
            return
        is_first = loop.waits and number not in self._ready
        has_begun = bool(host.lives) and host.lives[-1] == host.life
        if is_first and not (has_begun and host.engine.is_callable(loop.query.capability or "")):
            host.world.timeline.after(LOOK_AGAIN_AFTER, self._call, argument)
            return
        self._ready.add(number)
        now = host.world.timeline.now
        host.world.trace.number(trace.COMMAND, now, host.index, number)
        ledger = host.world.ledger
        ledger.started += 1
        try:
            call = host.engine.call(
                CallSpec(query=loop.query, payload=b"work", timeout=loop.timeout, stream=loop.stream),
                host.now,
            )
        except CallFailed as failure:
            ledger.codes[int(failure.code)] = ledger.codes.get(int(failure.code), 0) + 1
            host.world.called(host, loop.query, b"", int(failure.code))
            self._think(number)
        else:
            host.world.called(host, loop.query, call, 0)
            ledger.pending[host.index, process.number, call] = Call(
                host.index, process.number, now, now + loop.timeout, number
            )
            if loop.stream:
                self._streaming.begin(call)
        host.settle()

    def call_ended(self, event: CallEnded) -> None:
        """The engine says how a call ended. The ledger keeps its id, so that a second end is noticed."""
        host = self.host
        if isinstance(event, StreamEnded):
            self._streaming.ended(event)
        ledger = host.world.ledger
        key = (host.index, host.process_number, event.call)
        call = ledger.pending.pop(key, None)
        ledger.ended[key] = ledger.ended.get(key, 0) + 1
        if call is not None:
            ledger.codes[event.code] = ledger.codes.get(event.code, 0) + 1
            self._think(call.loop)

    def _think(self, number: int) -> None:
        host = self.host
        wait = host.world.chance("callers", host).expovariate(1.0 / self.loops[number].think_time)
        if host.process is not None:
            host.world.timeline.after(wait, self._call, (host.process, number))


def sign_reply(node: NodeId, life: Life) -> bytes:
    """The payload of every simulated reply: who computed it, in which life."""
    return f"{node.hex()} {life.epoch} {life.life_id.hex()}".encode()


def read_reply(payload: bytes) -> tuple[NodeId, Life]:
    """The other way."""
    node, epoch, life_id = payload.decode().split()
    return NodeId(bytes.fromhex(node)), Life(int(epoch), bytes.fromhex(life_id))
