"""What is refused in a rule set: all of it at once, each with its place and with what to write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reachp2p.core.routing.rule_reading import RULES_MAX, RulesInvalid, read_rules
from reachp2p.core.routing.rules import Match, Rule, RuleSet, Sticky, Timeouts
from reachp2p.errors import ConfigurationInvalid, ErrorCode

POLICIES = ("random", "round_robin", "consistent_hash", "least_loaded")


def problems(document: Any) -> tuple[str, ...]:
    with pytest.raises(RulesInvalid) as caught:
        read_rules(document, POLICIES, "rules.toml")
    assert caught.value.code is ErrorCode.CONFIGURATION_INVALID
    assert caught.value.message.startswith("rules.toml: ")
    return caught.value.problems


def test_everything_that_a_rule_can_say_is_read() -> None:
    document = {
        "rule": [
            {
                "name": "all",
                "match": {
                    "capability": "text.*", "agent": "nlp/a", "tags": {"b": "*", "a": "x"}, "caller": "web",
                    "version": ">=1.2  <2",
                },
                "policy": "least_loaded",
                "sticky": {"by": "session", "strict": True},
                "split": {"candidate": 10},
                "fallback": ["text.shorten", "nlp/backup"],
                "timeouts": {"connect": 1, "read": 2.5, "total": 30},
                "prefer": "zone",
                "retry": False,
            },
            {"require_tags": ["env"]},
        ]
    }  # fmt: skip
    assert read_rules(document, POLICIES) == RuleSet(
        (
            Rule(
                name="all",
                match=Match(
                    capability="text.*",
                    agent="nlp/a",
                    tags={"a": "x", "b": "*"},
                    caller="web",
                    version=">=1.2 <2",
                ),
                policy="least_loaded",
                sticky=Sticky("session", strict=True),
                split=10,
                fallback=("text.shorten", "nlp/backup"),
                timeouts=Timeouts(connect=1.0, read=2.5, total=30.0),
                prefer="zone",
                retry=False,
            ),
            Rule(require_tags=("env",)),
        )
    )
    assert read_rules({}, POLICIES) == read_rules({"rule": []}, POLICIES) == RuleSet()


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"polcy": "random", "retry": True}, "rule 1: polcy: unknown key; did you mean 'policy'?"),
        (
            {"name": "a", "zzz": 1, "retry": True},
            "rule 1 (a): zzz: unknown key; known are name, match, policy, sticky, split, fallback, timeouts, prefer, "
            "retry, require_tags",
        ),
        (
            {"name": "", "retry": True},
            "rule 1: name: write printable text of 1 to 64 characters, as in 'summaries', not ''",
        ),
        ({"policy": "least_loadd"}, "rule 1: policy: 'least_loadd' is unknown; did you mean 'least_loaded'?"),
        (
            {"policy": 3},
            "rule 1: policy: write one of consistent_hash, least_loaded, random, round_robin, not 3",
        ),
        (
            {"name": "a"},
            "rule 1 (a): sets nothing; it can set policy, sticky, split, fallback, timeouts, prefer, retry, "
            "require_tags",
        ),
        (
            {"match": "text.*", "retry": True},
            "rule 1: match: write a table, as in { capability = \"text.*\" }, not 'text.*'",
        ),
        (
            {"match": {"capabilty": "a"}, "retry": True},
            "rule 1: match: capabilty: unknown key; did you mean 'capability'?",
        ),
        (
            {"match": {"capability": "Text.*"}, "retry": True},
            "rule 1: match.capability: no name is of the pattern 'Text.*'; write lower case letters, as in 'text.*'",
        ),
        (
            {"match": {"capability": "nlp/*"}, "retry": True},
            "rule 1: match.capability: no name is of the pattern 'nlp/*'; write lower case letters, as in 'text.*'",
        ),
        (
            {"match": {"tags": {"Env": "x"}}, "retry": True},
            "rule 1: match.tags: tag key 'Env': write lower snake case of at most 64 characters, as in cost_tier",
        ),
        (
            {"match": {"tags": {"env": 1}}, "retry": True},
            "rule 1: match.tags.env: write printable text of 1 to 256 characters, as in 'prod*', not 1",
        ),
        (
            {"match": {"tags": []}, "retry": True},
            'rule 1: match.tags: write a table, as in { env = "prod" }, not []',
        ),
        (
            {"match": {"version": "one"}, "retry": True},
            "rule 1: match.version: version range 'one': 'one' is not understood; write ^1.2, ~1.2.3, 1.x, 1.2.3 or "
            "'>=1.2 <2'",
        ),
        ({"sticky": "sesion"}, "rule 1: sticky: 'sesion' is unknown; did you mean 'session'?"),
        ({"sticky": {"by": "key", "strict": 1}}, "rule 1: sticky.strict: write true or false, not 1"),
        (
            {"sticky": {"strict": True}},
            'rule 1: sticky: lacks the source of the key, as in { by = "session" }',
        ),
        (
            {"sticky": True},
            'rule 1: sticky: write one of "session", "caller", "key", or { by = "session", strict = true }, not True',
        ),
        ({"split": 10}, "rule 1: split: write the percent of calls, as in { candidate = 10 }, not 10"),
        ({"split": {}}, "rule 1: split: lacks the percent of calls, as in { candidate = 10 }"),
        (
            {"split": {"candidate": 101}},
            "rule 1: split.candidate: write a whole number of percent from 0 to 100, not 101",
        ),
        (
            {"split": {"candidate": True}},
            "rule 1: split.candidate: write a whole number of percent from 0 to 100, not True",
        ),
        (
            {"fallback": "a"},
            'rule 1: fallback: write a list of 1 to 8 texts, as in ["text.shorten", "nlp/backup"], not \'a\'',
        ),
        ({"fallback": ["a", "a"]}, "rule 1: fallback: names something twice: ['a', 'a']"),
        (
            {"fallback": ["text.*"]},
            "rule 1: fallback: capability 'text.*': write dotted labels of lower case letters, digits, '-' and '_' of "
            "at most 256 characters, as in text.summarize",
        ),
        ({"timeouts": 3}, "rule 1: timeouts: write seconds, as in { connect = 1, total = 30 }, not 3"),
        ({"timeouts": {"read": 0}}, "rule 1: timeouts.read: write seconds from 0.001 to 86400, not 0"),
        (
            {"timeouts": {"read": float("nan")}},
            "rule 1: timeouts.read: write seconds from 0.001 to 86400, not nan",
        ),
        ({"timeouts": {"read": 5, "total": 2}}, "rule 1: timeouts.read: 5 is longer than the whole call (2)"),
        ({"prefer": "region"}, "rule 1: prefer: 'region' is unknown; known are zone"),
        (
            {"split": {"candidate": 10**5_000}},
            "rule 1: split.candidate: write a whole number of percent from 0 to 100, not int that cannot be shown: "
            "ValueError",
        ),
        ({"retry": "no"}, "rule 1: retry: write true or false, not 'no'"),
        (
            {"require_tags": ["Env"]},
            "rule 1: require_tags: tag key 'Env': write lower snake case of at most 64 characters, as in cost_tier",
        ),
        (
            {"match": {"caller": "web"}, "require_tags": ["env"]},
            "rule 1: require_tags: is about agents: match by agent, capability or tags, not by caller or version",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_to_write(rule: dict[str, Any], problem: str) -> None:
    assert problems({"rule": [rule]}) == (problem,)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "write tables [[rule]], not []"),
        ({"rules": []}, "rules: unknown key; did you mean 'rule'?"),
        ({"rule": {"retry": True}}, "rule: write [[rule]], with two brackets: rules are a list"),
        ({"rule": [3]}, "rule: write tables [[rule]], not [3]"),
        ({"rule": [{"retry": True}] * (RULES_MAX + 1)}, "rule: 257 rules; at most 256"),
        (
            {"rule": [{"name": "a", "retry": True}, {"name": "a", "retry": True}]},
            "rule 2: name: 'a' is that of rule 1 already",
        ),
    ],
)
def test_a_document_that_is_no_list_of_rules_is_refused(document: Any, problem: str) -> None:
    assert problems(document) == (problem,)


def test_all_mistakes_are_found_at_once_and_three_are_in_the_message() -> None:
    document = {"rule": [{"policy": "x", "retry": 1, "prefer": 2}, {"split": {"candidate": -1}, "x": 1}]}
    with pytest.raises(RulesInvalid) as caught:
        read_rules(document, POLICIES, "f")
    assert len(caught.value.problems) == 5
    assert caught.value.message.count("; and ") == 1
    assert caught.value.message.endswith("; and 2 more")


class Broken:
    """Policies that other packages bring, two of them under one name."""

    def __contains__(self, name: object) -> bool:
        if name == "random":
            return True
        raise ConfigurationInvalid("policy 'x' comes from two packages")

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("`in` has failed already")

    def __len__(self) -> int:
        raise AssertionError("nobody counts them")


def test_a_mistake_in_a_package_of_policies_is_a_problem_of_the_rule_that_needs_it() -> None:
    assert read_rules({"rule": [{"policy": "random"}]}, Broken()).rules[0].policy == "random"
    with pytest.raises(RulesInvalid) as caught:
        read_rules({"rule": [{"policy": "cheapest"}]}, Broken(), "f")
    assert caught.value.problems == ("rule 1: policy: policy 'x' comes from two packages",)
