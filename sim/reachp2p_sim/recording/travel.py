"""What travelled in a run: budgets by kind and node over all of it, and single messages around the moments that matter.

A long run sends a million datagrams, and nobody looks at most of them. All are counted; those that are kept one by one
lie in *windows* around moments: a fault, a first suspicion, a verdict, the end. A window begins a little before its
moment, for which the last ones sent are always at hand, and is complete, so that causes can be followed in it; one that
is full ends early and says so.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from reachp2p_sim.machines.host import Host
from reachp2p_sim.network.links import End
from reachp2p_sim.recording import kinds

RECENT = 4_096
"""Messages at hand for the beginning of a window."""
WINDOWS_MAX = 24
WINDOW_BEFORE = 0.3
"""Seconds of a window that lie before its moment."""
WINDOW_AFTER = 2.0
WINDOW_MESSAGES_MAX = 3_000
LINKS_FOLLOWED_MAX = 4_096
FRAMES_FOLLOWED_MAX = 10_000
"""Frames under way on one link that are followed; beyond it the oldest are counted as never received."""


@dataclass(slots=True, eq=False)
class Message:
    """One datagram or frame. Times are run time; `source` and `target` are host numbers (`target` -1: nobody)."""

    source: int
    target: int
    is_frame: bool
    sent_at: float
    size: int
    kinds: tuple[str, ...]
    received_at: float | None = None
    fate: str = "under way"
    """`arrived`, `lost`, `cut off`, `to nobody`, or `under way` until something is known."""
    about: tuple[str, ...] = ()
    """Names of the nodes that its messages speak of."""
    contents: list[tuple[str, int, Any]] | None = None


@dataclass(slots=True)
class Window:
    """A stretch of time of which every message is kept, unless it is `full`."""

    began_at: float
    ends_at: float
    labels: list[str]
    messages: list[Message] = field(default_factory=list)
    is_full: bool = False


@dataclass(slots=True)
class Budget:
    """How many, and how many bytes."""

    count: int = 0
    size: int = 0

    def add(self, size: int) -> None:
        """One more."""
        self.count += 1
        self.size += size


@dataclass(slots=True)
class NodeBudget:
    """What one host sent, was handed and had to check."""

    datagrams: Budget = field(default_factory=Budget)
    frames: Budget = field(default_factory=Budget)
    received: int = 0
    signature_checks: int = 0


class Travel:
    """Follows datagrams and frames. An `observer.Observer`; `now` gives the run time."""

    def __init__(self, now: Callable[[], float], name_of: Callable[[bytes], str | None]) -> None:
        self._now = now
        self._name_of = name_of
        self._recent: deque[Message] = deque()
        self._numbered: dict[int, Message] = {}
        self._numbers: deque[int] = deque()
        self._frames: OrderedDict[End, deque[tuple[bytes, Message]]] = OrderedDict()
        self._window: Window | None = None
        self.windows: list[Window] = []
        self.windows_dropped = 0
        """Moments that got no window because there were too many."""
        self.by_kind: dict[str, Budget] = {}
        self.by_node: dict[int, NodeBudget] = {}
        self.by_node_kind: dict[tuple[int, str], Budget] = {}
        self.fates: dict[str, int] = {}

    # What the network tells

    def datagram_sent(self, source: Host, target: Host | None, data: bytes, number: int) -> None:
        """See `Observer`."""
        message = self._sent(source.index, -1 if target is None else target.index, False, data)
        self._numbered[number] = message
        self._numbers.append(number)
        if len(self._numbers) > RECENT:
            self._numbered.pop(self._numbers.popleft(), None)

    def datagram_gone(self, number: int, why: str) -> None:
        """See `Observer`."""
        self.fates[why] = self.fates.get(why, 0) + 1
        message = self._numbered.get(number)
        if message is not None:
            message.fate = why

    def datagram_received(self, host: Host, number: int) -> None:
        """See `Observer`."""
        self._node(host.index).received += 1
        message = self._numbered.get(number)
        if message is not None and message.received_at is None:
            message.received_at = self._now()
            message.fate = "arrived"

    def frame_sent(self, end: End, data: bytes) -> None:
        """See `Observer`."""
        peer = end.peer
        message = self._sent(end.host.index, -1 if peer is None else peer.host.index, True, data)
        waiting = self._frames.get(end)
        if waiting is None:
            waiting = self._frames[end] = deque(maxlen=FRAMES_FOLLOWED_MAX)
            if len(self._frames) > LINKS_FOLLOWED_MAX:
                self._frames.popitem(last=False)
        waiting.append((data, message))

    def frame_received(self, end: End, data: bytes) -> None:
        """See `Observer`."""
        self._node(end.host.index).received += 1
        waiting = self._frames.get(end.peer) if end.peer is not None else None
        while waiting:
            sent, message = waiting.popleft()
            if sent is data:
                message.received_at = self._now()
                message.fate = "arrived"
                return

    def checked(self, host: int) -> None:
        """A host has checked a signature."""
        self._node(host).signature_checks += 1

    # Moments

    def mark(self, label: str) -> None:
        """Now is a moment: keep what travels around it."""
        now = self._now()
        window = self._window
        if window is not None and now - WINDOW_BEFORE <= window.ends_at and not window.is_full:
            window.ends_at = now + WINDOW_AFTER
            if label not in window.labels and len(window.labels) < 6:
                window.labels.append(label)
            return
        if len(self.windows) >= WINDOWS_MAX:
            self.windows_dropped += 1
            return
        began_at = now - WINDOW_BEFORE
        if window is not None:
            began_at = max(began_at, window.messages[-1].sent_at if window.is_full else window.ends_at)
        self._window = window = Window(began_at, now + WINDOW_AFTER, [label])
        self.windows.append(window)
        for message in self._recent:
            if message.sent_at > began_at:
                self._keep(window, message)

    def finish(self, label: str) -> None:
        """The run is over: its last moments are kept whatever happened, in one window more than the others."""
        now = self._now()
        if self._window is not None and not self._window.is_full and self._window.ends_at >= now:
            self._window.labels.append(label)
        else:
            self.windows = self.windows[:WINDOWS_MAX]
            began_at = now - WINDOW_AFTER
            if self._window is not None:
                last = self._window.messages[-1].sent_at if self._window.messages else 0.0
                began_at = max(began_at, last)
            window = Window(began_at, now, [label])
            for message in self._recent:
                if message.sent_at > began_at:
                    self._keep(window, message)
            self.windows.append(window)
        for window in self.windows:
            window.ends_at = min(window.ends_at, now)
            window.began_at = max(window.began_at, 0.0)
        self._recent.clear()
        self._numbered.clear()
        self._frames.clear()

    def _sent(self, source: int, target: int, is_frame: bool, data: bytes) -> Message:
        contents = kinds.read(data, is_frame)
        message = Message(
            source,
            target,
            is_frame,
            self._now(),
            len(data),
            tuple(kind for kind, _, _ in contents),
            contents=contents,
        )
        node = self._node(source)
        (node.frames if is_frame else node.datagrams).add(len(data))
        rest = len(data)
        for kind, size, _ in contents:
            self._count(source, kind, size)
            rest -= size
        if rest > 0:
            self._count(source, kinds.FRAMING if is_frame else kinds.OVERHEAD, rest)
        window = self._window
        if window is not None and message.sent_at <= window.ends_at:
            self._keep(window, message)
        self._recent.append(message)
        if len(self._recent) > RECENT:
            self._recent.popleft().contents = None
        return message

    def _keep(self, window: Window, message: Message) -> None:
        if len(window.messages) >= WINDOW_MESSAGES_MAX:
            window.is_full = True
            window.ends_at = min(window.ends_at, message.sent_at)
            return
        found: list[str] = []
        for kind, _, fields in message.contents or ():
            node = kinds.subject(kind, fields)
            if node is not None:
                found.append(f"{kind} {self._name_of(node) or 'a stranger'}")
        message.about = tuple(found)
        window.messages.append(message)

    def _count(self, source: int, kind: str, size: int) -> None:
        budget = self.by_kind.get(kind)
        if budget is None:
            budget = self.by_kind[kind] = Budget()
        budget.add(size)
        key = (source, kind)
        budget = self.by_node_kind.get(key)
        if budget is None:
            budget = self.by_node_kind[key] = Budget()
        budget.add(size)

    def _node(self, index: int) -> NodeBudget:
        node = self.by_node.get(index)
        if node is None:
            node = self.by_node[index] = NodeBudget()
        return node
