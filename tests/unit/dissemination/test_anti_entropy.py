"""The conversation of two nodes that compare views: every way it goes, every way it ends, and its bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.dissemination.anti_entropy import (
    ANSWERED_MAX,
    EXCHANGE_MAX,
    EXCHANGE_TIMEOUT,
    INITIATED_MAX,
    PAGE_ENTRIES,
    PULL,
    WANTS_MAX,
    AntiEntropy,
    ExchangeEnds,
    ExchangeOver,
    absent,
    has_news,
)
from reachp2p.core.ids import LinkId, NodeId
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import (
    DigestEntry,
    Message,
    Ping,
    SyncDelta,
    SyncDigest,
    SyncEnd,
    SyncOffer,
    SyncWant,
)
from tests.support import life, node_id, seeded

LINK = LinkId(1)


def entry(
    number: int,
    *,
    epoch: int = 1,
    left: bool = False,
    incarnation: int = 0,
    version: int = 0,
    complete: int = 0,
    dead: bool = False,
) -> DigestEntry:
    return DigestEntry(node_id(number), life(epoch), left, incarnation, version, complete, dead)


class Shelf:
    """A replica that holds digest entries and nothing behind them; a delta names the nodes it is about in `through`."""

    def __init__(self, *entries: DigestEntry) -> None:
        self.entries = {e.node: e for e in entries}

    def digest(self, now: float) -> list[DigestEntry]:
        return [self.entries[node] for node in sorted(self.entries)]

    def summary(self, now: float) -> tuple[bytes, int]:
        return blake2b(repr(self.digest(now)).encode(), digest_size=16).digest(), len(self.entries)

    def deltas(self, theirs: Sequence[DigestEntry], exchange: int, now: float) -> list[SyncDelta]:
        news = [
            self.entries[e.node]
            for e in theirs
            if e.node in self.entries and has_news(self.entries[e.node], e)
        ]
        return [
            SyncDelta(exchange=exchange, through=news[start : start + 64])
            for start in range(0, len(news), 64)
        ]

    def apply(self, delta: SyncDelta) -> None:
        for news in delta.through:
            if has_news(news, self.entries.get(news.node, absent(news.node))):
                self.entries[news.node] = news


@dataclass
class Side:
    """One end of the link."""

    number: int
    shelf: Shelf
    sync: AntiEntropy = field(init=False)
    sent: deque[Message] = field(default_factory=deque)
    overs: list[ExchangeOver] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    timers: Timers = field(default_factory=Timers)
    is_up: bool = True

    def __post_init__(self) -> None:
        self.sync = AntiEntropy(
            self.shelf, self._send, timers=self.timers, rng=seeded(self.number), counters=self.counters
        )

    def _send(self, link: LinkId, message: Message) -> bool:
        if self.is_up:
            self.sent.append(message)
        return self.is_up

    def hear(self, source: int, message: Message, now: float = 0.0, link: LinkId = LINK) -> None:
        for output in self.sync.on_message(link, node_id(source), message, now):
            if isinstance(output, ExchangeOver):
                self.overs.append(output)
            else:
                self.shelf.apply(output)

    def begin(self, other: int = 2, link: LinkId = LINK, now: float = 0.0) -> bool:
        return self.sync.begin(link, node_id(other), now)

    def fire(self, now: float) -> None:
        """Let the timers that are due end what they end."""
        while (key := self.timers.pop_due(now)) is not None:
            assert isinstance(key, ExchangeEnds)
            self.overs += self.sync.on_exchange_ends(key.link, key.exchange)


class Pair:
    """Node 1 and node 2 and what travels between them."""

    def __init__(self, ours: list[DigestEntry], theirs: list[DigestEntry]) -> None:
        self.a, self.b = Side(1, Shelf(*ours)), Side(2, Shelf(*theirs))
        self.log: list[Message] = []

    def talk(self, *, until: type[Message] | None = None) -> None:
        """Deliver everything in order, or up to the first message of a kind, which is not delivered."""
        while self.a.sent or self.b.sent:
            for side, other in ((self.a, self.b), (self.b, self.a)):
                while side.sent:
                    if until is not None and isinstance(side.sent[0], until):
                        return
                    message = side.sent.popleft()
                    self.log.append(message)
                    other.hear(side.number, message)

    def kinds(self) -> list[str]:
        return [type(message).__name__ for message in self.log]

    @property
    def are_equal(self) -> bool:
        return self.a.shelf.digest(0.0) == self.b.shelf.digest(0.0)


# News


@pytest.mark.parametrize(
    ("ours", "theirs", "news"),
    [
        (entry(1), absent(node_id(1)), True),
        (entry(1), entry(1), False),
        (entry(1, epoch=2), entry(1, incarnation=9, version=9, complete=9), True),
        (entry(1, left=True), entry(1, incarnation=9, version=9), True),
        (entry(1, incarnation=1), entry(1, version=9), True),
        (entry(1, version=1), entry(1), True),
        (entry(1, version=3, complete=2), entry(1, version=3, complete=1), True),
        (entry(1, version=2, complete=2), entry(1, version=3, complete=1), True),
        (entry(1, complete=9), entry(1, epoch=2), False),
        (entry(1, dead=True), entry(1), True),
        (entry(1, dead=True), entry(1, dead=True), False),
        (entry(1, dead=True), entry(1, incarnation=1), False),
        (entry(1, dead=True), entry(1, version=1), True),
        (entry(1, dead=True), entry(1, epoch=2), False),
    ],
)
def test_news_is_a_newer_head_more_records_or_a_doubt(
    ours: DigestEntry, theirs: DigestEntry, news: bool
) -> None:
    assert has_news(ours, theirs) is news


# How it goes


def test_equal_views_end_with_one_hash() -> None:
    pair = Pair([entry(1), entry(2)], [entry(2), entry(1)])
    assert pair.a.begin()
    pair.talk()
    assert pair.kinds() == ["SyncOffer", "SyncEnd"]
    assert pair.a.overs == [ExchangeOver(node_id(2), "equal")]
    assert pair.a.counters.value("sync.equal") == pair.b.counters.value("sync.answered_equal") == 1
    assert len(pair.a.sync) == len(pair.b.sync) == len(pair.a.timers) == len(pair.b.timers) == 0


def test_both_sides_learn_what_they_lack_and_nothing_else_travels() -> None:
    pair = Pair([entry(1), entry(3, version=1), entry(5)], [entry(2), entry(3), entry(5)])
    pair.a.begin()
    pair.talk()
    assert pair.kinds() == ["SyncOffer", "SyncDigest", "SyncDelta", "SyncWant", "SyncDelta", "SyncEnd"]
    told, asked, answered = pair.log[2:5]
    assert isinstance(told, SyncDelta)
    assert isinstance(asked, SyncWant)
    assert isinstance(answered, SyncDelta)
    assert sorted(e.node for e in told.through) == [node_id(1), node_id(3)]
    assert [e.node for e in asked.entries] == [node_id(2)]
    assert ([e.node for e in answered.through], answered.last) == ([node_id(2)], True)
    assert pair.are_equal
    assert pair.a.overs == [ExchangeOver(node_id(2), "done")]
    assert len(pair.a.sync) == len(pair.b.sync) == len(pair.a.timers) == len(pair.b.timers) == 0


@pytest.mark.parametrize("ours", [0, 1, 700])
@pytest.mark.parametrize("theirs", [0, 1, 700])
def test_views_of_any_size_become_equal_in_one_exchange(ours: int, theirs: int) -> None:
    pair = Pair([entry(n) for n in range(ours)], [entry(n) for n in range(350, 350 + theirs)])
    pair.a.begin()
    pair.talk()
    assert pair.are_equal
    assert pair.a.overs[0].outcome == ("equal" if ours == theirs == 0 else "done")


def test_long_digests_come_in_pages_and_wants_go_in_as_many() -> None:
    pair = Pair([], [entry(n) for n in range(2 * PAGE_ENTRIES + 1)])
    pair.a.begin()
    pair.talk()
    pages = [m for m in pair.log if isinstance(m, SyncDigest)]
    assert [(len(p.entries), p.last) for p in pages] == [(512, False), (512, False), (1, True)]
    assert [len(m.entries) for m in pair.log if isinstance(m, SyncWant)] == [512, 512, 1]
    assert sum(m.last for m in pair.log if isinstance(m, SyncDelta)) == 3
    assert pair.are_equal


def test_what_lies_between_and_behind_the_pages_is_told_once() -> None:
    ours = [entry(n) for n in (0, 100, 511, 512, 700, 5_000)]
    theirs = [entry(n) for n in range(1, 600) if n not in (100, 511, 512)]
    pair = Pair(ours, theirs)
    pair.a.begin()
    pair.talk()
    until = pair.kinds().index("SyncWant")
    told = [e.node for m in pair.log[:until] if isinstance(m, SyncDelta) for e in m.through]
    assert sorted(told) == [e.node for e in ours]
    assert pair.are_equal


def test_a_pull_asks_outside_an_exchange() -> None:
    pair = Pair([entry(1)], [entry(1, version=2), entry(2)])
    pair.a.sync.pull(LINK, [entry(1)])
    pair.talk()
    assert pair.kinds() == ["SyncWant", "SyncDelta"]
    assert all(m.exchange == PULL for m in pair.log)  # type: ignore[attr-defined]
    assert pair.a.shelf.digest(0.0) == [entry(1, version=2)]
    assert len(pair.a.sync) == len(pair.b.sync) == 0


def test_a_pull_for_which_there_is_nothing_is_answered_all_the_same() -> None:
    pair = Pair([], [])
    pair.a.sync.pull(LINK, [absent(node_id(7))])
    pair.talk()
    assert pair.log[-1] == SyncDelta(exchange=PULL, last=True)


def test_two_exchanges_that_cross_on_one_link_both_end() -> None:
    pair = Pair([entry(1)], [entry(2)])
    pair.a.begin(2)
    pair.b.begin(1)
    pair.talk()
    assert pair.are_equal
    assert [over.outcome for over in (*pair.a.overs, *pair.b.overs)] == ["done", "done"]


# How it ends


def test_an_exchange_is_lost_with_its_link() -> None:
    pair = Pair([entry(1)], [entry(2)])
    pair.a.begin()
    pair.talk(until=SyncDigest)
    assert pair.a.sync.on_link_down(LINK) == [ExchangeOver(node_id(2), "lost")]
    assert pair.b.sync.on_link_down(LINK) == []
    assert pair.a.sync.on_link_down(LINK) == []
    assert len(pair.a.sync) == len(pair.b.sync) == len(pair.a.timers) == len(pair.b.timers) == 0


def test_other_links_keep_their_exchanges() -> None:
    pair = Pair([entry(1)], [])
    pair.a.begin(2, LinkId(1))
    pair.a.begin(3, LinkId(2))
    assert [over.node for over in pair.a.sync.on_link_down(LinkId(2))] == [node_id(3)]
    assert len(pair.a.sync) == 1


def test_an_exchange_without_progress_times_out_on_both_sides() -> None:
    pair = Pair([entry(1)], [entry(2)])
    pair.a.begin()
    pair.talk(until=SyncDigest)
    for side in (pair.a, pair.b):
        side.fire(EXCHANGE_TIMEOUT - 0.1)
        assert len(side.sync) == 1
        side.fire(EXCHANGE_TIMEOUT)
        assert len(side.sync) == 0
    assert pair.a.overs == [ExchangeOver(node_id(2), "timeout")]
    assert pair.b.overs == []
    assert pair.a.counters.value("sync.timeout") == 1


def test_an_exchange_that_only_trickles_ends_too() -> None:
    """A deadline that drip-feeding cannot extend."""
    side = Side(1, Shelf())
    side.begin()
    (offer,) = side.sent
    assert isinstance(offer, SyncOffer)
    for second in range(1, 200):
        side.fire(float(second))
        page = SyncDigest(exchange=offer.exchange, entries=[entry(second)], last=False)
        side.hear(2, page, float(second))
    assert side.overs == [ExchangeOver(node_id(2), "timeout")]
    assert side.counters.value("dropped.sync.unknown_exchange") == 200 - EXCHANGE_MAX


def test_a_refused_offer_ends_the_exchange() -> None:
    side = Side(1, Shelf(entry(1)))
    side.begin()
    (offer,) = side.sent
    assert isinstance(offer, SyncOffer)
    side.hear(2, SyncEnd(exchange=offer.exchange))
    assert side.overs == [ExchangeOver(node_id(2), "refused")]


def test_an_offer_that_cannot_be_sent_is_no_exchange() -> None:
    side = Side(1, Shelf(entry(1)))
    side.is_up = False
    assert not side.begin()
    assert len(side.sync) == len(side.timers) == 0
    assert side.counters.value("sync.begun") == 0


def test_messages_of_unknown_exchanges_are_dropped_and_counted() -> None:
    side = Side(1, Shelf(entry(1)))
    for message in (
        SyncDigest(exchange=5, entries=[entry(2)], last=True),
        SyncWant(exchange=5, entries=[entry(1)]),
        SyncDelta(exchange=5, through=[entry(9)]),
        SyncEnd(exchange=5),
    ):
        side.hear(2, message)
    assert not side.sent
    assert side.overs == []
    assert side.shelf.digest(0.0) == [entry(1)]
    assert side.counters.value("dropped.sync.unknown_exchange") == 3


def test_a_digest_in_an_exchange_that_we_answer_is_dropped() -> None:
    side = Side(1, Shelf(entry(1)))
    side.hear(2, SyncOffer(exchange=5, hash=bytes(16), nodes=0))
    side.sent.clear()
    side.hear(2, SyncDigest(exchange=5, entries=[], last=True))
    assert not side.sent
    assert side.counters.value("dropped.sync.unknown_exchange") == 1


def test_a_message_of_another_protocol_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError):
        Side(1, Shelf()).hear(2, Ping(nonce=b"8 bytes!"))


# Bounds


def test_one_exchange_with_a_node_runs_at_a_time_and_few_altogether() -> None:
    side = Side(1, Shelf())
    assert side.begin(2)
    assert not side.begin(2, LinkId(9))
    started = [side.begin(number, LinkId(number)) for number in range(3, 20)]
    assert started == [True] * (INITIATED_MAX - 1) + [False] * (17 - INITIATED_MAX + 1)


def test_too_many_offers_are_refused_and_the_initiator_hears_so() -> None:
    side = Side(1, Shelf(entry(1)))
    for number in range(ANSWERED_MAX + 3):
        side.hear(number, SyncOffer(exchange=7, hash=bytes(16), nodes=0), link=LinkId(number + 1))
    refused = [m for m in side.sent if isinstance(m, SyncEnd)]
    assert refused == [SyncEnd(exchange=7)] * 3
    assert len(side.sync) == ANSWERED_MAX
    assert side.counters.value("sync.refused") == 3
    assert side.begin(500, LinkId(500))  # our own are counted apart


def test_a_number_that_is_in_use_on_a_link_is_refused() -> None:
    side = Side(1, Shelf(entry(1)))
    for _ in range(2):
        side.hear(2, SyncOffer(exchange=7, hash=bytes(16), nodes=0))
    assert len(side.sync) == 1
    assert side.sent[-1] == SyncEnd(exchange=7)


def test_endless_pages_fill_no_memory() -> None:
    side = Side(1, Shelf())
    side.begin()
    (offer,) = side.sent
    assert isinstance(offer, SyncOffer)
    for start in range(0, 40_000, PAGE_ENTRIES):
        entries = [
            DigestEntry(NodeId(n.to_bytes(32, "big")), life(), False, 0, 0, 0)
            for n in range(start, start + 512)
        ]
        side.hear(2, SyncDigest(exchange=offer.exchange, entries=entries, last=False))
    side.hear(2, SyncDigest(exchange=offer.exchange, entries=[], last=True))
    wanted = sum(len(m.entries) for m in side.sent if isinstance(m, SyncWant))
    assert wanted == WANTS_MAX
    assert side.counters.value("sync.wants_full") == 40_448 - WANTS_MAX


def test_pages_behind_the_last_one_are_dropped() -> None:
    side = Side(1, Shelf())
    side.begin()
    (offer,) = side.sent
    assert isinstance(offer, SyncOffer)
    for _ in range(3):
        side.hear(2, SyncDigest(exchange=offer.exchange, entries=[entry(5)], last=True))
    assert sum(isinstance(m, SyncWant) for m in side.sent) == 1
    assert side.counters.value("dropped.sync.page_after_last") == 2


def test_a_pull_asks_for_a_page_at_most() -> None:
    side = Side(1, Shelf())
    side.sync.pull(LINK, [entry(n) for n in range(600)])
    (want,) = side.sent
    assert isinstance(want, SyncWant)
    assert len(want.entries) == PAGE_ENTRIES


def test_one_peer_does_not_take_every_place_for_exchanges() -> None:
    sent: list[tuple[LinkId, Message]] = []

    def send(link: LinkId, message: Message) -> bool:
        sent.append((link, message))
        return True

    sync = AntiEntropy(Shelf(entry(3)), send, timers=Timers(), rng=seeded(), counters=Counters())
    for number in range(1, ANSWERED_MAX + 1):
        sync.on_message(LinkId(1), node_id(1), SyncOffer(exchange=number, hash=bytes(16), nodes=0), 0.0)
    sent.clear()
    sync.on_message(LinkId(2), node_id(2), SyncOffer(exchange=1, hash=bytes(16), nodes=0), 0.0)
    assert isinstance(sent[0][1], SyncDigest)


def test_a_responder_that_turns_back_is_not_sent_everything_again() -> None:
    sent: list[Message] = []

    def send(_: LinkId, message: Message) -> bool:
        sent.append(message)
        return True

    counters = Counters()
    shelf = Shelf(*(entry(number) for number in range(3, 60)))
    sync = AntiEntropy(shelf, send, timers=Timers(), rng=seeded(), counters=counters)
    assert sync.begin(LinkId(1), node_id(1), 0.0)
    (offer,) = sent
    assert isinstance(offer, SyncOffer)
    for turn in range(20):
        end = b"\xff" * 32 if turn % 2 == 0 else bytes(32)
        page = SyncDigest(exchange=offer.exchange, entries=[absent(end)], last=False)
        sync.on_message(LinkId(1), node_id(1), page, 0.0)
    assert sum(len(m.through) + len(m.heads) for m in sent if isinstance(m, SyncDelta)) <= 60
    assert counters.value("dropped.sync.page_turned_back") == 19
