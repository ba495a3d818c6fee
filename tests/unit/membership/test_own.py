"""A node speaking of itself: only here its numbers rise, and one set of numbers has one body (cases B03, B22)."""

from __future__ import annotations

from random import Random

import pytest

from reachp2p.core.clock import WallClock
from reachp2p.core.counters import Counters
from reachp2p.core.ids import COUNTER_MAX, Address
from reachp2p.core.membership.member import Precedence, precedence
from reachp2p.core.membership.own import OwnNode
from reachp2p.core.trust.facts import FactChecker
from tests.support import CLUSTER, WALL, Author, KeyedHash, address, life, node_id, settings


class Self:
    """Node 50's numbers, with a clock."""

    def __init__(self) -> None:
        self.clock = WallClock()
        self.clock.report(WALL, 0.0)
        author = Author(50)
        checker = FactChecker(KeyedHash(author.node), CLUSTER, Counters())
        self.own = OwnNode(author.node, settings(50), author.signer, checker, self.clock)


@pytest.fixture
def own() -> OwnNode:
    own = Self().own
    own.open(life(1), 0.0)
    return own


def test_a_head_says_who_and_where_in_which_life(own: OwnNode) -> None:
    fact = own.head(0.0).fact
    assert (fact.node, fact.life, fact.incarnation, fact.version, fact.left) == (
        node_id(50),
        life(1),
        0,
        0,
        False,
    )
    assert (fact.name, fact.addresses, fact.floor) == ("n50", [address(50)], 0)
    assert (fact.issued_at, fact.valid_for) == (WALL, 3_600)


def test_a_head_is_the_same_bytes_until_a_number_changes(own: OwnNode) -> None:
    first = own.head(0.0)
    assert own.head(1_000.0) is first
    assert own.next_version() == 1
    second = own.head(1_000.0)
    assert precedence(second, first) is Precedence.UPDATES
    assert second.fact.issued_at == WALL + 1_000


def test_nothing_is_signed_before_a_life_is_open() -> None:
    with pytest.raises(AssertionError):
        Self().own.head(0.0)


def test_a_life_begins_with_fresh_numbers_and_lives_only_grow(own: OwnNode) -> None:
    own.next_version()
    own.refute(0)
    own.floor = 1
    own.leave()
    own.open(life(1, salt=1), 7.0)
    assert own.since == 7.0
    fact = own.head(0.0).fact
    assert (fact.life, fact.incarnation, fact.version, fact.floor, fact.left) == (
        life(1, salt=1),
        0,
        0,
        0,
        False,
    )
    for not_above in (life(1), life(1, salt=1)):
        with pytest.raises(AssertionError):
            own.open(not_above, 0.0)


def test_a_refutation_is_one_step_above_the_accusation_of_the_present_incarnation(own: OwnNode) -> None:
    first = own.head(0.0)
    assert own.refute(0)
    assert own.incarnation == 1
    assert precedence(own.head(0.0), first) is Precedence.REFUTES


@pytest.mark.parametrize("incarnation", [0, 2, COUNTER_MAX])
def test_an_accusation_of_another_incarnation_raises_nothing(own: OwnNode, incarnation: int) -> None:
    own.refute(0)
    assert not own.refute(incarnation)
    assert own.incarnation == 1


def test_a_node_that_has_left_refutes_nothing(own: OwnNode) -> None:
    alive = own.head(0.0)
    own.leave()
    assert not own.refute(0)
    assert precedence(own.head(0.0), alive) is Precedence.LEFT


def test_leaving_twice_signs_the_same_word(own: OwnNode) -> None:
    own.leave()
    first = own.head(0.0)
    own.leave()
    assert own.head(9.0) is first


def test_new_addresses_take_a_version_and_the_old_ones_take_none(own: OwnNode) -> None:
    own.readdress((address(50),))
    assert own.version == 0
    moved = Address("::1", 7946)
    own.readdress((moved,))
    assert own.version == 1
    assert own.head(0.0).fact.addresses == [moved]


def test_running_out_of_numbers_is_noticed(own: OwnNode) -> None:
    assert not own.is_used_up
    own.version = COUNTER_MAX
    assert own.is_used_up
    own.open(life(2), 0.0)
    own.incarnation = COUNTER_MAX
    assert own.is_used_up


@pytest.mark.parametrize("seed", range(20))
def test_no_two_bodies_are_ever_signed_with_one_set_of_numbers(seed: int) -> None:
    mine = Self()
    own, random = mine.own, Random(seed)
    own.open(life(1), 0.0)
    signed: dict[tuple[object, ...], bytes] = {}
    for step in range(200):
        now = float(step)
        match random.randrange(7):
            case 0:
                own.next_version()
            case 1:
                own.refute(random.randrange(own.incarnation + 2))
            case 2:
                own.readdress((address(random.randrange(3)),))
            case 3 if random.random() < 0.1:
                own.leave()
            case 4 if random.random() < 0.1:
                assert own.life is not None
                own.open(life(own.life.epoch + 1), now)
            case 5:
                mine.clock.report(WALL + random.randrange(-10_000, 10_000), now)
        head = own.head(now)
        fact = head.fact
        numbers = (fact.life, fact.left, fact.incarnation, fact.version)
        assert signed.setdefault(numbers, head.data) == head.data
