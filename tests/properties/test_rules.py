"""Rules in all their forms say the same, and reading them ends in rules or in words, never in anything else."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.routing.rule_reading import RulesInvalid, read_rules
from reachp2p.core.routing.rule_text import (
    decode_rules,
    differences,
    document_of,
    encode_rules,
    to_toml,
)
from reachp2p.core.routing.rules import Layer, Match, Rule, RuleSet, RulesInForce, Sticky, Timeouts

POLICIES = ("consistent_hash", "random", "round_robin")

text = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=12).filter(
    str.isprintable
)
key = st.sampled_from(["env", "team", "cost_tier"])
seconds = st.none() | st.integers(1, 50_000).map(lambda ms: ms / 1000)
matches = st.builds(
    Match,
    capability=st.sampled_from([None, "*", "text.*", "text.a", "image.*"]),
    agent=st.sampled_from([None, "nlp/*", "nlp/a"]),
    tags=st.dictionaries(key, st.sampled_from(["*", "prod", "x*"]) | text, max_size=2),
    caller=st.sampled_from([None, "web", "web/*", "web/a"]),
    version=st.sampled_from([None, "^1.2", ">=1 <3"]),
)
rules = st.builds(
    Rule,
    name=st.none(),
    match=matches,
    policy=st.sampled_from([None, *POLICIES]),
    sticky=st.none() | st.builds(Sticky, st.sampled_from(["session", "caller", "key"]), st.booleans()),
    split=st.none() | st.integers(0, 100),
    fallback=st.none() | st.just(("text.b", "nlp/b")),
    timeouts=st.none() | st.builds(Timeouts, connect=seconds, read=seconds, total=st.just(60.0)),
    prefer=st.sampled_from([None, "zone"]),
    retry=st.none() | st.booleans(),
).map(lambda rule: rule if document_of(RuleSet((rule,)))["rule"][0].keys() - {"match"} else Rule(retry=True))


@st.composite
def rule_sets(draw: st.DrawFn) -> RuleSet:
    """Some of the rules have names, each another one."""
    drawn = draw(st.lists(rules, max_size=5))
    names = draw(st.lists(st.none() | text, min_size=len(drawn), max_size=len(drawn)))
    for place, name in enumerate(names):
        if name is not None and name not in names[:place]:
            fields = {field: getattr(drawn[place], field) for field in Rule.__struct_fields__}
            drawn[place] = Rule(**{**fields, "name": name})
    return RuleSet(tuple(drawn))


@settings(max_examples=40)
@given(rule_sets())
def test_every_form_reads_back_as_the_same_rules(rule_set: RuleSet) -> None:
    assert read_rules(document_of(rule_set), POLICIES) == rule_set
    assert read_rules(tomllib.loads(to_toml(rule_set)), POLICIES) == rule_set
    encoded = encode_rules(rule_set)
    assert decode_rules(encoded, POLICIES) == rule_set
    assert encode_rules(decode_rules(encoded, POLICIES)) == encoded


@settings(max_examples=40)
@given(rule_sets(), rule_sets())
def test_there_is_a_difference_exactly_between_different_rules(old: RuleSet, new: RuleSet) -> None:
    assert differences(old, old) == []
    assert bool(differences(old, new)) == (old != new)


@settings(max_examples=40)
@given(
    rule_sets(),
    st.builds(
        RouteQuery,
        capability=st.sampled_from([None, "text.a", "image.b"]),
        agent=st.sampled_from([None, "nlp/a", "x/y"]),
        tags=st.dictionaries(key, st.sampled_from(["prod", "xy"]), max_size=2),
        version=st.sampled_from([None, "^1.2", "1.3.0", "nonsense"]),
    ),
    st.sampled_from([None, "web/a", "web/b", "x/y"]),
)
def test_the_first_rule_that_fits_and_sets_it_decides(
    rule_set: RuleSet, query: RouteQuery, caller: str | None
) -> None:
    in_force = RulesInForce(Counters())
    in_force.set([Layer("f", rule_set)])
    for _ in range(2):  # worked out, and remembered
        ruling = in_force.ruling(query, caller)
        fitting = [rule for rule in rule_set.rules if rule.match.fits(query, caller)]
        for name in ("policy", "sticky", "split", "fallback", "prefer", "retry"):
            said = [getattr(rule, name) for rule in fitting if getattr(rule, name) is not None]
            assert getattr(ruling, name) == (said[0] if said else None)


def refusal(read: Callable[[], RuleSet]) -> RulesInvalid | None:
    """How reading was refused, if it was."""
    try:
        read()
    except RulesInvalid as error:
        return error
    return None


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = [
    "name",
    "match",
    "policy",
    "sticky",
    "split",
    "fallback",
    "timeouts",
    "prefer",
    "retry",
    "require_tags",
]
INNER = ["capability", "agent", "tags", "caller", "version", "by", "strict", "candidate", "connect", "total"]


@given(
    st.dictionaries(
        st.sampled_from(KEYS),
        values | st.dictionaries(st.sampled_from(INNER), values, max_size=3),
        max_size=4,
    )
)
def test_any_table_is_a_rule_or_is_refused_in_printable_words(table: Any) -> None:
    error = refusal(lambda: read_rules({"rule": [table]}, POLICIES))
    assert error is None or (error.problems and str(error).isprintable())


@given(st.binary(max_size=60))
def test_any_bytes_are_rules_or_refused(data: bytes) -> None:
    error = refusal(lambda: decode_rules(data, POLICIES))
    assert error is None or error.problems


def test_what_has_changed_is_told_in_words() -> None:
    old = read_rules(
        {
            "rule": [
                {"name": "carts", "sticky": "session"},
                {"match": {"capability": "text.*"}, "policy": "random"},
                {"name": "last", "retry": False},
            ]
        },
        POLICIES,
    )
    new = read_rules(
        {
            "rule": [
                {"name": "last", "retry": False, "timeouts": {"total": 2.5}},
                {"name": "carts", "sticky": {"by": "key", "strict": True}},
                {"match": {"agent": "a/b"}, "split": {"candidate": 10}},
            ]
        },
        POLICIES,
    )
    assert differences(old, new) == [
        'rule 2 is gone: match = { capability = "text.*" }, policy = "random"',
        "rule 1 (last): timeouts: nothing -> { total = 2.5 }",
        'rule 2 (carts): sticky: "session" -> { by = "key", strict = true }',
        'rule 3 is new: match = { agent = "a/b" }, split = { candidate = 10 }',
        "the order of rules is another one: rule 1 (last), rule 2 (carts)",
    ]
    assert to_toml(new) == (
        '[[rule]]\nname = "last"\ntimeouts = { total = 2.5 }\nretry = false\n\n'
        '[[rule]]\nname = "carts"\nsticky = { by = "key", strict = true }\n\n'
        '[[rule]]\nmatch = { agent = "a/b" }\nsplit = { candidate = 10 }\n'
    )


def test_more_than_a_record_holds_is_refused() -> None:
    many = RuleSet(
        tuple(
            Rule(name=f"{n}" + "x" * 60, match=Match(tags={"a": "y" * 200}), retry=True) for n in range(200)
        )
    )
    with pytest.raises(RulesInvalid, match="bytes when encoded; at most 32,768"):
        encode_rules(many)
