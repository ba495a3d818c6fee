"""What a callee looks at before it accepts a request; what it refuses has certainly not been executed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from reachp2p.core.calls.rates import Buckets
from reachp2p.core.commands import AgentSpec, CapabilitySpec, StreamKind
from reachp2p.core.counters import Counters
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.registry.access import ACCESS, may_call
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.messages import Request
from reachp2p.errors import ErrorCode

Refusal = tuple[ErrorCode, str]
"""The code and, in words, why."""


class Admission:
    """Judges requests by what they say and by what this node offers; remembers how fast callers call (`Buckets`)."""

    def __init__(
        self,
        protocol: Protocol,
        own_life: Callable[[], Life | None],
        agents: Mapping[str, AgentSpec],
        tokens: Mapping[str, int],
        offered_by: Callable[[NodeId, Life], Collection[str]],
        counters: Counters,
    ) -> None:
        """`agents` are those offered now, by id, `tokens` those of the exclusive ones that this node owns; `offered_by`
        says which agents a node offers in a life of its."""
        self._offered_by = offered_by
        self._buckets = Buckets(counters)
        self._protocol = protocol
        self._own_life = own_life
        self._agents = agents
        self._tokens = tokens
        self._leaving: dict[str, AgentSpec] = {}
        """What this node serves on although it has withdrawn it."""

    def refusal(self, request: Request) -> Refusal | None:
        """Why a request cannot be served by anybody here, or None."""
        if request.life != self._own_life():
            return ErrorCode.NODE_LOST, "the life that this call is for has ended; a newer one runs here"
        if request.hops_left < 1:
            return ErrorCode.HOPS_USED_UP, "the chain of calls is too long"
        if request.agent in request.path:
            return ErrorCode.LOOP, f"{request.agent!r} is on the path of this call already"
        if len(request.payload) > self._protocol.payload_max:
            return ErrorCode.PAYLOAD_TOO_LARGE, f"at most {self._protocol.payload_max} bytes"
        return None

    def access_refusal(self, node: NodeId, life: Life, request: Request) -> Refusal | None:
        """Why this node, whose key and life its link has proven, may not call that agent, or None."""
        spec = self._spec(request.agent)
        if spec is None or spec.access == "public":
            return None
        offered = self._offered_by(node, life)
        if may_call(ACCESS[spec.access], spec.callers, spec.agent, node, offered):
            return None
        return (
            ErrorCode.ACCESS_DENIED,
            f"{request.agent!r} is {spec.access}, and the calling node is not among its callers",
        )

    def serve_on(self) -> None:
        """Serve what is offered now also when it is withdrawn: this node leaves, of which others have to hear first.

        Not so an exclusive agent: another node may own it from then on.
        """
        self._leaving = {name: spec for name, spec in self._agents.items() if not spec.exclusive}

    def _spec(self, agent: str) -> AgentSpec | None:
        return self._agents.get(agent) or self._leaving.get(agent)

    @property
    def buckets(self) -> int:
        """Callers whose rate is remembered."""
        return len(self._buckets)

    def wait_for_token(
        self, node: NodeId, life: Life, request: Request, spec: CapabilitySpec, now: float
    ) -> float:
        """Seconds until this caller may call this capability again; 0, and a token is taken, if it may now."""
        rate = spec.rate
        if rate is None:
            return 0.0
        caller: bytes | str = node
        if rate.per == "namespace" and request.path:
            agent = request.path[-1]
            if agent in self._offered_by(node, life):  # its word counts for agents that it has signed for
                caller = agent.partition("/")[0]
        return self._buckets.take((request.agent, request.capability, caller), rate, now)

    def claim_refusal(self, request: Request) -> Refusal | None:
        """Why an exclusive agent is not served here: this node does not own it. Else None."""
        spec = self._agents.get(request.agent)
        if spec is None or not spec.exclusive or request.agent in self._tokens:
            return None
        return (
            ErrorCode.NO_HEALTHY_INSTANCE,
            f"{request.agent!r} stands by here; another node owns it, or nobody",
        )

    def offered(self, request: Request) -> CapabilitySpec | None:
        """What is asked for, if it is offered here."""
        spec = self._spec(request.agent)
        if spec is not None:
            for offered in spec.capabilities:
                if offered.name == request.capability:
                    return offered
        return None


def not_as_offered(request: Request, spec: CapabilitySpec) -> str:
    """A call that streams otherwise than its capability does, in words for its author."""
    if not spec.stream:
        return f"{request.capability!r} does not stream here: use call(), not stream()"
    if not request.stream:
        return f"{request.capability!r} streams here: use stream(), not call()"
    return (
        f"{request.capability!r} streams {_said(spec.stream)} here, not {_said(StreamKind(request.stream))}"
    )


def _said(kind: StreamKind) -> str:
    return {StreamKind.RESULTS: "results", StreamKind.PARAMETERS: "parameters"}.get(
        kind, "parameters and results"
    )
