"""Versions are ordered as SemVer says; ranges hold what node-semver's documentation says that they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.routing.versions import (
    PARSED_MAX,
    RANGE_CHARACTERS_MAX,
    Version,
    parse_range,
    parse_version,
    read_version,
    split_target,
)
from reachp2p.errors import InvalidIdentifier

ASCENDING = [
    "0.0.0-0",
    "0.0.0",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
]
"""SemVer §11.4 has the middle of it."""


def test_versions_are_ordered_by_precedence() -> None:
    versions = [parse_version(text) for text in ASCENDING]
    assert sorted(versions) == versions
    assert len(set(versions)) == len(versions)
    assert [str(version) for version in versions] == ASCENDING


def test_build_metadata_does_not_count() -> None:
    assert parse_version("1.2.3+build.7") == parse_version("1.2.3")
    assert parse_version("1.2.3-rc-1+x") == parse_version("1.2.3-rc-1")


@pytest.mark.parametrize(
    ("wanted", "inside", "outside"),
    [
        ("1.2.3", ["1.2.3", "1.2.3+x"], ["1.2.2", "1.2.4", "1.2.3-rc.1"]),
        ("=1.2.3", ["1.2.3"], ["1.2.4"]),
        ("v1.2.3", ["1.2.3"], ["1.2.4"]),
        (">=1.2 <2", ["1.2.0", "1.99.0"], ["1.1.9", "2.0.0", "2.0.0-rc.1", "1.3.0-rc.1"]),
        (">= 1.2 < 2", ["1.2.0"], ["2.0.0"]),
        (">1.2", ["1.3.0"], ["1.2.9", "1.2.0"]),
        (">1.2.3", ["1.2.4"], ["1.2.3"]),
        (">1", ["2.0.0"], ["1.9.9"]),
        ("<=1.2", ["1.2.9", "0.0.1"], ["1.3.0"]),
        ("<=1.2.3", ["1.2.3"], ["1.2.4"]),
        ("<1.2", ["1.1.9"], ["1.2.0", "1.2.0-rc.1"]),
        ("^1.2.3", ["1.2.3", "1.9.0"], ["1.2.2", "2.0.0", "2.0.0-rc.1"]),
        ("^1.2", ["1.2.0", "1.3.0"], ["1.1.9", "2.0.0"]),
        ("^0.2.3", ["0.2.3", "0.2.9"], ["0.3.0"]),
        ("^0.0.3", ["0.0.3"], ["0.0.4"]),
        ("^0.0", ["0.0.0", "0.0.9"], ["0.1.0"]),
        ("^0.0.x", ["0.0.5"], ["0.1.0"]),
        ("^0.x", ["0.0.1", "0.9.0"], ["1.0.0"]),
        ("^1.x", ["1.0.0", "1.9.0"], ["2.0.0"]),
        ("~1.2.3", ["1.2.3", "1.2.9"], ["1.3.0", "1.2.2"]),
        ("~1.2", ["1.2.0", "1.2.9"], ["1.3.0"]),
        ("~1", ["1.0.0", "1.9.0"], ["2.0.0"]),
        ("~>1.2", ["1.2.4"], ["1.3.0"]),
        ("1.x", ["1.0.0", "1.9.9"], ["2.0.0", "0.9.9"]),
        ("1.2.*", ["1.2.0", "1.2.9"], ["1.3.0"]),
        ("1", ["1.0.0", "1.9.9"], ["2.0.0"]),
        ("*", ["0.0.0", "9.9.9"], ["1.0.0-rc.1"]),
        ("", ["1.0.0"], ["1.0.0-rc.1"]),
        ("1.2 - 2.3", ["1.2.0", "2.3.9"], ["1.1.9", "2.4.0"]),
        ("1.2.3 - 2.3.4", ["1.2.3", "2.3.4"], ["2.3.5", "1.2.2"]),
        ("1.2.3 - 2", ["2.9.9"], ["3.0.0"]),
        ("1.x || >=2.5.0 || 5.0.0 - 7.2.3", ["1.1.0", "2.5.0", "8.0.0"], ["2.4.9", "0.1.0"]),
        (">1.2.3-alpha.3", ["1.2.3-alpha.7", "3.4.5", "1.2.3"], ["1.2.3-alpha.2", "3.4.5-alpha.9"]),
        ("^1.2.3-beta.2", ["1.2.3-beta.4", "1.2.3", "1.3.0"], ["1.2.4-beta.2", "1.2.3-beta.1"]),
        ("~1.2.3-beta.2", ["1.2.3-beta.4", "1.2.9"], ["1.2.4-beta.2", "1.3.0"]),
        ("<*", [], ["0.0.0", "1.0.0"]),
        (">*", [], ["9.9.9"]),
    ],
)
def test_a_range_holds_what_its_grammar_says(wanted: str, inside: list[str], outside: list[str]) -> None:
    held = parse_range(wanted)
    assert [text for text in inside if parse_version(text) not in held] == []
    assert [text for text in outside if parse_version(text) in held] == []


@pytest.mark.parametrize(
    "wanted",
    ["latest", "1.2.3.4", ">>1", "^", "1.2.3 -2", "01.2", "1..2", "1.2.3-", "a" * 300, "^1,2", "1." * 9],
)
def test_what_is_no_range_is_refused_with_the_part_that_is_not_understood(wanted: str) -> None:
    with pytest.raises(InvalidIdentifier, match=r"version range .* \[1707\]"):
        parse_range(wanted)
    if wanted == ">>1":
        with pytest.raises(InvalidIdentifier, match=r"'>1' is not understood"):
            parse_range(wanted)


def test_the_bounds_are_what_they_say() -> None:
    assert parse_version("1.0.0") in parse_range("1.0.0" + " " * (RANGE_CHARACTERS_MAX - 5))
    assert parse_range.cache_info().maxsize == read_version.cache_info().maxsize == PARSED_MAX
    assert parse_range("^1.2") is parse_range("^1.2")


def test_a_target_may_name_a_range() -> None:
    assert split_target("nlp/summarizer") == ("nlp/summarizer", None)
    assert split_target("nlp/summarizer@^1.2") == ("nlp/summarizer", "^1.2")
    assert split_target("text.summarize@>=1 <2") == ("text.summarize", ">=1 <2")
    for text in ("a/b@", "a/b@ ", "a/b@^", "a/b@1@2"):
        with pytest.raises(InvalidIdentifier):
            split_target(text)


numbers = st.integers(0, 4)
prereleases = st.sampled_from(["", "-0", "-1", "-a", "-a.1", "-rc"])
versions = st.builds(lambda a, b, c, p: f"{a}.{b}.{c}{p}", numbers, numbers, numbers, prereleases)


def _caret_top(version: Version) -> tuple[int, int, int]:
    major, minor, patch = version.triple
    if major:
        return major + 1, 0, 0
    return (0, minor + 1, 0) if minor else (0, 0, patch + 1)


@given(versions, versions)
def test_comparators_agree_with_the_order_and_pre_releases_need_to_be_named(one: str, two: str) -> None:
    version, bound = parse_version(one), parse_version(two)
    may = version.is_release or (not bound.is_release and bound.triple == version.triple)
    for operator, holds in (
        (">=", version >= bound),
        (">", version > bound),
        ("<=", version <= bound),
        ("<", version < bound),
        ("", version == bound),
        ("^", bound <= version and version.triple < _caret_top(bound)),
        ("~", bound <= version and version.triple < (bound.major, bound.minor + 1, 0)),
    ):
        assert (version in parse_range(operator + two)) is (holds and may), operator
    assert version in parse_range(one)


@given(st.text(max_size=12))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        parse_range(text)
    except InvalidIdentifier:
        return
    assert all(part in "0123456789.xX*<>=^~|-+ v" or part.isspace() or part.isalnum() for part in text)
