"""What lies between two machines: every *directed* path may be cut, held, or have weather of its own.

A cut path lets nothing through; on a held one what is sent waits (`Network.release`). Cuts, holds and weather over many
paths have names, so that one can end while others stay. What is unusual about the paths of a host is kept in bit masks
at the host, so that a path with nothing unusual about it costs one test of a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reachp2p_sim.network.conditions import Conditions, worst
from reachp2p_sim.network.gateways import Gateways
from reachp2p_sim.network.weather import Weather
from reachp2p_sim.world.randomness import Randomness
from reachp2p_sim.world.timeline import Timeline

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host

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


class Paths:
    """All paths between the hosts of a list, which grows."""

    def __init__(
        self,
        hosts: Sequence[Host],
        gateways: Gateways,
        conditions: Conditions,
        randomness: Randomness,
        timeline: Timeline,
    ) -> None:
        self._hosts = hosts
        self._gateways = gateways
        self._randomness = randomness
        self._timeline = timeline
        self._cuts: list[Group] = []
        self._holds: list[Group] = []
        self._layers: list[tuple[Group, Weather]] = []
        """Weather over many paths; of two that cover one path the later holds."""
        self._single: dict[int, Weather] = {}
        """Weather of one path; holds before any layer."""
        self._worst: tuple[float, float] | None = None
        self.default = self._weather(conditions)
        """The weather of all paths that have none of their own."""
        self.on_change: list[Callable[[], None]] = []
        """Called after reachability has changed."""
        self.mended_wholly = 0
        """How often all cuts have been ended at once: whoever planned more cuts before that gives them up."""

    # Cuts and holds

    def cut(self, sources: Sequence[Host], targets: Sequence[Host], name: str = "cut") -> None:
        """Let nothing through from `sources` to `targets` until `mend(name)`. One name may have many cuts."""
        _room(self._cuts)
        self._cuts.append(Group(name, mask(sources), mask(targets)))
        self.changed()

    def mend(self, name: str | None = None) -> None:
        """End the cuts of this name, or all."""
        self._cuts = [cut for cut in self._cuts if name is not None and cut.name != name]
        self.mended_wholly += name is None
        self.changed()

    def hold(self, sources: Sequence[Host], targets: Sequence[Host], name: str = "hold") -> None:
        """Keep what goes from `sources` to `targets` waiting until `Network.release(name)`."""
        _room(self._holds)
        self._holds.append(Group(name, mask(sources), mask(targets)))
        self.changed()

    def end_hold(self, name: str | None = None) -> None:
        """End the holds of this name, or all."""
        self._holds = [hold for hold in self._holds if name is not None and hold.name != name]
        self.changed()

    @property
    def names(self) -> list[str]:
        """The names of cuts and holds in force, oldest first, each once."""
        return list(dict.fromkeys(group.name for group in (*self._cuts, *self._holds)))

    @property
    def are_whole(self) -> bool:
        """No path is cut or held."""
        return not self._cuts and not self._holds

    def are_whole_among(self, hosts: Sequence[Host]) -> bool:
        """No path between two of these hosts is cut or held."""
        if self.are_whole:
            return True
        members = mask(hosts)
        return not any((host.cut | host.held) & members for host in hosts)

    # Weather

    @property
    def conditions(self) -> Conditions:
        """The conditions on all paths that have none of their own."""
        return self.default.conditions

    @conditions.setter
    def conditions(self, conditions: Conditions) -> None:
        self.default = self._weather(conditions)
        self._worst = None
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
        return self.default

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
        self.changed()

    def end_weather(self, name: str | None = None) -> None:
        """End the weather of this name, or all that has a name."""
        self._layers = [layer for layer in self._layers if name is not None and layer[0].name != name]
        self.changed()

    def weathers(self) -> Iterator[tuple[int, int, Conditions]]:
        """All weather there is, with the bit masks of its sources and targets; -1 for everybody."""
        yield ALL, ALL, self.conditions
        for group, weather in self._layers:
            yield group.sources, group.targets, weather.conditions
        targets: dict[tuple[int, Conditions], int] = {}
        for path, weather in self._single.items():
            key = (path >> 32, weather.conditions)
            targets[key] = targets.get(key, 0) | 1 << (path & 0xFFFFFFFF)
        for (source, conditions), mask_of_targets in targets.items():
            yield 1 << source, mask_of_targets, conditions

    def worst(self) -> tuple[float, float]:
        """The worst loss and the slowest mean delay on any path."""
        if self._worst is None:
            self._worst = worst([conditions for _, _, conditions in self.weathers()])
        return self._worst

    def worst_among(self, hosts: Sequence[Host]) -> tuple[float, float]:
        """The same on any path between two of these hosts."""
        members = mask(hosts)
        found = [self.conditions]
        for source in hosts:
            if source.odd & members:
                found += [self.between(source, target) for target in hosts if target is not source]
        return worst(found)

    # Both

    def is_stalled(self, left: Host, right: Host) -> bool:
        """Whether a stream between two hosts makes no progress: it needs both directions."""
        if (left.cut | left.held) >> right.index & 1 or (right.cut | right.held) >> left.index & 1:
            return True
        if left.odd >> right.index & 1 or right.odd >> left.index & 1:
            return self.between(left, right).loss >= 1.0 or self.between(right, left).loss >= 1.0
        return self.conditions.loss >= 1.0

    def changed(self) -> None:
        """A cut, a hold, weather or a gateway has come or gone: note what is unusual anew, and tell."""
        self._recompute()
        self._tell()

    def _recompute(self) -> None:
        self._worst = None
        for host in self._hosts:
            bit = 1 << host.index
            host.cut = _union(cut.targets for cut in self._cuts if cut.sources & bit)
            host.held = _union(hold.targets for hold in self._holds if hold.sources & bit)
            host.odd = host.cut | host.held | _union(g.targets for g, _ in self._layers if g.sources & bit)
            host.odd |= ALL if self._gateways.mask & bit else self._gateways.mask
        for path in self._single:
            self._hosts[path >> 32].odd |= 1 << (path & 0xFFFFFFFF)

    def _tell(self) -> None:
        for listener in self.on_change:
            listener()

    def _weather(self, conditions: Conditions) -> Weather:
        now = self._timeline.now

        def chance_of(path: int) -> int:
            source, target = self._hosts[path >> 32], self._hosts[path & 0xFFFFFFFF]
            return self._randomness.number("spells", source.name, target.name, f"{now:.9f}")

        return Weather(conditions, chance_of, now)


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
