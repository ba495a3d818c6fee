"""Regular comparisons of views: with whom, and with whom instead when the member that chance chose is not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from reachp2p.core.counters import Counters
from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.parts import Parts
from reachp2p.core.push_pull import (
    PUSH_PULL_FIRST,
    PUSH_PULL_SLOWER,
    PUSH_PULL_SLOWER_CHANGING,
    PushPull,
    PushPullDue,
)
from reachp2p.core.timers import Timers
from tests.support import Author, Steady, node_id, settings

OWN = 50


class First(Steady):
    """Chance that always takes the first."""

    def randrange(self, stop: int, /) -> int:
        return 0


class Links:
    """Links and dials, by node; a dial stays under way until the test says how it ends."""

    def __init__(self) -> None:
        self.open: dict[NodeId, LinkId] = {}
        self.dialled: list[NodeId] = []

    def link_to(self, node: NodeId) -> LinkId | None:
        return self.open.get(node)

    def linked(self) -> list[NodeId]:
        return list(self.open)

    def ensure(self, node: NodeId, addresses: tuple[Address, ...], now: float) -> LinkId | None:
        self.dialled.append(node)
        return LinkId(len(self.dialled))


class Exchanges:
    """Who was begun with."""

    def __init__(self) -> None:
        self.begun: list[NodeId] = []

    def begin(self, link: LinkId, node: NodeId, now: float) -> bool:
        self.begun.append(node)
        return True


class Office:
    """The comparisons of a node that knows some members."""

    def __init__(self, *numbers: int, **protocol: Any) -> None:
        self.counters = Counters()
        self.links = Links()
        self.exchanges = Exchanges()
        own = settings(OWN, **protocol)
        self.timers = Timers()
        self.table = MemberTable(node_id(OWN), own.protocol.members_max, self.counters)
        for number in numbers:
            self.table.merge(Author(number).head(), 0.0)
        parts = SimpleNamespace(
            settings=own,
            timers=self.timers,
            rng=First(),
            counters=self.counters,
            table=self.table,
            links=self.links,
            sync=self.exchanges,
        )
        unused: Any = None
        self.push_pull = PushPull(cast(Parts, parts), unused)

    def link(self, number: int) -> None:
        """There is a link to a member, and it has answered over it."""
        self.links.open[node_id(number)] = LinkId(number)
        self.has_answered(number)

    def has_answered(self, number: int) -> None:
        member = self.table.get(node_id(number))
        assert member is not None
        member.answered_at(member.addresses[0])

    def pause(self, now: float) -> float:
        """How long after the regular comparison of now the next one comes."""
        self.push_pull.on_push_pull_due(now)
        at = self.timers.due_at(PushPullDue())
        assert at is not None
        return at - now

    def compare(self, number: int) -> None:
        """Another exchange than the regular one begins, such as a pull or a comparison that heads asked for."""
        member = self.table.get(node_id(number))
        assert member is not None
        self.push_pull.sync_with(member, 1.0)


def test_if_the_member_that_chance_chose_is_not_reached_one_that_has_answered_is_compared_with() -> None:
    office = Office(1, 2, 3)
    office.has_answered(3)
    office.push_pull.on_push_pull_due(0.0)
    assert office.links.dialled == [node_id(1)]
    office.push_pull.on_link_down(node_id(1), 5.0)
    assert office.links.dialled == [node_id(1), node_id(3)]
    assert office.counters.value("sync.instead") == 1


def test_another_exchange_meanwhile_does_not_cancel_the_second_choice() -> None:
    office = Office(1, 2, 3)
    office.push_pull.on_push_pull_due(0.0)
    office.link(2)
    office.compare(2)
    assert office.exchanges.begun == [node_id(2)]
    office.push_pull.on_link_down(node_id(1), 5.0)
    assert office.exchanges.begun == [node_id(2), node_id(2)]
    assert office.counters.value("sync.instead") == 1


def test_there_is_one_second_choice_and_none_after_a_comparison_over_a_link() -> None:
    office = Office(1, 2)
    office.has_answered(2)
    office.push_pull.on_push_pull_due(0.0)
    office.push_pull.on_link_down(node_id(1), 5.0)
    office.push_pull.on_link_down(node_id(2), 10.0)
    office.push_pull.on_link_down(node_id(1), 15.0)
    assert office.counters.value("sync.instead") == 1
    office.link(1)
    office.push_pull.on_push_pull_due(20.0)
    assert office.exchanges.begun == [node_id(1)]
    del office.links.open[node_id(1)]
    office.push_pull.on_link_down(node_id(1), 25.0)
    assert office.counters.value("sync.instead") == 1


def test_who_has_stopped_compares_with_nobody() -> None:
    office = Office(1, 2)
    office.has_answered(2)
    office.push_pull.on_push_pull_due(0.0)
    office.push_pull.stop()
    office.push_pull.on_link_down(node_id(1), 5.0)
    assert office.links.dialled == [node_id(1)]


def test_the_next_life_begins_an_exchange_with_nobody_whom_the_last_one_waited_for() -> None:
    office = Office(1, 2, 3)
    office.push_pull.first_sync(node_id(1), [], 0.0)
    office.compare(2)
    office.push_pull.stop()
    office.push_pull.on_link_up(LinkId(2), node_id(2), 1.0)
    assert office.exchanges.begun == []
    office.push_pull.first_sync(node_id(3), [], 2.0)
    assert office.links.dialled == [node_id(1), node_id(2), node_id(3)]


def test_who_waits_already_takes_no_place_of_another() -> None:
    office = Office(1, 2, 3, links_max=2)
    for number in (1, 2, 2):
        office.compare(number)
    office.push_pull.on_link_up(LinkId(1), node_id(1), 1.0)
    assert office.exchanges.begun == [node_id(1)]
    assert office.counters.value("sync.wanted_forgotten") == 0
    for number in (1, 3):
        office.compare(number)
    office.push_pull.on_link_up(LinkId(2), node_id(2), 1.0)
    assert office.exchanges.begun == [node_id(1)], "the one that waited longest has given way"
    assert office.counters.value("sync.wanted_forgotten") == 1


def test_comparisons_follow_each_other_closely_while_a_crowd_joins() -> None:
    office = Office(1)
    chance = 0.75 + 0.5 * First().random()
    pauses = []
    for number in range(2, 5):
        pauses.append(office.pause(float(number)) / chance)
        office.table.merge(Author(number).head(), float(number))
    pauses += [office.pause(now) / chance for now in (10.0, 11.0, 12.0)]
    changing = PUSH_PULL_FIRST * PUSH_PULL_SLOWER_CHANGING**3
    assert pauses == [
        PUSH_PULL_FIRST,
        PUSH_PULL_FIRST * PUSH_PULL_SLOWER_CHANGING,
        PUSH_PULL_FIRST * PUSH_PULL_SLOWER_CHANGING**2,
        changing,
        changing * PUSH_PULL_SLOWER_CHANGING,
        changing * PUSH_PULL_SLOWER_CHANGING * PUSH_PULL_SLOWER,
    ]
