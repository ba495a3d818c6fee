"""Settings of a node, refused before anything is opened."""

from __future__ import annotations

import pytest

from reachp2p import Agent, ConfigurationInvalid, InvalidIdentifier, Node, ReachError
from reachp2p.core.ids import NodeId


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"seeds": ["127.0.0.1:x"]}, InvalidIdentifier, "port must be a number"),
        ({"host": "0.0.0.0"}, ConfigurationInvalid, "insecure_open=True"),
        ({"host": "node.example"}, ConfigurationInvalid, "must be an IP address"),
        ({"port": 70_000}, ConfigurationInvalid, "from 0"),
        ({"port": True}, ConfigurationInvalid, "from 0"),
        ({"name": ""}, ConfigurationInvalid, "name ''"),
        ({"name": "a\x1bb"}, ConfigurationInvalid, "control characters"),
        ({"cluster": "x" * 65}, ConfigurationInvalid, "1 to 64"),
        ({"zone": 5}, ConfigurationInvalid, "0 to 64"),
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


def test_two_nodes_of_one_agent_have_two_names_and_a_chosen_name_stays() -> None:
    ids = (NodeId(bytes([1, 2, 3, 4]) * 8), NodeId(bytes([9]) * 32))
    nobody_chose = Node(Agent("nlp/summarizer"))._options
    assert [nobody_chose.name_of(node) for node in ids] == ["summarizer-010203", "summarizer-090909"]
    assert Node(Agent("nlp/" + "x" * 64))._options.name_of(ids[0]) == "x" * 57 + "-010203"
    assert Node(Agent("nlp/summarizer"), name="mine")._options.name_of(ids[0]) == "mine"


def test_one_seed_needs_no_list() -> None:
    assert Node(seeds="127.0.0.1:1")._options.seeds == Node(seeds=["127.0.0.1:1"])._options.seeds
    assert Node(advertise="127.0.0.1:1")._options.advertise == ("127.0.0.1:1",)
