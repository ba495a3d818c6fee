"""What an application declares is checked once, with the reason; what a node signs is what others accept."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.commands import AgentSpec, CapabilitySpec
from reachp2p.core.events import MemberState
from reachp2p.core.ids import COUNTER_MAX
from reachp2p.core.registry.record import (
    CAPABILITIES_MAX,
    SCHEMA_BYTES_MAX,
    check_spec,
    record_of,
    schema_hash,
    view_of,
    withdrawal_of,
)
from reachp2p.core.wire.codec import decode_fact, encode_fact
from reachp2p.core.wire.facts import AgentRecord
from reachp2p.errors import ErrorCode, InvalidIdentifier
from tests.support import life, node_id

NODE = node_id(1)


def spec(**fields: Any) -> AgentSpec:
    return AgentSpec(**{"agent": "nlp/summarizer", **fields})


def capability(**fields: Any) -> tuple[CapabilitySpec, ...]:
    return (CapabilitySpec(**{"name": "text.summarize", **fields}),)


FULL = spec(
    version="1.2.0",
    description="x" * 4_096,
    owner="o" * 256,
    tags={f"tag_{number}": "v" * 256 for number in range(32)},
    weight=10.0,
    access="restricted",
    callers=tuple(f"{'a' * 64}/{'b' * 60}{number}" for number in range(64)),
    candidate_percent=100,
    capabilities=tuple(
        CapabilitySpec(
            name=f"text.c{number}",
            description="é" * 100,
            parameters=b"{}",
            result=b"{}",
            repeatable=True,
            timeout=86_400.0,
        )
        for number in range(64)
    ),
)

BAD: list[tuple[AgentSpec, str]] = [
    (spec(agent="Summarizer"), "agent id"),
    (spec(version="1.2"), "version"),
    (spec(description="x" * 4_097), "description has 4097 characters"),
    (spec(owner="x" * 257), "owner has 257 characters"),
    (spec(weight=0.09), "weight 0.09"),
    (spec(weight=10.1), "weight 10.1"),
    (spec(weight=float("nan")), "weight nan"),
    (spec(tags={f"t{number}": "" for number in range(33)}), "33 tags"),
    (spec(tags={"Env": "prod"}), "tag key 'Env'"),
    (spec(tags={"env": "x" * 257}), "tag env has 257 characters"),
    (spec(capabilities=capability(name="Text")), "capability 'Text'"),
    (spec(capabilities=capability(name=".".join(["a" * 64] * 4))), "at most 256 characters"),
    (spec(capabilities=capability() * 2), "text.summarize is declared twice"),
    (
        spec(capabilities=tuple(CapabilitySpec(name=f"c{n}") for n in range(CAPABILITIES_MAX + 1))),
        "65 capabilities",
    ),
    (spec(capabilities=capability(description="x" * 4_097)), "description of text.summarize"),
    (spec(capabilities=capability(concurrency_max=0)), "concurrency"),
    (spec(capabilities=capability(timeout=0.0)), "timeout"),
    (spec(capabilities=capability(timeout=86_401.0)), "timeout"),
    (spec(capabilities=capability(timeout=float("nan"))), "timeout"),
    (spec(capabilities=capability(parameters=bytes(SCHEMA_BYTES_MAX + 1))), "schema of text.summarize"),
    (spec(capabilities=capability(result=bytes(SCHEMA_BYTES_MAX + 1))), "schema of text.summarize"),
    (spec(access="secret"), "access 'secret': write public, restricted or private"),
    (spec(access="restricted"), "restricted access without callers"),
    (spec(access="private", callers=("shop",)), "callers are named for restricted access, not for private"),
    (spec(access="restricted", callers=("Shop",)), "caller 'Shop'"),
    (spec(access="restricted", callers=("shop/",)), "caller 'shop/'"),
    (spec(access="restricted", callers=tuple(f"n{n}" for n in range(65))), "65 callers, at most 64"),
    (spec(candidate_percent=101), "candidate_percent 101"),
    # A lone surrogate is a Python string, but no UTF-8: it could be neither signed nor sent.
    (spec(description="\ud800"), "description is not valid Unicode"),
    (spec(owner="\udfff"), "owner is not valid Unicode"),
    (spec(tags={"env": "a\ud800"}), "tag env is not valid Unicode"),
    (
        spec(capabilities=capability(description="\ud800")),
        "description of text.summarize is not valid Unicode",
    ),
]


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_what_is_wrong_is_refused_with_1707_and_named(bad: AgentSpec, reason: str) -> None:
    with pytest.raises(InvalidIdentifier, match=reason) as caught:
        check_spec(bad)
    assert caught.value.code is ErrorCode.INVALID_IDENTIFIER


@pytest.mark.parametrize(
    "good", [spec(), FULL, spec(weight=0.1), spec(capabilities=capability(timeout=0.001))]
)
def test_whatever_passes_the_check_can_be_signed_and_read_again(good: AgentSpec) -> None:
    check_spec(good)
    record = record_of(good, NODE, life(), COUNTER_MAX, 2**40)
    assert decode_fact(AgentRecord, encode_fact(record)) == record


def test_a_record_says_what_was_declared() -> None:
    declared = spec(
        version="1.2.0",
        owner="team",
        tags={"zone": "a", "env": "prod"},
        weight=0.25,
        capabilities=capability(parameters=b'{"type":"object"}', timeout=2.5, repeatable=True),
    )
    record = record_of(declared, NODE, life(3), 7, 1_700_000_000)
    assert (record.node, record.life, record.version, record.issued_at) == (NODE, life(3), 7, 1_700_000_000)
    assert (record.agent, record.agent_version, record.owner) == ("nlp/summarizer", "1.2.0", "team")
    assert list(record.tags) == ["env", "zone"]  # one order, whatever was declared
    assert record.weight_percent == 25
    (offered,) = record.capabilities
    assert (offered.name, offered.timeout_ms, offered.repeatable) == ("text.summarize", 2_500, True)
    assert offered.parameters == schema_hash(b'{"type":"object"}')
    assert offered.result is None
    assert not record.withdrawn


def test_a_short_time_out_is_at_least_a_millisecond() -> None:
    record = record_of(spec(capabilities=capability(timeout=0.001)), NODE, life(), 1, 0)
    assert record.capabilities[0].timeout_ms == 1


def test_a_withdrawal_names_its_agent_and_little_else() -> None:
    record = withdrawal_of("nlp/summarizer", NODE, life(3), 8, 1_700_000_000)
    assert (record.agent, record.version, record.withdrawn) == ("nlp/summarizer", 8, True)
    assert len(encode_fact(record)) < 120


def test_a_record_is_shown_as_it_was_declared() -> None:
    record = record_of(
        spec(version="1.2.0", weight=2.5, tags={"env": "prod"}, capabilities=capability(timeout=2.5)),
        NODE,
        life(),
        7,
        0,
    )
    view = view_of(record, "n1", MemberState.SUSPECT)
    assert (view.agent, view.node, view.node_name, view.state) == (
        "nlp/summarizer",
        NODE,
        "n1",
        MemberState.SUSPECT,
    )
    assert (view.version, view.registry_version, view.weight, view.tags) == ("1.2.0", 7, 2.5, {"env": "prod"})
    assert [(c.name, c.timeout) for c in view.capabilities] == [("text.summarize", 2.5)]


def test_schemas_are_named_by_the_hash_of_their_exact_bytes() -> None:
    assert len(schema_hash(b"{}")) == 16
    assert schema_hash(b"{}") != schema_hash(b"{ }")
