"""A small workload: agents with simulated handlers (`handlers`), and callers of their capabilities (`callers`).

What a host offers and calls outlives its processes, as a program that is started again offers and calls the same. A
handler's reply names the life that computed it, so a checker can tell when a caller was given the result of a life that
it already knew to be over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reachp2p.core.commands import CallSpec, InvokeResult, RouteQuery, StreamKey
from reachp2p.core.effects import Invoke
from reachp2p.core.events import CallEnded, StreamEnded
from reachp2p.core.ids import Life, NodeId
from reachp2p.errors import CallFailed, ErrorCode
from reachp2p_sim.machines.callers import Keys, Loop
from reachp2p_sim.machines.handlers import Handler, Offer
from reachp2p_sim.machines.streaming import Streaming, StreamLedger, Yielding
from reachp2p_sim.world import trace

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.machines.process import Process

__all__ = ["Application", "Call", "Handler", "Keys", "Ledger", "Loop", "Offer", "read_reply", "sign_reply"]

FIRST_CALL_AFTER = 1.0
"""Seconds from the start of a process to its first call, at most; drawn."""

LOOK_AGAIN_AFTER = 0.05
"""Seconds between two looks of a caller that waits for an instance."""


@dataclass(slots=True)
class Call:
    """One call under way: who made it and by when it must have ended, in run time."""

    host: int
    process: int
    started_at: float
    deadline: float
    loop: int | None
    """The caller's number; None: a handler makes it."""
    serves: int | None = None
    """The invocation on whose behalf a handler makes it."""


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
    _running: dict[int, Invoke] = field(default_factory=dict)
    """Handlers at work."""
    _ready: set[int] = field(default_factory=set)
    """The loops of this process that have made their first call."""
    _nested: dict[int, bytes] = field(default_factory=dict)
    """The call that each handler waits for, by invocation."""
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
        self._nested.clear()
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

    def change_handler(self, agent: str, handler: Handler) -> None:
        """Let the handlers of an agent behave otherwise from their next call on; nobody is told."""
        self.offers = [
            Offer(offer.spec, handler) if offer.spec.agent == agent else offer for offer in self.offers
        ]

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
        handler = self._handler(invoke.agent)
        if invoke.stream:
            self._streaming.serve(
                invoke.invocation, Yielding(handler.items, handler.item_bytes, handler.service_time)
            )
            return
        self._running[invoke.invocation] = invoke
        chance = host.world.chance("handlers", host)
        service_time = handler.draw(chance)
        host.world.found_work(host, service_time)
        luck = chance.random()
        if luck >= handler.hangs:
            fails = luck < handler.hangs + handler.fails
            host.world.timeline.after(service_time, self._on_served, (host.process, invoke.invocation, fails))

    def cancel(self, invocation: int) -> None:
        """What this handler still returns is discarded, and what it has called is cancelled."""
        self._running.pop(invocation, None)
        self._streaming.cancel(invocation)
        call = self._nested.get(invocation)
        if call is not None:
            self.host.world.timeline.after(0.0, self._cancel_call, (self.host.process, call))

    def _cancel_call(self, argument: tuple[Process, bytes]) -> None:
        process, call = argument
        if not process.is_over:
            process.engine.cancel_call(call, self.host.now)
            process.settle()

    def stream_ready(self, stream: StreamKey) -> None:
        """An item may be given or taken now."""
        self._streaming.ready(stream)

    def _on_served(self, argument: tuple[Process, int, bool]) -> None:
        if not argument[0].is_over:
            self.host.when_awake(self._serve, argument)

    def _serve(self, argument: tuple[Process, int, bool]) -> None:
        process, invocation, fails = argument
        invoke = self._running.get(invocation)
        if process.is_over or invoke is None:
            return
        called = self._handler(invoke.agent).calls
        if called and not fails:
            self._call_for(process, invoke, called)
        else:
            self._answer(process, invocation, fails=fails)

    def _answer(self, process: Process, invocation: int, *, fails: bool) -> None:
        if self._running.pop(invocation, None) is None:
            return
        life = process.engine.life
        assert life is not None
        result = (
            InvokeResult(code=int(ErrorCode.HANDLER_FAILED), detail="simulated failure")
            if fails
            else InvokeResult(payload=sign_reply(self.host.node, life))
        )
        process.invoke_ended(invocation, result)

    def _handler(self, agent: str) -> Handler:
        return next(offer.handler for offer in self.offers if offer.spec.agent == agent)

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
        now = host.world.timeline.now
        if process.is_over or self.is_leaving or now >= loop.ends_at:
            return
        is_first = loop.waits and number not in self._ready
        has_begun = bool(host.lives) and host.lives[-1] == host.life
        if is_first and not (has_begun and host.engine.is_callable(loop.query.capability or "")):
            host.world.timeline.after(LOOK_AGAIN_AFTER, self._call, argument)
            return
        self._ready.add(number)
        host.world.trace.number(trace.COMMAND, now, host.index, number)
        query = loop.query if loop.keys is None else loop.next_query(host.world.chance("keys", host))
        spec = CallSpec(query=query, payload=b"work", timeout=loop.timeout, stream=loop.stream)
        call = self._begin(process, spec, loop.timeout, loop=number)
        if loop.rate or call is None:
            self._think(number)
        if call is not None and loop.stream:
            self._streaming.begin(call)
        host.settle()

    def _call_for(self, process: Process, invoke: Invoke, capability: str) -> None:
        """A handler calls, on behalf of the call that it serves and for as long as that has time."""
        left = max(invoke.deadline - self.host.now, 0.001)
        spec = CallSpec(
            query=RouteQuery(capability=capability),
            payload=b"work",
            timeout=left,
            within=left,
            session_id=invoke.session_id,
            traceparent=invoke.traceparent,
            path=invoke.path,
            hops_left=invoke.hops_left,
        )
        call = self._begin(process, spec, left, serves=invoke.invocation)
        if call is None:
            self._answer(process, invoke.invocation, fails=True)
        else:
            self._nested[invoke.invocation] = call
        self.host.settle()

    def _begin(
        self,
        process: Process,
        spec: CallSpec,
        timeout: float,
        *,
        loop: int | None = None,
        serves: int | None = None,
    ) -> bytes | None:
        """Make a call and note it in the ledger; None if it failed at once."""
        host, ledger = self.host, self.host.world.ledger
        ledger.started += 1
        try:
            call = process.engine.call(spec, host.now)
        except CallFailed as failure:
            ledger.codes[int(failure.code)] = ledger.codes.get(int(failure.code), 0) + 1
            host.world.called(host, spec.query, b"", int(failure.code))
            return None
        host.world.called(host, spec.query, call, 0)
        now = host.world.timeline.now
        ledger.pending[host.index, process.number, call] = Call(
            host.index, process.number, now, now + timeout, loop, serves
        )
        return call

    def call_ended(self, event: CallEnded) -> None:
        """The engine says how a call ended. The ledger keeps its id, so that a second end is noticed."""
        host = self.host
        if isinstance(event, StreamEnded):
            self._streaming.ended(event)
        ledger = host.world.ledger
        key = (host.index, host.process_number, event.call)
        call = ledger.pending.pop(key, None)
        ledger.ended[key] = ledger.ended.get(key, 0) + 1
        if call is None:
            return
        ledger.codes[event.code] = ledger.codes.get(event.code, 0) + 1
        if call.serves is not None:
            self._nested.pop(call.serves, None)
            host.world.timeline.after(0.0, self._on_called, (host.process, call.serves, event.code != 0))
        elif call.loop is not None and not self.loops[call.loop].rate:
            self._think(call.loop)

    def _on_called(self, argument: tuple[Process, int, bool]) -> None:
        if not argument[0].is_over:
            self.host.when_awake(self._answer_after, argument)

    def _answer_after(self, argument: tuple[Process, int, bool]) -> None:
        process, invocation, fails = argument
        if not process.is_over:
            self._answer(process, invocation, fails=fails)

    def _think(self, number: int) -> None:
        host = self.host
        wait = self.loops[number].pause(host.world.chance("callers", host))
        if host.process is not None:
            host.world.timeline.after(wait, self._call, (host.process, number))


def sign_reply(node: NodeId, life: Life) -> bytes:
    """The payload of every simulated reply: who computed it, in which life."""
    return f"{node.hex()} {life.epoch} {life.life_id.hex()}".encode()


def read_reply(payload: bytes) -> tuple[NodeId, Life]:
    """The other way."""
    node, epoch, life_id = payload.decode().split()
    return NodeId(bytes.fromhex(node)), Life(int(epoch), bytes.fromhex(life_id))
