"""What the application wishes: the arguments of an engine's commands, as plain values."""

from __future__ import annotations

from enum import Enum, IntFlag
from typing import TypeAlias

import msgspec

StreamKey: TypeAlias = bytes | int
"""Names one side of a stream: the call's id at its caller, the invocation's number at its callee."""


class StreamKind(IntFlag):
    """What of a call is a stream."""

    NONE = 0
    RESULTS = 1
    PARAMETERS = 2


class Flow(Enum):
    """What became of an item given to a stream, or why there is none to be taken."""

    DONE = "taken"
    WAIT = "not now: `StreamReady` says when to try again"
    ENDED = "never again"


class Rate(msgspec.Struct, frozen=True):
    """How fast one caller may call a capability at one instance: `burst` at once, then `per_second`; beyond it 1410."""

    per_second: float = 10.0
    burst: int = 50
    per: str = "node"
    """`node`: each calling node; `namespace`: all nodes whose agents of one namespace call, together."""


class CapabilitySpec(msgspec.Struct, frozen=True, kw_only=True):
    """One capability as its agent declares it. Schemas are the exact bytes of JSON Schema 2020-12 documents."""

    name: str
    description: str = ""
    parameters: bytes | None = None
    result: bytes | None = None
    repeatable: bool = False
    """The handler may run twice for one call without harm, so a lost attempt is retried elsewhere."""
    timeout: float | None = None
    """Seconds; the synchronous limit of a call that names none."""
    task_timeout: float | None = None
    """Seconds; the deadline of a call that goes on as a task."""
    concurrency_max: int = 64
    """Handlers of this capability at once on this node."""
    queue_max: int | None = None
    """Requests that may wait for a handler, beyond them 1406; None: as many as `concurrency_max`."""
    rate: Rate | None = None
    """None: no limit."""
    stream: StreamKind = StreamKind.NONE
    """If results are a stream, `result` is the schema of one item."""
    parameter_item: bytes | None = None
    """The schema of one item, if parameters are a stream."""


class TopicSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern of topics whose events an agent handles. `timeout` is seconds for one event, None: the default."""

    pattern: str
    concurrency_max: int = 1
    """Events of this pattern handled at once on this node; with 1 they are handled in order."""
    timeout: float | None = None

    @property
    def handler(self) -> str:
        """Under which name a driver knows the handler: no capability can have it."""
        return f"on {self.pattern}"


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One agent to offer. Text fields are checked by `Engine.register` (1707 with the reason)."""

    agent: str
    version: str = "0.0.0"
    description: str = ""
    owner: str = ""
    capabilities: tuple[CapabilitySpec, ...] = ()
    tags: dict[str, str] = {}
    weight: float = 1.0
    """0.1 to 10; a virtual-node multiplier."""
    access: str = "public"
    """`public`, `restricted` (to `callers`) or `private` (to nodes that offer an agent of its namespace)."""
    callers: tuple[str, ...] = ()
    """Who may call if access is restricted: `namespace`, `namespace/agent`, or a NodeId in hex."""
    topics: tuple[TopicSpec, ...] = ()
    """What events it handles (docs/protocol/events.md)."""
    exclusive: bool = False
    """One node at a time serves it, the others stand by (docs/protocol/claims.md)."""
    candidate_percent: int | None = None
    """Of a release candidate (tag `release=candidate`): its share of the calls, 0 to 100."""


IN_FLIGHT_MAX = 16
DEFAULT_POLICY = "random"
KEYED_POLICY = "consistent_hash"
"""Of calls without and with a key for which neither their caller nor a rule names a policy."""


class RouteQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a call is for: an agent id, a capability, or both (that agent's capability). If it names neither, its tags
    mean the one capability that is offered with them; else it is refused (1302)."""

    agent: str | None = None
    capability: str | None = None
    tags: dict[str, str] = {}
    policy: str | None = None
    """One of docs/protocol/routing.md, or of an application's own; None: as the rules say, else `consistent_hash` with
    a key and `random` without one."""
    key: str | None = None
    """Routing key: required by `consistent_hash`; whatever the policy, it decides the side of a release split."""
    version: str | None = None
    """A range of versions, as in `^1.2`; None: any."""
    strict: bool = False
    """`consistent_hash` only: to the owner of the key or to nobody, however doubtful the owner."""
    in_flight_max: int = IN_FLIGHT_MAX
    """`limited_random` only: attempts of this node that an instance may have in flight."""
    release: str | None = None
    """`candidate`: a canary on request; `stable`: never a candidate; None: as the release split says."""
    split: int | None = None
    """Percent of calls that go to release candidates; None: what they announce themselves."""
    prefer: str | None = None
    """`zone`: those in this node's zone first, while nobody doubts at least one of them."""
    fallback: tuple[str, ...] = ()
    """Agents (with a slash) and capabilities to try, in this order, when the first choice has nobody to ask; each may
    have a range of versions (`nlp/small@^1`)."""
    allow_fallback: bool = False
    """Whether those that a rule names may be tried, if `fallback` names none."""
    streams: bool = False
    """If it names neither capability nor agent: one that streams is meant."""
    by_shape: bool = False
    """If it names neither: whoever has the parameters finds the capability that they fit (`routing.shapes`)."""

    @property
    def policy_name(self) -> str:
        """The policy by which an instance is chosen, rules apart."""
        return self.policy or (DEFAULT_POLICY if self.key is None else KEYED_POLICY)


class Lasting(Enum):
    """What becomes of a call that takes long."""

    END = "end"
    """Its synchronous limit is its deadline."""
    OUTLAST = "outlast"
    """At its synchronous limit it becomes a task and goes on, unless the caller names a timeout."""
    TASK = "task"
    """It is a task from the start: nobody waits for it."""


class CallSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One request/reply call. `timeout` is the whole call's, retries included, in seconds."""

    query: RouteQuery
    payload: bytes
    content_type: str = "application/cbor"
    timeout: float | None = None
    session_id: bytes | None = None
    idempotency_key: str | None = None
    traceparent: str | None = None
    """On whose behalf (W3C); None begins a trace, and so does what is not well formed, which is counted."""
    span: bytes | None = None
    """The id (8 bytes) of a span that the program has for this call itself; with `traceparent` only, which
    names it, too, if the call begins the trace."""
    within: float | None = None
    """Seconds left of the call being served, which this one must not outlast; None begins a chain."""
    path: tuple[str, ...] = ()
    """Agents on whose behalf this call is made, the first caller first: `Invoke.path` of the call being served."""
    hops_left: int | None = None
    """`Invoke.hops_left` of the call being served; None begins a chain."""
    connect: float | None = None
    """Seconds that each attempt may wait for its link; None leaves it to the tier and the links."""
    read: float | None = None
    """Seconds that an attempt may take to answer while another instance may be asked; None leaves it to rules."""
    lasting: Lasting = Lasting.END
    stream: bool = False
    """The capability streams; which way is its own affair. `Engine.call` refuses (1405) what does not fit."""
    idle_timeout: float | None = None
    """Seconds without an item while the application waits for one, of a stream; None: that of the protocol."""


class PublishSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One event to publish. The topic is well formed (`ids.check_topic`)."""

    topic: str
    payload: bytes
    content_type: str = "application/cbor"
    agent: str | None = None
    """On whose behalf, if a handler publishes it."""
    session_id: bytes | None = None
    traceparent: str | None = None
    hops_left: int | None = None
    """`Invoke.hops_left` of the handler that publishes it; None begins a chain."""


class InvokeResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a handler ended. `code` 0 is a result; 1403 raised, 1405 the parameters did not fit (then not executed)."""

    code: int = 0
    content_type: str = "application/cbor"
    payload: bytes = b""
    detail: str = ""
    executed: bool = True
    caller_fault: bool = False
    """The handler says that the caller is at fault (`errors.BadRequest`)."""
