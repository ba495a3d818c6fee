"""The book: the same on all nodes that have heard of the same records, whatever the order."""

from __future__ import annotations

import cbor2
import pytest

from reachp2p.core.routing.rule_book import HISTORY_MAX, Outcome, RuleBook, entry_of, read_row
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import RulesRecord
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import RulesEntry
from tests.support import node_id


def record(version: int, author: int = 1, comment: str = "") -> Checked[RulesRecord]:
    fact = RulesRecord(author=node_id(author), version=version, issued_at=0, rules=b"\xa0", comment=comment)
    digest = (f"{version} {author} {comment}".encode() + bytes(16))[:16]
    return Checked(fact, digest, f"signed {version} {author} {comment}".encode())


def test_the_highest_version_counts_then_the_author_then_the_bytes() -> None:
    book = RuleBook()
    assert book.newest is None
    first, other, same, higher = record(1), record(1, 2), record(1, 2, "z"), record(2)
    assert book.put(other) is Outcome.NEWEST
    assert book.put(first) is Outcome.ADDED
    assert book.put(same) is Outcome.NEWEST
    assert book.put(higher) is Outcome.NEWEST
    assert book.put(other) is Outcome.KNOWN
    assert book.newest is higher
    assert book.records == [first, other, same, higher]
    assert book.entries == [entry_of(one) for one in book.records]


def test_beyond_sixteen_the_lowest_are_forgotten_and_not_taken_again() -> None:
    book = RuleBook()
    for version in range(1, HISTORY_MAX + 3):
        assert book.put(record(version)) is Outcome.NEWEST
    assert [one.fact.version for one in book.records] == list(range(3, HISTORY_MAX + 3))
    assert book.put(record(2)) is Outcome.OLD
    assert not book.lacks(RulesEntry(2, node_id(1), bytes(16)))
    assert book.lacks(RulesEntry(3, node_id(2), bytes(16)))


def test_what_another_book_would_take_is_known_from_its_entries() -> None:
    ours, theirs = RuleBook(), RuleBook()
    for version in range(1, 11):
        ours.put(record(version))
    for version in range(8, 8 + HISTORY_MAX):
        theirs.put(record(version))
    assert [one.fact.version for one in theirs.missing_from(ours.entries)] == list(range(11, 8 + HISTORY_MAX))
    assert ours.missing_from(theirs.entries) == []  # all below a full book
    assert [one.fact.version for one in ours.missing_from([])] == list(range(1, 11))
    assert [one.fact.version for one in ours.get([record(3).digest, record(30).digest])] == [3]


def test_equal_books_have_equal_summaries() -> None:
    one, two = RuleBook(), RuleBook()
    assert one.summary() == two.summary()
    for version in (1, 2, 3):
        one.put(record(version))
    for version in (3, 1):
        two.put(record(version))
    assert one.summary() != two.summary()
    assert one.summary()[0] == two.summary()[0] == 3
    two.put(record(2))
    assert one.summary() == two.summary()


def test_the_row_reads_back_and_a_damaged_one_is_refused() -> None:
    book = RuleBook()
    for version in range(1, 4):
        book.put(record(version))
    assert read_row(book.row()) == [one.data for one in book.records]
    for damaged in (b"", book.row()[:-1], cbor2.dumps([1]), cbor2.dumps({}), b"\xff"):
        with pytest.raises(WireError):
            read_row(damaged)
