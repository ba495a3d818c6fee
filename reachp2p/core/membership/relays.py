"""Pings for others: a helper asks the target, hands its Ack back whole, and says after a while that it has none (SWIM
§4.1's ping-req, Lifeguard §IV.A's nack)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects
from reachp2p.core.ids import Address, NodeId
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import Nack, Ping, PingReq, RelayedAck

RELAYS_MAX = 256
"""Pings under way for others; a further PingReq is refused and counted."""
RELAYED_BYTES_MAX = 512
"""Of a datagram that a `RelayedAck` holds. An Ack alone has about 200; a longer one would not fit into ours."""


class RelayNackDue(msgspec.Struct, frozen=True):
    """Tell the origin that its target has not answered us yet."""

    nonce: bytes


class RelayEnds(msgspec.Struct, frozen=True):
    """Forget a relayed ping."""

    nonce: bytes


class Relay(msgspec.Struct):
    """A ping we sent for another node."""

    origin: NodeId
    origin_address: Address
    target: NodeId


class Relays:
    """The pings of one helper; at most `RELAYS_MAX` at once, and `ping_req_per_origin` a second for each origin."""

    def __init__(
        self,
        protocol: Protocol,
        table: MemberTable,
        ping_over_link: Callable[[NodeId, Ping], None],
        *,
        effects: Effects,
        timers: Timers,
        counters: Counters,
    ) -> None:
        self._protocol = protocol
        self._table = table
        self._ping_over_link = ping_over_link
        self._effects = effects
        self._timers = timers
        self._counters = counters
        self._relays: dict[bytes, Relay] = {}
        self._tokens: dict[NodeId, tuple[float, float]] = {}

    def stop(self) -> None:
        """Forget all of them."""
        for nonce in list(self._relays):
            self._drop(nonce)

    def on_ping_req(self, origin: NodeId, origin_address: Address, request: PingReq, now: float) -> None:
        """Ping `target` for `origin`, within its rate (`ping_req_per_origin` a second)."""
        target = self._table.get(NodeId(request.target))
        if target is None or target.address is None:
            self._counters.add("dropped.ping_req.unknown_target")
            return
        if request.nonce in self._relays:
            self._counters.add("dropped.ping_req.duplicate")
            return
        if len(self._relays) >= RELAYS_MAX or not self._take_token(origin, now):
            self._counters.add("dropped.ping_req.rate")
            return
        timeout = request.timeout_ms / 1000
        self._relays[request.nonce] = Relay(origin, origin_address, target.node)
        ping = Ping(nonce=request.nonce, origin=origin)
        self._effects.send(target.node, ping)
        self._ping_over_link(target.node, ping)
        if self._protocol.rules.lha_probe:
            self._timers.set(RelayNackDue(request.nonce), now + timeout * self._protocol.nack_fraction)
        self._timers.set(RelayEnds(request.nonce), now + timeout)

    def _take_token(self, origin: NodeId, now: float) -> bool:
        rate = self._protocol.ping_req_per_origin
        tokens, at = self._tokens.pop(origin, (rate, now))
        tokens = min(rate, tokens + (now - at) * rate)
        allowed = tokens >= 1
        self._tokens[origin] = (tokens - 1 if allowed else tokens, now)
        if len(self._tokens) > RELAYS_MAX:
            del self._tokens[next(iter(self._tokens))]
        return allowed

    def on_ack(
        self, nonce: bytes, source: NodeId, datagram: bytes
    ) -> tuple[NodeId, Address, RelayedAck] | None:
        """The target's Ack to a ping for another: hand its whole datagram back to the origin."""
        relay = self._relays.get(nonce)
        if relay is None or relay.target != source:
            self._counters.add("dropped.ack.no_relay")
            return None
        if not 0 < len(datagram) <= RELAYED_BYTES_MAX:
            self._counters.add("dropped.ack.relayed_size")
            return None
        self._drop(nonce)
        return relay.origin, relay.origin_address, RelayedAck(nonce=nonce, datagram=datagram)

    def on_nack_due(self, nonce: bytes) -> tuple[NodeId, Address, Nack] | None:
        """At 80 % of the time-out: say that we at least are here."""
        relay = self._relays.get(nonce)
        return None if relay is None else (relay.origin, relay.origin_address, Nack(nonce=nonce))

    def on_ends(self, nonce: bytes) -> None:
        """The origin's round is over."""
        if nonce in self._relays:
            self._drop(nonce)

    def _drop(self, nonce: bytes) -> None:
        del self._relays[nonce]
        self._timers.cancel(RelayNackDue(nonce))
        self._timers.cancel(RelayEnds(nonce))

    def __len__(self) -> int:
        return len(self._relays)
