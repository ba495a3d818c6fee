"""What routing knows about one instance: what its record says, and what is believed about its node."""

from __future__ import annotations

import msgspec

from reachp2p.core.commands import StreamKind
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.release import CANDIDATE, RELEASE_TAG, STABLE
from reachp2p.core.wire.facts import AgentRecord


class CapabilityInfo(msgspec.Struct, frozen=True, gc=False):
    """What a caller needs to know of one capability. Both times are seconds, None if the agent names none."""

    repeatable: bool = False
    timeout: float | None = None
    """The synchronous limit."""
    task_timeout: float | None = None
    """The deadline of a task."""
    stream: StreamKind = StreamKind.NONE
    parameters: bytes | None = None
    """The hash of the JSON Schema of its parameters, if it has one."""


class InstanceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent record says, as far as it decides routing. `life` is the life of the node that signed it."""

    life: Life
    version: str = "0.0.0"
    capabilities: dict[str, CapabilityInfo] = {}
    tags: dict[str, str] = {}
    weight_percent: int = 100
    access: int = 0
    callers: tuple[str, ...] = ()
    candidate_percent: int | None = None
    exclusive: bool = False

    @property
    def side(self) -> str:
        """Of a release split: `candidate` or `stable`."""
        return CANDIDATE if self.tags.get(RELEASE_TAG) == CANDIDATE else STABLE

    @classmethod
    def from_record(cls, record: AgentRecord) -> InstanceInfo:
        """The routing part of a verified record that is not a withdrawal."""
        assert not record.withdrawn, "a withdrawal is `remove_instance`"
        return cls(
            life=record.life,
            version=record.agent_version,
            capabilities={
                c.name: CapabilityInfo(
                    c.repeatable,
                    None if c.timeout_ms is None else c.timeout_ms / 1000,
                    None if c.task_ms is None else c.task_ms / 1000,
                    StreamKind(c.stream),
                    c.parameters,
                )
                for c in record.capabilities
            },
            tags=record.tags,
            weight_percent=record.weight_percent,
            access=record.access,
            callers=tuple(record.callers),
            candidate_percent=record.candidate_percent,
            exclusive=record.claim is not None,
        )


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One agent on one node at one moment. A change makes a new one: whoever holds one keeps the life it was picked in.

    `state`, `refused`, `node_name` and `node_life` are the node's as it is believed now (None: never heard of, or
    forgotten); `unreached`: no link to it opens from here; `unsteady`: it comes and goes; `unanswered`: it has not
    answered since this node is out of touch; `zone` is its node's; `info.life` is the life that
    registered it.
    """

    key: InstanceKey
    node_name: str
    state: MemberState | None
    refused: bool
    node_life: Life | None
    info: InstanceInfo
    unreached: bool = False
    unsteady: bool = False
    unanswered: bool = False
    zone: str = ""

    @property
    def node(self) -> NodeId:
        """The node that offers it."""
        return self.key[0]

    @property
    def agent(self) -> str:
        """The agent's id."""
        return self.key[1]

    @property
    def life(self) -> Life:
        """The life of the node that offers it; a call to it belongs to this life."""
        return self.info.life

    @property
    def weight(self) -> float:
        """0.1 to 10."""
        return self.info.weight_percent / 100
