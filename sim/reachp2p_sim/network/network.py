"""The simulated network: who has which address, and datagrams on their way.

Each directed path between two hosts has a stream of chance of its own, and what `paths` knows about it: on a cut one
what is sent vanishes, on a held one it waits for `release` and nothing is lost, and `weather` does the rest. Links,
which are ordered streams, are in `links.py`.

A path with nothing unusual about it costs one test of a bit and two draws.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import TYPE_CHECKING

from reachp2p.core.ids import Address
from reachp2p_sim.network.conditions import DELAY_MAX, Conditions
from reachp2p_sim.network.gateways import Answer, Gateways
from reachp2p_sim.network.paths import Paths
from reachp2p_sim.network.weather import LOSS_SALT, Tally
from reachp2p_sim.network.wiretap import Wiretap
from reachp2p_sim.world.observer import Observer
from reachp2p_sim.world.randomness import Randomness, fraction, mix, step, uniform
from reachp2p_sim.world.timeline import Timeline
from reachp2p_sim.world.trace import Trace

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host

HELD_MAX = 1_000_000
"""Datagrams that wait on held paths. A run that holds back more for longer is stopped and says so."""


class Network:
    """All hosts by their address, and the datagrams between them."""

    def __init__(
        self, randomness: Randomness, timeline: Timeline, trace: Trace, conditions: Conditions
    ) -> None:
        self._randomness = randomness
        self._timeline = timeline
        self._trace = trace
        self.hosts: list[Host] = []
        self.by_address: dict[Address, Host] = {}
        self.gateways = Gateways(timeline)
        self.paths = Paths(self.hosts, self.gateways, conditions, randomness, timeline)
        self._counters: dict[int, int] = {}
        self._segment_counters: dict[int, int] = {}
        self._held: list[tuple[Host, Host, bytes, Address, int]] = []
        self._wiretap: Wiretap | None = None
        self.on_oversized: Callable[[str, int], None] | None = None
        """Called with a datagram's sender and size if it is larger than allowed; it is sent all the same."""
        self.on_damaged: Callable[[Host, bool], None] | None = None
        """Called when a damaged datagram has been handled, with whether the node rejected it, and counted that."""
        self.observer: Observer | None = None
        self.datagram_max = 1_400
        self.sent = 0
        self.sent_bytes = 0
        self.delivered = 0
        self.cut_off = 0
        self.to_nobody = 0
        self.sent_max = 0
        self.tally = Tally()

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
        self.paths.changed()

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
        default = self.paths.default
        if source.odd >> target.index & 1 or not default.is_plain or self._wiretap is not None:
            self._send_oddly(source, target, data, self.gateways.leaves(source, target), number)
            return
        path = source.index << 32 | target.index
        counter = self._counters.get(path)
        if counter is None:
            counter = self._randomness.number("path", source.name, target.name)
        counter = self._counters[path] = step(counter)
        conditions = default.conditions
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
        weather = self.paths.weather(source, target)
        arrivals = weather.carry(path, data, address, number, counter, now, self.tally)
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

    def release(self, name: str | None = None) -> None:
        """End the holds of this name, or all, and send on what waited and is held no more, in order."""
        self.paths.end_hold(name)
        waiting, self._held = self._held, []
        for item in waiting:
            source, target, data, address, number = item
            if source.held >> target.index & 1:
                self._held.append(item)
            elif source.cut >> target.index & 1:
                self.cut_off += 1
                self._gone(number, "cut off")
            else:
                self._carry(source, target, data, address, number)

    def segment_delay(self, source: Host, target: Host, retransmit: float, size: int = 64) -> float:
        """How long a segment of a stream takes: lost ones are sent again after `retransmit` seconds, doubling."""
        path = source.index << 32 | target.index
        counter = self._segment_counters.get(path)
        if counter is None:
            counter = self._randomness.number("segments", source.name, target.name)
        weather = self.paths.weather(source, target)
        delay, counter = weather.segment(path, size, retransmit, counter, self._timeline.now)
        self._segment_counters[path] = counter
        return delay

    # Records and replays

    def start_wiretap(self) -> Wiretap:
        """Keep a copy of every datagram that is sent from now on. Asked twice, the same wiretap goes on."""
        if self._wiretap is None:
            self._wiretap = Wiretap(self)
        return self._wiretap

    def stop_wiretap(self) -> None:
        """Record nothing more; who holds the wiretap can still replay what it has."""
        self._wiretap = None
