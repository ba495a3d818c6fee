"""Simulated links: ordered streams of frames between two processes, as TCP below a WebSocket would be.

What is kept of TCP: order; segments lost on the way are sent again after a time-out that doubles; a dial to a running
host without a process is refused, one into silence times out; the end of a process resets its links at once, the end
of a host is noticed only by silence. A stream between hosts that do not reach each other makes no progress and is LOST
after `silence` seconds (the driver's keep-alive), unless the path comes back first.

Weather, too, meets a stream as it would meet TCP: a damaged segment fails its checksum and counts as lost, second
copies and replays are dropped unseen, a segment that is late makes all that follow wait, a rate limit slows the
sender down, and a size limit only cuts segments smaller. So no frame is ever damaged, doubled or out of order; it is
late, or the link ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reachp2p.core.effects import Dial, LinkEnd
from reachp2p.core.ids import Address, LinkId
from reachp2p_sim.network.network import Network
from reachp2p_sim.world.observer import Observer
from reachp2p_sim.world.randomness import Randomness, fraction
from reachp2p_sim.world.timeline import Timeline

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.machines.process import Process

RETRANSMIT_FIRST = 0.2
"""Seconds before a lost segment is sent again (Linux's minimum), doubling."""
RETRANSMIT_MAX = 120.0
SYN_RETRANSMIT_FIRST = 1.0
"""The same for the first segment of a dial (RFC 6298)."""
QUEUE_BYTES = 8 * 1024 * 1024
"""What the driver holds for one link: sent by the engine and not yet at the other end."""

SEGMENT_OVERHEAD = 64
"""Bytes of a segment without payload, as a rate limit counts it."""
REPORT_AFTER = 256 * 1024
"""Bytes that have gone before the driver says again how much room there is, as the runtime's does."""

Item = bytes | LinkEnd
"""What travels on a stream: a frame, or the news of its end."""


@dataclass(slots=True, eq=False)
class End:
    """One end of a stream: a process on a host, and the number under which its engine knows the link."""

    host: Host
    process_number: int
    link: LinkId
    stream: Stream
    is_open: bool = False
    """The engine was told that the link is open, and neither side has ended it."""
    unacknowledged: int = 0
    """Bytes sent and not yet at the other end."""
    unreported: int = 0
    """Bytes at the other end since the engine was last told of its room."""
    last_arrival: float = 0.0
    """Nothing sent from here may arrive before this: the stream keeps its order."""
    waiting: list[Item] = field(default_factory=list)
    """Sent while the path was stalled; bounded by `QUEUE_BYTES`, beyond which the link breaks."""
    stalled_at: float | None = None

    @property
    def peer(self) -> End | None:
        """The other end, or None while a dial has not been accepted."""
        return self.stream.acceptor if self is self.stream.dialler else self.stream.dialler


@dataclass(slots=True, eq=False)
class Stream:
    """One link. `is_dialling` until the dialler's side is told how the dial ended."""

    number: int
    address: Address
    is_dialling: bool = True
    dialler: End | None = None
    acceptor: End | None = None


class Links:
    """All streams of the network."""

    def __init__(self, network: Network, timeline: Timeline, randomness: Randomness, silence: float) -> None:
        self._network = network
        self._timeline = timeline
        self._randomness = randomness
        self._silence = silence
        self._count = 0
        self._open: dict[int, Stream] = {}
        self.dialled = 0
        self.refused = 0
        self.frames_sent = 0
        self.frame_bytes_sent = 0
        self.frames_delivered = 0
        self.frames_without_link = 0
        self.observer: Observer | None = None
        network.paths.on_change.append(self._on_reachability_changed)

    def __len__(self) -> int:
        """Streams with at least one open end."""
        return len(self._open)

    # What an engine wants

    def dial(self, host: Host, dial: Dial) -> None:
        """Begin to open a link from this host's process."""
        self._count += 1
        self.dialled += 1
        stream = Stream(self._count, dial.address)
        stream.dialler = host.links[dial.link] = End(host, host.process_number, dial.link, stream)
        self._timeline.after(dial.timeout, self._on_dial_expired, stream)
        self._knock((stream, SYN_RETRANSMIT_FIRST))

    def send(self, end: End, data: bytes) -> None:
        """Send a frame. On a link that is full it breaks the link, as a driver without room would have to."""
        if not end.is_open:
            self.frames_without_link += 1
            return
        self.frames_sent += 1
        self.frame_bytes_sent += len(data)
        end.unacknowledged += len(data)
        if end.unacknowledged > QUEUE_BYTES:
            self._close_here(end, LinkEnd.LOST)
            return
        if self.observer is not None:
            self.observer.frame_sent(end, data)
        self._push(end, data)

    def close(self, end: End, abort: bool) -> None:
        """End a link from this side; the engine hears no more of it."""
        end.host.links.pop(end.link, None)
        end.is_open = False
        self._abandon_dial(end)
        self._push(end, LinkEnd.LOST if abort else LinkEnd.GOODBYE)

    @staticmethod
    def _abandon_dial(end: End) -> None:
        """Who dialled waits no more. One whose dial was accepted and closed at once still hears of both."""
        if end is end.stream.dialler:
            end.stream.is_dialling = False

    # What happens to hosts

    def process_ended(self, host: Host) -> None:
        """The kernel resets all links of a process that is gone; on the other side they are LOST at once."""
        for end in list(host.links.values()):
            self.close(end, abort=True)

    def reset(self, sources: int, targets: int) -> None:
        """Somebody in between resets the links that the hosts of one bit mask have dialled to those of another."""
        for stream in list(self._open.values()):
            dialler, acceptor = stream.dialler, stream.acceptor
            if dialler is None or acceptor is None:
                continue
            if sources >> dialler.host.index & 1 and targets >> acceptor.host.index & 1:
                self._close_here(dialler, LinkEnd.LOST)
                self._close_here(acceptor, LinkEnd.LOST)

    def host_went_down(self, host: Host) -> None:
        """Nobody is left to reset anything: the other sides notice by silence."""
        for end in list(host.links.values()):
            host.links.pop(end.link)
            end.is_open = False
            self._abandon_dial(end)
            peer = end.peer
            if peer is not None and peer.is_open:
                peer.stalled_at = self._timeline.now
                self._await_silence(peer)
            else:
                self._open.pop(end.stream.number, None)

    def host_came_up(self) -> None:
        """A host answers again: streams to its former process can be reset."""
        self._on_reachability_changed()

    # Opening

    def _knock(self, argument: tuple[Stream, float]) -> None:
        stream, retransmit = argument
        dialler = stream.dialler
        assert dialler is not None
        if not stream.is_dialling:
            return
        target = self._network.by_address.get(stream.address)
        answer = self._network.gateways.answer_for(dialler.host, target, stream.address)
        if answer == "refused":
            self.refused += 1
            there_and_back = 2 * self._network.segment_delay(dialler.host, dialler.host, SYN_RETRANSMIT_FIRST)
            self._timeline.after(there_and_back, self._on_refused, stream)
        elif answer == "silence":
            self._timeline.after(retransmit, self._knock, (stream, retransmit * 2))
        elif target is not None and target.is_up and not self._network.paths.is_stalled(dialler.host, target):
            delay = self._network.segment_delay(dialler.host, target, SYN_RETRANSMIT_FIRST)
            self._timeline.after(delay, self._on_knock, (stream, target))
        else:
            self._timeline.after(retransmit, self._knock, (stream, retransmit * 2))

    def _on_knock(self, argument: tuple[Stream, Host]) -> None:
        stream, target = argument
        dialler = stream.dialler
        assert dialler is not None
        back = self._network.segment_delay(target, dialler.host, RETRANSMIT_FIRST)
        if not target.is_up:
            return
        process = target.process
        if process is None:
            self.refused += 1
            self._timeline.after(back, self._on_refused, stream)
            return
        there = self._network.segment_delay(dialler.host, target, RETRANSMIT_FIRST)
        self._timeline.after(back + there, self._on_upgrade, (stream, target, process))

    def _on_refused(self, stream: Stream) -> None:
        self._end_dial(stream, LinkEnd.REFUSED)

    def _on_upgrade(self, argument: tuple[Stream, Host, Process]) -> None:
        stream, target, process = argument
        dialler = stream.dialler
        assert dialler is not None
        if self._network.paths.is_stalled(dialler.host, target) or not target.is_up:
            return
        if target.process is process:
            target.when_awake(self._accept, (stream, target))
        else:
            self._end_dial(stream, LinkEnd.LOST)

    def _accept(self, argument: tuple[Stream, Host]) -> None:
        stream, target = argument
        dialler = stream.dialler
        assert dialler is not None
        if not stream.is_dialling:
            return
        if not target.is_running:
            self._end_dial(stream, LinkEnd.LOST)
            return
        end = stream.acceptor = End(
            target, target.process_number, target.next_accepted(), stream, is_open=True
        )
        target.links[end.link] = end
        end.last_arrival = self._timeline.now + self._network.segment_delay(
            target, dialler.host, RETRANSMIT_FIRST
        )
        self._timeline.at(end.last_arrival, self._on_opened, stream)
        self._open[stream.number] = stream
        target.link_opened(end)

    def _on_opened(self, stream: Stream) -> None:
        dialler = stream.dialler
        assert dialler is not None
        if stream.is_dialling:
            stream.is_dialling = False
            dialler.is_open = True
            dialler.host.link_opened(dialler)
            self._check_stalled(dialler)

    def _on_dial_expired(self, stream: Stream) -> None:
        self._end_dial(stream, LinkEnd.TIMEOUT)

    def _end_dial(self, stream: Stream, how: LinkEnd) -> None:
        dialler = stream.dialler
        assert dialler is not None
        if not stream.is_dialling:
            return
        stream.is_dialling = False
        dialler.host.link_closed(dialler, how)
        self._push(dialler, LinkEnd.LOST)

    # Carrying

    def _push(self, end: End, item: Item) -> None:
        peer = end.peer
        if peer is None:
            return
        if end.waiting or self._network.paths.is_stalled(end.host, peer.host) or not peer.host.is_up:
            end.waiting.append(item)
            return
        size = len(item) if isinstance(item, bytes) else SEGMENT_OVERHEAD
        delay = self._network.segment_delay(end.host, peer.host, RETRANSMIT_FIRST, size)
        end.last_arrival = max(end.last_arrival, self._timeline.now + delay)
        self._timeline.at(end.last_arrival, self._on_arrival, (end, item))

    def _on_arrival(self, argument: tuple[End, Item]) -> None:
        end, item = argument
        peer = end.peer
        assert peer is not None
        if isinstance(item, LinkEnd):
            self._close_here(peer, item)
            return
        end.unacknowledged -= len(item)
        if not peer.is_open:
            self.frames_without_link += 1
            self._push(peer, LinkEnd.LOST)
            return
        self.frames_delivered += 1
        peer.host.receive_frame(peer, item)
        end.unreported += len(item)
        if end.unreported >= REPORT_AFTER and end.is_open:
            end.unreported = 0
            end.host.link_writable(end, QUEUE_BYTES - end.unacknowledged)

    def _close_here(self, end: End, how: LinkEnd) -> None:
        if end.is_open:
            end.is_open = False
            end.host.link_closed(end, how)
            if how is LinkEnd.LOST and end.peer is not None and end.peer.is_open:
                self._push(end, LinkEnd.LOST)
        if end.peer is None or not end.peer.is_open:
            self._open.pop(end.stream.number, None)

    # Stalling

    def _on_reachability_changed(self) -> None:
        for stream in list(self._open.values()):
            for end in (stream.dialler, stream.acceptor):
                if end is not None:
                    self._check_stalled(end)

    def _check_stalled(self, end: End) -> None:
        peer = end.peer
        assert peer is not None
        is_stalled = self._network.paths.is_stalled(end.host, peer.host)
        if is_stalled and end.stalled_at is None:
            end.stalled_at = self._timeline.now
            self._await_silence(end)
        elif not is_stalled and end.stalled_at is not None and peer.host.is_up:
            self._timeline.at(self._next_retransmission(end.stalled_at), self._flush, end)
            end.stalled_at = None
            if not peer.is_open and not end.stream.is_dialling:
                self._push(peer, LinkEnd.LOST)

    def _await_silence(self, end: End) -> None:
        share = fraction(self._randomness.number("silence", end.host.name, end.process_number, end.link))
        self._timeline.after(self._silence * (1.0 + share), self._on_silence, (end, end.stalled_at))

    def _on_silence(self, argument: tuple[End, float | None]) -> None:
        end, stalled_at = argument
        if end.stalled_at == stalled_at and end.is_open:
            end.waiting.clear()
            self._close_here(end, LinkEnd.LOST)

    def _next_retransmission(self, since: float) -> float:
        when, wait = since, RETRANSMIT_FIRST
        while when < self._timeline.now:
            when += wait
            wait = min(wait * 2, RETRANSMIT_MAX)
        return when

    def _flush(self, end: End) -> None:
        waiting, end.waiting = end.waiting, []
        for item in waiting:
            self._push(end, item)
