"""One simulated machine: an address, a disk, clocks, and at most one running process with the core's engine in it.

This is the simulator's driver: it feeds the engine what happened, performs its effects in order and wakes it at its
deadline, as the trio runtime does with real sockets. Engine time is the host's steady clock, which starts at a number
of its own on each host, so that a time sent to another node by mistake is noticed. Planned inputs belong to one process
(a start number) and are dropped when that process is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

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
)
from reachp2p.core.engine import Engine
from reachp2p.core.events import CallEnded, DrainFinished, Event, Fenced, Resumed, Started, StartRefused
from reachp2p.core.ids import Address, Life, LinkId, NodeId
from reachp2p.core.settings import Settings
from reachp2p.core.trust.signer import Signer
from reachp2p_sim.machines.clock import Clock
from reachp2p_sim.machines.disk import Disk
from reachp2p_sim.machines.listening import Tap
from reachp2p_sim.machines.next_release import NextEngine
from reachp2p_sim.machines.processor import Processor
from reachp2p_sim.machines.view import View
from reachp2p_sim.machines.workload import Application
from reachp2p_sim.network.links import End
from reachp2p_sim.world import trace

if TYPE_CHECKING:
    from reachp2p_sim.hostile import Behaviour
    from reachp2p_sim.world.world import World

CLOCK_RATE_TOLERANCE = 0.1
"""How wrong a steady clock's rate may be; oscillators are off by less than a thousandth, NTP slews by less than
that."""
WALL_CLOCK_INTERVAL = 10.0
"""How often the driver reports the wall clock, in seconds."""
RESOLVE_INTERVAL = 15.0
"""How often the driver resolves the seed names again, in seconds."""


class Host:
    """A machine. The world starts, stops, pauses and clones it; tests read its fields."""

    def __init__(
        self,
        world: World,
        index: int,
        name: str,
        address: Address,
        signer: Signer,
        disk: Disk,
        seeds: Sequence[str],
        steady_offset: float,
    ) -> None:
        self.world = world
        self.index = index
        self.name = name
        self.shown_name: str | None = None
        """The display name that the node tells others, if it is not `name`; two machines may share one."""
        self.is_upgraded = False
        """From its next start on it runs the next release (`next_release`)."""
        self.address = address
        self.signer = signer
        self.disk = disk
        self.seeds = tuple(seeds)
        self.clock = Clock(steady_offset, world.wall_start)
        self.processor = Processor(self, world.timeline)
        self._told_wall = (0.0, 0.0)
        self.cut = 0
        """Bit j: nothing gets from here to host j. Set by the network."""
        self.held = 0
        """Bit j: what goes from here to host j waits."""
        self.odd = 0
        """Bit j: the path from here to host j is cut, held, or has weather of its own."""
        self.is_up = True
        self.is_hostile = False
        """Its present process does harm on purpose, or did: checkers expect nothing of it, everything of the others."""
        self.process = 0
        """The number of the present or last process; inputs planned for an earlier one are dropped."""
        self.links: dict[LinkId, End] = {}
        self.lives: list[Life] = []
        """The lives opened here, oldest first."""
        self.view = View()
        self.application = Application(self)
        self.settings: Settings | None = None
        self.ended_by: Event | None = None
        """What the last process said when it ended by itself: `Fenced`, `StartRefused` or `DrainFinished`."""
        self.started_at = 0.0
        self.behaviour: Behaviour | None = None
        """The harm that this node does, if it is hostile."""
        self.tap: Tap | None = None
        """Who looks closely at what this host hears and sends; usually nobody (`listening.listen`)."""
        self._engine: Engine | None = None
        self.hindered: Processor | None = None
        """The processor, while inputs must wait for it."""
        self._accepted = 0
        self._armed = inf
        """The deadline, in engine time, that a wake-up is planned for."""
        self._ending: Event | None = None
        self._timeline = world.timeline
        self._trace = world.trace
        self._network = world.network
        self._links = world.links

    def __repr__(self) -> str:
        return self.name

    @property
    def node(self) -> NodeId:
        """The id of this machine's key."""
        return self.signer.node

    @property
    def engine(self) -> Engine:
        """The engine of the running process; an error if there is none."""
        if self._engine is None:
            raise LookupError(f"{self.name} runs no process")
        return self._engine

    @property
    def is_clone(self) -> bool:
        """Whether this machine has the key of an earlier one."""
        return self.world.by_node[self.node][0] is not self

    @property
    def is_running(self) -> bool:
        """Whether a process runs here (it may be paused)."""
        return self._engine is not None

    @property
    def is_paused(self) -> bool:
        """Whether the process gets no time, or its messages are blocked."""
        return self.processor.is_paused or self.processor.is_blocking

    @property
    def life(self) -> Life | None:
        """The life of the running process."""
        return None if self._engine is None else self._engine.life

    @property
    def now(self) -> float:
        """The steady clock of this machine."""
        return self.clock.steady(self._timeline.now)

    @property
    def steady_offset(self) -> float:
        """What the steady clock shows more than run time, as long as its rate is 1."""
        return self.clock.offset

    @property
    def wall(self) -> float:
        """The wall clock of this machine, Unix seconds."""
        return self.clock.wall(self._timeline.now)

    @property
    def wall_offset(self) -> float:
        """How far the wall clock has been set from where it began, in seconds."""
        return self.clock.wall_offset - self.world.wall_start

    @wall_offset.setter
    def wall_offset(self, seconds: float) -> None:
        self.clock.wall_offset = self.world.wall_start + seconds

    @property
    def told_wall(self) -> float:
        """The time of day as the process knows it: from the last report of the wall clock, by the steady clock."""
        wall, steady = self._told_wall
        return wall + self.now - steady

    @property
    def is_sound(self) -> bool:
        """Whether nothing hinders the process, it does no harm, and its steady clock runs about as it should."""
        return self.hindered is None and not self.is_hostile and self.has_sound_clock(self.clock.rate)

    @staticmethod
    def has_sound_clock(rate: float) -> bool:
        """Whether a machine whose steady clock has this rate may be held to what is promised."""
        return abs(rate - 1.0) <= CLOCK_RATE_TOLERANCE

    # Hostility

    def turn_hostile(self, behaviour: Behaviour) -> None:
        """Do harm from now on, instead of any done so far."""
        self.turn_honest()
        self.behaviour = behaviour
        self.is_hostile = True
        behaviour.begin()

    def turn_honest(self) -> None:
        """Do no more harm; what the present process has done is not undone."""
        if self.behaviour is not None:
            self.behaviour.end()
            self.behaviour = None

    # Process

    def start(self, take_over: bool = False) -> None:
        """Start a process with what is on the disk."""
        assert self._engine is None, f"{self.name} runs already"
        self.is_up = True
        self.process += 1
        self.is_hostile = self.behaviour is not None
        if not self.is_hostile:
            self.world.history.present(self.index, self._timeline.now, "hostile")
        self.ended_by = None
        self.started_at = self._timeline.now
        self.view = View()
        self._accepted = 0
        self._armed = inf
        self._ending = None
        world = self.world
        world.process_changed(self, "started")
        self.settings = Settings(
            cluster_id=world.cluster_id,
            name=self.shown_name or self.name,
            addresses=(self.address,),
            take_over=take_over,
            protocol=world.protocol,
        )
        factory = NextEngine if self.is_upgraded else world.engine_factory
        engine = self._engine = factory(
            self.settings,
            signer=self.signer,
            verifier=world.signing.verifier,
            rng=world.randomness.stream("rng", self.name, self.process),
            entropy=world.randomness.entropy("entropy", self.name, self.process),
            codec=world.codec,
        )
        engine.set_seeds(self._seed_addresses(), self.now)
        self.application.process_started()
        self._told_wall = (self.wall, self.now)
        engine.start(self.now, self.wall)
        self._timeline.after(RESOLVE_INTERVAL, self._resolve, self.process)
        self._timeline.after(WALL_CLOCK_INTERVAL, self._report_wall_clock, self.process)
        self.settle()

    def stop(self) -> None:
        """The process is gone without a word (SIGKILL): its links are reset, unsynced writes are lost."""
        self._forget_process()
        self._links.process_ended(self)
        self.disk.crash()

    def power_off(self) -> None:
        """The machine is gone: nothing answers here any more."""
        self._forget_process()
        self.is_up = False
        self._links.host_went_down(self)
        self.disk.crash()

    def _exit(self, event: Event) -> None:
        """The process ended by itself, having synced what it wrote."""
        self.ended_by = event
        self._forget_process()
        self._links.process_ended(self)
        self.disk.sync()
        self.world.process_exited(self)

    def _forget_process(self) -> None:
        if self._engine is not None:
            self.world.process_changed(self, "ended")
        self._engine = None
        self.processor.forget()
        self.application.process_ended()

    def pause(self) -> None:
        """Take the processor away (SIGSTOP): what arrives waits, nothing is lost."""
        self.processor.pause()

    def resume(self) -> None:
        """Give it back."""
        self.processor.resume()

    def when_awake(self, action: Callable[[Any], None], argument: Any) -> None:
        """Run an input now, or when the process has the processor for it."""
        if self.hindered is None:
            action(argument)
        else:
            self.hindered.add(action, argument)

    # Inputs

    def receive_datagram(self, argument: tuple[Address, bytes, int]) -> None:
        """A datagram has reached this machine."""
        engine = self._engine
        if engine is None:
            return
        if self.hindered is not None:
            self.hindered.add_datagram(self._on_datagram, argument)
            return
        self._on_datagram(argument)

    def _on_datagram(self, argument: tuple[Address, bytes, int]) -> None:
        engine = self._engine
        if engine is None:
            return
        source, data, number = argument
        now = self._timeline.now
        self._network.delivered += 1
        self._trace.number(trace.DATAGRAM_RECEIVED, now, self.index, number)
        if self._network.observer is not None:
            self._network.observer.datagram_received(self, number)
        if self.behaviour is not None and not self.behaviour.on_hear(source, data):
            return
        engine.handle_datagram(source, data, now * self.clock.rate + self.clock.offset)
        self.settle()
        if self.tap is not None:
            self.tap.has_handled(self, data, None)

    def receive_damaged(self, argument: tuple[Address, bytes, int]) -> None:
        """A datagram has reached this machine with bits flipped on the way; the node must reject it, and count it."""
        engine = self._engine
        if engine is None:
            return
        if self.hindered is not None:
            self.hindered.add_datagram(self._on_damaged, argument)
            return
        self._on_damaged(argument)

    def _on_damaged(self, argument: tuple[Address, bytes, int]) -> None:
        engine = self._engine
        listener = self._network.on_damaged
        if engine is None or listener is None:
            self._on_datagram(argument)
            return
        before = _rejected(engine)
        self._on_datagram(argument)
        listener(self, self._engine is None or _rejected(engine) == before + 1)

    def next_accepted(self) -> LinkId:
        """The number of the next accepted link: negative, as `LinkId` says."""
        self._accepted -= 1
        return LinkId(self._accepted)

    def link_opened(self, end: End) -> None:
        """A dialled or accepted link is open."""
        self.when_awake(self._on_link_opened, end)

    def _on_link_opened(self, end: End) -> None:
        if self._engine is not None and self.links.get(end.link) is end:
            self._trace.text(trace.LINK, self._timeline.now, self.index, f"{end.link} open")
            self._engine.handle_link_opened(end.link, None, self.now)
            self.settle()

    def receive_frame(self, end: End, data: bytes) -> None:
        """A frame has reached this machine."""
        self.when_awake(self._on_frame, (end, data))

    def _on_frame(self, argument: tuple[End, bytes]) -> None:
        end, data = argument
        if self._engine is not None and self.links.get(end.link) is end:
            self._trace.number(trace.FRAME_RECEIVED, self._timeline.now, self.index, end.link)
            if self._links.observer is not None:
                self._links.observer.frame_received(end, data)
            self._engine.handle_frame(end.link, data, self.now)
            self.settle()
            if self.tap is not None:
                self.tap.has_handled(self, data, end.link)

    def link_writable(self, end: End, free_bytes: int) -> None:
        """The other side has acknowledged what was sent."""
        self.when_awake(self._on_link_writable, (end, free_bytes))

    def _on_link_writable(self, argument: tuple[End, int]) -> None:
        end, free_bytes = argument
        if self._engine is not None and self.links.get(end.link) is end:
            self._engine.handle_link_writable(end.link, free_bytes, self.now)
            self.settle()

    def link_closed(self, end: End, how: LinkEnd) -> None:
        """A link has ended by the other side or by the network, or a dial has failed."""
        self.when_awake(self._on_link_closed, (end, how))

    def _on_link_closed(self, argument: tuple[End, LinkEnd]) -> None:
        end, how = argument
        if self._engine is not None and self.links.get(end.link) is end:
            del self.links[end.link]
            self._trace.text(trace.LINK, self._timeline.now, self.index, f"{end.link} {how.value}")
            self._engine.handle_link_closed(end.link, how, self.now)
            self.settle()

    def _on_disk(self, process: int) -> None:
        if process == self.process:
            self.when_awake(self._on_disk_done, process)

    def _on_disk_done(self, process: int) -> None:
        engine = self._engine
        if engine is None or process != self.process:
            return
        ended, again = self.disk.finish(self._timeline.now)
        if self.disk.is_crash_due:
            self._on_crash_due(process)
            return
        if again is not None:
            self._timeline.after(again, self._on_disk, process)
        for operation, rows, failure in ended:
            self._trace.text(trace.DISK, self._timeline.now, self.index, failure or type(operation).__name__)
            if isinstance(operation, Fetch):
                engine.handle_fetched(operation.request, rows, self.now)
            elif failure is None:
                engine.handle_persisted(operation.ticket, self.now)
            else:
                engine.handle_persist_failed(operation.ticket, failure, self.now)
        self.settle()

    def _on_crash_due(self, process: int) -> None:
        """A crash was set for a certain write, which has come."""
        if process == self.process and self._engine is not None:
            self.world.crash_point_reached(self)

    def invoke_ended(self, invocation: int, result: InvokeResult) -> None:
        """A handler has ended."""
        engine = self._engine
        if engine is not None:
            self._trace.number(trace.INVOKE, self._timeline.now, self.index, invocation)
            engine.handle_invoke_result(invocation, result, self.now)
            self.settle()

    def _on_deadline(self, argument: tuple[int, float]) -> None:
        process, deadline = argument
        if process != self.process or deadline != self._armed:
            return
        processor = self.processor
        if processor.service_time and not self.is_paused:
            self.when_awake(self._wake_in_turn, process)  # stays armed until its turn comes
        else:
            self._armed = inf
            if not processor.is_stopped:
                self.wake()

    def _wake_in_turn(self, process: int) -> None:
        if process == self.process:
            self.wake()

    def wake(self) -> None:
        """Let the engine do what is due, and plan its next deadline anew."""
        self._armed = inf
        engine = self._engine
        if engine is None:
            return
        deadline = engine.next_deadline()
        now = self.now
        if deadline is None:
            return
        if deadline <= now:
            self._trace.number(trace.TIMEOUT, self._timeline.now, self.index, 0)
            engine.handle_timeout(now)
            self.settle()
        else:  # what this wake-up was planned for has been cancelled
            self._arm(deadline)

    def set_clock_rate(self, rate: float) -> None:
        """Let the steady clock run fast, slow, or (0) stand still; what was planned by it is planned anew."""
        self.clock.set_rate(rate, self._timeline.now)
        self._armed = inf
        if not self.processor.is_stopped:
            self.settle()

    def _report_wall_clock(self, process: int) -> None:
        if process == self.process and self._engine is not None:
            self._timeline.after(WALL_CLOCK_INTERVAL, self._report_wall_clock, process)
            if not self.is_paused:
                self.when_awake(self._tell_wall_clock, process)

    def _tell_wall_clock(self, process: int) -> None:
        if process == self.process and self._engine is not None:
            self._told_wall = (self.wall, self.now)
            self._engine.handle_wall_clock(self.wall, self.now)
            self.settle()

    def _resolve(self, process: int) -> None:
        if process == self.process and self._engine is not None:
            self._timeline.after(RESOLVE_INTERVAL, self._resolve, process)
            if not self.is_paused:
                self.when_awake(self._tell_seeds, process)

    def _tell_seeds(self, process: int) -> None:
        if process == self.process and self._engine is not None:
            self._engine.set_seeds(self._seed_addresses(), self.now)
            self.settle()

    def _seed_addresses(self) -> list[Address]:
        return [address for name in self.seeds for address in self.world.names.get(name, ())]

    # Effects

    def settle(self) -> None:
        """Perform what the engine wants and plan its next deadline. Call it after every input and command."""
        engine = self._engine
        if engine is None:
            return
        if self.hindered is not None and not self.hindered.settle(engine):
            return
        for effect in engine.take_effects():  # whatever one of them sets off is settled by itself
            if type(effect) is SendDatagram and self.tap is None and self.behaviour is None:  # nine of ten
                self._network.send(self, effect.address, effect.data, self._timeline.now)
            else:
                self.perform(effect)
        if self._ending is not None:
            ending, self._ending = self._ending, None
            self._exit(ending)
            return
        deadline = engine.next_deadline()
        if deadline is not None and deadline != self._armed:  # a later one, too: fewer wake-ups in vain
            self._arm(deadline)

    def _arm(self, deadline: float) -> None:
        self._armed = deadline
        when = self.clock.when(deadline, self._timeline.now)
        if when is not None:
            self._timeline.at(when, self._on_deadline, (self.process, deadline))

    def perform(self, effect: Effect) -> None:
        """Do one thing that the engine wants."""
        now = self._timeline.now
        if type(effect) is SendDatagram:
            if self.tap is not None:
                self.tap.sends(self, effect.data, effect.address)
            if self.behaviour is not None:
                self.behaviour.on_send(effect)
                return
            self._network.send(self, effect.address, effect.data, now)
            return
        match effect:
            case Notify(event=event):
                self._notified(event)
            case SendFrame(link=link, data=data):
                self._trace.data(trace.FRAME_SENT, now, self.index, data)
                if self.tap is not None:
                    self.tap.sends(self, data, link)
                end = self.links.get(link)
                if end is not None:
                    self._links.send(end, data)
            case Dial():
                self._trace.text(trace.LINK, now, self.index, f"{effect.link} dials {effect.address}")
                self._links.dial(self, effect)
            case CloseLink(link=link, abort=abort):
                self._trace.text(trace.LINK, now, self.index, f"{link} closes")
                end = self.links.get(link)
                if end is not None:
                    self._links.close(end, abort)
            case Persist() | Delete() | Fetch():
                delay = self.disk.add(effect, now)
                if delay is not None:
                    self._timeline.after(delay, self._on_disk, self.process)
                if self.disk.is_crash_due:
                    self._timeline.after(0.0, self._on_crash_due, self.process)
            case Invoke():
                self.application.invoke(effect)
            case CancelInvoke(invocation=invocation):
                self.application.cancel(invocation)

    def _notified(self, event: Event) -> None:
        self._trace.event(self._timeline.now, self.index, event)
        self.view.note(event)
        if isinstance(event, Started | Resumed):
            self.lives.append(event.life)
        self.world.notified(self, event)
        if isinstance(event, CallEnded):
            self.application.call_ended(event)
        elif isinstance(event, Fenced | StartRefused | DrainFinished):
            self._ending = event


def _rejected(engine: Engine) -> int:
    """Datagrams that a node has dropped as a whole, whatever the reason."""
    return sum(count for name, count in engine.diagnostics().items() if name.startswith("dropped.datagram."))
