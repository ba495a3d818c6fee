"""One process of a machine: a node's engine from its start to its end.

This is the simulator's driver: it feeds the engine what happened, performs its effects in order and wakes it at its
deadline, as the trio runtime does with real sockets. Engine time is the steady clock of the machine, which starts at a
number of its own on each, so that a time sent to another node by mistake is noticed. Inputs that were planned for a
process are dropped once it is over.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol

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
from reachp2p.core.events import CallEnded, DrainFinished, Event, Fenced, Resumed, Started, StartRefused
from reachp2p.core.ids import Address, Entropy, LinkId, Rng
from reachp2p.core.settings import Settings
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p.core.wire.engine_codec import Codec
from reachp2p_sim.machines.next_release import NextEngine
from reachp2p_sim.network.links import End
from reachp2p_sim.world import trace

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host

WALL_CLOCK_INTERVAL = 10.0
"""How often the driver reports the wall clock, in seconds."""
RESOLVE_INTERVAL = 15.0
"""How often the driver resolves the seed names again, in seconds."""


class EngineFactory(Protocol):
    """How an engine is built: the class that ships, or a mutant's."""

    def __call__(
        self,
        settings: Settings,
        *,
        signer: Signer,
        verifier: Verifier,
        rng: Rng,
        entropy: Entropy,
        codec: Codec,
    ) -> Engine: ...


class Process:
    """An engine and what drives it. The machine makes it, lets it `begin`, and says when it is over."""

    def __init__(self, host: Host, number: int, *, take_over: bool) -> None:
        self.number = number
        """Which process of its machine this is, from 1."""
        self.is_over = False
        self._host = host
        self._clock = host.clock
        world = host.world
        self._timeline = world.timeline
        self._trace = world.trace
        self._network = world.network
        self._links = world.links
        self._told_wall = (0.0, 0.0)
        """Wall and steady clock at the last report of the wall clock."""
        self._accepted = 0
        self._armed = inf
        """The deadline, in engine time, that a wake-up is planned for."""
        self._ending: Event | None = None
        """What the engine has said that ends this process, once all that it wants is done."""
        factory = NextEngine if host.is_upgraded else world.engine_factory
        self.engine: Engine = factory(
            Settings(
                cluster_id=world.cluster_id,
                name=host.shown_name or host.name,
                addresses=(host.address,),
                take_over=take_over,
                tells_load=host.tells_load,
                protocol=world.protocol,
            ),
            signer=host.signer,
            verifier=world.signing.verifier,
            rng=world.randomness.stream("rng", host.name, number),
            entropy=world.randomness.entropy("entropy", host.name, number),
            codec=world.codec,
        )

    def begin(self) -> None:
        """Run: tell the engine all that a program tells it first, and start it."""
        host, engine = self._host, self.engine
        engine.set_seeds(self._seed_addresses(), host.now)
        host.application.process_started(self)
        self._told_wall = (host.wall, host.now)
        engine.start(host.now, host.wall)
        self._timeline.after(RESOLVE_INTERVAL, self._resolve, None)
        self._timeline.after(WALL_CLOCK_INTERVAL, self._report_wall_clock, None)
        self.settle()

    @property
    def told_wall(self) -> float:
        """The time of day as this process knows it: from the last report of the wall clock, by the steady clock."""
        wall, steady = self._told_wall
        return wall + self._host.now - steady

    # Datagrams

    def on_datagram(self, argument: tuple[Address, bytes, int]) -> None:
        """Handle a datagram."""
        if self.is_over:
            return
        source, data, number = argument
        host, network = self._host, self._network
        now = self._timeline.now
        network.delivered += 1
        self._trace.number(trace.DATAGRAM_RECEIVED, now, host.index, number)
        if network.observer is not None:
            network.observer.datagram_received(host, number)
        if host.behaviour is not None and not host.behaviour.on_hear(source, data):
            return
        self.engine.handle_datagram(source, data, now * self._clock.rate + self._clock.offset)
        self.settle()
        if host.listeners is not None:
            host.listeners.has_handled(host, data, None)

    def on_damaged(self, argument: tuple[Address, bytes, int]) -> None:
        """Handle a datagram that was damaged, and say whether it was rejected."""
        listener = self._network.on_damaged
        if self.is_over or listener is None:
            self.on_datagram(argument)
            return
        before = _rejected(self.engine)
        self.on_datagram(argument)
        listener(self._host, self.is_over or _rejected(self.engine) == before + 1)

    # Links

    def next_accepted(self) -> LinkId:
        """The number of the next accepted link: negative, as `LinkId` says."""
        self._accepted -= 1
        return LinkId(self._accepted)

    def _has(self, end: End) -> bool:
        """Whether this is a link of this process, which is not over."""
        return not self.is_over and self._host.links.get(end.link) is end

    def on_link_opened(self, end: End) -> None:
        """Tell the engine that a link is open."""
        if self._has(end):
            self._trace.text(trace.LINK, self._timeline.now, self._host.index, f"{end.link} open")
            self.engine.handle_link_opened(end.link, None, self._host.now)
            self.settle()

    def on_frame(self, argument: tuple[End, bytes]) -> None:
        """Handle a frame."""
        end, data = argument
        host = self._host
        if self.is_over or host.links.get(end.link) is not end:
            return
        self._trace.number(trace.FRAME_RECEIVED, self._timeline.now, host.index, end.link)
        if self._links.observer is not None:
            self._links.observer.frame_received(end, data)
        self.engine.handle_frame(end.link, data, host.now)
        self.settle()
        if host.listeners is not None:
            host.listeners.has_handled(host, data, end.link)

    def on_link_writable(self, argument: tuple[End, int]) -> None:
        """Tell the engine how many bytes fit into a link again."""
        end, free_bytes = argument
        if self._has(end):
            self.engine.handle_link_writable(end.link, free_bytes, self._host.now)
            self.settle()

    def on_link_closed(self, argument: tuple[End, LinkEnd]) -> None:
        """Tell the engine how a link, or a dial, has ended."""
        end, how = argument
        if self._has(end):
            host = self._host
            del host.links[end.link]
            self._trace.text(trace.LINK, self._timeline.now, host.index, f"{end.link} {how.value}")
            self.engine.handle_link_closed(end.link, how, host.now)
            self.settle()

    # Disk

    def _on_disk(self, _: None) -> None:
        if not self.is_over:
            self._host.when_awake(self._on_disk_done, None)

    def _on_disk_done(self, _: None) -> None:
        if self.is_over:
            return
        host, engine = self._host, self.engine
        ended, again = host.disk.finish(self._timeline.now)
        if host.disk.is_crash_due:
            self._on_crash_due(None)
            return
        if again is not None:
            self._timeline.after(again, self._on_disk, None)
        for operation, rows, failure in ended:
            self._trace.text(trace.DISK, self._timeline.now, host.index, failure or type(operation).__name__)
            if isinstance(operation, Fetch):
                engine.handle_fetched(operation.request, rows, host.now)
            elif failure is None:
                engine.handle_persisted(operation.ticket, host.now)
            else:
                engine.handle_persist_failed(operation.ticket, failure, host.now)
        self.settle()

    def _on_crash_due(self, _: None) -> None:
        """A crash was set for a certain write, which has come."""
        if not self.is_over:
            self._host.world.crash_point_reached(self._host)

    # Handlers

    def invoke_ended(self, invocation: int, result: InvokeResult) -> None:
        """A handler has ended."""
        if not self.is_over:
            self._trace.number(trace.INVOKE, self._timeline.now, self._host.index, invocation)
            self.engine.handle_invoke_result(invocation, result, self._host.now)
            self.settle()

    # Clocks, and names

    def _arm(self, deadline: float) -> None:
        self._armed = deadline
        when = self._clock.when(deadline, self._timeline.now)
        if when is not None:
            self._timeline.at(when, self._on_deadline, deadline)

    def _on_deadline(self, deadline: float) -> None:
        if self.is_over or deadline != self._armed:
            return
        host = self._host
        processor = host.processor
        if processor.service_time and not host.is_paused:
            host.when_awake(self._wake_in_turn, None)  # stays armed until its turn comes
        else:
            self._armed = inf
            if not processor.is_stopped:
                self.wake()

    def _wake_in_turn(self, _: None) -> None:
        self.wake()

    def wake(self) -> None:
        """Let the engine do what is due, and plan its next deadline anew."""
        self._armed = inf
        if self.is_over:
            return
        engine = self.engine
        deadline = engine.next_deadline()
        now = self._host.now
        if deadline is None:
            return
        if deadline <= now:
            self._trace.number(trace.TIMEOUT, self._timeline.now, self._host.index, 0)
            engine.handle_timeout(now)
            self.settle()
        else:  # what this wake-up was planned for has been cancelled
            self._arm(deadline)

    def clock_changed(self) -> None:
        """The steady clock runs at another rate: plan the next deadline anew."""
        self._armed = inf
        if not self._host.processor.is_stopped:
            self.settle()

    def _report_wall_clock(self, _: None) -> None:
        if not self.is_over:
            self._timeline.after(WALL_CLOCK_INTERVAL, self._report_wall_clock, None)
            if not self._host.is_paused:
                self._host.when_awake(self._tell_wall_clock, None)

    def _tell_wall_clock(self, _: None) -> None:
        if not self.is_over:
            host = self._host
            self._told_wall = (host.wall, host.now)
            self.engine.handle_wall_clock(host.wall, host.now)
            self.settle()

    def _resolve(self, _: None) -> None:
        if not self.is_over:
            self._timeline.after(RESOLVE_INTERVAL, self._resolve, None)
            if not self._host.is_paused:
                self._host.when_awake(self._tell_seeds, None)

    def _tell_seeds(self, _: None) -> None:
        if not self.is_over:
            self.engine.set_seeds(self._seed_addresses(), self._host.now)
            self.settle()

    def _seed_addresses(self) -> list[Address]:
        names = self._host.world.names
        return [address for name in self._host.seeds for address in names.get(name, ())]

    # Effects

    def settle(self) -> None:
        """Perform what the engine wants and plan its next deadline. Call it after every input and command."""
        if self.is_over:
            return
        host, engine = self._host, self.engine
        if host.hindered is not None and not host.hindered.settle(self):
            return
        for effect in engine.take_effects():  # whatever one of them sets off is settled by itself
            if (
                type(effect) is SendDatagram and host.listeners is None and host.behaviour is None
            ):  # nine of ten
                self._network.send(host, effect.address, effect.data, self._timeline.now)
            else:
                self.perform(effect)
        if self._ending is not None:
            ending, self._ending = self._ending, None
            host.process_exits(ending)
            return
        deadline = engine.next_deadline()
        if deadline is not None and deadline != self._armed:  # a later one, too: fewer wake-ups in vain
            self._arm(deadline)

    def perform(self, effect: Effect) -> None:
        """Do one thing that the engine wants."""
        now = self._timeline.now
        host = self._host
        if type(effect) is SendDatagram:
            if host.listeners is not None:
                host.listeners.sends(host, effect.data, effect.address)
            if host.behaviour is not None:
                host.behaviour.on_send(effect)
                return
            self._network.send(host, effect.address, effect.data, now)
            return
        match effect:
            case Notify(event=event):
                self._notified(event)
            case SendFrame(link=link, data=data):
                self._trace.data(trace.FRAME_SENT, now, host.index, data)
                if host.listeners is not None:
                    host.listeners.sends(host, data, link)
                end = host.links.get(link)
                if end is not None:
                    self._links.send(end, data)
            case Dial():
                self._trace.text(trace.LINK, now, host.index, f"{effect.link} dials {effect.address}")
                self._links.dial(host, effect)
            case CloseLink(link=link, abort=abort):
                self._trace.text(trace.LINK, now, host.index, f"{link} closes")
                end = host.links.get(link)
                if end is not None:
                    self._links.close(end, abort)
            case Persist() | Delete() | Fetch():
                delay = host.disk.add(effect, now)
                if delay is not None:
                    self._timeline.after(delay, self._on_disk, None)
                if host.disk.is_crash_due:
                    self._timeline.after(0.0, self._on_crash_due, None)
            case Invoke():
                host.application.invoke(effect)
            case CancelInvoke(invocation=invocation):
                host.application.cancel(invocation)
            case StreamReady(stream=stream):
                host.application.stream_ready(stream)

    def _notified(self, event: Event) -> None:
        host = self._host
        self._trace.event(self._timeline.now, host.index, event)
        host.view.note(event)
        if isinstance(event, Started | Resumed):
            host.lives.append(event.life)
        host.world.notified(host, event)
        if isinstance(event, CallEnded):
            host.application.call_ended(event)
        elif isinstance(event, Fenced | StartRefused | DrainFinished):
            self._ending = event


def _rejected(engine: Engine) -> int:
    """Datagrams that a node has dropped as a whole, whatever the reason."""
    return sum(count for name, count in engine.diagnostics().items() if name.startswith("dropped.datagram."))
