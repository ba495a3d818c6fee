"""Two nodes with different views compare and exchange over a link that loses nothing: afterwards they hold the same.

The views are those of real nodes: heads, records and deltas of other nodes heard by the core's own machines in random
parts and order. After one exchange begun by each side the digests are equal, nobody knows less than before, nothing
outdated has won, and no message was larger than the protocol says.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from reachp2p.core.consequences import Consequences
from reachp2p.core.dissemination.anti_entropy import AntiEntropy, ExchangeOver, numbers
from reachp2p.core.events import MemberState
from reachp2p.core.hearing import Hearing, Source
from reachp2p.core.ids import LinkId, NodeId
from reachp2p.core.parts import Parts
from reachp2p.core.pulls import Pulls
from reachp2p.core.registry.replica import ITEMS_MAX
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import AgentRecord, Head
from reachp2p.core.wire.messages import DigestEntry, Message, SyncDelta, SyncDigest, SyncWant
from tests.support import WALL, Author, CountingEntropy, KeyedHash, life, node_id
from tests.support import settings as node_settings

LINK = LinkId(1)
AUTHORS = [10, 20, 30, 40]
LEFT, RIGHT = 15, 35
"""The two nodes that compare; others come before, between and behind them in the order of ids."""


# What the other nodes have been


@dataclass(frozen=True)
class Moment:
    """One author at one time: its head, and the records it lists."""

    head: Checked[Head]
    records: dict[str, Checked[AgentRecord]]


@dataclass
class Biography:
    """Everything an author has ever signed, in order."""

    moments: list[Moment] = field(default_factory=list)
    records: list[Checked[AgentRecord]] = field(default_factory=list)


def biography(number: int, acts: list[tuple[str, str]]) -> Biography:
    author, told = Author(number), Biography()
    epoch, incarnation, version, floor, left = 1, 0, 0, 0, False
    records: dict[str, Checked[AgentRecord]] = {}

    def moment() -> None:
        head = author.head(epoch, incarnation, version, left=left, floor=floor)
        told.moments.append(Moment(head, dict(records)))

    moment()
    for act, agent in acts:
        if left and act != "restart":
            continue
        match act:
            case "restart":
                epoch, incarnation, version, floor, left = epoch + 1, 0, 0, 0, False
                records.clear()
            case "left":
                left = True
            case "refute":
                incarnation += 1
            case "renew":
                version += 1
            case "forget":
                tombstones = [r.fact.version for r in records.values() if r.fact.withdrawn]
                if not tombstones:
                    continue
                version, floor = version + 1, min(tombstones)
                for forgotten in [
                    a for a, r in records.items() if r.fact.withdrawn and r.fact.version <= floor
                ]:
                    del records[forgotten]
            case _:
                version += 1
                record = author.record(
                    agent, version, epoch=epoch, withdrawn=act == "withdraw" and agent in records
                )
                records[agent] = record
                told.records.append(record)
        moment()
    return told


acts = st.lists(
    st.tuples(
        st.sampled_from(
            ["offer", "offer", "offer", "withdraw", "forget", "renew", "refute", "left", "restart"]
        ),
        st.sampled_from(["a/a", "a/b", "a/c"]),
    ),
    max_size=10,
)
biographies = st.fixed_dictionaries(dict.fromkeys(AUTHORS, acts))
hearsay = st.lists(
    st.tuples(
        st.sampled_from(["head", "record", "record", "delta", "dead"]),
        st.sampled_from(AUTHORS),
        st.integers(0, 30),
    ),
    max_size=25,
)


# A node


class Site:
    """A node's facts, and what it says on the link to the other one."""

    def __init__(self, number: int, other: int, agents: int = 0) -> None:
        self.node = node_id(number)
        self.other = node_id(other)
        signer = KeyedHash(self.node)
        self.parts = Parts(
            node_settings(number),
            signer=signer,
            verifier=signer,
            rng=Random(number),
            entropy=CountingEntropy(),
        )
        self.hearing = Hearing(self.parts, Consequences(self.parts), Pulls(self.parts))
        self.parts.clock.report(WALL, 0.0)
        self.parts.own.open(life(1), 0.0)
        self.parts.agents.open(life(1), 0.0)
        for _ in range(agents):
            self.parts.own.next_version()
        self.sync = AntiEntropy(
            self.parts.replica,
            self._send,
            timers=self.parts.timers,
            rng=Random(number),
            counters=self.parts.counters,
        )
        self.sent: deque[Message] = deque()
        self.overs: list[ExchangeOver] = []

    def _send(self, link: LinkId, message: Message) -> bool:
        self.sent.append(message)
        return True

    def learn(self, told: Biography, what: str, number: int) -> None:
        """Hear a part of what an author has said."""
        stranger = Source(node_id(999), link=LinkId(999))
        moment = told.moments[number % len(told.moments)]
        match what:
            case "head":
                self.hearing.head(moment.head.data, stranger, 0.0)
            case "record" if told.records:
                self.hearing.record(told.records[number % len(told.records)].data, stranger, 0.0)
            case "delta":
                fact = moment.head.fact
                entry = DigestEntry(
                    fact.node, fact.life, fact.left, fact.incarnation, fact.version, fact.version, False
                )
                member = self.parts.table.get(NodeId(fact.node))
                if member is None or (member.life, member.head.fact.version) <= (fact.life, fact.version):
                    delta = SyncDelta(
                        exchange=0,
                        heads=[moment.head.data],
                        records=[record.data for record in moment.records.values()],
                        through=[entry],
                    )
                    self.hearing.delta(delta, stranger, 0.0)
            case "dead" if NodeId(moment.head.fact.node) in self.parts.table:
                self.parts.table.doubt(
                    NodeId(moment.head.fact.node), MemberState.DEAD, 0.0, "our own verdict"
                )

    def hear(self, message: Message) -> None:
        for output in self.sync.on_message(LINK, self.other, message, 0.0):
            if isinstance(output, ExchangeOver):
                self.overs.append(output)
            else:
                self.hearing.delta(output, Source(self.other, link=LINK), 0.0)

    def digest(self) -> dict[bytes, DigestEntry]:
        return {entry.node: entry for entry in self.parts.replica.digest(0.0)}

    def offered(self) -> dict[tuple[bytes, str], int]:
        """What is known for sure to be offered by others that have not left: versions by node and agent."""
        store = self.parts.store
        return {
            (row.node, record.fact.agent): record.fact.version
            for row in self.parts.table
            if row.state is not MemberState.LEFT and store.complete(row.node) == row.head.fact.version
            for record in store.records(row.node)
            if not record.fact.withdrawn and record.fact.version <= store.complete(row.node)
        }


def compare(a: Site, b: Site) -> list[Message]:
    """One exchange, begun by `a`; everything that was said."""
    said: list[Message] = []
    assert a.sync.begin(LINK, b.node, 0.0)
    while a.sent or b.sent:
        for side, other in ((a, b), (b, a)):
            while side.sent:
                said.append(side.sent.popleft())
                other.hear(said[-1])
    assert len(a.sync) == len(b.sync) == 0
    assert a.overs.pop().outcome in ("equal", "done")
    return said


def without_verdicts(digest: dict[bytes, DigestEntry]) -> list[tuple[object, ...]]:
    return [(e.node, *numbers(e), e.complete) for e in digest.values()]


def pair(
    history: dict[int, list[tuple[str, str]]], heard: list[list[tuple[str, int, int]]]
) -> tuple[Site, Site]:
    told = {number: biography(number, done) for number, done in history.items()}
    sites = Site(LEFT, RIGHT, agents=2), Site(RIGHT, LEFT)
    for site, parts in zip(sites, heard, strict=True):
        for what, number, which in parts:
            site.learn(told[number], what, which)
    return sites


@settings(max_examples=150)
@given(biographies, st.lists(hearsay, min_size=2, max_size=2))
def test_two_views_are_equal_after_one_exchange_each_way(
    history: dict[int, list[tuple[str, str]]], heard: list[list[tuple[str, int, int]]]
) -> None:
    a, b = pair(history, heard)
    before = a.digest(), b.digest()
    for first, second in ((a, b), (b, a)):
        for message in compare(first, second):
            check_size(message)
    after = a.digest(), b.digest()

    assert without_verdicts(after[0]) == without_verdicts(after[1])
    for node, entry in after[0].items():
        held = [digest[node] for digest in before if node in digest]
        top = max(held, key=numbers)
        assert numbers(entry) == numbers(top)  # the newest head, and nothing outdated
        assert entry.complete >= max(
            (e.complete for e in held if e.life == top.life and not top.left), default=0
        )
    assert a.offered() == b.offered()


def check_size(message: Message) -> None:
    match message:
        case SyncDelta():
            one_nodes_records = len(message.through) == 1
            assert len(message.records) <= ITEMS_MAX or one_nodes_records
            assert max(len(message.heads), len(message.through), len(message.doubts)) <= ITEMS_MAX
        case SyncDigest() | SyncWant():
            assert len(message.entries) <= 512
        case _:
            pass


@given(biographies, st.lists(hearsay, min_size=2, max_size=2))
def test_a_death_is_never_adopted_and_always_doubted(
    history: dict[int, list[tuple[str, str]]], heard: list[list[tuple[str, int, int]]]
) -> None:
    a, b = pair(history, heard)
    dead_before = {row.node for row in b.parts.table if row.state is MemberState.DEAD}
    compare(a, b)
    for row in b.parts.table:
        if row.state is MemberState.DEAD:
            assert row.node in dead_before
    for row in a.parts.table:
        if row.node == b.node:
            continue
        mine = b.parts.table.get(row.node)
        assert mine is not None
        if row.state is MemberState.DEAD and (mine.life, mine.incarnation) == (row.life, row.incarnation):
            assert mine.state in (MemberState.SUSPECT, MemberState.DEAD, MemberState.LEFT)


@given(biographies, st.lists(hearsay, min_size=2, max_size=2))
def test_equal_views_end_with_one_hash(
    history: dict[int, list[tuple[str, str]]], heard: list[list[tuple[str, int, int]]]
) -> None:
    a, b = pair(history, [[part for part in parts if part[0] != "dead"] for parts in heard])
    compare(a, b)
    compare(b, a)
    assert [type(message).__name__ for message in compare(a, b)] == ["SyncOffer", "SyncEnd"]
    assert a.parts.replica.digest_hash(0.0) == b.parts.replica.digest_hash(0.0)
