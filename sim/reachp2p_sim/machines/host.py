"""One simulated machine: an address, a disk, clocks, a processor, and at most one process at a time.

What is here outlives its processes; what one of them is and does is in `process`. A machine takes in what the network
brings, and hands it to its process when that has the processor for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reachp2p.core.effects import LinkEnd
from reachp2p.core.engine import Engine
from reachp2p.core.events import Event
from reachp2p.core.ids import Address, Life, LinkId, NodeId
from reachp2p.core.trust.signer import Signer
from reachp2p_sim.machines.clock import Clock
from reachp2p_sim.machines.disk import Disk
from reachp2p_sim.machines.listening import Listeners
from reachp2p_sim.machines.process import Process
from reachp2p_sim.machines.processor import Processor
from reachp2p_sim.machines.view import View
from reachp2p_sim.machines.workload import Application
from reachp2p_sim.network.links import End

if TYPE_CHECKING:
    from reachp2p_sim.hostile import Behaviour
    from reachp2p_sim.world.world import World

CLOCK_RATE_TOLERANCE = 0.1
"""How wrong a steady clock's rate may be; oscillators are off by less than a thousandth, NTP slews by less than
that."""


class Host:
    """A machine. The world starts, stops, pauses and clones it; checkers and tests read its fields."""

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
        self.tells_load = False
        """From its next start on the node tells those whom it answers how busy it is."""
        self.is_upgraded = False
        """From its next start on it runs the next release (`next_release`)."""
        self.address = address
        self.signer = signer
        self.disk = disk
        self.seeds = tuple(seeds)
        self.clock = Clock(steady_offset, world.wall_start)
        self.processor = Processor(self, world.timeline)
        self.hindered: Processor | None = None
        """The processor, while inputs must wait for it."""
        self.cut = 0
        """Bit j: nothing gets from here to host j. Set by the network."""
        self.held = 0
        """Bit j: what goes from here to host j waits."""
        self.odd = 0
        """Bit j: the path from here to host j is cut, held, or has weather of its own."""
        self.links: dict[LinkId, End] = {}
        """The ends of streams that the process has here, by the number under which its engine knows them."""
        self.is_up = True
        self.behaviour: Behaviour | None = None
        """The harm that this node does, if it is hostile."""
        self.is_hostile = False
        """Its present process does harm on purpose, or did: checkers expect nothing of it, everything of the others."""
        self.application = Application(self)
        self.listeners: Listeners | None = None
        """Who is told of all that this machine hears and sends; usually nobody (`listening.listen`)."""
        self.process: Process | None = None
        """What runs here now."""
        self.process_number = 0
        """The number of the present or last process, from 1; 0 before the first start."""
        self.lives: list[Life] = []
        """The lives opened here, oldest first."""
        self.view = View()
        """What the present or last process has told of the others."""
        self.started_at = 0.0
        self.ended_by: Event | None = None
        """What the last process said when it ended by itself: `Fenced`, `StartRefused` or `DrainFinished`."""
        self._timeline = world.timeline

    def __repr__(self) -> str:
        return self.name

    @property
    def node(self) -> NodeId:
        """The id of this machine's key."""
        return self.signer.node

    @property
    def is_clone(self) -> bool:
        """Whether this machine has the key of an earlier one."""
        return self.world.by_node[self.node][0] is not self

    # What runs here

    @property
    def is_running(self) -> bool:
        """Whether a process runs here (it may be paused)."""
        return self.process is not None

    @property
    def is_paused(self) -> bool:
        """Whether the process gets no time, or its messages are blocked."""
        return self.processor.is_paused or self.processor.is_blocking

    @property
    def is_sound(self) -> bool:
        """Whether nothing hinders the process, it does no harm, and its steady clock runs about as it should."""
        return self.hindered is None and not self.is_hostile and self.has_sound_clock(self.clock.rate)

    @property
    def engine(self) -> Engine:
        """The engine of the running process. Raises `LookupError` if there is none."""
        return self._running.engine

    @property
    def life(self) -> Life | None:
        """The life of the running process."""
        return None if self.process is None else self.process.engine.life

    @property
    def told_wall(self) -> float:
        """The time of day as the running process knows it. Raises `LookupError` if there is none."""
        return self._running.told_wall

    @property
    def _running(self) -> Process:
        if self.process is None:
            raise LookupError(f"{self.name} runs no process")
        return self.process

    # Clocks

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

    @staticmethod
    def has_sound_clock(rate: float) -> bool:
        """Whether a machine whose steady clock has this rate may be held to what is promised."""
        return abs(rate - 1.0) <= CLOCK_RATE_TOLERANCE

    def set_clock_rate(self, rate: float) -> None:
        """Let the steady clock run fast, slow, or (0) stand still; what was planned by it is planned anew."""
        self.clock.set_rate(rate, self._timeline.now)
        if self.process is not None:
            self.process.clock_changed()

    # Processes come and go

    def start(self, take_over: bool = False) -> None:
        """Start a process with what is on the disk."""
        assert self.process is None, f"{self.name} runs already"
        world = self.world
        self.is_up = True
        self.process_number += 1
        self.is_hostile = self.behaviour is not None
        if not self.is_hostile:
            world.history.present(self.index, self._timeline.now, "hostile")
        self.ended_by = None
        self.started_at = self._timeline.now
        self.view = View()
        world.process_changed(self, "started")
        self.process = Process(self, self.process_number, take_over=take_over)
        self.process.begin()

    def stop(self) -> None:
        """The process is gone without a word (SIGKILL): its links are reset, unsynced writes are lost."""
        self._forget_process()
        self.world.links.process_ended(self)
        self.disk.crash()

    def power_off(self) -> None:
        """The machine is gone: nothing answers here any more."""
        self._forget_process()
        self.is_up = False
        self.world.links.host_went_down(self)
        self.disk.crash()

    def process_exits(self, event: Event) -> None:
        """The process has said why it ends, and ends by itself, having synced what it wrote."""
        self.ended_by = event
        self._forget_process()
        self.world.links.process_ended(self)
        self.disk.sync()
        self.world.process_exited(self)

    def _forget_process(self) -> None:
        if self.process is not None:
            self.world.process_changed(self, "ended")
            self.process.is_over = True
            self.process = None
        self.processor.forget()
        self.application.process_ended()

    def settle(self) -> None:
        """Let the running process do what its engine wants now. Call it after every command to the engine."""
        if self.process is not None:
            self.process.settle()

    # Processor

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

    # What the network brings

    def receive_datagram(self, argument: tuple[Address, bytes, int]) -> None:
        """A datagram has reached this machine."""
        process = self.process
        if process is None:
            return
        if self.hindered is None:
            process.on_datagram(argument)
        else:
            self.hindered.add_datagram(process.on_datagram, argument)

    def receive_damaged(self, argument: tuple[Address, bytes, int]) -> None:
        """A datagram has reached this machine with bits flipped on the way; the node must reject it, and count it."""
        process = self.process
        if process is None:
            return
        if self.hindered is None:
            process.on_damaged(argument)
        else:
            self.hindered.add_datagram(process.on_damaged, argument)

    def next_accepted(self) -> LinkId:
        """The number of the next link that the running process accepts. Raises `LookupError` if there is none."""
        return self._running.next_accepted()

    def link_opened(self, end: End) -> None:
        """A dialled or accepted link is open."""
        if self.process is not None:
            self.when_awake(self.process.on_link_opened, end)

    def receive_frame(self, end: End, data: bytes) -> None:
        """A frame has reached this machine."""
        if self.process is not None:
            self.when_awake(self.process.on_frame, (end, data))

    def link_writable(self, end: End, free_bytes: int) -> None:
        """The other side has acknowledged what was sent."""
        if self.process is not None:
            self.when_awake(self.process.on_link_writable, (end, free_bytes))

    def link_closed(self, end: End, how: LinkEnd) -> None:
        """A link has ended by the other side or by the network, or a dial has failed."""
        if self.process is not None:
            self.when_awake(self.process.on_link_closed, (end, how))

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
