"""The router's answers when there is nobody to ask: a code, and words that help."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, Rng
from reachp2p.core.routing.failure import RouteFailed, most_similar
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.policies import BUILT_IN
from reachp2p.core.routing.policy import Choice, Policy
from reachp2p.core.routing.router import Router
from reachp2p.errors import CallFailed, ErrorCode

SECOND = Life(2, bytes(16))


def failure(desk: Any, capability: str | None = "text.summarize", **rest: Any) -> tuple[int, str]:
    with pytest.raises(RouteFailed) as caught:
        desk.router.pick(desk.query(capability, **rest))
    return int(caught.value.code), caught.value.reason


def test_an_instance_says_what_a_call_needs(desk: Any) -> None:
    desk.offer(1)
    instance = desk.router.pick(desk.query())
    info = instance.info.capabilities["text.summarize"]
    assert (instance.node, instance.agent, instance.node_name) == (desk.node(1), "nlp/summarizer", "n1")
    assert (info.repeatable, info.timeout, instance.weight, instance.life.epoch) == (True, 5.0, 1.0, 1)


def test_an_unknown_capability_is_refused_with_the_nearest_name(desk: Any) -> None:
    desk.offer(1, "nlp/all", "text.summarize", "text.keywords")
    assert failure(desk, "text.sumarize") == (
        1301, "unknown capability 'text.sumarize'; did you mean 'text.summarize'?"
    )  # fmt: skip
    assert failure(desk, "image.render") == (1301, "unknown capability 'image.render'")
    assert failure(desk, "nlp/all") == (1301, "unknown capability 'nlp/all'; it is the name of an agent")


def test_an_unknown_agent_is_refused_with_the_nearest_name(desk: Any) -> None:
    desk.offer(1)
    assert failure(desk, None, agent="nlp/sumarizer") == (
        1301, "unknown agent 'nlp/sumarizer'; did you mean 'nlp/summarizer'?"
    )  # fmt: skip
    assert failure(desk, agent="hr/payroll") == (1301, "unknown agent 'hr/payroll'")


def test_a_capability_that_the_named_agent_does_not_offer_is_unknown(desk: Any) -> None:
    desk.offer(1)
    desk.offer(2, "nlp/all", "a", "b", "c", "d", "e")
    assert failure(desk, "text.sumarize", agent="nlp/summarizer") == (
        1301,
        "agent 'nlp/summarizer' does not offer 'text.sumarize'; did you mean 'text.summarize'?",
    )
    assert failure(desk, agent="nlp/all") == (
        1301, "agent 'nlp/all' does not offer 'text.summarize'; it offers a, b, c and 2 more"
    )  # fmt: skip


def test_a_namespace_narrows_a_capability(desk: Any) -> None:
    desk.offer(1)
    desk.offer(2, "hr/summarizer")
    assert set(desk.picks(20, desk.query(agent="nlp"))) == {1}
    assert set(desk.picks(20, desk.query(agent="hr"))) == {2}
    assert failure(desk, agent="np") == (1301, "unknown namespace 'np'; did you mean 'nlp'?")
    assert failure(desk, agent="summarizer") == (
        1301, "unknown namespace 'summarizer'; did you mean 'hr/summarizer'?"
    )  # fmt: skip
    assert failure(desk, "text.sumarize", agent="hr") == (
        1301, "no agent of namespace 'hr' offers 'text.sumarize'; did you mean 'text.summarize'?"
    )  # fmt: skip
    assert failure(desk, None, agent="hr") == (
        1301, "'hr' is a namespace: name one of its agents, or a capability, too"
    )  # fmt: skip


def test_a_query_that_names_nothing_is_refused(desk: Any) -> None:
    desk.offer(1)
    assert failure(desk, None) == (1302, "name a capability, an agent or tags")
    assert failure(desk, None, tags={"env": "prod"}) == (
        1303, "no healthy instance of anything with env=prod: 1 known (1 without tag env)"
    )  # fmt: skip


def test_nobody_healthy_says_how_many_there_are_and_in_what_state(desk: Any) -> None:
    for number, state in enumerate([MemberState.DEAD, MemberState.LEFT, MemberState.DEAD, None]):
        desk.offer(number)
        desk.believe(number, state)
    desk.offer(9)
    desk.believe(9, MemberState.ALIVE, life=SECOND)
    assert failure(desk) == (
        1303,
        "no healthy instance of text.summarize: 5 known "
        "(2 DEAD, 1 LEFT, 1 forgotten or not yet known, 1 registered by another life)",
    )
    with pytest.raises(CallFailed, match=r"\[1303\]$") as caught:
        desk.router.pick(desk.query())
    assert caught.value.retryable


def test_tags_that_nobody_carries_are_no_healthy_instance(desk: Any) -> None:
    desk.offer(1, tags={"env": "test"})
    desk.offer(2)
    desk.offer(3, tags={"env": "prod"}, state=MemberState.DEAD)
    desk.offer(4, "nlp/other")
    assert failure(desk, agent="nlp/summarizer", tags={"env": "prod"}) == (
        1303,
        "no healthy instance of text.summarize of nlp/summarizer with env=prod: 3 known "
        "(1 DEAD, 1 with env=test, 1 without tag env)",
    )


def test_a_policy_that_is_unknown_or_lacks_its_key_is_a_configuration_error(desk: Any) -> None:
    desk.offer(1)
    assert failure(desk, policy="fastest") == (
        1704,
        "unknown policy 'fastest'; there are consistent_hash, least_loaded, limited_random, nearest, random, "
        "round_robin, weighted_round_robin",
    )  # fmt: skip
    assert failure(desk, policy="consistent_hash") == (
        1704, "policy 'consistent_hash' needs a routing key (key=…)"
    )  # fmt: skip
    assert desk.picks(1, desk.query(policy="consistent_hash", key="")) == [1]


def test_a_failure_is_forgotten_when_the_table_changes(desk: Any) -> None:
    assert failure(desk)[0] == 1301
    assert failure(desk) == (1301, "unknown capability 'text.summarize'")
    desk.offer(1, state=MemberState.DEAD)
    assert failure(desk)[0] == 1303
    desk.believe(1, MemberState.ALIVE)
    assert desk.picks(1) == [1]
    desk.table.remove_instance(desk.node(1), "nlp/summarizer")
    assert failure(desk)[0] == 1301


def test_the_memory_of_failures_is_bounded(desk: Any) -> None:
    for number in range(500):
        failure(desk, f"c{number}")
    assert len(desk.router._failures) <= 64


def test_failures_are_counted_by_reason(desk: Any) -> None:
    desk.offer(1, state=MemberState.DEAD)
    failure(desk)
    failure(desk)
    failure(desk, "other")
    failure(desk, None)
    failure(desk, policy="fastest")
    assert desk.counters.snapshot() == {
        "routing.failed.configuration_invalid": 1,
        "routing.failed.no_healthy_instance": 2,
        "routing.failed.target_not_specified": 1,
        "routing.failed.unknown_target": 1,
    }


def test_a_further_policy_stands_beside_the_built_in_ones(desk: Any) -> None:
    class Reluctant(Policy):
        """Lets each instance take one call only."""

        def __init__(self, rng: Rng) -> None:
            self.taken: dict[bytes, int] = {}

        def choose(self, choice: Choice) -> Instance | None:
            return next((i for i in choice.candidates.items if i.node not in self.taken), None)

        def on_picked(self, choice: Choice, instance: Instance) -> None:
            self.taken[instance.node] = 1

    desk.router = Router(desk.table, Random(1), desk.counters, {**BUILT_IN, "reluctant": Reluctant})
    for number in (1, 2):
        desk.offer(number)
    assert desk.picks(2, desk.query(policy="reluctant")) == [1, 2]
    assert failure(desk, policy="reluctant") == (
        1305, "policy 'reluctant' lets none of the 2 instances of text.summarize take a call now"
    )  # fmt: skip
    assert desk.counters.value("routing.failed.all_overloaded") == 1
    assert ErrorCode.ALL_OVERLOADED == 1305


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("text.sumarize", ["text.keywords", "text.summarize"], "text.summarize"),
        ("summarize", ["text.keywords", "text.summarize"], "text.summarize"),
        ("ab", ["ax", "ay"], None),
        ("abc", ["abd", "abe"], "abd"),
        ("abc", ["abe", "abd"], "abd"),
        ("abc", [], None),
        ("", ["abc"], None),
        ("x", ["text.summarize"], None),
    ],
)
def test_the_most_similar_name(name: str, known: list[str], found: str | None) -> None:
    assert most_similar(name, sorted(known)) == found


def test_among_very_many_names_only_those_with_the_same_first_letter_are_compared() -> None:
    names = sorted([f"z{number}" for number in range(5_000)] + ["text.summarize"])
    assert most_similar("text.sumarize", names) == "text.summarize"
    assert most_similar("ext.summarize", names) is None


def test_a_version_that_nobody_offers_is_1306_and_no_range_is_1707(desk: Any) -> None:
    desk.offer(1)
    assert desk.router.pick(desk.query(version="^1.1")).node == desk.node(1)
    with pytest.raises(
        RouteFailed, match=r"no such version of text.summarize@\^2: 1 known \(1 version 1.2.0\) \[1306\]"
    ):
        desk.router.pick(desk.query(version="^2"))
    with pytest.raises(RouteFailed, match=r"version range '>>2': '>2' is not understood.* \[1707\]"):
        desk.router.pick(desk.query(version=">>2"))
    with pytest.raises(RouteFailed, match=r"\[1707\]"):
        desk.router.pick(desk.query("unknown", version="latest"))
