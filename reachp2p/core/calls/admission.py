"""What a callee looks at before it accepts a request; what it refuses has certainly not been executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reachp2p.core.commands import AgentSpec, CapabilitySpec
from reachp2p.core.ids import Life
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.messages import Request
from reachp2p.errors import ErrorCode

Refusal = tuple[ErrorCode, str]
"""The code and, in words, why."""


class Admission:
    """Judges requests by what they say and by what this node offers; keeps nothing."""

    def __init__(
        self, protocol: Protocol, own_life: Callable[[], Life | None], agents: Mapping[str, AgentSpec]
    ) -> None:
        """`agents` are those offered now, by id."""
        self._protocol = protocol
        self._own_life = own_life
        self._agents = agents

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

    def offered(self, request: Request) -> CapabilitySpec | None:
        """What is asked for, if it is offered here."""
        spec = self._agents.get(request.agent)
        if spec is not None:
            for offered in spec.capabilities:
                if offered.name == request.capability:
                    return offered
        return None
