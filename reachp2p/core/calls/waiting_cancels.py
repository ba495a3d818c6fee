"""Cancels that no link takes now: what is not wanted any more is withdrawn as soon as a link leads to its instance.

A call that ends while it waits to be joined again, or whose link is full, may be executed all the same, a task for
hours. So its instance is dialled until it hears that nobody wants the answer, its life is over, or the deadline of the
call has passed, which ends the handler by itself (docs/protocol/calls.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from reachp2p.core.calls.call import REJOIN_INTERVAL_MAX
from reachp2p.core.counters import Counters
from reachp2p.core.ids import Address, Life, NodeId
from reachp2p.core.links.table import Links
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import Cancel

CANCELS_MAX = 4_096
"""Cancels that wait, over all nodes; beyond it the oldest is dropped (`calls.cancels_dropped`)."""


class WaitingCancelsDue(msgspec.Struct, frozen=True):
    """Dial those that have not heard yet."""


class _Waiting(msgspec.Struct, gc=False):
    node: NodeId
    life: Life
    deadline: float


class WaitingCancels:
    """Size: `CANCELS_MAX`."""

    def __init__(
        self,
        links: Links,
        addresses: Callable[[NodeId], Sequence[Address]],
        timers: Timers,
        counters: Counters,
    ) -> None:
        self._links = links
        self._addresses = addresses
        self._timers = timers
        self._counters = counters
        self._waiting: dict[bytes, _Waiting] = {}
        """By call, in the order in which they ended."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self, call: bytes, node: NodeId, life: Life, deadline: float, now: float, *, at_once: bool = True
    ) -> None:
        """This life of a node may execute a call whose answer nobody wants any more, until `deadline`. Not `at_once`:
        the link on which it was asked ends first, or its request might be overtaken on another one."""
        if now >= deadline:
            return
        self._waiting[call] = _Waiting(node, life, deadline)
        if len(self._waiting) > CANCELS_MAX:
            del self._waiting[next(iter(self._waiting))]
            self._counters.add("calls.cancels_dropped")
        if at_once:
            self._dial(node, now)
        if self._timers.due_at(WaitingCancelsDue()) is None:
            self._timers.set(WaitingCancelsDue(), now + REJOIN_INTERVAL_MAX)

    def clear(self) -> None:
        """This node is over."""
        self._waiting.clear()
        self._timers.cancel(WaitingCancelsDue())

    def on_link_up(self, node: NodeId) -> None:
        """A link leads to a node: it hears what it need not go on with."""
        if not self._waiting:
            return
        link = self._links.link_to(node)
        life = self._links.life_of(link) if link is not None else None
        for call, waiting in list(self._waiting.items()):
            if link is None or waiting.node != node:
                continue
            if waiting.life == life and not self._links.send(link, Cancel(message_id=call)):
                return  # it is full: when it is due
            del self._waiting[call]

    def on_member_gone(self, node: NodeId, life: Life) -> None:
        """A life is over, and what it executes ends with it."""
        gone = [call for call, w in self._waiting.items() if w.node == node and w.life == life]
        for call in gone:
            del self._waiting[call]

    def on_due(self, now: float) -> None:
        """Dial those that have not heard yet."""
        for call in [call for call, waiting in self._waiting.items() if now >= waiting.deadline]:
            del self._waiting[call]
        for node in dict.fromkeys(waiting.node for waiting in self._waiting.values()):
            self._dial(node, now)
        if self._waiting:
            self._timers.set(WaitingCancelsDue(), now + REJOIN_INTERVAL_MAX)

    def _dial(self, node: NodeId, now: float) -> None:
        if self._links.link_to(node) is not None:
            self.on_link_up(node)
        else:
            self._links.ensure(node, self._addresses(node), now)
