"""Patterns match as the page says, and the trie gives what looking at every pattern would give."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.counters import Counters
from reachp2p.core.ids import check_pattern, check_topic, is_pattern, is_topic
from reachp2p.core.topics.interest import PATTERNS_PER_NODE_MAX, Interest
from reachp2p.core.topics.matching import REMEMBERED_MAX, Matching
from reachp2p.errors import InvalidIdentifier
from tests.support import node_id

CASES = [
    ("orders.*.created", "orders.eu.created", True),
    ("orders.*.created", "orders.created", False),
    ("orders.*.created", "orders.eu.west.created", False),
    ("orders.*", "orders.created", True),
    ("orders.*", "orders", False),
    ("orders.>", "orders.created", True),
    ("orders.>", "orders.eu.created", True),
    ("orders.>", "orders", False),
    (">", "orders", True),
    ("*", "orders", True),
    ("*.>", "orders", False),
    ("*.>", "orders.created", True),
    ("Orders", "orders", False),
    ("orders", "orders.created", False),
]


def matches(pattern: str, topic: str) -> bool:
    """The rule, written out."""
    wanted, tokens = pattern.split("."), topic.split(".")
    if wanted[-1] == ">":
        wanted = wanted[:-1]
        tokens, rest = tokens[: len(wanted)], tokens[len(wanted) :]
        if not rest:
            return False
    return len(wanted) == len(tokens) and all(w in ("*", t) for w, t in zip(wanted, tokens, strict=True))


@pytest.mark.parametrize(("pattern", "topic", "expected"), CASES)
def test_patterns_match_as_the_page_says(pattern: str, topic: str, expected: bool) -> None:
    matching: Matching[int] = Matching()
    assert matching.add(pattern, 1)
    assert (matching.match(topic) == (1,)) is expected
    assert matches(pattern, topic) is expected


token = st.sampled_from(["a", "b", "c"])
topics = st.lists(token, min_size=1, max_size=4).map(".".join)
patterns = st.tuples(
    st.lists(st.sampled_from(["a", "b", "*"]), min_size=0, max_size=3), st.sampled_from(["a", "b", "*", ">"])
).map(lambda parts: ".".join([*parts[0], parts[1]]))


@given(
    st.lists(st.tuples(st.booleans(), patterns, st.integers(0, 3)), max_size=40),
    st.lists(topics, min_size=1, max_size=5),
)
def test_the_trie_gives_what_a_look_at_every_pattern_gives(
    steps: list[tuple[bool, str, int]], asked: list[str]
) -> None:
    matching: Matching[int] = Matching()
    held: dict[tuple[str, int], None] = {}
    for adds, pattern, value in steps:
        if adds:
            assert matching.add(pattern, value) is ((pattern, value) not in held)
            held[pattern, value] = None
        else:
            assert matching.remove(pattern, value) is ((pattern, value) in held)
            held.pop((pattern, value), None)
        for topic in asked:
            expected = {value for pattern, value in held if matches(pattern, topic)}
            assert set(matching.match(topic)) == expected
    assert matching.size == len(held)
    for pattern, value in held:
        matching.remove(pattern, value)
    assert matching._root.is_empty, "nothing is left of what has gone"


def test_a_publication_among_many_subscribers_visits_only_its_branches() -> None:
    matching: Matching[int] = Matching()
    for number in range(1_000):
        matching.add(f"orders.shop-{number}.*", number)
    visited = 0
    branches = matching._root.branches["orders"].branches

    class Counting(dict):  # type: ignore[type-arg]
        def get(self, key: object, default: object = None) -> object:
            nonlocal visited
            visited += 1
            return super().get(key, default)

    matching._root.branches["orders"].branches = Counting(branches)
    assert matching.match("orders.shop-7.created") == (7,)
    assert visited == 2


def test_remembered_topics_are_bounded() -> None:
    matching: Matching[int] = Matching()
    matching.add(">", 1)
    for number in range(REMEMBERED_MAX + 10):
        assert matching.match(f"t{number}") == (1,)
    assert len(matching._remembered) == REMEMBERED_MAX


@pytest.mark.parametrize(
    "text", ["a", "a.b-c.D_9", ".".join(["x"] * 16), "x" * 64 + "." + "y" * 64, "4711.created"]
)
def test_topics(text: str) -> None:
    assert check_topic(text) == check_pattern(text) == text


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", "a b", "ä", "a.*", ">", ".".join(["x"] * 17), "x" * 65, "a\n"]
)
def test_what_is_no_topic(text: str) -> None:
    assert not is_topic(text)
    with pytest.raises(InvalidIdentifier, match=re.escape("orders.eu.created")):
        check_topic(text)


@pytest.mark.parametrize("text", ["a.>.b", "a*", "**", "", "a.>>", "*.", ".".join(["*"] * 17)])
def test_what_is_no_pattern(text: str) -> None:
    assert not is_pattern(text)
    with pytest.raises(InvalidIdentifier, match=re.escape("orders.*.created")):
        check_pattern(text)


def test_a_topic_with_wildcards_is_told_who_may_use_them() -> None:
    with pytest.raises(InvalidIdentifier, match="for those who subscribe"):
        check_topic("orders.*")


def test_interest_follows_records() -> None:
    interest = Interest(Counters())
    one, other = node_id(1), node_id(2)
    interest.put(one, "a/a", ["orders.>", "orders.*"])
    interest.put(one, "a/b", ["orders.>"])
    interest.put(other, "a/a", ["orders.eu"])
    assert interest.targets("orders.eu") == (one, other) or interest.targets("orders.eu") == (other, one)
    interest.put(one, "a/a", [])
    assert interest.targets("orders.us") == (one,), "its other record still wants it"
    assert not interest.has(one, "a/a")
    interest.put(one, "a/b", ["carts.>"])
    assert interest.targets("orders.us") == ()
    interest.put(one, "a/b", [])
    interest.put(other, "a/a", [])
    assert interest.size == 0
    assert not interest._patterns


def test_what_a_record_may_want_is_bounded() -> None:
    counters = Counters()
    interest = Interest(counters)
    interest.put(node_id(1), "a/a", ["not a pattern", *(f"t{n}" for n in range(PATTERNS_PER_NODE_MAX + 5))])
    assert interest.size == PATTERNS_PER_NODE_MAX
    assert counters.value("topics.patterns_refused") == 5
    assert counters.value("dropped.record.bad_pattern") == 1
    interest.put(node_id(1), "a/a", ["t0"])
    assert interest.size == 1
