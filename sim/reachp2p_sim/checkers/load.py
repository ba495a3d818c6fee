"""Load (I-LOAD): one node sends one update λ·⌈ln(n+1)⌉ times at most.

One node after the other is listened to for a while. Counted are the updates in what it sends of its own accord (gossip
and probes: whatever answers a datagram may carry an answer), about others, and not to the subject or to a helper that
is asked to probe it, who are told of doubts each time. That datagrams keep their size is judged by `bounded`, and how
many there are by scenarios.
"""

from __future__ import annotations

from collections.abc import Callable

from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.core.membership.suspicion import transmit_limit
from reachp2p.core.rules import Rules
from reachp2p.core.wire.datagram import parse_datagram
from reachp2p.core.wire.messages import AccusationUpdate, HeadUpdate, Message, PingReq, RecordUpdate
from reachp2p_sim.checkers.accepted import MESSAGES_MAX, overlook
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.listening import listen
from reachp2p_sim.world.world import World

LISTENS = 5.0
"""Seconds for which one node is listened to."""


class Load(Checker):
    """Listens to one node at a time."""

    name = "load"
    invariant = "I-LOAD"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._turn = 0
        self._stop: Callable[[], None] | None = None
        self._pending: list[tuple[float, bytes, Address]] = []
        self._counts: dict[bytes, int] = {}
        self._host: Host | None = None
        world.on_process.append(self._on_process)
        world.every(LISTENS, self._next)

    def _on_process(self, host: Host, what: str) -> None:
        if self._host is None:
            self._next()  # a world is full of news when it begins
        elif host is self._host:
            self._flush()
            self._counts.clear()  # what a former process has sent the next one knows nothing of

    def _next(self) -> None:
        self._flush()
        if self._stop is not None:
            self._stop()
            self._stop = None
        self._counts.clear()
        running = self.world.running
        if running and self.world.protocol.rules == Rules():
            self._turn += 1
            self._host = running[self._turn % len(running)]
            self._stop = listen(self._host, heard=self._on_heard, sent=self._on_sent)

    def _on_sent(self, host: Host, data: bytes, to: Address | LinkId) -> None:
        if isinstance(to, Address):
            if self._pending and self._pending[-1][0] != self.world.now:
                self._flush()
            self._pending.append((self.world.now, data, to))

    def _on_heard(self, host: Host, data: bytes, link: LinkId | None) -> None:
        """What was sent at this very moment is an answer."""
        if self._pending and self._pending[-1][0] == self.world.now:
            self._pending.clear()
        self._flush()

    def _flush(self) -> None:
        """Count what waits: all of it was sent at one moment, and nothing was heard then."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        sent = [(to, self._messages_of(data)) for _, data, to in pending]
        asked: dict[Address, list[NodeId]] = {}
        for to, messages in sent:  # a doubt may have found no room in the datagram of its PingReq
            asked.setdefault(to, []).extend(NodeId(m.target) for m in messages if isinstance(m, PingReq))
        for to, messages in sent:
            self._judge(messages, to, asked[to])

    def _messages_of(self, data: bytes) -> list[Message]:
        body = parse_datagram(data).body
        messages, _ = self.world.codec.unpack(
            body, bytes_max=len(body), messages_max=MESSAGES_MAX, datagram=True, on_rejected=overlook
        )
        return messages

    def _judge(self, messages: list[Message], to: Address, asked: list[NodeId]) -> None:
        assert self._host is not None, "somebody was listened to"
        target = self.world.network.by_address.get(to)
        # No table is larger, unless somebody has invented members; one that has just shrunk is judged by what it was.
        n = max(len(self.world.nodes), len(self._host.view.members) + 1)
        limit = transmit_limit(self.world.protocol.retransmit_multiplier, n)
        spared = [self._host.node, *asked] + ([target.node] if target is not None else [])
        for message in messages:
            fact = _fact(message)
            if fact is None or any(fact.find(node) >= 0 for node in spared):
                continue  # its own word may be said anew; a subject and its helpers are told of doubts each time
            count = self._counts[fact] = self._counts.get(fact, 0) + 1
            if count > limit:
                self.fail(
                    f"has sent one {type(message).__name__} {count} times within {LISTENS:g} s; {limit} are allowed "
                    f"among {n} nodes",
                    self._host,
                )


def _fact(message: Message) -> bytes | None:
    match message:
        case HeadUpdate():
            return message.head
        case AccusationUpdate():
            return message.accusation
        case RecordUpdate():
            return message.record
        case _:
            return None
