"""What an engine tells the application (`Notify`). Events are in the past tense and carry natural values."""

from __future__ import annotations

from enum import Enum

import msgspec

from reachp2p.core.ids import Address, Life, NodeId
from reachp2p.core.wire.messages import StreamItem


class MemberState(Enum):
    """What we believe about another node. Order of rank: ALIVE < SUSPECT < DEAD; LEFT is the subject's own word."""

    ALIVE = "ALIVE"
    SUSPECT = "SUSPECT"
    DEAD = "DEAD"
    LEFT = "LEFT"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all events. `at` is the engine's monotonic time in seconds."""

    at: float


class Started(Event, frozen=True, kw_only=True):
    """The node has its life and announces itself."""

    life: Life


class StartRefused(Event, frozen=True, kw_only=True):
    """The node will not start (1601): its state folder is fenced, or another live node runs under its key."""

    code: int
    reason: str


class Joined(Event, frozen=True, kw_only=True):
    """The first other member has answered; from now on the view converges."""

    via: Address | None


class SelfContacted(Event, frozen=True, kw_only=True):
    """A seed address leads back to this node; that is not joining (once per address)."""

    address: Address


class SeedUnreached(Event, frozen=True, kw_only=True):
    """A seed address did not lead to a node of this cluster (once per address and reason); it is tried again for ever.

    `code`: 1701 nobody answers, 1705 another cluster, 1708 another wire version. `reason` may be foreign text.
    """

    address: Address
    code: int
    reason: str


class MemberChanged(Event, frozen=True, kw_only=True):
    """A member appeared (`old` None), changed state, opened a new life, or was forgotten (`new` None)."""

    node: NodeId
    name: str
    life: Life
    incarnation: int
    old: MemberState | None
    new: MemberState | None
    reason: str


class RecordChanged(Event, frozen=True, kw_only=True):
    """An agent of a node was registered, changed (`present`) or withdrawn."""

    node: NodeId
    agent: str
    version: int
    present: bool


class EventReceived(Event, frozen=True, kw_only=True):
    """An event of a topic that this node subscribes to has arrived, or was published here.

    `gap`: how many events of this publisher for this node, of whatever topic, were lost on the way just before it.
    """

    subscriptions: tuple[int, ...]
    """Those of `Engine.subscribe` that want it."""
    topic: str
    content_type: str
    payload: bytes
    publisher: NodeId
    agent: str | None
    """On whose behalf it was published, as its node says."""
    sequence: int
    gap: int
    published_at: int
    """Unix milliseconds by the publisher's clock, for people."""
    session_id: bytes | None
    traceparent: str | None
    hops_left: int
    missed: int = 0
    """How many events the handler to which it is handed has missed just before it, because it was too slow."""


class ClaimChanged(Event, frozen=True, kw_only=True):
    """This node owns an exclusive agent from now on, with this claim epoch and fencing token, or (0, None) no more."""

    agent: str
    epoch: int
    token: int | None


class CallEnded(Event, frozen=True, kw_only=True):
    """The one end of a call. `code` 0 is a result, else a code of `reachp2p.errors`.

    `attempts` counts instances asked; `node` is the one that answered or was last asked.
    """

    call: bytes
    code: int
    content_type: str
    payload: bytes
    detail: str
    node: NodeId | None
    agent: str | None
    attempts: int
    caller_fault: bool = False
    """The handler says that the caller is at fault: nothing is wrong with the instance."""
    retry_after: float | None = None
    """Seconds after which the instance would take another call (1410)."""


class CallOutlasted(Event, frozen=True, kw_only=True):
    """A call has reached its synchronous limit and goes on as a task, until `deadline` at the latest."""

    call: bytes
    deadline: float


class StreamEnded(CallEnded, frozen=True, kw_only=True):
    """The one end of a call that is a stream."""

    items: int = 0
    """Results that the application has had, those of `rest` included."""
    rest: tuple[StreamItem, ...] = ()
    """Results that have arrived in order and were not taken before the end: they come before it."""


class HopsGathered(Event, frozen=True, kw_only=True):
    """A question for recorded hops has ended; `Engine.gathered` has what was found."""

    gathering: int


class SchemasFetched(Event, frozen=True, kw_only=True):
    """A round for JSON Schemas has ended; what has come can be asked for by its hash."""

    fetch: int


class CloneSeen(Event, frozen=True, kw_only=True):
    """Another live node under our own key was seen; it is the lower life and is told to stop."""

    other: Life
    address: Address | None


class Paused(Event, frozen=True, kw_only=True):
    """A higher life of our own key was heard of: nothing new is started until its challenge ends."""

    other: Life


class Resumed(Event, frozen=True, kw_only=True):
    """Nobody answered for the higher life; this node goes on under a new life above it."""

    life: Life


class Fenced(Event, frozen=True, kw_only=True):
    """A higher life of our own key is alive: this node has stopped for good (1601) and its folder is marked."""

    other: Life


class DrainFinished(Event, frozen=True, kw_only=True):
    """After `leave`: goodbye is said and spread, calls are finished or handed back; the driver may stop."""

    unfinished: int


class NodeIsolated(Event, frozen=True, kw_only=True):
    """Nobody has answered this node in its last probe rounds: calls that only others could serve fail at once."""


class IsolationEnded(Event, frozen=True, kw_only=True):
    """Somebody answers this node again, or it has not run meanwhile and begins to look anew."""


class ClockStepped(Event, frozen=True, kw_only=True):
    """Wall time moved by `seconds` against the steady clock. Only validity judgements are affected."""

    seconds: float


class Lagged(Event, frozen=True, kw_only=True):
    """Our timers fired `seconds` late: we doubt ourselves first."""

    seconds: float


class StorageFailed(Event, frozen=True, kw_only=True):
    """A write failed. What was to follow it was not sent."""

    table: str
    reason: str


class RulesChanged(Event, frozen=True, kw_only=True):
    """Other rules than before are in force here. `origin`: the file or record they are from; `version`: the record's.

    `changes` is what is otherwise, a line each: text of whoever wrote the rules.
    """

    origin: str
    version: int | None
    changes: tuple[str, ...]


class RulesRefused(Event, frozen=True, kw_only=True):
    """Rules cannot be used here (1704), so those before them stay in force. `reason` may quote foreign text."""

    origin: str
    reason: str


class NameShared(Event, frozen=True, kw_only=True):
    """Two keys use one display name; both are listed (once per pair of keys)."""

    name: str
    nodes: tuple[NodeId, NodeId]
