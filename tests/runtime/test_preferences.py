"""The rarer wishes of a call: checked at the door, and heeded."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p import Agent, CallFailed, ConfigurationInvalid, InvalidIdentifier, Node
from reachp2p.errors import ErrorCode
from reachp2p.runtime.preferences import check_preferences, split_versions


def agent(name: str, version: str, *capabilities: str, tags: dict[str, str] | None = None) -> Agent:
    made = Agent(name, version=version, tags=tags or {})
    for capability in capabilities:

        @made.capability(capability)
        async def answer(said: str = f"{name} {version}") -> str:
            return said

    return made


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({}, {}),
        ({"fallback": True}, {"fallback": (), "allow_fallback": True}),
        ({"fallback": "a.b"}, {"fallback": ("a.b",), "allow_fallback": False}),
        ({"fallback": ["a.b", "c/d"]}, {"fallback": ("a.b", "c/d"), "allow_fallback": False}),
        ({"version": "^1"}, {"version": "^1", "strict": False, "release": None, "in_flight_max": 16}),
        ({"in_flight_max": 2}, {"in_flight_max": 2}),
    ],
)
def test_what_was_wished_is_what_the_query_says(given: dict[str, Any], fields: dict[str, Any]) -> None:
    found = check_preferences(given, "a call")
    assert {name: found[name] for name in fields} == fields


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"versoin": "^1"}, "a call takes no 'versoin'; did you mean 'version'?"),
        ({"tmieout": 3}, "a call takes no 'tmieout'; did you mean 'timeout'?"),
        ({"fallback": ["a.b"] * 9}, "fallback ['a.b', "),
        ({"fallback": 3}, "fallback 3: write True, or a list"),
        ({"fallback": [3]}, "fallback [3]: write True, or a list"),
        ({"prefer": "region"}, "prefer 'region': write 'zone'"),
        ({"release": "beta"}, "release 'beta': write 'candidate' or 'stable'"),
        ({"strict": "yes"}, "strict 'yes': write True or False"),
        ({"in_flight_max": 0}, "in_flight_max 0: write a whole number from 1, as in 16"),
        ({"in_flight_max": True}, "in_flight_max True: write a whole number"),
        ({"version": 1}, "version 1: write text, as in '^1.2'"),
    ],
)
def test_a_slip_is_told(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationInvalid) as caught:
        check_preferences(given, "a call")
    assert caught.value.message.startswith(words)


@pytest.mark.parametrize("fallback", ["text shout", ["a.b", "A B/c"], "a.b@one"])
def test_a_fallback_that_can_be_no_name_is_refused(fallback: Any) -> None:
    with pytest.raises(InvalidIdentifier):
        check_preferences({"fallback": fallback}, "a call")


def test_a_range_may_stand_behind_a_name_and_there_is_one() -> None:
    assert split_versions("a.b@^1.2", None, None) == ("a.b", None, "^1.2")
    assert split_versions("a.b", "c/d@1.x", None) == ("a.b", "c/d", "1.x")
    assert split_versions("a.b", "c/d", "^2") == ("a.b", "c/d", "^2")
    with pytest.raises(ConfigurationInvalid, match="one range of versions"):
        split_versions("a.b@^1", "c/d@^2", None)
    with pytest.raises(InvalidIdentifier):
        split_versions("a.b@one", None, None)


@pytest.mark.trio
async def test_versions_releases_and_fallbacks_are_heeded() -> None:
    old, new = agent("nlp/old", "1.4.0", "text.a"), agent("nlp/new", "2.0.0", "text.a")
    spare = agent("nlp/spare", "1.0.0", "text.b")
    async with Node(old, new, spare) as node:
        await node.wait_for("text.a")
        for _ in range(5):
            assert await node.call("text.a@^1.2") == "nlp/old 1.4.0"
            assert await node.call("text.a", version="2.x") == "nlp/new 2.0.0"
            assert await node.call("text.a", agent="nlp@2.x") == "nlp/new 2.0.0"
        assert node.explain("text.a@^1.2").picked_agent == "nlp/old"
        with pytest.raises(CallFailed) as caught:
            await node.call("text.a@^3")
        assert caught.value.code is ErrorCode.NO_SUCH_VERSION
        assert await node.call("text.c", fallback=["text.d", "text.b"]) == "nlp/spare 1.0.0"
        await node.apply_rules({"rule": [{"match": {"capability": "text.c"}, "fallback": ["text.b"]}]})
        with pytest.raises(CallFailed) as caught:
            await node.call("text.c")
        assert caught.value.code is ErrorCode.UNKNOWN_TARGET
        assert await node.call("text.c", fallback=True) == "nlp/spare 1.0.0"
        explained = node.explain("text.c", fallback=True)
        assert explained.fell_back
        assert explained.rules[0].startswith('fallback = ["text.b"] (rule 1 of the cluster')
