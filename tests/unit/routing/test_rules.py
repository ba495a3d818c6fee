"""What rules say about a call: the first that fits and sets it, and nothing else."""

from __future__ import annotations

import pytest

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.routing.rule_reading import read_rules
from reachp2p.core.routing.rule_text import decisions
from reachp2p.core.routing.rules import (
    MEMORY_MAX,
    SILENCE,
    Layer,
    Match,
    RulesInForce,
    Ruling,
    Sticky,
    Timeouts,
    fits_pattern,
    settled,
)

POLICIES = ("random", "round_robin", "consistent_hash")


def in_force(*rules: dict[str, object], more: list[dict[str, object]] | None = None) -> RulesInForce:
    found = RulesInForce(Counters())
    layers = [Layer("rules.toml", read_rules({"rule": list(rules)}, POLICIES))]
    if more is not None:
        layers.append(Layer("the cluster", read_rules({"rule": more}, POLICIES)))
    found.set(layers)
    return found


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("text.summarize", "text.summarize", True),
        ("text.summarize", "text.summarize2", False),
        ("*", "", True),
        ("*", "anything.at.all", True),
        ("text.*", "text.summarize", True),
        ("text.*", "texts", False),
        ("*.summarize", "text.summarize", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "acb", False),
        ("a*bc*c", "abc", False),
        ("**", "x", True),
        ("a*" * 100, "a" * 200, True),
        ("a*" * 100 + "b", "a" * 255, False),
    ],
)
def test_a_star_stands_for_any_characters(pattern: str, text: str, fits: bool) -> None:
    assert fits_pattern(pattern, text) is fits


@pytest.mark.parametrize(
    ("match", "query", "caller", "fits"),
    [
        (Match(), RouteQuery(agent="a/b"), None, True),
        (Match(capability="text.*"), RouteQuery(capability="text.a"), None, True),
        (Match(capability="text.*"), RouteQuery(agent="text/a"), None, False),
        (Match(agent="nlp/*"), RouteQuery(agent="nlp/a", capability="x"), None, True),
        (Match(agent="nlp/*"), RouteQuery(capability="x"), None, False),
        (Match(agent="nlp/*"), RouteQuery(agent="nlp", capability="x"), None, True),
        (Match(agent="nlp/a"), RouteQuery(agent="nlp", capability="x"), None, False),
        (Match(agent="nlp/*"), RouteQuery(agent="nlp2", capability="x"), None, False),
        (
            Match(tags={"env": "prod*"}),
            RouteQuery(capability="x", tags={"env": "prod-1", "b": "c"}),
            None,
            True,
        ),
        (Match(tags={"env": "prod"}), RouteQuery(capability="x", tags={"env": "test"}), None, False),
        (Match(tags={"env": "*"}), RouteQuery(capability="x"), None, False),
        (Match(caller="web/*"), RouteQuery(capability="x"), "web/shop", True),
        (Match(caller="web"), RouteQuery(capability="x"), "web/shop", True),
        (Match(caller="web"), RouteQuery(capability="x"), "web2/shop", False),
        (Match(caller="*"), RouteQuery(capability="x"), "web/shop", True),
        (Match(caller="*"), RouteQuery(capability="x"), None, False),
        (Match(version=">=1.2 <2"), RouteQuery(capability="x", version=">=1.2  <2"), None, True),
        (Match(version="^1.2"), RouteQuery(capability="x", version="1.4.0"), None, True),
        (Match(version="^1.2"), RouteQuery(capability="x", version="2.0.0"), None, False),
        (Match(version="^1.2"), RouteQuery(capability="x", version="~1.2"), None, False),
        (Match(version="^1.2"), RouteQuery(capability="x"), None, False),
        (Match(capability="x", caller="a/b"), RouteQuery(capability="x"), "a/c", False),
    ],
)
def test_a_call_fits_a_match_if_every_entry_fits(
    match: Match, query: RouteQuery, caller: str | None, fits: bool
) -> None:
    assert match.fits(query, caller) is fits


def test_each_setting_comes_from_the_first_rule_that_fits_and_sets_it() -> None:
    rules = in_force(
        {"match": {"capability": "text.*"}, "policy": "round_robin", "timeouts": {"read": 2}},
        {"name": "second", "sticky": "session", "timeouts": {"read": 9, "total": 60}},
        {"match": {"capability": "image.*"}, "retry": False},
        {"policy": "random", "retry": True, "split": {"candidate": 0}},
    )
    ruling = rules.ruling(RouteQuery(capability="text.a"))
    assert (ruling.policy, ruling.sticky, ruling.split, ruling.retry) == (
        "round_robin",
        Sticky("session"),
        0,
        True,
    )
    assert ruling.timeouts == Timeouts(read=2.0, total=60.0)
    assert ruling.fallback is ruling.prefer is None
    assert ruling.origins == {
        "policy": "rule 1 of rules.toml",
        "sticky": "rule 2 (second) of rules.toml",
        "split": "rule 4 of rules.toml",
        "retry": "rule 4 of rules.toml",
        "timeouts.read": "rule 1 of rules.toml",
        "timeouts.total": "rule 2 (second) of rules.toml",
    }
    assert rules.ruling(RouteQuery(capability="image.a")).retry is False


def test_an_earlier_layer_beats_a_later_one_setting_by_setting() -> None:
    rules = in_force({"policy": "round_robin"}, more=[{"policy": "random", "prefer": "zone"}])
    ruling = rules.ruling(RouteQuery(capability="x"))
    assert (ruling.policy, ruling.prefer) == ("round_robin", "zone")
    assert ruling.origins["prefer"] == "rule 1 of the cluster"


def test_no_rules_and_rules_about_others_say_nothing() -> None:
    rules = RulesInForce(Counters())
    assert rules.ruling(RouteQuery(capability="x")) is SILENCE
    assert rules.is_empty
    rules = in_force({"match": {"agent": "a/b"}, "retry": False})
    assert rules.ruling(RouteQuery(capability="x")) is SILENCE


def test_what_was_said_is_remembered_until_the_rules_change() -> None:
    rules = in_force({"match": {"tags": {"env": "prod"}, "caller": "web"}, "prefer": "zone"})
    query = RouteQuery(capability="x", tags={"env": "prod"})
    ruling = rules.ruling(query, "web/a")
    assert rules.ruling(RouteQuery(capability="x", tags={"env": "prod"}), "web/a") is ruling
    assert rules.ruling(query, "web/b") == ruling
    assert rules.ruling(query, None) is rules.ruling(RouteQuery(capability="x"), "web/a") is SILENCE
    assert len(rules) == 4
    assert not rules.set(rules.layers)
    assert len(rules) == 4
    version = rules.version
    assert rules.set([])
    assert rules.version == version + 1
    assert rules.ruling(query, "web/a") is SILENCE


def test_the_memory_has_a_bound() -> None:
    counters = Counters()
    rules = RulesInForce(counters)
    rules.set([Layer("f", read_rules({"rule": [{"retry": False}]}, POLICIES))])
    for number in range(MEMORY_MAX + 1):
        assert rules.ruling(RouteQuery(capability="x", tags={"n": str(number)})).retry is False
    assert len(rules) == 1
    assert counters.snapshot()["rules.memory_cleared"] == 1


def test_an_agent_must_carry_the_tags_that_the_first_rule_for_it_wants() -> None:
    rules = in_force(
        {"name": "lab", "match": {"agent": "lab/*"}, "require_tags": ["owner"]},
        {"match": {"capability": "text.*"}, "require_tags": ["env", "team"]},
    )
    assert rules.missing_tags("nlp/a", ["image.a", "text.a"], {"env": "prod"}) == (
        ["team"], "rule 2 of rules.toml",
    )  # fmt: skip
    assert rules.missing_tags("nlp/a", ["text.a"], {"env": "prod", "team": "x"}) == ([], "")
    assert rules.missing_tags("nlp/a", ["image.a"], {}) == ([], "")
    assert rules.missing_tags("lab/a", ["text.a"], {}) == (["owner"], "rule 1 (lab) of rules.toml")


ASKED = RouteQuery(capability="x")
SESSION = Sticky("session", strict=True)


@pytest.mark.parametrize(
    ("query", "ruling", "policy", "key", "strict"),
    [
        (ASKED, Ruling(policy="round_robin"), "round_robin", None, False),
        (RouteQuery(capability="x", policy="random"), Ruling(policy="round_robin"), "random", None, False),
        (ASKED, Ruling(sticky=SESSION, policy="round_robin"), "consistent_hash", "s1", True),
        (ASKED, Ruling(sticky=Sticky("caller")), "consistent_hash", "web/a", False),
        (ASKED, Ruling(sticky=Sticky("key"), policy="round_robin"), "round_robin", None, False),
        (RouteQuery(key="k"), Ruling(sticky=Sticky("key")), "consistent_hash", "k", False),
        (RouteQuery(key="k"), Ruling(sticky=SESSION), "consistent_hash", "k", True),
        (RouteQuery(key="k"), Ruling(policy="consistent_hash"), "consistent_hash", "k", False),
        (ASKED, Ruling(policy="consistent_hash"), None, None, False),
        (RouteQuery(policy="round_robin", key="k"), Ruling(sticky=SESSION), "round_robin", "k", False),
    ],
)
def test_a_call_says_what_it_wants_or_else_the_rules_do(
    query: RouteQuery, ruling: Ruling, policy: str | None, key: str | None, strict: bool
) -> None:
    found = settled(query, ruling, "s1", "web/a")
    assert (found.policy, found.key, found.strict) == (policy, key, strict)


def test_a_call_without_a_session_or_a_caller_is_not_sticky_by_them() -> None:
    for by in ("session", "caller"):
        found = settled(ASKED, Ruling(sticky=Sticky(by), policy="round_robin"), None, None)
        assert (found.policy, found.key) == ("round_robin", None)


def test_what_else_a_call_leaves_open_is_filled_in_and_the_rest_stays() -> None:
    ruling = Ruling(split=10, prefer="zone", fallback=("y", "a/b"))
    found = settled(
        RouteQuery(agent="a/c", capability="x", tags={"a": "b"}, version="^1", release="stable"),
        ruling,
        None,
        None,
    )
    assert found == RouteQuery(
        agent="a/c", capability="x", tags={"a": "b"}, version="^1", release="stable", split=10, prefer="zone"
    )  # fmt: skip
    assert settled(RouteQuery(split=0, allow_fallback=True), ruling, None, None) == RouteQuery(
        split=0, prefer="zone", fallback=("y", "a/b"), allow_fallback=True
    )
    assert settled(RouteQuery(fallback=("z",), allow_fallback=True), ruling, None, None).fallback == ("z",)


def test_what_rules_have_decided_is_told_with_the_rule() -> None:
    rules = in_force(
        {"name": "a", "sticky": "caller", "split": {"candidate": 5}},
        {"policy": "random", "prefer": "zone", "retry": False, "timeouts": {"total": 2}, "fallback": ["y"]},
    )
    query = RouteQuery(capability="x", prefer="zone", allow_fallback=True)
    asked, ruling = rules.settle(query, None, "web/a")
    assert decisions(query, asked, ruling) == (
        'policy = "consistent_hash" (rule 1 (a) of rules.toml)',
        "split = 5 (rule 1 (a) of rules.toml)",
        'fallback = ["y"] (rule 2 of rules.toml)',
        "retry = false (rule 2 of rules.toml)",
        "timeouts.total = 2 (rule 2 of rules.toml)",
    )
    asked, ruling = rules.settle(query, None, None)
    assert decisions(query, asked, ruling)[0] == 'policy = "random" (rule 2 of rules.toml)'
    assert RulesInForce(Counters()).settle(query, None, None) == (query, SILENCE)


def test_calls_that_say_nothing_more_share_one_settled_query() -> None:
    rules = in_force(
        {"policy": "round_robin", "prefer": "zone"}, {"match": {"caller": "web"}, "split": {"candidate": 5}}
    )
    first, _ = rules.settle(RouteQuery(capability="x", tags={"env": "prod"}), None, None)
    again, ruling = rules.settle(RouteQuery(capability="x", tags={"env": "prod"}), "s1", None)
    assert again is first
    assert first == RouteQuery(capability="x", tags={"env": "prod"}, policy="round_robin", prefer="zone")
    for more in (
        {"key": "k"},
        {"policy": "random"},
        {"split": 1},
        {"release": "stable"},
        {"fallback": ("y",)},
    ):
        asked = RouteQuery(capability="x", tags={"env": "prod"}, **more)  # type: ignore[arg-type]
        assert rules.settle(asked, "s1", None) == (settled(asked, ruling, "s1", None), ruling)
    assert rules.settle(RouteQuery(capability="x", tags={"env": "prod"}), None, "web/a")[0].split == 5


def test_sticky_calls_are_settled_one_by_one() -> None:
    rules = in_force({"sticky": "session"})
    assert [rules.settle(ASKED, session, None)[0].key for session in ("s1", "s2", None, "s1")] == [
        "s1",
        "s2",
        None,
        "s1",
    ]
