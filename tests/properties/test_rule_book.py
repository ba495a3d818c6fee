"""Books that have seen the same records are equal, in whatever order and however often they came, and after any
exchanges in which each pair has told the other what it lacks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from reachp2p.core.routing.rule_book import HISTORY_MAX, RuleBook, entry_of
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import RulesRecord
from tests.unit.routing.test_rule_book import record

records = st.builds(record, st.integers(1, 12), st.integers(1, 3))


def book_of(given_records: list[Checked[RulesRecord]]) -> RuleBook:
    book = RuleBook()
    for one in given_records:
        book.put(one)
    return book


@given(st.lists(records, max_size=40), st.randoms(use_true_random=False))
def test_order_and_repetition_make_no_difference(
    given_records: list[Checked[RulesRecord]], chance: object
) -> None:
    shuffled = [*given_records, *given_records[:5]]
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    book = book_of(given_records)
    assert book_of(shuffled).entries == book.entries
    highest = sorted({entry_of(one) for one in given_records})[-HISTORY_MAX:]
    assert book.entries == highest


@settings(max_examples=50)
@given(st.lists(records, max_size=30), st.lists(records, max_size=30))
def test_one_exchange_makes_two_books_equal(
    left: list[Checked[RulesRecord]], right: list[Checked[RulesRecord]]
) -> None:
    one, other = book_of(left), book_of(right)
    for_other, for_one = one.missing_from(other.entries), other.missing_from(one.entries)
    for each in for_other:
        other.put(each)
    for each in for_one:
        one.put(each)
    assert one.entries == other.entries
    assert one.summary() == other.summary()
