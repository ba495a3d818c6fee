"""What a story can do to a world, as methods that read like one: `world.partition(left, right)`, `world.crash(host)`.

Each method only makes a step, which is plain data, and performs it. What a step does is in `steps/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.processor import BACKLOG_MAX
from reachp2p_sim.network.gateways import Answer
from reachp2p_sim.steps.base import Step
from reachp2p_sim.steps.eavesdropping import ListenIn, Replay
from reachp2p_sim.steps.hostility import TurnHonest, TurnHostile
from reachp2p_sim.steps.machines import CrashAtWrite, SetClock, SetDisk, StepClock, StrobeClock
from reachp2p_sim.steps.paths import (
    AllowDials,
    BlockDials,
    EndWeather,
    Flap,
    Heal,
    Hold,
    Partition,
    PartitionShape,
    PathWeather,
    Release,
    SetName,
    Swizzle,
    Translate,
    Weather,
    WeatherBetween,
)
from reachp2p_sim.steps.processes import (
    AddNodes,
    Block,
    Clone,
    Crash,
    Leave,
    Pause,
    Restart,
    Resume,
    SaveDisk,
    ShowName,
    SlowDown,
    Start,
    Upgrade,
)
from reachp2p_sim.steps.selection import StepImpossible
from reachp2p_sim.steps.story import DeclareCore
from reachp2p_sim.steps.work import (
    AGENT,
    ApplyRules,
    CallAtRate,
    CallLoop,
    ChangeHandlers,
    OfferAgent,
    WithdrawAgent,
)

SEEDS = "seeds"
"""The name under which nodes look for their seed nodes."""


class Acts(ABC):
    """The acts of a story. A world is this and everything that steps are made of."""

    nodes: list[Host]
    """All machines, in order of their number."""

    @abstractmethod
    def perform(self, step: Step) -> None:
        """Do one step of the story now."""

    # Machines

    def add_nodes(
        self,
        count: int,
        *,
        within: float = 0.0,
        seeds: Sequence[str] = (SEEDS,),
        converged: bool = False,
        tells_load: bool = False,
    ) -> list[Host]:
        """Add machines and start them, all at once or at moments drawn from the next `within` seconds.

        The first machine of a world becomes the seed node of all, itself included. `converged`: they start at once and
        have each other's heads after a tenth of a second; nobody joins. `tells_load`: they tell those whom they answer
        how busy they are.
        """
        before = len(self.nodes)
        self.perform(
            AddNodes(
                count=count, within=within, seeds=tuple(seeds), converged=converged, tells_load=tells_load
            )
        )
        return self.nodes[before:]

    def add_node(self, *, seeds: Sequence[str] = (SEEDS,)) -> Host:
        """Add one machine without starting it."""
        self.perform(AddNodes(count=1, start=False, seeds=tuple(seeds)))
        return self.nodes[-1]

    def start(self, *hosts: Host, take_over: bool = False) -> None:
        """Start the process of machines that run none."""
        self.perform(Start(hosts=_names(hosts), take_over=take_over))

    def crash(self, *hosts: Host, host_down: bool = False) -> None:
        """End processes without a word. With `host_down` the machines vanish, too: silence instead of refusal."""
        self.perform(Crash(hosts=_names(hosts), host_down=host_down))

    def restart(self, *hosts: Host, disk: str = "kept", moved: bool = False, take_over: bool = False) -> None:
        """Start processes again (ending them first); `moved`: at another address.

        `disk` is `kept`, `lost`, or the name of an image (`save_disk`).
        """
        self.perform(Restart(hosts=_names(hosts), disk=disk, moved=moved, take_over=take_over))

    def upgrade(self, *hosts: Host) -> None:
        """Let machines run the next release of the program from their next start on (`next_release`)."""
        self.perform(Upgrade(hosts=_names(hosts)))

    def pause(self, *hosts: Host) -> None:
        """Take the processor away: messages wait, nothing is lost."""
        self.perform(Pause(hosts=_names(hosts)))

    def resume(self, *hosts: Host) -> None:
        """Give it back."""
        self.perform(Resume(hosts=_names(hosts)))

    def leave(self, *hosts: Host) -> None:
        """Let nodes drain, say goodbye and end."""
        self.perform(Leave(hosts=_names(hosts)))

    def clone(self, host: Host, image: str | None = None) -> Host:
        """A second machine with this key, a copy of the disk (or a saved image), an own address; not started."""
        self.perform(Clone(hosts=_names([host]), image=image))
        return self.nodes[-1]

    def block(self, *hosts: Host) -> None:
        """Block processes right before they send and right after they receive, until `resume` (Lifeguard §V)."""
        self.perform(Block(hosts=_names(hosts)))

    def slow_down(self, *hosts: Host, service_time: float = 0.0, backlog: int = BACKLOG_MAX) -> None:
        """Let each input take this many seconds of a machine's one processor; 0 ends that."""
        self.perform(SlowDown(hosts=_names(hosts), service_time=service_time, backlog=backlog))

    def turn_hostile(self, *hosts: Host, behaviour: str, victims: Sequence[Host] | None = None) -> None:
        """Let nodes do harm of a kind of `hostile.BEHAVIOURS`, to these or to all others."""
        to = None if victims is None else _names(victims)
        self.perform(TurnHostile(hosts=_names(hosts), behaviour=behaviour, victims=to))

    def turn_honest(self, *hosts: Host) -> None:
        """Let hostile nodes do no more harm; they are trusted again once they have restarted."""
        self.perform(TurnHonest(hosts=_names(hosts)))

    def save_disk(self, *hosts: Host, image: str) -> None:
        """Keep what is durable now under a name, to restart or clone from later."""
        self.perform(SaveDisk(hosts=_names(hosts), image=image))

    def set_disk(self, *hosts: Host, **how: Any) -> None:
        """How disks behave from now on; the keywords are those of `SetDisk`, without any they are well."""
        self.perform(SetDisk(hosts=_names(hosts), **how))

    def crash_at_write(self, *hosts: Host, write: int = 1, durable: bool = False) -> None:
        """Let processes crash at their `write`-th write from now: while it is under way, or once it is durable."""
        self.perform(CrashAtWrite(hosts=_names(hosts), write=write, durable=durable))

    def step_clock(self, host: Host, seconds: float) -> None:
        """Move the wall clock of a machine. The steady clock does not notice."""
        self.perform(StepClock(hosts=_names([host]), seconds=seconds))

    def set_clock(self, *hosts: Host, rate: float = 1.0, wall_rate: float = 1.0) -> None:
        """Let clocks run fast or slow; a steady clock of rate 0 stands still."""
        self.perform(SetClock(hosts=_names(hosts), rate=rate, wall_rate=wall_rate))

    def strobe_clock(self, *hosts: Host, by: float = 0.0, every: float = 0.1) -> None:
        """Let wall clocks be wrong by so many seconds every other moment; 0 ends that."""
        self.perform(StrobeClock(hosts=_names(hosts), by=by, every=every))

    def set_name(self, name: str, hosts: Sequence[Host]) -> None:
        """Let a seed name lead to the present addresses of these machines."""
        self.perform(SetName(name=name, leads_to=_names(hosts)))

    def show_name(self, *hosts: Host, shown: str) -> None:
        """Let nodes tell others this display name from their next start on."""
        self.perform(ShowName(hosts=_names(hosts), shown=shown))

    def declare_core(self, hosts: Sequence[Host]) -> None:
        """From now on only these must converge, whatever happens to the others (they stay broken)."""
        self.perform(DeclareCore(hosts=_names(hosts)))

    # Work

    def offer(self, *hosts: Host, **how: Any) -> None:
        """Let machines offer an agent; the keywords are those of `OfferAgent`."""
        self.perform(OfferAgent(hosts=_names(hosts), **how))

    def withdraw(self, *hosts: Host, agent: str = AGENT) -> None:
        """Let machines offer an agent no longer."""
        self.perform(WithdrawAgent(hosts=_names(hosts), agent=agent))

    def call_in_a_loop(self, *hosts: Host, **how: Any) -> None:
        """Let machines call a capability again and again; the keywords are those of `CallLoop`."""
        self.perform(CallLoop(hosts=_names(hosts), **how))

    def call_at_rate(self, *hosts: Host, rate: float, **how: Any) -> None:
        """Let machines call a capability so many times a second; the keywords are those of `CallAtRate`."""
        self.perform(CallAtRate(hosts=_names(hosts), rate=rate, **how))

    def change_handlers(self, *hosts: Host, **how: Any) -> None:
        """Let handlers behave otherwise from now on; the keywords are those of `ChangeHandlers`."""
        self.perform(ChangeHandlers(hosts=_names(hosts), **how))

    def apply_rules(self, *hosts: Host, rules: str) -> None:
        """Let nodes apply routing rules, the text of a TOML file, to the whole cluster."""
        self.perform(ApplyRules(hosts=_names(hosts), rules=rules))

    # Network

    def partition(
        self, left: Sequence[Host], right: Sequence[Host], *, one_way: bool = False, name: str = ""
    ) -> None:
        """Let nothing through between two groups, or only nothing from left to right."""
        self.perform(Partition(left=_names(left), right=_names(right), one_way=one_way, name=name))

    def partition_shape(self, shape: str, *hosts: Host, name: str = "") -> None:
        """Cut machines (all, if none is given) from each other in a shape of `partition_shapes.SHAPES`."""
        self.perform(PartitionShape(shape=shape, hosts=_names(hosts) or "all", name=name))

    def heal(self, name: str | None = None) -> None:
        """End the partitions of a name, or all."""
        self.perform(Heal(name=name))

    def swizzle(self, *hosts: Host, share: float = 0.25, seconds: float = 5.0) -> None:
        """Cut a drawn share of machines off one by one, then let them back in another order; takes twice `seconds`."""
        self.perform(Swizzle(hosts=_names(hosts) or "all", share=share, seconds=seconds))

    def flap(self, *hosts: Host, **how: Any) -> None:
        """Cut machines off and let them back, again and again; the keywords are those of `Flap`."""
        self.perform(Flap(hosts=_names(hosts), **how))

    def hold(self, left: Sequence[Host], right: Sequence[Host], *, name: str = "") -> None:
        """Let what goes between two groups wait; nothing is lost."""
        self.perform(Hold(left=_names(left), right=_names(right), name=name))

    def release(self, name: str | None = None) -> None:
        """Deliver what was held under a name, or all."""
        self.perform(Release(name=name))

    def translate(self, *hosts: Host, idle: float = 60.0, answer: Answer = "silence") -> None:
        """Put machines behind translators of addresses (NAT) without a port mapping, for good."""
        self.perform(Translate(hosts=_names(hosts), idle=idle, answer=answer))

    def block_dials(
        self,
        source: Sequence[Host],
        target: Sequence[Host],
        *,
        answer: Answer = "refused",
        reset: bool = False,
    ) -> None:
        """Let no dial from some machines to others through; datagrams pass, and open links unless `reset`."""
        self.perform(BlockDials(source=_names(source), target=_names(target), answer=answer, reset=reset))

    def allow_dials(self) -> None:
        """Let all dials through again."""
        self.perform(AllowDials())

    def set_weather(self, **changes: Any) -> None:
        """Change the conditions on all paths that have none of their own; the keywords are those of `Conditions`.

        What is not named is as it was when the run began; without keywords the weather is fair again.
        """
        self.perform(Weather(changes=changes))

    def set_weather_between(self, source: Host, target: Host, **changes: Any) -> None:
        """Give one directed path its own weather, or without keywords take it away."""
        self.perform(PathWeather(source=_names([source]), target=_names([target]), changes=changes or None))

    def set_weather_of(
        self,
        sources: Sequence[Host],
        targets: Sequence[Host],
        *,
        both_ways: bool = False,
        name: str = "",
        **changes: Any,
    ) -> None:
        """Give all paths from some machines to others weather of their own, until `end_weather`."""
        self.perform(
            WeatherBetween(
                sources=_names(sources),
                targets=_names(targets),
                changes=changes,
                both_ways=both_ways,
                name=name,
            )
        )

    def end_weather(self, name: str | None = None) -> None:
        """End the weather between machines of a name, or all."""
        self.perform(EndWeather(name=name))

    def listen_in(self) -> None:
        """Keep a copy of every datagram that is sent from now on, to replay it."""
        self.perform(ListenIn())

    def replay(self, *hosts: Host, limit: int = 1_000, within: float = 1.0) -> None:
        """Let what was kept arrive again: at these machines, or where it was sent to."""
        self.perform(Replay(hosts=_names(hosts) or None, limit=limit, within=within))


def _names(hosts: object) -> tuple[str, ...]:
    """The names of these machines. Raises `StepImpossible` for anything else: nobody checks the types of a story."""
    if isinstance(hosts, str) or not isinstance(hosts, Iterable):
        raise StepImpossible(f"a list of machines is wanted, such as world.nodes[:3], not {_said(hosts)}")
    return tuple(_name(host) for host in hosts)


def _name(host: object) -> str:
    if not isinstance(host, Host):
        raise StepImpossible(
            f'a machine is wanted, such as world.nodes[3] or world.host("n03"), not {_said(host)}; of a list write '
            "*machines"
        )
    return host.name


def _said(value: object) -> str:
    return repr(value) if isinstance(value, str) else f"a {type(value).__name__}"
