"""Settings of a node, refused before anything is opened."""

from __future__ import annotations

import pytest

from reachp2p import Agent, ConfigurationInvalid, InvalidIdentifier, Node, ReachError


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"seeds": ["127.0.0.1:x"]}, InvalidIdentifier, "port must be a number"),
        ({"seeds": "127.0.0.1:1"}, ConfigurationInvalid, "must be a list"),
        ({"host": "0.0.0.0"}, ConfigurationInvalid, "insecure_open=True"),
        ({"host": "node.example"}, ConfigurationInvalid, "must be an IP address"),
        ({"port": 70_000}, ConfigurationInvalid, "from 0"),
        ({"port": True}, ConfigurationInvalid, "from 0"),
        ({"name": ""}, ConfigurationInvalid, "node name"),
        ({"name": "a\x1bb"}, ConfigurationInvalid, "control characters"),
        ({"cluster": "x" * 65}, ConfigurationInvalid, "1 to 64"),
        ({"zone": 5}, ConfigurationInvalid, "1 to 64"),
    ],
)
def test_a_setting_that_cannot_be_used_is_an_error_with_the_reason(
    options: dict[str, object], kind: type[ReachError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        Node(**options)  # type: ignore[arg-type]


def test_one_agent_is_offered_once() -> None:
    with pytest.raises(ConfigurationInvalid, match="same agent twice"):
        Node(Agent("a/b"), Agent("a/b"))


def test_a_name_is_made_from_the_agent_or_the_machine() -> None:
    assert Node(Agent("nlp/summarizer")).name == "summarizer"
    assert Node().name
