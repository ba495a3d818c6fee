"""Who owns an exclusive agent follows from the records alone, whatever the order in which they came."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import CLAIM_EPOCH_MAX, NodeId
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.registry.claims import REMEMBERED_MAX, Claims, fencing_token, owner_of, turn_key
from reachp2p.core.registry.own_claims import TRANSITIONS, ClaimState
from reachp2p.core.wire.facts import Claim
from tests.support import Author, node_id

AGENT = "pay/ledger"
PATIENCE = 4.0
OWN = node_id(1)


def table(*numbers: int, left: int | None = None) -> MemberTable:
    members = MemberTable(OWN, 100, Counters())
    for number in numbers:
        members.merge(Author(number).head(left=number == left), 0.0)
    return members


def claims(*numbers: int, left: int | None = None) -> Claims:
    return Claims(table(*numbers, left=left), Counters())


@pytest.mark.parametrize(
    ("epochs", "highest", "owner"),
    [
        ({}, 0, None),
        ({1: 0, 2: 0}, 0, None),
        ({1: 3, 2: 0}, 3, 1),
        ({1: 3, 2: 4}, 4, 2),
        ({1: 4, 2: 4}, 4, 2),
        ({1: 4, 2: 4}, 5, None),
        ({1: 0, 2: 0}, 4, None),
    ],
)
def test_the_highest_claim_owns_and_one_below_the_highest_epoch_owns_nothing(
    epochs: dict[int, int], highest: int, owner: int | None
) -> None:
    found = owner_of({node_id(number): epoch for number, epoch in epochs.items()}, highest)
    assert found == (None if owner is None else node_id(owner))


@given(st.tuples(*[st.integers(0, CLAIM_EPOCH_MAX), st.integers(1, 9)] * 2))
def test_tokens_are_ordered_as_claims_and_fit_a_signed_column(pair: tuple[int, int, int, int]) -> None:
    one, other = (pair[0], node_id(pair[1])), (pair[2], node_id(pair[3]))
    assert (fencing_token(*one) < fencing_token(*other)) == (one < other)
    assert 0 <= fencing_token(*one) < 2**63


records = st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 3))
"""A node, and what it says last: the epoch held and the highest one heard of."""


@given(st.lists(records, min_size=1, max_size=4, unique_by=lambda r: r[0]), st.data())
def test_the_owner_does_not_depend_on_the_order_of_hearing(
    said: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    found = []
    for _ in range(2):
        view = claims(2, 3, 4)
        for number, epoch, highest in data.draw(st.permutations(said)):
            view.on_record(node_id(number), AGENT, Claim(epoch, max(epoch, highest)), 1.0, PATIENCE)
        found.append((view.owner(AGENT), view.highest(AGENT)))
    assert found[0] == found[1]


@given(
    st.lists(st.tuples(records, st.booleans(), st.sampled_from(["record", "withdrawn", "gone"])), max_size=30)
)
def test_the_highest_epoch_never_goes_down(steps: list[tuple[tuple[int, int, int], bool, str]]) -> None:
    view = claims(2, 3, 4)
    highest = 0
    for (number, epoch, heard), _, what in steps:
        node, claim = node_id(number), Claim(epoch, max(epoch, heard))
        if what == "record":
            view.on_record(node, AGENT, claim, 1.0, PATIENCE)
        else:
            view.on_gone(node, AGENT, claim if what == "withdrawn" else None, 1.0, PATIENCE)
        assert view.highest(AGENT) >= highest
        highest = view.highest(AGENT)
        owner = view.owner(AGENT)
        assert owner is None or AGENT in view.agents_of(owner)


def free_at(view: Claims) -> float | None:
    return view.free_at(AGENT, OWN, buried=8.0)


def test_what_nobody_has_owned_is_free_when_the_others_have_been_heard() -> None:
    view = claims(2)
    view.on_record(OWN, AGENT, Claim(0, 0), 10.0, PATIENCE)
    assert free_at(view) == 10.0 + PATIENCE / 2


def test_an_owner_that_is_there_is_waited_for() -> None:
    view = claims(2)
    view.on_record(OWN, AGENT, Claim(0, 0), 10.0, PATIENCE)
    view.on_record(node_id(2), AGENT, Claim(1, 1), 11.0, PATIENCE)
    assert free_at(view) is None


@pytest.mark.parametrize("how", ["withdrawn", "new life", "stands by"])
def test_what_its_owner_has_let_go_is_free_at_once(how: str) -> None:
    view = claims(2)
    view.on_record(OWN, AGENT, Claim(0, 0), 10.0, PATIENCE)
    view.on_record(node_id(2), AGENT, Claim(1, 1), 11.0, PATIENCE)
    if how == "stands by":
        view.on_record(node_id(2), AGENT, Claim(0, 1), 50.0, PATIENCE)
    else:
        view.on_gone(node_id(2), AGENT, Claim(0, 1) if how == "withdrawn" else None, 50.0, PATIENCE)
    assert free_at(view) == 50.0


def test_an_owner_that_steps_back_because_of_a_higher_claim_frees_nothing() -> None:
    view = claims(2, 3)
    view.on_record(OWN, AGENT, Claim(0, 0), 10.0, PATIENCE)
    view.on_record(node_id(2), AGENT, Claim(1, 1), 11.0, PATIENCE)
    view.on_record(node_id(2), AGENT, Claim(0, 2), 50.0, PATIENCE)
    assert free_at(view) == 50.0 + PATIENCE, "the claim it has heard of is on its way"
    view.on_record(node_id(3), AGENT, Claim(2, 2), 51.0, PATIENCE)
    assert free_at(view) is None


def test_a_dead_owner_is_doubted_and_one_that_has_left_is_not() -> None:
    members = table(2, 3)
    view = Claims(members, Counters())
    view.on_record(OWN, AGENT, Claim(0, 0), 1.0, PATIENCE)
    view.on_record(node_id(2), AGENT, Claim(1, 1), 2.0, PATIENCE)
    members.doubt(node_id(2), MemberState.SUSPECT, 20.0, "")
    assert free_at(view) is None
    members.doubt(node_id(2), MemberState.DEAD, 30.0, "")
    assert free_at(view) == 38.0
    view.on_record(node_id(2), AGENT, Claim(2, 2), 100.0, PATIENCE)
    assert free_at(view) == 38.0, "it owned it before"
    view.on_record(node_id(3), AGENT, Claim(3, 3), 100.0, PATIENCE)
    members.doubt(node_id(3), MemberState.DEAD, 50.0, "")
    assert free_at(view) == 108.0, "we have only now heard that it is the owner"
    assert view.turn(AGENT, OWN) == 0, "the dead have no turn"
    members.merge(Author(3).head(left=True), 200.0)
    assert free_at(view) == 200.0


def test_turns_follow_the_hash_of_those_who_stand_by_and_may_be_alive() -> None:
    view = claims(2, 3, 4, 5, left=5)
    for number in (1, 2, 3, 4, 5):
        view.on_record(node_id(number), AGENT, Claim(int(number == 4), 1), 1.0, PATIENCE)
    standing_by = sorted((node_id(n) for n in (1, 2, 3)), key=lambda node: turn_key(AGENT, node))
    assert [view.turn(AGENT, node) for node in standing_by] == [0, 1, 2]


def test_different_agents_have_different_first_standbys() -> None:
    nodes = [node_id(number) for number in range(8)]
    firsts = {min(nodes, key=lambda node: turn_key(f"pay/ledger-{n}", node)) for n in range(64)}
    assert len(firsts) == 8


def test_epochs_of_agents_that_nobody_offers_are_remembered_within_bounds() -> None:
    counters = Counters()
    view = Claims(table(2), counters)
    view.recall(AGENT, 9)
    assert view.highest(AGENT) == 9
    view.on_record(OWN, AGENT, Claim(0, 0), 1.0, PATIENCE)
    assert free_at(view) == 1.0 + PATIENCE, "its owner may be about to be heard of"
    view.on_gone(OWN, AGENT, None, 2.0, PATIENCE)
    for number in range(REMEMBERED_MAX):
        view.on_gone(NodeId(bytes(32)), f"a/n{number}", Claim(0, 1), 3.0, PATIENCE)
    assert view.highest(AGENT) == 0
    assert counters.value("claims.forgotten") == 1
    assert view.sizes() == {"claims.agents": 0, "claims.remembered": REMEMBERED_MAX}


def test_the_page_shows_the_transitions() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/protocol/claims.md").read_text()
    shown = set(re.findall(r"^    (\w+) --> (\w+) : (\w+)$", page, re.MULTILINE))
    assert shown == {(old.name, new.name, what.name) for (old, what), new in TRANSITIONS.items()}
    assert {old for old, _ in itertools.chain(TRANSITIONS)} == set(ClaimState)
