"""From messages to datagrams: packing, piggyback, order, and waiting for the disk."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.clock import WallClock
from reachp2p.core.counters import Counters
from reachp2p.core.dissemination.broadcast_queue import Kind
from reachp2p.core.effects import (
    CloseLink,
    Delete,
    Dial,
    Effect,
    Effects,
    InnerEffect,
    Notify,
    Persist,
    SendDatagram,
    SendFrame,
    Table,
    ToLink,
    ToNode,
)
from reachp2p.core.events import Event, MemberState
from reachp2p.core.ids import LinkId, NodeId, Ticket
from reachp2p.core.inbound import DATAGRAM_MESSAGES_MAX
from reachp2p.core.membership.own import OwnNode
from reachp2p.core.membership.suspicion import transmit_limit
from reachp2p.core.rules import Rules
from reachp2p.core.transmit import FAILED_MAX, HELD_MAX, Transmitter
from reachp2p.core.trust.facts import FactChecker
from reachp2p.core.wire.codec import decode_messages, encode_message
from reachp2p.core.wire.datagram import DatagramReader, parse_datagram
from reachp2p.core.wire.facts import Accusation
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import (
    AccusationUpdate,
    Ack,
    Goodbye,
    HeadRequest,
    HeadUpdate,
    Message,
    Nack,
    Ping,
    RelayedAck,
    Reply,
    Request,
)
from tests.support import CLUSTER, WALL, Author, KeyedHash, address, checker, life, node_id, settings
from tests.unit.membership.watch import OWN, Watch

ME, ANN, BOB = Author(OWN), Author(1), Author(2)


def ping(number: int = 1) -> Ping:
    return Ping(nonce=number.to_bytes(8, "big"))


def ack(number: int = 1) -> Ack:
    return Ack(nonce=number.to_bytes(8, "big"))


class FakeLinks:
    """Frames that say what was transmitted on which link."""

    def __init__(self) -> None:
        self.waiting: list[tuple[LinkId, Message]] = []
        self.full: list[LinkId] = []

    def transmit(self, link: LinkId, message: Message) -> bool:
        if link in self.full:
            return False
        self.waiting.append((link, message))
        return True

    def flush(self) -> list[Effect]:
        waiting, self.waiting = self.waiting, []
        return [SendFrame(link, encode_message(message)) for link, message in waiting]


class Desk:
    """Node 50's transmitter, with Ann and Bob as members and whatever news a test puts into the queue."""

    def __init__(self, **protocol: Any) -> None:
        self.watch = Watch(1, 2, **protocol)
        self.counters = Counters()
        self.effects = Effects()
        self.links = FakeLinks()
        clock = WallClock()
        clock.report(WALL, 0.0)
        facts = FactChecker(KeyedHash(ME.node), CLUSTER, self.counters)
        self.own = OwnNode(ME.node, settings(OWN), ME.signer, facts, clock)
        self.own.open(life(3), 0.0)
        self.transmitter = Transmitter(
            settings(OWN, **protocol),
            KeyedHash(ME.node),
            self.own,
            self.watch.table,
            self.watch.queue,
            self.watch.detector,
            self.links,  # type: ignore[arg-type]
            self.counters,
        )

    def news(self, count: int = 1, size: int = 200) -> None:
        for number in range(count):
            self.watch.queue.put(Kind.RECORD, number, encode_message(HeadUpdate(head=bytes(size - 8))))

    def take(self, *items: InnerEffect) -> list[Effect]:
        for item in items:
            self.effects.add(item)
        return self.transmitter.transform(self.effects.take(), 0.0)

    def bodies(self, *items: InnerEffect) -> list[tuple[NodeId | None, list[Message]]]:
        """Datagrams as (receiver, messages), each checked."""
        return [self.read(effect) for effect in self.take(*items) if isinstance(effect, SendDatagram)]

    def read(self, effect: SendDatagram) -> tuple[NodeId | None, list[Message]]:
        assert len(effect.data) <= 1_400
        datagram = parse_datagram(effect.data)
        assert datagram.node == ME.node
        messages, skipped = decode_messages(datagram.body, bytes_max=1_400, messages_max=64, datagram=True)
        assert skipped == 0
        return self._audience(effect.data), messages

    def _audience(self, data: bytes) -> NodeId | None:
        """Whom the datagram was signed for."""
        for author in (ANN, BOB, ME):
            try:
                DatagramReader(CLUSTER, author.node, KeyedHash(ME.node).verify).read(data)
            except WireError:
                continue
            return author.node
        return None


@pytest.fixture
def desk() -> Desk:
    return Desk()


# Packing


def test_a_message_for_a_member_goes_to_its_address_signed_for_it_alone(desk: Desk) -> None:
    (effect,) = desk.take(ToNode(ANN.node, ping()))
    assert isinstance(effect, SendDatagram)
    assert effect.address == ANN.address
    assert desk.read(effect) == (ANN.node, [ping()])
    assert parse_datagram(effect.data).life == life(3)


def test_messages_for_one_node_leave_in_one_datagram_in_their_order(desk: Desk) -> None:
    sent = desk.bodies(
        ToNode(ANN.node, ping(1)),
        ToNode(BOB.node, ping(2)),
        ToNode(ANN.node, ping(3)),
        ToNode(ANN.node, ping(4)),
    )
    assert sent == [(ANN.node, [ping(1), ping(3), ping(4)]), (BOB.node, [ping(2)])]


def test_one_node_at_two_addresses_gets_two_datagrams(desk: Desk) -> None:
    elsewhere = address(99)
    effects = desk.take(ToNode(ANN.node, ping(1)), ToNode(ANN.node, ping(2), address=elsewhere))
    assert [effect.address for effect in effects if isinstance(effect, SendDatagram)] == [
        ANN.address,
        elsewhere,
    ]


def test_messages_that_do_not_fit_one_datagram_take_another(desk: Desk) -> None:
    request = HeadRequest(subjects=[node_id(n) for n in range(16)])
    sent = desk.bodies(*(ToNode(ANN.node, request) for _ in range(5)))
    assert [len(messages) for _, messages in sent] == [2, 2, 1]


def test_many_small_messages_take_as_many_datagrams_as_a_receiver_needs_to_read_them(desk: Desk) -> None:
    """As when a node that was slow answers all at once; 67 Nacks would fit, and be refused for their number."""
    desk.news(count=20, size=110)
    nacks = [Nack(nonce=number.to_bytes(8, "big")) for number in range(67)]
    sent = desk.bodies(*(ToNode(ANN.node, nack) for nack in nacks))
    assert [message for _, messages in sent for message in messages if isinstance(message, Nack)] == nacks
    assert max(len(messages) for _, messages in sent) <= DATAGRAM_MESSAGES_MAX


@pytest.mark.parametrize("size", [70, 600, 1_200])
def test_the_largest_messages_fit(desk: Desk, size: int) -> None:
    assert len(desk.bodies(ToNode(ANN.node, HeadUpdate(head=bytes(size))))) == 1
    assert len(desk.bodies(ToNode(ANN.node, RelayedAck(nonce=bytes(8), datagram=bytes(512))))) == 1


def test_every_datagram_has_its_own_number(desk: Desk) -> None:
    effects = desk.take(ToNode(ANN.node, ping(1)), ToNode(BOB.node, ping(2)))
    effects += desk.take(ToNode(ANN.node, ping(3)))
    numbers = [parse_datagram(e.data).counter for e in effects if isinstance(e, SendDatagram)]
    assert numbers == [1, 2, 3]
    assert desk.counters.value("datagrams.sent") == 3
    assert desk.counters.value("bytes.datagrams_sent") == sum(len(e.data) for e in effects)  # type: ignore[union-attr]


def test_a_node_without_a_known_address_gets_nothing(desk: Desk) -> None:
    desk.watch.meet(Author(3).head(addresses=[]))
    assert desk.take(ToNode(node_id(77), ping()), ToNode(node_id(3), ping())) == []
    assert desk.counters.value("dropped.message.no_address") == 2
    assert len(desk.take(ToNode(node_id(77), ping(), address=address(77)))) == 1


def test_nothing_is_sent_before_a_life_is_open(desk: Desk) -> None:
    desk.own.life = None
    with pytest.raises(AssertionError):
        desk.take(ToNode(ANN.node, ping()))


# News


def test_news_fills_what_is_left_of_a_datagram(desk: Desk) -> None:
    desk.news(count=20, size=200)
    ((_, messages),) = desk.bodies(ToNode(ANN.node, ping()))
    assert messages[0] == ping()
    assert len(messages) == 1 + (1_265 - 14) // 200


def test_a_datagram_of_news_alone_is_sent_only_if_there_is_some(desk: Desk) -> None:
    assert desk.take(ToNode(ANN.node, None)) == []
    desk.news()
    assert len(desk.bodies(ToNode(ANN.node, None))) == 1


def test_news_leaves_after_its_limit(desk: Desk) -> None:
    desk.news()
    limit = transmit_limit(3, desk.watch.table.size)
    sent = [len(desk.take(ToNode(ANN.node, None))) for _ in range(limit + 3)]
    assert sent == [1] * limit + [0] * 3


def test_news_does_not_travel_with_what_must_travel_alone(desk: Desk) -> None:
    desk.news()
    assert desk.bodies(ToNode(ANN.node, ping(), piggyback=False)) == [(ANN.node, [ping()])]


def test_one_message_without_news_keeps_news_from_none_of_its_company(desk: Desk) -> None:
    desk.news()
    ((_, messages),) = desk.bodies(ToNode(ANN.node, ping(1), piggyback=False), ToNode(ANN.node, ping(2)))
    assert len(messages) == 3


def test_strangers_get_no_news(desk: Desk) -> None:
    desk.news()
    assert desk.bodies(ToNode(node_id(77), ping(), address=address(77))) == [(None, [ping()])]


def test_an_ack_to_a_relayed_ping_travels_alone_so_that_it_can_be_forwarded_whole(desk: Desk) -> None:
    desk.news()
    relayed, own = Ack(nonce=bytes(8), origin=BOB.node), Ack(nonce=bytes(8))
    sent = desk.bodies(ToNode(ANN.node, ping(1)), ToNode(ANN.node, relayed), ToNode(ANN.node, own))
    assert sent[1] == (ANN.node, [relayed])
    assert sent[0][1][:2] == [ping(1), own]
    assert len(sent[0][1]) == 3
    (effect,) = desk.take(ToNode(ANN.node, relayed))
    assert isinstance(effect, SendDatagram)
    assert len(effect.data) <= 512


# Telling the suspect first


@pytest.mark.parametrize("state", [MemberState.SUSPECT, MemberState.DEAD])
def test_whoever_is_doubted_is_told_so_in_every_datagram(desk: Desk, state: MemberState) -> None:
    desk.watch.table.doubt(ANN.node, state, 0.0, "")
    desk.news(count=50, size=200)
    for _ in range(3):
        ((_, messages),) = desk.bodies(ToNode(ANN.node, ping()))
        assert isinstance(messages[1], AccusationUpdate)
        fact = checker().open(Accusation, messages[1].accusation).fact
        assert (fact.subject, fact.accuser) == (ANN.node, ME.node)
        assert len(messages) > 2
    assert len(desk.bodies(ToNode(ANN.node, None))) == 1


def test_without_the_buddy_system_whoever_is_doubted_is_not_told_first() -> None:
    desk = Desk(rules=Rules(buddy=False))
    desk.watch.table.doubt(ANN.node, MemberState.SUSPECT, 0.0, "")
    assert desk.bodies(ToNode(ANN.node, ping())) == [(ANN.node, [ping()])]


def test_the_buddy_system_of_lifeguard_tells_suspects_with_pings_alone() -> None:
    desk = Desk(rules=Rules(buddy_always=False))
    desk.watch.table.doubt(ANN.node, MemberState.SUSPECT, 0.0, "")
    ((_, messages),) = desk.bodies(ToNode(ANN.node, ack()), ToNode(ANN.node, ping()))
    assert [type(message) for message in messages] == [Ack, Ping, AccusationUpdate]
    assert desk.bodies(ToNode(ANN.node, ack())) == [(ANN.node, [ack()])]
    assert desk.bodies(ToNode(ANN.node, None)) == []
    desk.watch.table.doubt(ANN.node, MemberState.DEAD, 0.0, "")
    assert desk.bodies(ToNode(ANN.node, ping())) == [(ANN.node, [ping()])]


def test_without_infection_news_travels_in_datagrams_of_its_own_and_once_to_each_member() -> None:
    desk = Desk(rules=Rules(infection=False))
    desk.news()
    assert desk.bodies(ToNode(ANN.node, ping())) == [(ANN.node, [ping()])]
    assert [len(messages) for _, messages in desk.bodies(ToNode(ANN.node, None), ToNode(BOB.node, None))] == [
        1,
        1,
    ]
    assert len(desk.watch.queue) == 0


def test_others_are_told_of_doubts_as_of_any_news(desk: Desk) -> None:
    desk.watch.table.doubt(ANN.node, MemberState.SUSPECT, 0.0, "")
    assert desk.bodies(ToNode(BOB.node, ping())) == [(BOB.node, [ping()])]


# Order


def test_effects_keep_their_order_and_frames_follow_at_the_end(desk: Desk) -> None:
    dial, note = Dial(LinkId(1), ANN.address, None, 5.0), Notify(Event(at=0.0))
    effects = desk.take(
        ToLink(LinkId(2), ping(1)), dial, ToNode(ANN.node, ping(2)), ToLink(LinkId(3), ping(3)), note
    )
    assert [type(effect) for effect in effects] == [Dial, SendDatagram, Notify, SendFrame, SendFrame]
    assert effects[3:] == [
        SendFrame(LinkId(2), encode_message(ping(1))),
        SendFrame(LinkId(3), encode_message(ping(3))),
    ]


def test_what_was_sent_on_a_link_leaves_before_the_link_is_closed(desk: Desk) -> None:
    goodbye = Goodbye(reason="over")
    effects = desk.take(ToLink(LinkId(2), goodbye), CloseLink(LinkId(2)), ToLink(LinkId(3), ping()))
    assert effects == [
        SendFrame(LinkId(2), encode_message(goodbye)),
        CloseLink(LinkId(2)),
        SendFrame(LinkId(3), encode_message(ping())),
    ]


# Waiting for the disk


def request() -> Request:
    return Request(
        message_id=bytes(16), life=life(1), agent="a/b", capability="c.d", remaining_ms=1_000, payload=b"x"
    )


def persist(desk: Desk) -> Ticket:
    return desk.effects.persist(Table.LIFE, b"key", b"value")


def test_a_message_that_names_a_ticket_leaves_once_it_is_durable(desk: Desk) -> None:
    ticket = persist(desk)
    effects = desk.take(ToNode(ANN.node, ping(1), after=(ticket,)), ToNode(ANN.node, ping(2)))
    assert [type(effect) for effect in effects] == [Persist, SendDatagram]
    assert isinstance(effects[1], SendDatagram)
    assert desk.read(effects[1])[1] == [ping(2)]  # nothing else waits
    assert desk.bodies(*desk.transmitter.settled(ticket, durable=True)) == [(ANN.node, [ping(1)])]


def test_a_message_that_names_several_tickets_waits_for_all(desk: Desk) -> None:
    first, second = persist(desk), desk.effects.delete(Table.OUTBOX, b"key")
    effects = desk.take(ToLink(LinkId(2), ping(), after=(first, second)))
    assert [type(effect) for effect in effects] == [Persist, Delete]
    assert desk.transmitter.settled(first, durable=True) == []
    assert desk.take(*desk.transmitter.settled(second, durable=True)) == [
        SendFrame(LinkId(2), encode_message(ping()))
    ]


def test_what_was_to_follow_a_write_that_failed_is_dropped_and_counted(desk: Desk) -> None:
    first, second = persist(desk), persist(desk)
    desk.take(
        ToNode(ANN.node, ping(1), after=(first,)),
        ToNode(ANN.node, ping(2), after=(first, second)),
        ToNode(ANN.node, ping(3), after=(second,)),
    )
    assert desk.transmitter.table_of(first) == "life"
    assert desk.transmitter.settled(first, durable=False) == []
    assert desk.counters.value("dropped.message.not_durable") == 2
    assert desk.transmitter.table_of(first) == "unknown"
    assert desk.bodies(*desk.transmitter.settled(second, durable=True)) == [(ANN.node, [ping(3)])]


def test_a_ticket_that_is_durable_already_holds_nothing_up(desk: Desk) -> None:
    ticket = persist(desk)
    desk.take()
    desk.transmitter.settled(ticket, durable=True)
    assert desk.bodies(ToNode(ANN.node, ping(), after=(ticket,))) == [(ANN.node, [ping()])]


@pytest.mark.parametrize("message", [Request, Reply])
def test_what_names_a_write_that_has_failed_already_never_leaves(desk: Desk, message: type[Message]) -> None:
    failed, durable = persist(desk), persist(desk)
    desk.take()
    desk.transmitter.settled(failed, durable=False)
    desk.transmitter.settled(durable, durable=True)
    calls = {Request: request(), Reply: Reply(message_id=bytes(16))}
    sent = desk.take(
        ToNode(ANN.node, ping(1), after=(failed,)),
        ToLink(LinkId(2), calls[message], after=(durable, failed)),
        ToLink(LinkId(3), ping(2), after=(durable,)),
    )
    assert sent == [SendFrame(LinkId(3), encode_message(ping(2)))]
    assert desk.counters.value("dropped.message.not_durable") == 2
    assert desk.transmitter.take_unsent() == [(LinkId(2), calls[message])]
    assert desk.transmitter.take_unsent() == []


def test_failed_writes_are_remembered_so_long_and_older_ones_are_believed_no_more(desk: Desk) -> None:
    durable = persist(desk)
    tickets = [persist(desk) for _ in range(FAILED_MAX + 2)]
    last = persist(desk)
    desk.take()
    desk.transmitter.settled(durable, durable=True)
    for ticket in tickets:
        desk.transmitter.settled(ticket, durable=False)
    for ticket in (*tickets, durable):
        assert desk.take(ToNode(ANN.node, ping(), after=(ticket,))) == []
    assert desk.transmitter.settled(last, durable=True) == []
    assert len(desk.take(ToNode(ANN.node, ping(), after=(last,)))) == 1


def test_whoever_waits_for_a_message_that_cannot_leave_is_told(desk: Desk) -> None:
    """A request larger than its link has promised, one whose write fails, one too many on a slow disk."""
    desk.links.full.append(LinkId(2))
    assert desk.take(ToLink(LinkId(2), request()), ToLink(LinkId(2), ping())) == []
    assert desk.transmitter.take_unsent() == [(LinkId(2), request())]
    ticket = persist(desk)
    desk.take(*(ToLink(LinkId(3), ping(n), after=(ticket,)) for n in range(HELD_MAX - 1)))
    desk.take(*(ToLink(LinkId(link), request(), after=(ticket,)) for link in (4, 5)))
    assert desk.transmitter.take_unsent() == [(LinkId(5), request())]
    assert desk.transmitter.settled(ticket, durable=False) == []
    assert desk.transmitter.take_unsent() == [(LinkId(4), request())]


def test_messages_that_wait_for_a_slow_disk_are_bounded(desk: Desk) -> None:
    ticket = persist(desk)
    desk.take(*(ToNode(ANN.node, ping(n), after=(ticket,)) for n in range(HELD_MAX + 5)))
    assert desk.counters.value("dropped.message.held_full") == 5
    assert len(desk.transmitter.settled(ticket, durable=True)) == HELD_MAX
