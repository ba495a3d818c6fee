"""The one object a driver touches: everything a node knows and decides, without any IO of its own.

A driver feeds it what happened (`handle_…`, commands, each with `now` in monotonic seconds), performs the effects it
answers with, in order, and wakes it at `next_deadline`. The trio runtime and the simulator are two such drivers, so
what is proven in one is true of the other. Nothing that arrives from the network raises out of `handle_…`: it is
dropped and counted by reason (`diagnostics`).
"""

from __future__ import annotations

from collections.abc import Sequence

from reachp2p.core.commands import AgentSpec, CallSpec, InvokeResult, RouteQuery
from reachp2p.core.effects import Effect, LinkEnd
from reachp2p.core.ids import Address, Entropy, Life, LinkId, NodeId, Rng, Ticket
from reachp2p.core.settings import Settings
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p.core.views import AgentView, Explanation, MemberView


class Engine:
    """One node. Build it, `start` it once, feed it until `Fenced`, `StartRefused` or `DrainFinished`."""

    def __init__(
        self, settings: Settings, *, signer: Signer, verifier: Verifier, rng: Rng, entropy: Entropy
    ) -> None: ...

    # Inputs: what happened

    def start(self, now: float, wall: float) -> None:
        """Begin a life: reads its storage, writes the new epoch, asks others about its own id, announces itself."""

    def handle_datagram(self, source: Address, data: bytes, now: float) -> None:
        """A UDP payload arrived."""

    def handle_link_opened(self, link: LinkId, identity: NodeId | None, now: float) -> None:
        """A dialled link is open, or (negative id) one was accepted. `identity`: what the transport has proven, if it does."""

    def handle_frame(self, link: LinkId, data: bytes, now: float) -> None:
        """A whole frame arrived on a link."""

    def handle_link_writable(self, link: LinkId, free_bytes: int, now: float) -> None:
        """The driver's queue for this link has this much room."""

    def handle_link_closed(self, link: LinkId, end: LinkEnd, now: float) -> None:
        """A link ended by the remote or by the network, or a dial failed."""

    def handle_persisted(self, ticket: Ticket, now: float) -> None:
        """A `Persist` or `Delete` is durable."""

    def handle_persist_failed(self, ticket: Ticket, reason: str, now: float) -> None:
        """A `Persist` or `Delete` failed; nothing of it is stored."""

    def handle_fetched(self, request: int, rows: Sequence[tuple[bytes, bytes]], now: float) -> None:
        """The rows of a `Fetch`, in key order."""

    def handle_invoke_result(self, invocation: int, result: InvokeResult, now: float) -> None:
        """A handler ended."""

    def handle_timeout(self, now: float) -> None:
        """`next_deadline` has come (calling it early or late is harmless; late is noticed)."""

    def handle_wall_clock(self, wall: float, now: float) -> None:
        """What the wall clock says (Unix seconds); at start and about every ten seconds."""

    # Commands: what the application wishes

    def set_seeds(self, addresses: Sequence[Address], now: float) -> None:
        """The seed addresses as resolved now; they are contacted until one answers, and for ever after, slowly."""

    def register(self, spec: AgentSpec, now: float) -> int:
        """Offer an agent (or change it); returns its registry version. Raises `InvalidIdentifier` (1707)."""

    def withdraw(self, agent: str, now: float) -> None:
        """Stop offering an agent. Raises `LocalProtocolError` if it is not offered."""

    def call(self, spec: CallSpec, now: float) -> bytes:
        """Start a call and return its id; it ends with one `CallEnded`. Raises `CallFailed` (13xx) if nobody can be asked."""

    def cancel_call(self, call: bytes, now: float) -> None:
        """Cancel a call; it ends with `CallEnded` 1402 unless it has ended."""

    def leave(self, now: float) -> None:
        """Drain and say goodbye: withdraw agents, refuse new work, finish what runs, spread LEFT; then `DrainFinished`."""

    # Outputs

    def take_effects(self) -> list[Effect]:
        """What to do now, in order. Packs, piggybacks, signs and encodes."""

    def next_deadline(self) -> float | None:
        """When to call `handle_timeout`, or None."""

    # Questions

    @property
    def node(self) -> NodeId:
        """This node's id."""

    @property
    def life(self) -> Life | None:
        """This node's life, or None before it is on disk."""

    def members(self) -> list[MemberView]:
        """All members in NodeId order, this node included."""

    def agents(self) -> list[AgentView]:
        """All instances, by agent id and NodeId."""

    def explain(self, query: RouteQuery) -> Explanation:
        """Why a call with this query would go where it would go; changes nothing."""

    def schema(self, digest: bytes) -> bytes | None:
        """A JSON Schema by its hash, if it is here."""

    def view_hash(self) -> bytes:
        """Hash over all signed facts held (heads and records): equal views, equal hash."""

    def diagnostics(self) -> dict[str, int]:
        """Counters by name (`dropped.<reason>`, `datagrams.sent`, …) and gauges of every bounded table."""
