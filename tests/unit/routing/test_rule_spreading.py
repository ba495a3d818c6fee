"""How records are told of, asked for and handed out, over links that come and go."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.dissemination.broadcast_queue import BroadcastQueue, Kind
from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.core.routing.rule_spreading import (
    RETRY,
    TELLERS_MAX,
    TRIES_MAX,
    WANTS_MAX,
    RulesDue,
    RuleSpreading,
)
from reachp2p.core.timers import Timers
from reachp2p.core.wire.engine_codec import CODEC
from reachp2p.core.wire.messages import (
    RULES_KEY,
    Message,
    RulesBodies,
    RulesEntry,
    RulesList,
    RulesNotice,
    RulesWant,
    SyncOffer,
)
from tests.support import address, node_id
from tests.unit.routing.test_rule_keeper import RETRY as ONCE
from tests.unit.routing.test_rule_keeper import ROUND, ZONE, Node

LINK = LinkId(-1)


class FakeLinks:
    """Links that are there or not, and what was sent on them."""

    def __init__(self) -> None:
        self.open: dict[NodeId, LinkId] = {}
        self.sent: list[tuple[LinkId, Message]] = []
        self.dialled: list[NodeId] = []

    def linked(self) -> list[NodeId]:
        return list(self.open)

    def link_to(self, node: NodeId) -> LinkId | None:
        return self.open.get(node)

    def ensure(self, node: NodeId, addresses: Any, now: float) -> None:
        assert addresses == (address(1),)
        self.dialled.append(node)

    def send(self, link: LinkId, message: Message) -> bool:
        self.sent.append((link, message))
        return True


class Desk:
    """One node's spreading, and a node whose records it hears of."""

    def __init__(self) -> None:
        self.node, self.author = Node(1), Node(9)
        self.links = FakeLinks()
        self.timers = Timers()
        self.queue = BroadcastQueue(100, Counters())
        self.spreading = RuleSpreading(
            self.node.keeper,
            links=self.links,  # type: ignore[arg-type]  # as much of it as is used
            queue=self.queue,
            addresses=self.addresses,
            timers=self.timers,
            counters=self.node.counters,
            codec=CODEC,
        )
        self.now = 0.0

    @staticmethod
    def addresses(_: NodeId) -> tuple[Address, ...]:
        return (address(1),)

    def notice(self, version: int, *tellers: int) -> None:
        for teller in tellers:
            message = RulesNotice(version=version, author=node_id(9), digest=version.to_bytes(16, "big"))
            self.spreading.on_notice(message, node_id(teller), self.now)

    def wait(self) -> None:
        due = self.timers.next_deadline()
        assert due is not None
        self.now = due
        assert self.timers.pop_due(due) == RulesDue()
        self.spreading.on_due(due)

    def take(self) -> list[tuple[LinkId, Message]]:
        sent, self.links.sent = self.links.sent, []
        return sent


def test_what_is_told_of_is_asked_for_at_once_where_there_is_a_link() -> None:
    desk = Desk()
    desk.links.open[node_id(2)] = LINK
    record = desk.author.keeper.apply(ONCE, "", 0.0)
    notice = RulesNotice(version=1, author=record.fact.author, digest=record.digest)
    desk.spreading.on_notice(notice, node_id(2), 0.0)
    assert desk.take() == [(LINK, RulesWant(digests=[record.digest]))]
    desk.spreading.on_bodies(RulesBodies(records=[record.data]), 0.1, spreads=False)
    assert desk.take() == [(LINK, notice)]  # told on, on every link
    assert desk.node.keeper.book.newest is not None
    assert desk.queue.keys(Kind.RULES) == [record.digest]  # news for others
    desk.spreading.on_notice(notice, node_id(3), 0.2)
    desk.wait()
    assert desk.take() == []
    assert desk.timers.next_deadline() is None


def test_without_a_link_one_is_dialled_and_then_used() -> None:
    desk = Desk()
    desk.notice(1, 2)
    desk.notice(2, 2)
    assert (desk.links.dialled, desk.take()) == ([node_id(2)] * 2, [])
    desk.spreading.on_link_up(LINK, node_id(3))
    assert desk.take() == []
    desk.spreading.on_link_up(LINK, node_id(2))
    wanted = [(1).to_bytes(16, "big"), (2).to_bytes(16, "big")]
    assert desk.take() == [(LINK, RulesWant(digests=wanted))]


def test_tellers_are_asked_in_turn_and_given_up_after_five_questions() -> None:
    desk = Desk()
    desk.notice(1, 2, 3, 2, 4, 5, 6)
    for _ in range(TRIES_MAX):
        desk.wait()
    assert desk.links.dialled == [node_id(n) for n in (2, 3, 4, 5, 2)]
    assert TELLERS_MAX == 4
    assert desk.now == pytest.approx(RETRY * TRIES_MAX)
    assert desk.node.counters.value("rules.wants_given_up") == 1
    assert desk.timers.next_deadline() is None
    assert desk.spreading.gauges()["rules.wants"] == 0


def test_invented_records_cost_a_bounded_memory() -> None:
    desk = Desk()
    for version in range(1, WANTS_MAX + 4):
        desk.notice(version, 2)
    assert desk.spreading.gauges()["rules.wants"] == WANTS_MAX
    assert desk.node.counters.value("rules.wants_forgotten") == 3


def test_an_empty_book_is_not_mentioned() -> None:
    desk = Desk()
    assert desk.spreading.extensions() == {}
    desk.spreading.on_offer(SyncOffer(exchange=1, hash=bytes(16), nodes=1), LINK)
    assert desk.take() == []


@pytest.mark.parametrize("said", [None, 7, [1], [1, b"x"], "text"])
def test_another_summary_or_none_or_nonsense_is_answered_with_what_is_held(said: Any) -> None:
    desk = Desk()
    record = desk.node.keeper.apply(ONCE, "", 0.0)
    extensions = {} if said is None else {RULES_KEY: said}
    desk.spreading.on_offer(SyncOffer(exchange=1, hash=bytes(16), nodes=1, extensions=extensions), LINK)
    assert desk.take() == [(LINK, RulesList(entries=[RulesEntry(1, node_id(1), record.digest)]))]
    same = desk.spreading.extensions()
    desk.spreading.on_offer(SyncOffer(exchange=1, hash=bytes(16), nodes=1, extensions=same), LINK)
    assert desk.take() == []


def test_two_that_differ_send_each_other_what_the_other_lacks() -> None:
    one, other = Desk(), Desk()
    shared = one.node.keeper.apply(ONCE, "", 0.0)
    other.node.keeper.hear(shared.data, 0.0)
    mine = one.author.keeper
    mine.hear(shared.data, 0.0)
    theirs = other.node.keeper.apply(ZONE, "", 0.0)
    ours = mine.apply(ROUND, "", 0.0)
    one.node.keeper.hear(ours.data, 0.0)
    one.spreading.on_list(RulesList(entries=other.node.keeper.book.entries), LINK)
    assert one.take() == [
        (LINK, RulesWant(digests=[theirs.digest])),
        (LINK, RulesBodies(records=[ours.data])),
    ]
    other.spreading.on_want(RulesWant(digests=[theirs.digest, bytes(16)]), LINK)
    assert other.take() == [(LINK, RulesBodies(records=[theirs.data]))]
    other.spreading.on_want(RulesWant(digests=[bytes(16)]), LINK)
    assert other.take() == []


def test_what_a_newcomer_catches_up_with_is_no_news() -> None:
    desk = Desk()
    record = desk.author.keeper.apply(ONCE, "", 0.0)
    desk.spreading.on_bodies(RulesBodies(records=[record.data]), 0.0, spreads=False)
    assert desk.queue.keys(Kind.RULES) == []
    assert not desk.node.keeper.in_force.is_empty
    later = desk.author.keeper.apply(ZONE, "", 1.0)
    desk.spreading.on_bodies(RulesBodies(records=[record.data, later.data]), 1.0, spreads=True)
    assert desk.queue.keys(Kind.RULES) == [later.digest]


def test_a_write_that_failed_is_tried_again_a_second_later() -> None:
    desk = Desk()
    desk.node.keeper.apply(ONCE, "", 0.0)
    (write,) = desk.node.take()[1]
    assert desk.node.keeper.on_failed(write.ticket)
    desk.spreading.on_write_failed(0.0)
    desk.wait()
    assert desk.now == RETRY
    assert [one.value for one in desk.node.take()[1]] == [write.value]


def test_nothing_is_asked_after_the_end() -> None:
    desk = Desk()
    desk.notice(1, 2)
    desk.spreading.stop()
    assert desk.timers.next_deadline() is None
    assert desk.spreading.gauges()["rules.wants"] == 0
