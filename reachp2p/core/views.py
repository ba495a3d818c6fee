"""What an engine answers to questions: snapshots of its view, safe to keep and to print."""

from __future__ import annotations

import msgspec

from reachp2p.core.events import MemberState
from reachp2p.core.ids import Address, Life, NodeId


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    """One member as this node sees it. Times are the engine's monotonic seconds; `rtt` seconds or None."""

    node: NodeId
    name: str
    is_self: bool
    state: MemberState
    life: Life
    incarnation: int
    version: int
    complete: int
    addresses: tuple[Address, ...]
    zone: str
    state_since: float
    rtt: float | None
    linked: bool
    refused: bool
    """Its process answered by refusal: it is skipped by routing before it is DEAD."""
    late: int = 0
    """How often its event loop was late in the minute before `told_at`."""
    overdue: int = 0
    """Handlers that went on then although they were cancelled."""
    told_at: float | None = None
    """When it has told what ails it, or that nothing does; None: never in this life."""


class CapabilityView(msgspec.Struct, frozen=True, kw_only=True):
    """One capability of an agent on a node."""

    name: str
    description: str
    repeatable: bool
    timeout: float | None
    parameters: bytes | None
    """Hash of the JSON Schema, or None."""
    stream: int = 0
    """1: results are a stream, 2: parameters are, 3: both."""


class BulkheadView(msgspec.Struct, frozen=True, kw_only=True):
    """How full the bulkhead of one capability of this node is: what runs, what waits, and the limits of both."""

    agent: str
    capability: str
    running: int
    waiting: int
    concurrency: int
    queue: int


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """One agent as one node offers it (an instance)."""

    agent: str
    node: NodeId
    node_name: str
    state: MemberState
    version: str
    registry_version: int
    description: str
    owner: str
    capabilities: tuple[CapabilityView, ...]
    tags: dict[str, str]
    weight: float
    access: str = "public"
    callers: tuple[str, ...] = ()
    candidate_percent: int | None = None
    claim_epoch: int | None = None
    """Of an exclusive agent: the epoch that this instance claims, 0 if it stands by; None if it is not exclusive."""
    topics: tuple[str, ...] = ()
    """Patterns of the events that it handles."""
    failed: int = 0
    """Handlers of it that failed in the minute before `told_at`, through no fault of their callers."""
    stopped: int = 0
    """Handlers of it that their deadlines ended then."""
    told_at: float | None = None
    """When its node has told that, or that there are none; None: never in this life."""


class CandidateView(msgspec.Struct, frozen=True, kw_only=True):
    """One instance in an explanation. `removed_by` names the stage that took it out, or None; `why` says so in words.

    `position` is its place in the preference list (consistent hash) or None; `share` its expected share of calls.
    """

    agent: str
    node: NodeId
    node_name: str
    state: MemberState
    version: str
    weight: float
    removed_by: str | None
    why: str
    position: int | None
    share: float | None
    zone: str = ""
    release: str = "stable"
    candidate_percent: int | None = None
    """What it announces as a release candidate."""
    breaker: str | None = None
    """`closed`, `open` or `half open`; None: never called."""
    in_flight: int = 0
    """This node's own attempts."""
    latency: float | None = None
    """Seconds that this node's own calls of it take."""
    load: str = ""
    """What is known of how busy it is and how old that is, in words."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call goes where it goes: every instance, every stage, and the pick."""

    capability: str | None
    agent: str | None
    policy: str
    key: str | None
    candidates: tuple[CandidateView, ...]
    picked: NodeId | None
    picked_agent: str | None
    code: int
    """0, or the error a call would get."""
    reason: str
    table_version: int
    ring_fingerprint: str | None
    target: str = ""
    """What was looked for in the end, in words: with the side of a release split, the zone, or the fallback."""
    fell_back: bool = False
    """The first choice had nobody; `target` is one of the fallbacks."""
    release: str = ""
    """The side of the release split and why, in words; empty if nothing is split."""
    rules: tuple[str, ...] = ()
    """What rules have decided about this call, and which: `policy = "round_robin" (rule 1 of rules.toml)`."""
    named: str = ""
    """How a call that names nobody itself has come to its capability, in words; empty if it names one."""


class RuleLayerView(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one node alone."""

    origin: str
    """Their file."""
    toml: str


class RulesRecordView(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that were applied to the whole cluster."""

    version: int
    author: NodeId
    digest: bytes
    issued_at: int
    """Unix seconds."""
    comment: str
    newest: bool
    in_force: bool
    """The newest that this node understands."""
    refused: str
    """Why this node cannot go by them, or nothing."""
    rules: int
    """How many."""
    toml: str
    """Empty if they are refused."""


class RulesView(msgspec.Struct, frozen=True, kw_only=True):
    """The rules that a node goes by: its own first, then those in force of the `history`, which is newest first."""

    own: RuleLayerView | None
    history: tuple[RulesRecordView, ...]
    unmet: tuple[str, ...] = ()
    """Agents of this node without a tag that a rule requires, in words: they were offered before it did."""
