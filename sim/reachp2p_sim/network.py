"""The simulated network: which host reaches which, and datagrams.

Each *directed* path between two hosts has a delay, a loss rate and a stream of chance of its own, and may be cut (what
is sent vanishes) or held (what is sent waits for `release`, nothing is lost). Links, which are ordered streams, are in
`links.py` and ask here who reaches whom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from reachp2p.core.ids import Address
from reachp2p_sim import trace
from reachp2p_sim.observer import Observer
from reachp2p_sim.randomness import Randomness, fraction, mix, step
from reachp2p_sim.timeline import Timeline
from reachp2p_sim.trace import Trace

if TYPE_CHECKING:
    from reachp2p_sim.host import Host

LOSS_SALT = 0x5DEECE66D1CE4E5B
"""Keeps the draw for loss apart from the draw for delay, so that switching loss on shifts no delay."""
HELD_MAX = 1_000_000
RETRANSMISSIONS_MAX = 8
DELAY_MAX = 10.0
"""An exponential tail is cut here, in seconds."""


@dataclass(slots=True, frozen=True)
class Conditions:
    """The weather on a directed path. `delay` is one way, in seconds; `spread` is its exponential part's mean."""

    delay: float = 0.0005
    """The constant part."""
    spread: float = 0.0045
    """Mean of the exponential part; 0 makes the delay constant."""
    loss: float = 0.0
    """Share of datagrams lost, 0 to 1. A link survives it: lost segments are sent again, later."""

    def __post_init__(self) -> None:
        if self.delay < 0 or self.spread < 0 or not 0 <= self.loss <= 1:
            raise ValueError(f"conditions out of range: {self}")


Cut = tuple[int, int]
"""Bit masks of host indices: nothing goes from the first to the second."""


class Network:
    """All paths and what is under way on them."""

    def __init__(
        self, randomness: Randomness, timeline: Timeline, trace: Trace, conditions: Conditions
    ) -> None:
        self._randomness = randomness
        self._timeline = timeline
        self._trace = trace
        self.conditions = conditions
        self.hosts: list[Host] = []
        self.by_address: dict[Address, Host] = {}
        self._special: dict[int, Conditions] = {}
        self._counters: dict[int, int] = {}
        self._segment_counters: dict[int, int] = {}
        self._cuts: list[Cut] = []
        self._holds: list[Cut] = []
        self._held: list[tuple[Host, Host, bytes, Address, int]] = []
        self.on_change: list[Callable[[], None]] = []
        """Called after reachability has changed."""
        self.on_oversized: Callable[[str, int], None] | None = None
        """Called with a datagram's sender and size if it is larger than allowed; it is sent all the same."""
        self.observer: Observer | None = None
        self.datagram_max = 1_400
        self.sent = 0
        self.sent_bytes = 0
        self.delivered = 0
        self.lost = 0
        self.cut_off = 0
        self.to_nobody = 0
        self.sent_max = 0

    def attach(self, host: Host) -> None:
        """Give a new host its place and its address."""
        self.hosts.append(host)
        self.by_address[host.address] = host

    def move(self, host: Host, address: Address) -> None:
        """A host has another address from now on; nobody answers at the former one."""
        if self.by_address.get(host.address) is host:
            del self.by_address[host.address]
        host.address = address
        self.by_address[address] = host

    # Datagrams

    def send(self, source: Host, address: Address, data: bytes, now: float) -> None:
        """Put one datagram on its way, or lose it."""
        self.sent += 1
        self.sent_bytes += len(data)
        if len(data) > self.sent_max:
            self.sent_max = len(data)
            if len(data) > self.datagram_max and self.on_oversized is not None:
                self.on_oversized(source.name, len(data))
        self._trace.data(trace.DATAGRAM_SENT, now, source.index, data)
        target = self.by_address.get(address)
        if self.observer is not None:
            self.observer.datagram_sent(source, target, data, self.sent)
        if target is None:
            self.to_nobody += 1
            self._gone(self.sent, "to nobody")
        elif source.cut >> target.index & 1:
            self.cut_off += 1
            self._gone(self.sent, "cut off")
        elif source.held >> target.index & 1:
            if len(self._held) >= HELD_MAX:
                raise RuntimeError(
                    f"more than {HELD_MAX} datagrams held back: release them, or hold for a shorter time"
                )
            self._held.append((source, target, data, source.address, self.sent))
        else:
            self._carry(source, target, data, source.address, self.sent)

    def _carry(self, source: Host, target: Host, data: bytes, address: Address, number: int) -> None:
        path = source.index << 32 | target.index
        counter = self._counters.get(path)
        if counter is None:
            counter = self._randomness.number("path", source.index, target.index)
        counter = self._counters[path] = step(counter)
        conditions = self._special.get(path, self.conditions) if self._special else self.conditions
        if conditions.loss and fraction(mix(counter ^ LOSS_SALT)) < conditions.loss:
            self.lost += 1
            self._gone(number, "lost")
            return
        self._timeline.after(_delay(conditions, counter), target.receive_datagram, (address, data, number))

    def _gone(self, number: int, why: str) -> None:
        if self.observer is not None:
            self.observer.datagram_gone(number, why)

    def segment_delay(self, source: Host, target: Host, retransmit: float) -> float:
        """How long a segment of a stream takes: lost ones are sent again after `retransmit` seconds, doubling."""
        path = source.index << 32 | target.index
        counter = self._segment_counters.get(path)
        if counter is None:
            counter = self._randomness.number("segments", source.index, target.index)
        conditions = self._special.get(path, self.conditions) if self._special else self.conditions
        counter = step(counter)
        extra = 0.0
        for _ in range(RETRANSMISSIONS_MAX):
            if not conditions.loss or fraction(mix(counter ^ LOSS_SALT)) >= conditions.loss:
                break
            extra += retransmit
            retransmit *= 2
            counter = step(counter)
        self._segment_counters[path] = counter
        return extra + _delay(conditions, counter)

    # Weather

    def between(self, source: Host, target: Host) -> Conditions:
        """The conditions on one directed path."""
        return self._special.get(source.index << 32 | target.index, self.conditions)

    def set_between(self, source: Host, target: Host, conditions: Conditions | None) -> None:
        """Give one directed path conditions of its own, or take them away."""
        path = source.index << 32 | target.index
        if conditions is None:
            self._special.pop(path, None)
        else:
            self._special[path] = conditions

    def worst(self) -> tuple[float, float]:
        """The worst loss and the slowest mean delay on any path."""
        everywhere = [self.conditions, *self._special.values()]
        return max(c.loss for c in everywhere), max(c.delay + c.spread for c in everywhere)

    # Reachability

    def cut(self, sources: Sequence[Host], targets: Sequence[Host]) -> None:
        """Let nothing through from `sources` to `targets`."""
        self._cuts.append((mask(sources), mask(targets)))
        self._changed()

    def mend(self) -> None:
        """End all cuts."""
        self._cuts.clear()
        self._changed()

    def hold(self, sources: Sequence[Host], targets: Sequence[Host]) -> None:
        """Keep what goes from `sources` to `targets` waiting."""
        self._holds.append((mask(sources), mask(targets)))
        self._changed()

    def release(self) -> None:
        """End all holds and send on what waited, in order."""
        self._holds.clear()
        waiting, self._held = self._held, []
        self._changed()
        for source, target, data, address, number in waiting:
            if source.cut >> target.index & 1:
                self.cut_off += 1
                self._gone(number, "cut off")
            else:
                self._carry(source, target, data, address, number)

    @property
    def is_whole(self) -> bool:
        """No path is cut or held."""
        return not self._cuts and not self._holds

    def is_stalled(self, left: Host, right: Host) -> bool:
        """Whether a stream between two hosts makes no progress: it needs both directions."""
        return bool((left.cut | left.held) >> right.index & 1 or (right.cut | right.held) >> left.index & 1)

    def is_cut(self, source: Host, target: Host) -> bool:
        """Whether nothing gets from `source` to `target`."""
        return bool(source.cut >> target.index & 1)

    def _changed(self) -> None:
        for host in self.hosts:
            bit = 1 << host.index
            host.cut = _union(targets for sources, targets in self._cuts if sources & bit)
            host.held = _union(targets for sources, targets in self._holds if sources & bit)
        for listener in self.on_change:
            listener()


def _delay(conditions: Conditions, counter: int) -> float:
    if not conditions.spread:
        return conditions.delay
    return conditions.delay + min(-conditions.spread * log(1.0 - fraction(mix(counter))), DELAY_MAX)


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
