"""Streams in the workload: simulated handlers that yield items, and callers that take them.

An item says which one it is, so that whoever takes it sees whether one is missing, doubled or out of order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reachp2p.core.commands import Flow, InvokeResult, StreamKey
from reachp2p.core.events import StreamEnded
from reachp2p.core.wire.messages import StreamItem

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.machines.process import Process

NUMBER_BYTES = 8


@dataclass(slots=True)
class StreamLedger:
    """Items of all streams of a run that were taken, and those among them that did not follow the one before."""

    taken: int = 0
    misplaced: int = 0
    completed: int = 0
    """Streams that have ended without an error, and with as many items as they say."""
    miscounted: int = 0
    """Those that say another number."""


@dataclass(slots=True)
class Yielding:
    """A simulated handler at work on a stream. Times in seconds."""

    items: int
    item_bytes: int
    interval: float
    """Mean of an exponential, between two items."""
    given: int = 0


@dataclass(slots=True)
class Streaming:
    """The streams of one host's process."""

    host: Host
    _yielding: dict[int, Yielding] = field(default_factory=dict)
    _taking: dict[bytes, int] = field(default_factory=dict)
    """How many items of each call were taken."""

    def clear(self) -> None:
        """The process is over, and its streams with it."""
        self._yielding.clear()
        self._taking.clear()

    # Serving

    def serve(self, invocation: int, work: Yielding) -> None:
        """Begin to yield items."""
        self._yielding[invocation] = work
        self._plan(invocation, work)

    def cancel(self, invocation: int) -> None:
        """Yield no more."""
        self._yielding.pop(invocation, None)

    def _plan(self, invocation: int, work: Yielding) -> None:
        world = self.host.world
        wait = world.chance("handlers", self.host).expovariate(1.0 / work.interval) if work.interval else 0.0
        world.timeline.after(wait, self._when_awake, (self.host.process, invocation))

    # Calling

    def begin(self, call: bytes) -> None:
        """A call streams: take what is there as soon as something is."""
        self._taking[call] = 0
        self._take(call)

    def ended(self, event: StreamEnded) -> None:
        """A call has ended: the rest of its items came with the end."""
        ledger = self.host.world.ledger.streams
        if event.call not in self._taking:
            return
        for item in event.rest:
            self._note(event.call, item)
        taken = self._taking.pop(event.call)
        if taken != event.items:
            ledger.miscounted += 1
        elif event.code == 0:
            ledger.completed += 1

    def _take(self, call: bytes) -> None:
        engine, now = self.host.engine, self.host.now
        while isinstance(item := engine.take_item(call, now), StreamItem):
            self._note(call, item)

    def _note(self, call: bytes, item: StreamItem) -> None:
        ledger = self.host.world.ledger.streams
        ledger.taken += 1
        if int.from_bytes(item.payload[:NUMBER_BYTES], "big") != self._taking[call]:
            ledger.misplaced += 1
        self._taking[call] += 1

    # Both

    def ready(self, stream: StreamKey) -> None:
        """Something about a stream has changed: look again once this turn is over."""
        self.host.world.timeline.after(0.0, self._when_awake, (self.host.process, stream))

    def _when_awake(self, argument: tuple[Process, StreamKey]) -> None:
        if not argument[0].is_over:
            self.host.when_awake(self._look, argument)

    def _look(self, argument: tuple[Process, StreamKey]) -> None:
        process, stream = argument
        if process.is_over:
            return
        if isinstance(stream, bytes):
            if stream in self._taking:
                self._take(stream)
                process.settle()
            return
        work = self._yielding.get(stream)
        if work is None:
            return
        if work.given == work.items:
            del self._yielding[stream]
            process.invoke_ended(stream, InvokeResult())
            return
        item = work.given.to_bytes(NUMBER_BYTES, "big").ljust(work.item_bytes, b".")
        flow = process.engine.send_item(stream, item, "application/octet-stream", self.host.now)
        if flow is Flow.DONE:
            work.given += 1
            self._plan(stream, work)
        elif flow is Flow.ENDED:
            del self._yielding[stream]
        process.settle()
