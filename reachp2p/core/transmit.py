"""From messages to bytes: the one place that packs, piggybacks, signs and encodes.

It runs when the driver takes the effects. Messages for the same node leave in one datagram, filled up with news from
the broadcast queue; whoever is doubted is told so first (Lifeguard's buddy system). Messages for links go through the
link's queue. A message that names tickets waits here until they are durable, and is dropped if one fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from reachp2p.core.counters import Counters
from reachp2p.core.dissemination.broadcast_queue import BroadcastQueue
from reachp2p.core.effects import (
    CloseLink,
    Delete,
    Effect,
    InnerEffect,
    Persist,
    SendDatagram,
    Table,
    ToLink,
    ToNode,
)
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Address, Life, LinkId, NodeId, Ticket
from reachp2p.core.links.table import Links
from reachp2p.core.membership.detector import Detector
from reachp2p.core.membership.own import OwnNode
from reachp2p.core.membership.suspicion import transmit_limit
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.settings import Settings
from reachp2p.core.trust.signer import Signer
from reachp2p.core.wire.datagram import OVERHEAD_BYTES, DatagramWriter
from reachp2p.core.wire.engine_codec import CODEC, Codec
from reachp2p.core.wire.messages import (
    AccusationUpdate,
    Ack,
    Message,
    Ping,
    Reply,
    Request,
    StreamCredit,
    StreamEnd,
    StreamItem,
    StreamResume,
)

ARRAY_HEAD_BYTES = 3
OWN_MESSAGES_MAX = 32
"""Messages besides news in one datagram. A receiver takes 64 in all. Of news, which is signed and has over a hundred
bytes, no more than 13 fit beside them; of Nacks, which have 20, some 67 would."""
_AWAITED = (Request, Reply, StreamItem, StreamCredit, StreamEnd, StreamResume)
"""Messages that somebody waits for: whoever has sent one is told if it has not left."""
DOUBTED = (MemberState.SUSPECT, MemberState.DEAD)
HELD_MAX = 4_096
"""Messages waiting for the disk; a further one is dropped and counted: a disk that slow is reported by its driver."""
FAILED_MAX = 4_096
"""Tickets of failed writes that are remembered. Of a ticket older than the oldest of them nobody can say any more that
it is durable: what names it is dropped, too."""


@final
class _Parcel:
    """What one node is sent in this round."""

    __slots__ = ("address", "encoded", "node", "piggyback", "pings")

    def __init__(self, node: NodeId, address: Address, piggyback: bool, pings: bool) -> None:
        self.node = node
        self.address = address
        self.piggyback = piggyback
        self.pings = pings
        self.encoded: list[bytes] = []


class Transmitter:
    """Turns inner effects into effects. Sizes: `HELD_MAX` held messages, `FAILED_MAX` failed tickets, and no more calls
    in `take_unsent` than messages in one round."""

    def __init__(
        self,
        settings: Settings,
        signer: Signer,
        own: OwnNode,
        table: MemberTable,
        queue: BroadcastQueue,
        detector: Detector,
        links: Links,
        counters: Counters,
        codec: Codec = CODEC,
    ) -> None:
        self._settings = settings
        self._rules = settings.protocol.rules
        self._room = settings.protocol.datagram_max - OVERHEAD_BYTES - ARRAY_HEAD_BYTES
        self._signer = signer
        self._own = own
        self._table = table
        self._queue = queue
        self._detector = detector
        self._links = links
        self._counters = counters
        self._codec = codec
        self._writer: DatagramWriter | None = None
        self._writer_life: Life | None = None
        """Whose datagrams the writer makes."""
        self._open: dict[Ticket, Table] = {}
        self._held: list[ToNode | ToLink] = []
        self._failed: dict[Ticket, None] = {}
        """Tickets of writes that failed, in the order of their failures."""
        self._forgotten = Ticket(0)
        """The highest ticket that was among them and is no longer."""
        self._unsent: list[tuple[LinkId, Message]] = []

    def table_of(self, ticket: Ticket) -> str:
        """Which table an unanswered write is for, for people."""
        table = self._open.get(ticket)
        return table.value if table is not None else "unknown"

    def settled(self, ticket: Ticket, *, durable: bool) -> list[ToNode | ToLink]:
        """A write is durable, or has failed; returns the messages that may leave now."""
        self._open.pop(ticket, None)
        if not durable:
            self._fail(ticket)
            for item in self._held:
                if ticket in item.after:
                    self._drop(item, "message.not_durable")
            self._held = [item for item in self._held if ticket not in item.after]
        if not self._held:
            return []
        ready = [item for item in self._held if not self._waits(item)]
        self._held = [item for item in self._held if self._waits(item)]
        return ready

    @property
    def has_unsent(self) -> bool:
        """Whether anybody has to be told that a message will not leave."""
        return bool(self._unsent)

    def take_unsent(self) -> list[tuple[LinkId, Message]]:
        """What has not left and never will, of the messages that somebody waits for."""
        unsent, self._unsent = self._unsent, []
        return unsent

    def _fail(self, ticket: Ticket) -> None:
        self._failed[ticket] = None
        if len(self._failed) > FAILED_MAX:
            oldest = next(iter(self._failed))
            del self._failed[oldest]
            self._forgotten = max(self._forgotten, oldest)

    def _has_failed(self, ticket: Ticket) -> bool:
        return ticket in self._failed or (ticket <= self._forgotten and ticket not in self._open)

    def _drop(self, item: ToNode | ToLink, reason: str | None) -> None:
        """A message will not leave (`reason` None: counted already); whoever waits for an answer is told."""
        if reason is not None:
            self._counters.add(f"dropped.{reason}")
        if isinstance(item, ToLink) and isinstance(item.message, _AWAITED):
            self._unsent.append((item.link, item.message))

    def _waits(self, item: ToNode | ToLink) -> bool:
        return any(ticket in self._open for ticket in item.after)

    def transform(self, items: Sequence[InnerEffect], now: float) -> list[Effect]:
        """Effects for the driver, in the order of `items`; frames of links follow at the end of the round."""
        links = self._links
        if len(items) == 1:  # as after most inputs
            only = items[0]
            if type(only) is ToNode and not only.after:
                return self._send_one(only, now)
        out: list[Effect | _Parcel] = []
        parcels: dict[tuple[NodeId, Address], _Parcel] = {}
        for item in items:
            if type(item) is ToNode:
                if not (item.after and self._hold(item)):
                    self._pack(item, parcels, out)
            elif type(item) is ToLink:
                if not (item.after and self._hold(item)) and not links.transmit(item.link, item.message):
                    self._drop(item, None)
            else:
                if type(item) is CloseLink:
                    out.extend(links.flush())
                elif type(item) is Persist or type(item) is Delete:
                    self._open[item.ticket] = item.table
                out.append(item)
        done: list[Effect] = []
        for effect in out:
            if type(effect) is _Parcel:
                self._send(effect, now, done)
            else:
                done.append(effect)
        if links.waiting:
            done.extend(links.flush())
        return done

    def _send_one(self, item: ToNode, now: float) -> list[Effect]:
        """A round with one message, which needs no parcels."""
        done: list[Effect] = []
        node, message = item.node, item.message
        address = item.address or self._address_of(node)
        if address is not None:
            encoded = [self._codec.encode(message)] if message is not None else []
            if encoded and not (item.piggyback and self._has_more_for(node)):
                done.append(self._datagram(node, address, encoded))
            else:
                parcel = self._parcel(item, address)
                parcel.encoded = encoded
                self._send(parcel, now, done)
        if self._links.waiting:
            done.extend(self._links.flush())
        return done

    def _has_more_for(self, node: NodeId) -> bool:
        """Whether anything may have to ride on a message for this node: news, or what others say of it."""
        if self._queue.size:
            return True
        member = self._table.get(node)
        return member is not None and member.state in DOUBTED

    def _address_of(self, node: NodeId) -> Address | None:
        member = self._table.get(node)
        if member is None or member.address is None:
            self._counters.add("dropped.message.no_address")
            return None
        return member.address

    def _parcel(self, item: ToNode, address: Address) -> _Parcel:
        message = item.message
        travels_alone = type(message) is Ack and message.origin is not None  # the helper forwards it whole
        carries_news = item.piggyback and (self._rules.infection or message is None)
        return _Parcel(item.node, address, carries_news and not travels_alone, type(message) is Ping)

    def _hold(self, item: ToNode | ToLink) -> bool:
        """Whether a message that names tickets must not leave now: it waits, or is dropped."""
        if any(self._has_failed(ticket) for ticket in item.after):
            self._drop(item, "message.not_durable")
            return True
        if not self._waits(item):
            return False
        if len(self._held) >= HELD_MAX:
            self._drop(item, "message.held_full")
        else:
            self._held.append(item)
        return True

    def _pack(
        self, item: ToNode, parcels: dict[tuple[NodeId, Address], _Parcel], out: list[Effect | _Parcel]
    ) -> None:
        address = item.address or self._address_of(item.node)
        if address is None:
            return
        message = item.message
        parcel = self._parcel(item, address)
        if type(message) is Ack and message.origin is not None:
            out.append(parcel)
        else:
            first = parcels.setdefault((item.node, address), parcel)
            if first is parcel:
                out.append(parcel)
            else:
                first.piggyback = first.piggyback or parcel.piggyback
                first.pings = first.pings or parcel.pings
                parcel = first
        if message is not None:
            parcel.encoded.append(self._codec.encode(message))

    def _send(self, parcel: _Parcel, now: float, done: list[Effect]) -> None:
        """One datagram, or more if the messages do not fit into one."""
        body: list[bytes] = []
        used = 0
        for encoded in parcel.encoded:
            if body and (used + len(encoded) > self._room or len(body) == OWN_MESSAGES_MAX):
                done.append(self._datagram(parcel.node, parcel.address, body))
                body, used = [], 0
            body.append(encoded)
            used += len(encoded)
        if parcel.piggyback and (member := self._table.get(parcel.node)) is not None:
            if member.state in DOUBTED and self._is_told(parcel, member.state):
                doubt = self._detector.doubt(member, now)
                if doubt is not None:
                    told = self._codec.encode(AccusationUpdate(accusation=doubt))
                    if used + len(told) <= self._room:
                        body.append(told)
                        used += len(told)
            if self._queue:
                body += self._queue.take(self._room - used, self._transmit_limit())
        if body:
            done.append(self._datagram(parcel.node, parcel.address, body))

    def _is_told(self, parcel: _Parcel, state: MemberState) -> bool:
        """Whether a member in doubt is told so with this datagram."""
        rules = self._rules
        return rules.buddy and (rules.buddy_always or (parcel.pings and state is MemberState.SUSPECT))

    def _transmit_limit(self) -> int:
        if not self._rules.infection:
            return self._table.size - 1
        return transmit_limit(self._settings.protocol.retransmit_multiplier, self._table.size)

    def _datagram(self, node: NodeId, address: Address, encoded: list[bytes]) -> SendDatagram:
        life = self._own.life
        writer = self._writer
        if writer is None or self._writer_life is not life:
            assert life is not None, "nothing is sent before the life is on disk"
            writer = self._codec.writer(
                self._settings.cluster_id,
                self._own.node,
                life,
                self._signer.sign,
                writer.counter if writer is not None else 0,
            )
            self._writer, self._writer_life = writer, life
        data = writer.write(self._codec.pack(encoded), node)
        self._counters.add_sized("datagrams.sent", "bytes.datagrams_sent", len(data))
        return SendDatagram(address, data)
