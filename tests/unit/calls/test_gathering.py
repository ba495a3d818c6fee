"""A gathering ends in bounded time, whatever others do, and names everybody who is missing and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest

from reachp2p.core.calls.gathering import (
    ASKED_AT_ONCE,
    GATHERINGS_MAX,
    NODE_TIMEOUT,
    NODES_MAX,
    TAKE_WITHIN,
    GatherDue,
    Gathered,
    Gatherings,
    Why,
)
from reachp2p.core.calls.hop_answers import QUESTIONS_BURST, HopAnswers, entry_of
from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.hops import Hop, HopFilter, Side
from reachp2p.core.clock import WallClock
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, Notify
from reachp2p.core.events import HopsGathered, MemberState
from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import HopPage, HopWant, Message
from reachp2p.errors import CallFailed, ErrorCode, LocalProtocolError

SESSION = b"session of a day"
OWN = NodeId(bytes(32))


def node_of(number: int) -> NodeId:
    return NodeId(number.to_bytes(32))


class Member(msgspec.Struct):
    node: NodeId
    state: MemberState = MemberState.ALIVE


class Around:
    """The links and members of a node: what is sent is kept, links open when the test says so."""

    def __init__(self, count: int) -> None:
        self.members = {node_of(number): Member(node_of(number)) for number in range(1, count + 1)}
        self.linked: dict[NodeId, LinkId] = {}
        self.dialled: dict[NodeId, None] = {}
        self.sent: list[tuple[LinkId, Message]] = []
        self.is_full = False
        self.now = 0.0
        self.effects, self.timers, self.counters = Effects(), Timers(), Counters()
        clock = WallClock()
        clock.report(1_000.0, 0.0)
        self.store = HopStore(Protocol(), own=OWN, own_life=lambda: None, clock=clock, counters=self.counters)
        self.store.begin(0.0)
        self.gatherings = Gatherings(
            own=OWN,
            hops=self.store,
            table=cast(Any, self),
            links=cast(Any, self),
            addresses=lambda node: [Address("there", 1)],
            effects=self.effects,
            timers=self.timers,
            counters=self.counters,
        )

    # The member table

    def get(self, node: NodeId) -> Member | None:
        return self.members.get(node)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    # The links

    def link_to(self, node: NodeId) -> LinkId | None:
        return self.linked.get(node)

    def is_dialling(self, node: NodeId) -> bool:
        return node in self.dialled

    def ensure(self, node: NodeId, addresses: list[Address], now: float) -> LinkId | None:
        self.dialled[node] = None
        return LinkId(1)

    def send(self, link: LinkId, message: Message) -> bool:
        self.sent.append((link, message))
        return not self.is_full

    # What a test does

    def link(self, *nodes: NodeId) -> None:
        for node in nodes:
            self.dialled.pop(node, None)
            self.linked[node] = LinkId(int.from_bytes(node))
            self.gatherings.on_link_up(node, self.now)

    def unlink(self, node: NodeId) -> None:
        self.dialled.pop(node, None)
        self.linked.pop(node, None)
        self.gatherings.on_link_down(node, self.now)

    def answer(self, node: NodeId, *hops: Hop, **fields: Any) -> None:
        want = self.wants(node)[-1]
        page = HopPage(
            **{"query": want.query, "hops": [entry_of(hop) for hop in hops], "last": True, **fields}
        )
        self.gatherings.on_page(node, page, self.now)

    def wants(self, node: NodeId) -> list[HopWant]:
        link = LinkId(int.from_bytes(node))
        return [message for to, message in self.sent if to == link and isinstance(message, HopWant)]

    def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        while (at := self.timers.next_deadline()) is not None and at <= until:
            self.now = at
            while (key := self.timers.pop_due(self.now)) is not None:
                assert isinstance(key, GatherDue)
                self.gatherings.on_timer(key, self.now)
        self.now = until

    @property
    def ended(self) -> list[int]:
        return [
            effect.event.gathering
            for effect in self.effects.items
            if isinstance(effect, Notify) and isinstance(effect.event, HopsGathered)
        ]

    def begin(self, timeout: float = 10.0, **wanted: Any) -> int:
        return self.gatherings.begin(HopFilter(**wanted), timeout, self.now)

    def result(self) -> Gathered:
        return self.gatherings.take(self.ended[-1])

    def why(self) -> dict[int, Why]:
        return {int.from_bytes(one.node): one.why for one in self.result().missing}


def hop(number: int, other: NodeId | None, **fields: Any) -> Hop:
    ident = number.to_bytes(16)
    plain: dict[str, Any] = {
        "node": OWN, "side": Side.SERVED, "other": other, "session": SESSION, "trace": SESSION, "span": ident[8:],
        "parent": ident[:8], "message_id": ident, "attempt": 1, "depth": 0, "agent": "a/b", "capability": "c",
        "started": 1.0, "duration": 1.0, "queued": 0.0, "bytes_in": 0, "bytes_out": 0, "code": 0, "detail": "",
        "retries": 0, "items": 0, "handed": True, "answered": True,
    }  # fmt: skip
    return Hop(**{**plain, **fields})


def test_alone_it_ends_at_once() -> None:
    around = Around(0)
    number = around.begin(failed=True)
    assert around.ended == [number]
    found = around.result()
    assert (found.hops, found.missing, [one.node for one in found.heard]) == ([], [], [OWN])


def test_a_session_is_followed_from_node_to_node() -> None:
    """Nobody is known here: all are asked; who is named by a hop is asked although it is doubted."""
    around = Around(3)
    around.members[node_of(3)].state = MemberState.SUSPECT
    around.link(node_of(1), node_of(2), node_of(3))
    around.begin(session=SESSION, strays=True)
    want = around.wants(node_of(1))[0]
    assert (want.session, want.strays, want.failed, want.age_ms) == (SESSION, True, False, None)
    around.answer(node_of(1), hop(1, node_of(9)))
    around.answer(node_of(2))
    assert around.ended == []
    around.answer(node_of(3), hop(2, None), left_out=5, since_ms=1_000, complete_since_ms=2_000)
    found = around.result()
    assert [one.node for one in found.hops] == [node_of(1), node_of(3)]
    assert [(one.node, one.why) for one in found.missing] == [(node_of(9), Why.UNKNOWN)]
    assert found.left_out == 5
    assert (found.heard[-1].since, found.heard[-1].complete_since) == (1.0, 2.0)
    assert around.timers.next_deadline() is None


def test_those_that_are_gone_are_not_asked_and_are_named() -> None:
    around = Around(5)
    for number, state in ((1, MemberState.DEAD), (2, MemberState.LEFT)):
        around.members[node_of(number)].state = state
    around.link(node_of(3))
    around.begin(session=SESSION)
    around.answer(node_of(3), *(hop(number, node_of(number)) for number in (1, 2)))
    around.unlink(node_of(4))
    around.sleep(NODE_TIMEOUT)
    assert around.why() == {1: Why.DEAD, 2: Why.LEFT, 4: Why.UNREACHABLE, 5: Why.UNREACHABLE}


def test_who_says_nothing_and_who_refuses_are_told_apart() -> None:
    around = Around(3)
    around.link(node_of(1), node_of(2))
    around.begin(failed=True)
    around.answer(node_of(1), code=ErrorCode.RATE_LIMITED)
    around.sleep(NODE_TIMEOUT - 0.1)
    assert around.ended == []
    around.link(node_of(3))
    around.answer(node_of(3))
    around.sleep(0.2)
    assert around.why() == {1: Why.REFUSED, 2: Why.SILENT}


def test_a_link_that_breaks_is_asked_again_on_another_or_ends_the_question() -> None:
    around = Around(2)
    around.link(node_of(1), node_of(2))
    around.begin(failed=True)
    around.gatherings.on_link_down(node_of(1), around.now)  # another one is there already
    assert len(around.wants(node_of(1))) == 2
    around.answer(node_of(1))
    around.unlink(node_of(2))
    assert around.why() == {2: Why.UNREACHABLE}


def test_sixteen_are_asked_at_once_and_the_rest_until_the_time_is_over() -> None:
    around = Around(50)
    around.link(*around.members)
    around.begin(timeout=5.0, failed=True)
    assert len(around.sent) == ASKED_AT_ONCE
    around.answer(node_of(1))
    assert len(around.sent) == ASKED_AT_ONCE + 1
    around.sleep(4.9)
    assert around.ended == []
    around.sleep(0.1)
    counts: dict[Why, int] = {}
    for why in around.why().values():
        counts[why] = counts.get(why, 0) + 1
    assert counts == {Why.SILENT: 2 * ASKED_AT_ONCE, Why.NOT_ASKED: 50 - 1 - 2 * ASKED_AT_ONCE}


def test_no_more_than_a_thousand_nodes_are_asked() -> None:
    around = Around(NODES_MAX + 10)
    around.link(*around.members)
    around.is_full = True
    around.begin(failed=True)
    why = list(around.why().values())
    assert why.count(Why.NOT_ASKED) == 11  # this node is one of them
    assert why.count(Why.UNREACHABLE) == NODES_MAX - 1


def test_more_than_was_asked_for_is_not_waited_for() -> None:
    around = Around(1)
    around.link(node_of(1))
    around.begin(failed=True, limit=2)
    around.answer(node_of(1), *(hop(number, None) for number in range(3)), last=False)
    assert around.ended != []
    assert len(around.result().hops) == 3


def test_pages_that_nobody_has_asked_for_are_dropped_and_counted() -> None:
    around = Around(2)
    around.link(node_of(1))
    number = around.begin(failed=True)
    page = HopPage(query=number, hops=[entry_of(hop(1, None))], last=True)
    around.gatherings.on_page(node_of(2), page, 0.0)  # not asked yet: its link is not open
    around.gatherings.on_page(node_of(7), page, 0.0)
    around.gatherings.on_page(node_of(1), HopPage(query=number + 1, last=True), 0.0)
    around.answer(node_of(1))
    around.answer(node_of(1))
    assert around.counters.value("hops.page_unmatched") == 4
    around.unlink(node_of(2))
    assert around.result().hops == []


def test_questions_and_their_results_are_bounded() -> None:
    around = Around(1)
    numbers = [around.begin(failed=True) for _ in range(GATHERINGS_MAX)]
    with pytest.raises(CallFailed, match="under way already"):
        around.begin(failed=True)
    around.gatherings.cancel(numbers[0])
    around.begin(failed=True)
    around.sleep(NODE_TIMEOUT)
    assert len(around.ended) == GATHERINGS_MAX
    assert len(around.gatherings) == GATHERINGS_MAX
    with pytest.raises(CallFailed, match="under way already"):
        around.begin(failed=True)  # no result is lost to make room
    assert around.gatherings.take(numbers[1]).missing
    with pytest.raises(LocalProtocolError, match="was taken"):
        around.gatherings.take(numbers[1])
    around.begin(failed=True)


def test_results_that_nobody_takes_make_room_after_a_while() -> None:
    around = Around(1)
    numbers = [around.begin(failed=True) for _ in range(GATHERINGS_MAX)]
    around.sleep(NODE_TIMEOUT)
    around.sleep(TAKE_WITHIN)
    around.begin(failed=True)
    assert len(around.gatherings) == 1
    assert around.counters.value("hops.gatherings_dropped") == GATHERINGS_MAX
    with pytest.raises(LocalProtocolError, match="within 60 s"):
        around.gatherings.take(numbers[0])


def test_a_node_that_stops_ends_its_questions() -> None:
    around = Around(1)
    around.link(node_of(1))
    around.begin(failed=True)
    around.gatherings.end_all(0.0)
    assert around.why() == {1: Why.SILENT}
    assert around.timers.next_deadline() is None


def test_a_node_that_asks_too_often_is_told_so_and_may_ask_again_later() -> None:
    around = Around(0)
    answers = HopAnswers(around.store, cast(Any, around), around.counters)
    burst = int(QUESTIONS_BURST)
    for number in range(burst + 1):
        answers.on_want(LinkId(5), node_of(5), HopWant(query=number), 0.0)
    answers.on_want(LinkId(6), node_of(6), HopWant(query=0), 0.0)  # another node is not concerned
    answers.on_want(LinkId(5), node_of(5), HopWant(query=99), 0.1)
    codes = [message.code for _, message in around.sent if isinstance(message, HopPage)]
    assert codes == [0] * burst + [ErrorCode.RATE_LIMITED, 0, 0]
    assert around.counters.value("hops.refused") == 1
    assert len(answers) == 2
