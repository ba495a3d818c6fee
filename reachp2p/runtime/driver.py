"""Drives one engine over a real network, clock and disk (docs/architecture.md). Knows nothing about any protocol.

Inputs are plain calls into the engine from whatever task received them: everything runs in trio's one thread, and an
input never waits. Outputs are performed by one task, woken once for all the inputs that came in one round of trio's
scheduler; that is what makes batches, and no message costs a task or a checkpoint of its own. In a long round they do
not wait for its end: every `BATCH` inputs they are performed by whoever gave the last, or a hundred calls would leave
as one lump, their answers would come as one, and of two nodes one would always be idle. What is for the application
waits all the same while a command is given: whoever gives it does not listen yet. What one read of a link has brought
is a batch already: its outputs are performed at once, a round earlier. No effect blocks: a datagram is sent now or
dropped, a frame goes to the kernel or to its link's queue, a write goes to the storage thread, a handler gets a task.
The one timer is the engine's `next_deadline`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, assert_never

import msgspec
import trio

from reachp2p.core.commands import InvokeResult
from reachp2p.core.effects import (
    CancelInvoke,
    CloseLink,
    Delete,
    Dial,
    Effect,
    Fetch,
    Invoke,
    LinkEnd,
    Notify,
    Persist,
    SendDatagram,
    SendFrame,
    StreamReady,
)
from reachp2p.core.engine import Engine
from reachp2p.core.events import Event
from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.runtime.handlers import Handlers
from reachp2p.runtime.storage import Fetched, Storage
from reachp2p.runtime.streams import StreamWaits
from reachp2p.runtime.udp import UdpSocket

if TYPE_CHECKING:
    from reachp2p.runtime.websocket import Links

WALL_INTERVAL = 10.0
"""Seconds between two reports of the wall clock, at most."""
WALL_INTERVAL_AWAKE = 1.0
"""Seconds between them in a node that is awake for something else: a step is noticed before much is judged by it."""
BATCH = 8
"""Inputs in one round after which their outputs are performed at once. With 4 as many calls pass and cost more, with 16
and 16 calls under way the two sides take turns."""
ROUNDS_MAX = 8
"""Rounds of effects performed before other tasks run: reports of room may free further frames."""

_TOLD = (Notify, StreamReady)
"""Effects that are for the application."""


class Outlets(msgspec.Struct, frozen=True):
    """What effects are performed with."""

    udp: UdpSocket
    links: Links
    storage: Storage
    handlers: Handlers


class Driver:
    """Owns an engine. The inputs below may be called from any task of its trio run; `run` performs the effects."""

    def __init__(self, engine: Engine, notify: Callable[[Event], None]) -> None:
        """`notify` takes the engine's events, in order; it must neither wait nor raise."""
        self.engine = engine
        self._notify = notify
        self.stream_waits = StreamWaits()
        self._outlets: Outlets | None = None
        self._is_awake = False
        self._inputs = 0
        """How many wait for their outputs to be performed."""
        self._context = copy_context()
        """Of what is performed: whatever it starts, a link or a handler, has nothing of the task that came along."""
        self._may_perform = False
        """Whether an input may perform outputs: `run` runs, and nothing is being performed."""
        self._failure: Exception | None = None
        self._sleeps_until = float("-inf")
        """When `run` wakes up by itself, while it is parked."""
        self._parked: trio.lowlevel.Task | None = None
        self._wall_reported = float("-inf")
        self._sent_on: dict[LinkId, None] = {}
        self._untold: list[Notify | StreamReady] = []
        """What is for the application, and has not been told yet."""

    def connect(self, outlets: Outlets) -> None:
        """Give it what it performs effects with; once, before `start`."""
        self._outlets = outlets

    def start(self) -> None:
        """Begin the engine's life."""
        now, wall = trio.current_time(), time.time()
        self._wall_reported = now
        self.engine.start(now, wall)
        self.wake()

    @property
    def now(self) -> float:
        """The time of the trio run, which is the engine's."""
        return trio.current_time()

    # Inputs

    def datagram(self, source: Address, data: bytes) -> None:
        """A UDP payload arrived."""
        self.engine.handle_datagram(source, data, trio.current_time())
        self._wake(tells=True)

    def link_opened(self, link: LinkId, identity: NodeId | None) -> None:
        """A dial succeeded, or a link was accepted."""
        self.engine.handle_link_opened(link, identity, trio.current_time())
        self._wake(tells=True)

    def link_frame(self, link: LinkId, data: bytes) -> None:
        """A whole message arrived on a link; `link_read` follows."""
        self.engine.handle_frame(link, data, trio.current_time())

    def link_read(self) -> None:
        """A link has said all that one read has brought: perform its outputs now, unless those of others wait."""
        if (
            self._is_awake
            or not self._may_perform
            or not self._perform_early(tells=True)
            or self._deadline() < self._sleeps_until
        ):
            self._wake(tells=True)

    def link_writable(self, link: LinkId, free_bytes: int) -> None:
        """A link has room again."""
        self.engine.handle_link_writable(link, free_bytes, trio.current_time())
        self._wake(tells=True)

    def link_closed(self, link: LinkId, end: LinkEnd) -> None:
        """A link ended, or a dial failed."""
        self.engine.handle_link_closed(link, end, trio.current_time())
        self._wake(tells=True)

    def invoke_ended(self, invocation: int, result: InvokeResult) -> None:
        """A handler ended."""
        self.engine.handle_invoke_result(invocation, result, trio.current_time())
        self._wake(tells=True)

    def wake(self) -> None:
        """Have the effects taken soon. Called after every command given to the engine directly, by whoever may be about
        to listen to what comes of it."""
        self._wake(tells=False)

    def _wake(self, *, tells: bool) -> None:
        self._inputs += 1
        if self._is_awake:
            if self._inputs >= BATCH and self._may_perform:
                self._perform_early(tells=tells)
            return
        self._is_awake = True
        task, self._parked = self._parked, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def give_way(self) -> None:
        """`wake`, and let other tasks run: how an async command ends."""
        self.wake()
        await trio.lowlevel.checkpoint()

    # Outputs

    async def run(self) -> None:
        """Perform effects and keep the timer; ends only by cancellation, or by an exception that ends the node."""
        self._may_perform = True
        try:
            while True:
                self._sleeps_until = self._deadline()
                with trio.CancelScope(deadline=self._sleeps_until) as scope:
                    while True:
                        await self._pause()
                        self.turn()
                        self._sleeps_until = deadline = self._deadline()
                        if deadline != scope.deadline:
                            scope.deadline = deadline
                self.turn()
        finally:
            self._may_perform = False

    def turn(self) -> None:
        """Feed what is due, then perform all effects."""
        if self._failure is not None:
            raise self._failure
        self._is_awake = False
        engine, outlets, now = self.engine, self._outlets, trio.current_time()
        assert outlets is not None, "connect comes first"
        self._feed_storage(outlets.storage, now)
        if now >= self._wall_reported + WALL_INTERVAL_AWAKE:
            self._wall_reported = now
            engine.handle_wall_clock(time.time(), now)
        deadline = engine.next_deadline()
        if deadline is not None and deadline <= now:
            engine.handle_timeout(now)
        if not self._perform_all(outlets, now, True):
            self.wake()

    def _perform_early(self, *, tells: bool) -> bool:
        """Perform what there is for an input whose task is not ours; false if a turn is due. `tells`: also what is for
        the application.

        What goes wrong ends `run`, and not that task.
        """
        assert self._outlets is not None, "connect comes first"
        try:
            return self._context.run(self._perform_all, self._outlets, trio.current_time(), tells)
        except Exception as error:  # noqa: BLE001 raised by the next turn
            self._failure = error
            self._may_perform = False
            return False

    def _perform_all(self, outlets: Outlets, now: float, tells: bool) -> bool:
        """Perform effects until there are none; false if other tasks should run before the rest."""
        self._inputs = 0
        may_perform, self._may_perform = self._may_perform, False
        try:
            for _ in range(ROUNDS_MAX):
                if tells and self._untold:
                    untold, self._untold = self._untold, []
                    for told in untold:
                        self._perform(told, outlets)
                for effect in self.engine.take_effects():
                    if not tells and isinstance(effect, _TOLD):
                        self._untold.append(effect)
                    else:
                        self._perform(effect, outlets)
                if not self._report_room(outlets.links, now):
                    return True
            return False
        finally:
            self._may_perform = may_perform

    def _perform(self, effect: Effect, outlets: Outlets) -> None:
        match effect:
            case SendFrame():
                outlets.links.send(effect.link, effect.data)
                self._sent_on[effect.link] = None
            case SendDatagram():
                outlets.udp.send(effect.address, effect.data)
            case Invoke():
                outlets.handlers.start(effect)
            case Notify():
                self._notify(effect.event)
            case Persist() | Delete() | Fetch():
                outlets.storage.submit(effect)
            case CancelInvoke():
                outlets.handlers.cancel(effect.invocation, effect.reason)
            case StreamReady():
                self.stream_waits.wake(effect.stream)
            case Dial():
                outlets.links.dial(effect)
            case CloseLink():
                outlets.links.close(effect.link, effect.abort)
            case _:
                assert_never(effect)

    def _report_room(self, links: Links, now: float) -> bool:
        """Tell the engine of the room on links that were written to, if it is time; whether anything was told."""
        has_reported = False
        for link in self._sent_on:
            room = links.take_report(link)
            if room is not None:
                has_reported = True
                self.engine.handle_link_writable(link, room, now)
        self._sent_on.clear()
        return has_reported

    def _feed_storage(self, storage: Storage, now: float) -> None:
        storage.check()
        for outcome in storage.take_outcomes():
            if isinstance(outcome, Fetched):
                self.engine.handle_fetched(outcome.request, outcome.rows, now)
            elif outcome.failure is None:
                self.engine.handle_persisted(outcome.ticket, now)
            else:
                self.engine.handle_persist_failed(outcome.ticket, outcome.failure, now)

    def _deadline(self) -> float:
        deadline, wall_due = self.engine.next_deadline(), self._wall_reported + WALL_INTERVAL
        return wall_due if deadline is None else min(deadline, wall_due)

    async def _pause(self) -> None:
        """Wait to be woken; if we are awake already, let the other tasks run once."""
        if self._is_awake:
            await trio.lowlevel.checkpoint()
            return
        self._parked = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._unpark)

    def _unpark(self, _: object) -> trio.lowlevel.Abort:
        self._parked = None
        return trio.lowlevel.Abort.SUCCEEDED
