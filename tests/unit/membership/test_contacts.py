"""Looking for others and never giving up: who is dialled when, and what is remembered (case B12)."""

from __future__ import annotations

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, LinkEnd
from reachp2p.core.events import Joined, MemberState, SeedUnreached, SelfContacted
from reachp2p.core.ids import Address, LinkId, NodeId, Rng
from reachp2p.core.membership.contacts import BOOK_MAX, SEEDS_MAX, ContactDue, Contacts
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from tests.support import Author, Steady, address, events, node_id, seeded

DEAD = MemberState.DEAD


class Search:
    """Node 50 looking for others. Dials stay open until a test ends them."""

    def __init__(self, *seeds: int, rng: Rng | None = None) -> None:
        self.now = 0.0
        self.counters = Counters()
        self.timers = Timers()
        self.effects = Effects()
        self.table = MemberTable(node_id(50), 10_000, self.counters)
        self.open: dict[LinkId, Address] = {}
        self.is_full = False
        self.contacts = Contacts(
            Protocol(),
            self.table,
            self._dial,
            effects=self.effects,
            timers=self.timers,
            rng=rng or Steady(),
            counters=self.counters,
        )
        self.contacts.set_seeds([address(number) for number in seeds], 0.0)

    def _dial(self, to: Address, node: NodeId | None, now: float) -> LinkId | None:
        assert node is None, "whoever answers there is welcome"
        if self.is_full:
            return None
        link = LinkId(len(self.open) + 1)
        self.open[link] = to
        return link

    def meet(self, *numbers: int, state: MemberState = MemberState.ALIVE) -> None:
        for number in numbers:
            self.table.merge(Author(number).head(), self.now)
            if state is not MemberState.ALIVE:
                self.table.doubt(node_id(number), state, self.now, "")

    def due(self) -> float:
        """When the next round is due."""
        at = self.timers.due_at(ContactDue())
        assert at is not None
        return at

    def round(self) -> list[int]:
        """Let the next round come; the numbers of those dialled, none of whom answers."""
        self.now = self.due()
        assert self.timers.pop_due(self.now) == ContactDue()
        self.contacts.on_contact_due(self.now)
        return self.fail_all()

    def fail_all(self) -> list[int]:
        dialled = list(self.open.items())
        self.open.clear()
        for link, _ in dialled:
            assert self.contacts.on_link_down(link)
        return [number_of(to) for _, to in dialled]


def number_of(to: Address) -> int:
    high, low = to.host.split(".")[2:]
    return int(high) * 256 + int(low)


# Alone


def test_a_node_that_knows_nobody_dials_all_its_seeds_again_and_again_ever_more_slowly() -> None:
    search = Search(1, 2, 3)
    search.contacts.start(0.0)
    times = []
    for _ in range(12):
        assert search.round() == [1, 2, 3]
        times.append(search.due() - search.now)
    assert times == [pytest.approx(at) for at in (1.0, 1.5, 2.25, 3.375, 5.0625, 7.59375, 10.0, *[10.0] * 5)]


def test_rounds_are_jittered() -> None:
    delays = []
    for seed in range(30):
        search = Search(1, rng=seeded(seed))
        search.contacts.start(0.0)
        search.round()
        delays.append(search.due() - search.now)
    assert all(0.75 <= delay <= 1.25 for delay in delays)
    assert len(set(delays)) == 30


def test_a_seed_that_is_being_dialled_is_not_dialled_twice() -> None:
    search = Search(1, 2)
    search.contacts.start(0.0)
    for _ in range(3):
        search.now = search.due()
        search.timers.pop_due(search.now)
        search.contacts.on_contact_due(search.now)
    assert len(search.open) == 2


def test_no_room_for_a_dial_is_no_trouble() -> None:
    search = Search(1)
    search.contacts.start(0.0)
    search.is_full = True
    assert search.round() == []
    search.is_full = False
    assert search.round() == [1]


def test_besides_seeds_the_lost_are_dialled_eight_a_round_until_all_had_their_turn() -> None:
    search = Search(1)
    search.meet(*range(100, 120), state=DEAD)
    search.contacts.start(0.0)
    rounds = [search.round() for _ in range(5)]
    assert all(turn[0] == 1 and len(turn) == 9 for turn in rounds)
    assert sorted({number for turn in rounds for number in turn[1:]}) == list(range(100, 120))


def test_new_seeds_are_dialled_at_once_while_nobody_has_answered() -> None:
    search = Search(1)
    search.contacts.start(0.0)
    for _ in range(6):
        search.round()
    search.contacts.set_seeds([address(1)], search.now)
    assert search.due() > search.now  # the same ones: nothing new
    search.contacts.set_seeds([address(9)], search.now)
    assert search.due() == search.now
    assert search.round() == [9]


def test_seeds_are_taken_once_and_up_to_a_bound() -> None:
    search = Search(*range(1, SEEDS_MAX + 10), 1, 2, 3)
    assert len(search.contacts.seeds) == SEEDS_MAX
    assert search.counters.value("dropped.seeds") == 9


# With company


def test_the_first_answer_is_joining_and_is_said_once() -> None:
    search = Search(1)
    search.contacts.start(0.0)
    search.contacts.joined(address(1), 1.0)
    search.contacts.joined(address(2), 2.0)
    assert events(search.effects) == [Joined(at=1.0, via=address(1))]


def test_a_node_with_company_dials_one_of_the_lost_a_turn_for_ever() -> None:
    search = Search(1, 2)
    search.meet(2)  # this seed is a present member
    search.meet(3, 4, state=DEAD)
    search.contacts.remember(node_id(5), (address(5),))
    search.contacts.start(0.0)
    search.contacts.joined(None, 0.0)
    turns = [search.round() for _ in range(400)]
    assert all(len(turn) == 1 for turn in turns)
    assert [turn[0] for turn in turns[:8]] == [3, 4, 5, 1, 3, 4, 5, 1]
    assert search.now == pytest.approx(45.0 + 399 * 60.0)  # every minute, for as long as it runs
    assert search.counters.value("contacts.recontacted") == 400


def test_a_node_that_has_lost_nobody_dials_nobody() -> None:
    search = Search(2)
    search.meet(2, 3)
    search.contacts.start(0.0)
    search.contacts.joined(None, 0.0)
    assert search.round() == []
    assert search.due() == search.now + 60.0


def test_who_has_left_is_not_looked_for() -> None:
    search = Search()
    search.table.merge(Author(3).head(left=True), 0.0)
    search.contacts.start(0.0)
    assert search.round() == []


def test_a_node_that_is_alone_again_dials_everybody_soon() -> None:
    search = Search(1)
    search.contacts.start(0.0)
    search.contacts.joined(None, 0.0)
    search.meet(3, state=DEAD)
    search.contacts.alone(500.0)
    assert search.due() == 500.5
    assert search.round() == [1, 3]
    search.contacts.joined(None, search.now)
    assert len([e for e in events(search.effects) if isinstance(e, Joined)]) == 2


def test_a_node_that_loses_its_company_at_once_keeps_its_pace() -> None:
    search = Search(1)
    search.contacts.start(0.0)
    for _ in range(9):
        search.round()
    search.contacts.joined(None, 100.0)
    search.contacts.alone(100.0, begin_anew=False)
    assert search.due() == 100.0 + 10.0 / 2


def test_after_a_partition_a_hundred_times_as_long_as_the_time_outs_the_lost_are_still_dialled() -> None:
    """Case B12: nothing that knows an address forgets it while the other side is away."""
    search = Search()
    search.meet(1, 2, 3, state=DEAD)
    search.contacts.start(0.0)
    for number in (1, 2, 3):  # their retention ends: rows become entries of the address book
        search.table.forget(node_id(number), "its retention is over")
        search.contacts.remember(node_id(number), (address(number),))
    while search.now < 100 * 144.0:  # the longest suspicion in the largest cluster
        assert sorted(search.round()) == [1, 2, 3]
    assert search.due() - search.now == 10.0


# Before announcing ourselves


def test_a_starting_node_asks_up_to_three_seeds_and_three_others() -> None:
    search = Search(1, 2, 3, 4, 5)
    search.meet(10, 11, 12, 13)
    search.contacts.remember(node_id(20), (address(20), address(21)))
    assert search.contacts.ask(0.0) == 6
    assert search.fail_all() == [1, 2, 3, 10, 11, 12]


def test_a_starting_node_without_anybody_to_ask_asks_nobody() -> None:
    assert Search().contacts.ask(0.0) == 0


def test_only_dials_that_were_made_count_as_asked() -> None:
    search = Search(1, 2)
    search.is_full = True
    assert search.contacts.ask(0.0) == 0


# Links


def test_a_link_that_was_dialled_to_find_somebody_is_known_once() -> None:
    search = Search(1)
    search.contacts.ask(0.0)
    (link,) = search.open
    assert search.contacts.on_link_up(link, node_id(1))
    assert not search.contacts.on_link_up(link, node_id(1))
    assert not search.contacts.on_link_down(link)
    assert not search.contacts.on_link_down(LinkId(999))


def test_a_contact_that_hangs_up_before_it_has_answered_is_not_waited_for() -> None:
    search = Search(1, 2)
    search.contacts.ask(0.0)
    first, second = search.open
    for link, number in ((first, 1), (second, 2)):
        assert search.contacts.on_link_up(link, node_id(number))
        search.contacts.on_asked(link)
    search.contacts.on_answered(first)
    assert not search.contacts.on_link_down(first), "it has answered"
    assert search.contacts.on_link_down(second)
    assert not search.contacts.on_link_down(second), "once"


def unreached(search: Search) -> list[tuple[int, int, str]]:
    return [
        (number_of(one.address), one.code, one.reason)
        for one in events(search.effects)
        if isinstance(one, SeedUnreached)
    ]


def test_a_seed_that_is_not_reached_is_told_once_for_each_reason_and_again_after_it_was_reached() -> None:
    search = Search(1, 2)
    for _ in range(3):
        search.contacts.on_unreached(address(1), LinkEnd.REFUSED, 0, "", 1.0)
    assert unreached(search) == [(1, 1701, "nobody listens there")]
    for _ in range(3):
        search.contacts.on_unreached(address(1), LinkEnd.GOODBYE, 1705, "two clusters", 2.0)
    assert unreached(search) == [(1, 1705, "two clusters")]
    search.contacts.ask(2.0)
    (link,) = [link for link, to in search.open.items() if to == address(1)]
    search.contacts.on_link_up(link, node_id(1))
    search.contacts.on_unreached(address(1), LinkEnd.GOODBYE, 1705, "two clusters", 3.0)
    assert unreached(search) == [(1, 1705, "two clusters")]
    assert search.counters.snapshot()["contacts.seed_unreached"] == 3


def test_only_a_seed_that_others_have_made_unreachable_is_told() -> None:
    search = Search(1)
    search.contacts.on_unreached(address(2), LinkEnd.REFUSED, 0, "", 1.0)
    search.contacts.on_unreached(address(1), LinkEnd.GOODBYE, 0, "another link is used", 1.0)
    assert unreached(search) == []
    search.contacts.ask(1.0)
    (link,) = search.open
    search.contacts.stop()
    assert not search.contacts.on_link_down(link), "its end is our own doing"


def test_whoever_answers_needs_no_entry_in_the_book() -> None:
    search = Search()
    search.contacts.remember(node_id(5), (address(5),))
    search.contacts.on_link_up(LinkId(7), node_id(5))
    assert len(search.contacts) == 0


def test_reaching_oneself_is_said_once_and_not_tried_again_until_the_seeds_change() -> None:
    search = Search(1, 2)
    search.contacts.start(0.0)
    search.contacts.ask(0.0)
    assert search.contacts.on_self(address(1), 1.0)
    assert not search.contacts.on_self(address(1), 2.0)
    assert events(search.effects) == [SelfContacted(at=1.0, address=address(1))]
    assert not search.contacts.has_joined
    search.open = {link: to for link, to in search.open.items() if to != address(1)}
    search.fail_all()
    assert search.round() == [2]
    search.contacts.set_seeds([address(1)], search.now)
    assert search.round() == [1]


# Bounds


def test_the_book_forgets_the_longest_unheard_of_first() -> None:
    search = Search()
    for number in range(BOOK_MAX + 5):
        search.contacts.remember(node_id(number), (address(number),))
    assert len(search.contacts) == BOOK_MAX
    assert search.counters.value("address_book.evicted") == 5
    assert number_of(search.contacts._lost()[0]) == 5
    search.contacts.remember(node_id(5), (address(5),))  # heard of again
    assert number_of(search.contacts._lost()[0]) == 6


def test_a_node_without_addresses_is_not_remembered() -> None:
    search = Search()
    search.contacts.remember(node_id(1), (address(1),))
    search.contacts.remember(node_id(1), ())
    assert len(search.contacts) == 0


def test_a_node_that_stops_looks_no_more() -> None:
    search = Search(1)
    search.contacts.start(0.0)
    search.contacts.stop()
    assert len(search.timers) == 0
    search.contacts.joined(None, 1.0)
    search.contacts.alone(2.0)
    search.contacts.set_seeds([address(9)], 3.0)
    assert len(search.timers) == 0
