"""The simulated network: which host reaches which, and datagrams.

Each *directed* path between two hosts has weather and a stream of chance of its own (`conditions.py`, `weather.py`),
and may be cut (what is sent vanishes) or held (what is sent waits for `release`, nothing is lost). Cuts, holds and
weather over many paths have names, so that one can end while others stay. Links, which are ordered streams, are in
`links.py` and ask here who reaches whom.

A path with nothing unusual about it costs one test of a bit and two draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from reachp2p.core.ids import Address
from reachp2p_sim.network.conditions import DELAY_MAX, Conditions, worst
from reachp2p_sim.network.gateways import Answer, Gateways
from reachp2p_sim.network.weather import LOSS_SALT, Tally, Weather
from reachp2p_sim.network.wiretap import Wiretap
from reachp2p_sim.world.observer import Observer
from reachp2p_sim.world.randomness import Randomness, fraction, mix, step, uniform
from reachp2p_sim.world.timeline import Timeline
from reachp2p_sim.world.trace import Trace

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host

__all__ = ["Conditions", "Network", "mask"]

HELD_MAX = 1_000_000
ALL = -1
"""Every host there may be, as a mask."""
LAYERS_MAX = 4_096
"""Named weathers at once, and cuts, and holds."""


@dataclass(slots=True, frozen=True)
class Group:
    """Named: what goes from the hosts of one bit mask to those of another."""

    name: str
    sources: int
    targets: int

    def covers(self, source: Host, target: Host) -> bool:
        """Whether this path is among them."""
        return bool(self.sources >> source.index & 1 and self.targets >> target.index & 1)


class Network:
    """All paths and what is under way on them."""

    def __init__(
        self, randomness: Randomness, timeline: Timeline, trace: Trace, conditions: Conditions
    ) -> None:
        self._randomness = randomness
        self._timeline = timeline
        self._trace = trace
        self.hosts: list[Host] = []
        self.by_address: dict[Address, Host] = {}
        self.gateways = Gateways(timeline)
        self._counters: dict[int, int] = {}
        self._segment_counters: dict[int, int] = {}
        self._cuts: list[Group] = []
        self._holds: list[Group] = []
        self._layers: list[tuple[Group, Weather]] = []
        """Weather over many paths; of two that cover one path the later holds."""
        self._single: dict[int, Weather] = {}
        """Weather of one path; holds before any layer."""
        self._held: list[tuple[Host, Host, bytes, Address, int]] = []
        self._wiretap: Wiretap | None = None
        self.on_change: list[Callable[[], None]] = []
        """Called after reachability has changed."""
        self.on_oversized: Callable[[str, int], None] | None = None
        """Called with a datagram's sender and size if it is larger than allowed; it is sent all the same."""
        self.on_damaged: Callable[[Host, bool], None] | None = None
        """Called when a damaged datagram has been handled, with whether the node rejected it, and counted that."""
        self.observer: Observer | None = None
        self.mended_wholly = 0
        """How often all cuts have been ended at once: whoever planned more cuts before that gives them up."""
        self.datagram_max = 1_400
        self.sent = 0
        self.sent_bytes = 0
        self.delivered = 0
        self.cut_off = 0
        self.to_nobody = 0
        self.sent_max = 0
        self.tally = Tally()
        self._worst: tuple[float, float] | None = None
        self._default = self._weather(conditions)
        self._is_odd = False
        """Every datagram takes the long way: the weather of most paths is not plain, or all is recorded."""
        self._note_odd()

    def attach(self, host: Host) -> None:
        """Give a new host its place and its address."""
        self.hosts.append(host)
        self.by_address[host.address] = host
        host.odd = self.gateways.mask

    def move(self, host: Host, address: Address) -> None:
        """A host has another address from now on; nobody answers at the former one."""
        former, host.address = host.address, address
        if self.by_address.get(former) is host:
            del self.by_address[former]
        if self.gateways.is_behind(host):
            self.gateways.moved(host, former)
        else:
            self.by_address[address] = host

    def put_behind(self, host: Host, outside: Address, idle: float, answer: Answer) -> None:
        """Put a host behind a translator of addresses with this address (`gateways.py`), for good."""
        self.gateways.put_behind(host, outside, idle, answer)
        self.by_address.pop(host.address, None)
        self.by_address[outside] = host
        self._changed()

    # Datagrams

    def send(self, source: Host, address: Address, data: bytes, now: float) -> None:
        """Put one datagram on its way, or lose it."""
        self.sent = number = self.sent + 1
        self.sent_bytes += len(data)
        if len(data) > self.sent_max:
            self.sent_max = len(data)
            if len(data) > self.datagram_max and self.on_oversized is not None:
                self.on_oversized(source.name, len(data))
        self._trace.datagram(now, source.index, data)
        target = self.by_address.get(address)
        if self.observer is not None:
            self.observer.datagram_sent(source, target, data, number)
        if target is None:
            self.to_nobody += 1
            self._gone(number, "to nobody")
            return
        if self._is_odd or source.odd >> target.index & 1:
            self._send_oddly(source, target, data, self.gateways.leaves(source, target), number)
            return
        path = source.index << 32 | target.index
        counter = self._counters.get(path)
        if counter is None:
            counter = self._randomness.number("path", source.name, target.name)
        counter = self._counters[path] = step(counter)
        conditions = self._default.conditions
        if conditions.loss and fraction(mix(counter ^ LOSS_SALT)) < conditions.loss:
            self.tally.lost += 1
            self._gone(number, "lost")
            return
        delay = conditions.delay
        if conditions.spread:
            drawn = -conditions.spread * log(1.0 - uniform(counter))
            delay += drawn if drawn < DELAY_MAX else DELAY_MAX
        self._timeline.after(delay, target.receive_datagram, (source.address, data, number))

    def _send_oddly(self, source: Host, target: Host, data: bytes, address: Address, number: int) -> None:
        """The long way: something about this path is unusual, or everything is recorded."""
        if self._wiretap is not None:
            self._wiretap.record(self._timeline.now, address, target.index, data, number)
        if source.cut >> target.index & 1:
            self.cut_off += 1
            self._gone(number, "cut off")
        elif not self.gateways.lets_in(source, target):
            self._gone(number, "kept out")
        elif source.held >> target.index & 1:
            if len(self._held) >= HELD_MAX:
                raise RuntimeError(
                    f"more than {HELD_MAX} datagrams held back: release them, or hold for a shorter time"
                )
            self._held.append((source, target, data, address, number))
        else:
            self._carry(source, target, data, address, number)

    def _carry(self, source: Host, target: Host, data: bytes, address: Address, number: int) -> None:
        path = source.index << 32 | target.index
        counter = self._counters.get(path)
        if counter is None:
            counter = self._randomness.number("path", source.name, target.name)
        counter = self._counters[path] = step(counter)
        now = self._timeline.now
        arrivals = self.weather(source, target).carry(path, data, address, number, counter, now, self.tally)
        if isinstance(arrivals, str):
            self._gone(number, arrivals)
            return
        for delay, arriving, sender, which, is_damaged in arrivals:
            receive = target.receive_damaged if is_damaged else target.receive_datagram
            self._timeline.after(delay, receive, (sender, arriving, which))

    def _gone(self, number: int, why: str) -> None:
        if self.observer is not None:
            self.observer.datagram_gone(number, why)

    def inject(self, target: Host, data: bytes, address: Address, number: int, delay: float) -> None:
        """Let a datagram arrive that nobody sends now, and that takes no path: a replay by somebody near by."""
        self._timeline.after(delay, target.receive_datagram, (address, data, number))

    def segment_delay(self, source: Host, target: Host, retransmit: float, size: int = 64) -> float:
        """How long a segment of a stream takes: lost ones are sent again after `retransmit` seconds, doubling."""
        path = source.index << 32 | target.index
        counter = self._segment_counters.get(path)
        if counter is None:
            counter = self._randomness.number("segments", source.name, target.name)
        delay, counter = self.weather(source, target).segment(
            path, size, retransmit, counter, self._timeline.now
        )
        self._segment_counters[path] = counter
        return delay

    # Records and replays

    def start_wiretap(self) -> Wiretap:
        """Keep a copy of every datagram that is sent from now on. Asked twice, the same wiretap goes on."""
        if self._wiretap is None:
            self._wiretap = Wiretap(self)
            self._note_odd()
        return self._wiretap

    def stop_wiretap(self) -> None:
        """Record nothing more; who holds the wiretap can still replay what it has."""
        self._wiretap = None
        self._note_odd()

    # Weather

    @property
    def conditions(self) -> Conditions:
        """The weather of all paths that have none of their own."""
        return self._default.conditions

    @conditions.setter
    def conditions(self, conditions: Conditions) -> None:
        self._default = self._weather(conditions)
        self._worst = None
        self._note_odd()
        self._tell()

    def weather(self, source: Host, target: Host) -> Weather:
        """The weather on one directed path: its own, or the latest that covers it, or everybody's."""
        if self._single:
            single = self._single.get(source.index << 32 | target.index)
            if single is not None:
                return single
        for group, weather in reversed(self._layers):
            if group.covers(source, target):
                return weather
        return self._default

    def between(self, source: Host, target: Host) -> Conditions:
        """The conditions on one directed path."""
        return self.weather(source, target).conditions

    def set_between(self, source: Host, target: Host, conditions: Conditions | None) -> None:
        """Give one directed path conditions of its own, or take them away."""
        path = source.index << 32 | target.index
        self._worst = None
        was_total = self.between(source, target).loss >= 1.0
        if conditions is None:
            self._single.pop(path, None)
            self._recompute()
        else:
            self._single[path] = self._weather(conditions)
            source.odd |= 1 << target.index
        if was_total != (self.between(source, target).loss >= 1.0):
            self._tell()

    def add_weather(
        self, sources: Sequence[Host], targets: Sequence[Host], conditions: Conditions, name: str
    ) -> None:
        """Give all paths from some hosts to others conditions of their own until `end_weather(name)`."""
        _room(self._layers)
        self._layers.append((Group(name, mask(sources), mask(targets)), self._weather(conditions)))
        self._changed()

    def end_weather(self, name: str | None = None) -> None:
        """End the weather of this name, or all that has a name."""
        self._layers = [layer for layer in self._layers if name is not None and layer[0].name != name]
        self._changed()

    def worst(self) -> tuple[float, float]:
        """The worst loss and the slowest mean delay on any path."""
        if self._worst is None:
            self._worst = worst([conditions for _, _, conditions in self.weathers()])
        return self._worst

    def weathers(self) -> Iterator[tuple[int, int, Conditions]]:
        """All weather there is, with the bit masks of its sources and targets; -1 for everybody."""
        yield -1, -1, self.conditions
        for group, weather in self._layers:
            yield group.sources, group.targets, weather.conditions
        targets: dict[tuple[int, Conditions], int] = {}
        for path, weather in self._single.items():
            key = (path >> 32, weather.conditions)
            targets[key] = targets.get(key, 0) | 1 << (path & 0xFFFFFFFF)
        for (source, conditions), mask_of_targets in targets.items():
            yield 1 << source, mask_of_targets, conditions

    def worst_among(self, hosts: Sequence[Host]) -> tuple[float, float]:
        """The same on any path between two of these hosts."""
        members = mask(hosts)
        found = [self.conditions]
        for source in hosts:
            if source.odd & members:
                found += [self.between(source, target) for target in hosts if target is not source]
        return worst(found)

    # Reachability

    def cut(self, sources: Sequence[Host], targets: Sequence[Host], name: str = "cut") -> None:
        """Let nothing through from `sources` to `targets` until `mend(name)`. One name may have many cuts."""
        _room(self._cuts)
        self._cuts.append(Group(name, mask(sources), mask(targets)))
        self._changed()

    def mend(self, name: str | None = None) -> None:
        """End the cuts of this name, or all."""
        self._cuts = [cut for cut in self._cuts if name is not None and cut.name != name]
        self.mended_wholly += name is None
        self._changed()

    def hold(self, sources: Sequence[Host], targets: Sequence[Host], name: str = "hold") -> None:
        """Keep what goes from `sources` to `targets` waiting until `release(name)`."""
        _room(self._holds)
        self._holds.append(Group(name, mask(sources), mask(targets)))
        self._changed()

    def release(self, name: str | None = None) -> None:
        """End the holds of this name, or all, and send on what waited and is held no more, in order."""
        self._holds = [hold for hold in self._holds if name is not None and hold.name != name]
        waiting, self._held = self._held, []
        self._changed()
        for item in waiting:
            source, target, data, address, number = item
            if source.held >> target.index & 1:
                self._held.append(item)
            elif source.cut >> target.index & 1:
                self.cut_off += 1
                self._gone(number, "cut off")
            else:
                self._carry(source, target, data, address, number)

    @property
    def lost(self) -> int:
        """Datagrams that the weather has lost."""
        return self.tally.lost

    @property
    def cuts(self) -> list[str]:
        """The names of cuts and holds in force, oldest first, each once."""
        return list(dict.fromkeys(group.name for group in (*self._cuts, *self._holds)))

    @property
    def is_whole(self) -> bool:
        """No path is cut or held."""
        return not self._cuts and not self._holds

    def is_whole_among(self, hosts: Sequence[Host]) -> bool:
        """No path between two of these hosts is cut or held."""
        if self.is_whole:
            return True
        members = mask(hosts)
        return not any((host.cut | host.held) & members for host in hosts)

    def is_stalled(self, left: Host, right: Host) -> bool:
        """Whether a stream between two hosts makes no progress: it needs both directions."""
        if (left.cut | left.held) >> right.index & 1 or (right.cut | right.held) >> left.index & 1:
            return True
        if self._is_odd or left.odd >> right.index & 1 or right.odd >> left.index & 1:
            return self.between(left, right).loss >= 1.0 or self.between(right, left).loss >= 1.0
        return self._default.conditions.loss >= 1.0

    def is_cut(self, source: Host, target: Host) -> bool:
        """Whether nothing gets from `source` to `target`."""
        return bool(source.cut >> target.index & 1)

    def _weather(self, conditions: Conditions) -> Weather:
        now = self._timeline.now

        def chance_of(path: int) -> int:
            source, target = self.hosts[path >> 32], self.hosts[path & 0xFFFFFFFF]
            return self._randomness.number("spells", source.name, target.name, f"{now:.9f}")

        return Weather(conditions, chance_of, now)

    def _note_odd(self) -> None:
        self._is_odd = self._wiretap is not None or not self._default.is_plain

    def _changed(self) -> None:
        self._recompute()
        self._tell()

    def _recompute(self) -> None:
        self._worst = None
        for host in self.hosts:
            bit = 1 << host.index
            host.cut = _union(cut.targets for cut in self._cuts if cut.sources & bit)
            host.held = _union(hold.targets for hold in self._holds if hold.sources & bit)
            host.odd = host.cut | host.held | _union(g.targets for g, _ in self._layers if g.sources & bit)
            host.odd |= ALL if self.gateways.mask & bit else self.gateways.mask
        for path in self._single:
            self.hosts[path >> 32].odd |= 1 << (path & 0xFFFFFFFF)

    def _tell(self) -> None:
        for listener in self.on_change:
            listener()


def mask(hosts: Iterable[Host]) -> int:
    """Hosts as a set of bits."""
    bits = 0
    for host in hosts:
        bits |= 1 << host.index
    return bits


def _union(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total


def _room(groups: Sequence[object]) -> None:
    if len(groups) >= LAYERS_MAX:
        raise RuntimeError(f"more than {LAYERS_MAX} cuts, holds or weathers at once: end some of them")
