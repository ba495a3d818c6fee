"""Agent records: from what an application declares to what its node signs, and back to what people read.

Everything a record says is checked here once, when it is registered (1707 with the reason), so a node never signs what
others would have to refuse.
"""

from __future__ import annotations

from hashlib import blake2b

from reachp2p.core.commands import AgentSpec
from reachp2p.core.events import MemberState
from reachp2p.core.ids import (
    Life,
    NodeId,
    check_agent_id,
    check_capability,
    check_pattern,
    check_tag_key,
    check_version,
)
from reachp2p.core.registry.access import ACCESS, Access, check_access
from reachp2p.core.views import AgentView, CapabilityView
from reachp2p.core.wire.facts import AgentRecord, Capability, Claim
from reachp2p.errors import InvalidIdentifier

CAPABILITIES_MAX = 64
TAGS_MAX = 32
TOPICS_MAX = 64
"""Patterns of topics that one agent handles."""
TEXT_MAX = 256
DESCRIPTION_MAX = 4_096
SCHEMA_BYTES_MAX = 65_536
RECORD_BYTES_MAX = 32_768
"""Signed bytes of one record."""
RECORDS_BYTES_MAX = 524_288
"""Signed bytes of all records of one node: they travel together, within one message of a link."""
WEIGHT_MIN, WEIGHT_MAX = 0.1, 10.0


def schema_hash(schema: bytes) -> bytes:
    """BLAKE2b-128 of the exact bytes of a JSON Schema."""
    return blake2b(schema, digest_size=16).digest()


def check_spec(spec: AgentSpec) -> None:
    """Raise `InvalidIdentifier` (1707) with the first thing that is wrong in `spec`."""
    check_agent_id(spec.agent)
    check_version(spec.version)
    where = f"agent {spec.agent}"
    _check_text(where, "description", spec.description, DESCRIPTION_MAX)
    _check_text(where, "owner", spec.owner, TEXT_MAX)
    if not WEIGHT_MIN <= spec.weight <= WEIGHT_MAX:
        raise InvalidIdentifier(f"{where}: weight {spec.weight} is not between {WEIGHT_MIN} and {WEIGHT_MAX}")
    if len(spec.tags) > TAGS_MAX:
        raise InvalidIdentifier(f"{where}: {len(spec.tags)} tags, at most {TAGS_MAX}")
    for key, value in spec.tags.items():
        check_tag_key(key)
        _check_text(where, f"tag {key}", value, TEXT_MAX)
    check_access(spec.access, spec.callers)
    if spec.candidate_percent is not None and not 0 <= spec.candidate_percent <= 100:
        raise InvalidIdentifier(f"{where}: candidate_percent {spec.candidate_percent} is not from 0 to 100")
    if len(spec.capabilities) > CAPABILITIES_MAX:
        raise InvalidIdentifier(f"{where}: {len(spec.capabilities)} capabilities, at most {CAPABILITIES_MAX}")
    if len(spec.topics) > TOPICS_MAX:
        raise InvalidIdentifier(f"{where}: {len(spec.topics)} patterns of topics, at most {TOPICS_MAX}")
    for topic in spec.topics:
        check_pattern(topic.pattern)
        if topic.concurrency_max < 1:
            raise InvalidIdentifier(f"{where}: concurrency of {topic.pattern} must be 1 or more")
    if len({topic.pattern for topic in spec.topics}) < len(spec.topics):
        raise InvalidIdentifier(f"{where}: a pattern of topics is declared twice")
    seen: dict[str, None] = {}
    for capability in spec.capabilities:
        check_capability(capability.name)
        if capability.name in seen:
            raise InvalidIdentifier(f"{where}: capability {capability.name} is declared twice")
        seen[capability.name] = None
        _check_text(where, f"description of {capability.name}", capability.description, DESCRIPTION_MAX)
        if capability.concurrency_max < 1:
            raise InvalidIdentifier(f"{where}: concurrency of {capability.name} must be 1 or more")
        if capability.queue_max is not None and capability.queue_max < 0:
            raise InvalidIdentifier(f"{where}: the queue of {capability.name} must be 0 or more")
        rate = capability.rate
        if rate is not None and not (rate.per_second > 0 and rate.burst >= 1):
            raise InvalidIdentifier(
                f"{where}: the rate of {capability.name} must be above 0, its burst 1 or more"
            )
        for what, seconds in (("timeout", capability.timeout), ("task_timeout", capability.task_timeout)):
            if seconds is not None and not 0.001 <= seconds <= 86_400:
                raise InvalidIdentifier(
                    f"{where}: {what} of {capability.name} must be from 0.001 to 86400 seconds"
                )
        for schema in (capability.parameters, capability.result, capability.parameter_item):
            if schema is not None and len(schema) > SCHEMA_BYTES_MAX:
                raise InvalidIdentifier(
                    f"{where}: a schema of {capability.name} is over {SCHEMA_BYTES_MAX} bytes"
                )


def _check_text(where: str, what: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise InvalidIdentifier(f"{where}: {what} has {len(text)} characters, at most {limit}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidIdentifier(f"{where}: {what} is not valid Unicode ({error.reason})") from error


def record_of(
    spec: AgentSpec, node: NodeId, life: Life, version: int, issued_at: int, claim: Claim | None = None
) -> AgentRecord:
    """The record that a checked `spec` becomes."""
    return AgentRecord(
        node=node,
        life=life,
        version=version,
        agent=spec.agent,
        issued_at=issued_at,
        agent_version=spec.version,
        description=spec.description,
        owner=spec.owner,
        capabilities=[
            Capability(
                name=c.name,
                description=c.description,
                parameters=schema_hash(c.parameters) if c.parameters is not None else None,
                result=schema_hash(c.result) if c.result is not None else None,
                repeatable=c.repeatable,
                timeout_ms=None if c.timeout is None else max(1, round(c.timeout * 1000)),
                task_ms=None if c.task_timeout is None else max(1, round(c.task_timeout * 1000)),
                stream=int(c.stream),
                parameter_item=schema_hash(c.parameter_item) if c.parameter_item is not None else None,
            )
            for c in spec.capabilities
        ],
        tags=dict(sorted(spec.tags.items())),
        weight_percent=round(spec.weight * 100),
        access=int(ACCESS[spec.access]),
        callers=list(spec.callers),
        candidate_percent=spec.candidate_percent,
        claim=claim,
        topics=[topic.pattern for topic in spec.topics],
    )


def withdrawal_of(
    agent: str, node: NodeId, life: Life, version: int, issued_at: int, claim: Claim | None = None
) -> AgentRecord:
    """The tombstone of a record."""
    return AgentRecord(
        node=node, life=life, version=version, agent=agent, issued_at=issued_at, withdrawn=True, claim=claim
    )


def view_of(record: AgentRecord, node_name: str, state: MemberState) -> AgentView:
    """A record as people and programs read it."""
    return AgentView(
        agent=record.agent,
        node=NodeId(record.node),
        node_name=node_name,
        state=state,
        version=record.agent_version,
        registry_version=record.version,
        description=record.description,
        owner=record.owner,
        capabilities=tuple(
            CapabilityView(
                name=c.name,
                description=c.description,
                repeatable=c.repeatable,
                timeout=None if c.timeout_ms is None else c.timeout_ms / 1000,
                parameters=c.parameters,
                stream=c.stream,
            )
            for c in record.capabilities
        ),
        tags=dict(record.tags),
        weight=record.weight_percent / 100,
        access=Access(record.access).name.lower(),
        callers=tuple(record.callers),
        candidate_percent=record.candidate_percent,
        claim_epoch=None if record.claim is None else record.claim.epoch,
        topics=tuple(record.topics),
    )
