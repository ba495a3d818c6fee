"""What the application wishes of an engine: agents, calls, streams, events, rules, the end."""

from __future__ import annotations

from collections.abc import Sequence

from reachp2p.core.calls.gathering import Gathered
from reachp2p.core.calls.hops import HopFilter
from reachp2p.core.commands import AgentSpec, CallSpec, Flow, PublishSpec, StreamKey
from reachp2p.core.events import DrainFinished
from reachp2p.core.frame import Frame
from reachp2p.core.ids import Address, check_pattern, check_topic
from reachp2p.core.membership.life import Phase
from reachp2p.core.routing.shapes import declaring
from reachp2p.core.wire.messages import StreamItem
from reachp2p.errors import CallFailed, ConfigurationInvalid, ErrorCode, LocalProtocolError

DRAIN_TIMEOUT = 10.0
GATHER_TIMEOUT = 10.0


class Commanded(Frame):
    """The commands of an engine; each is an input."""

    def set_cpu(self, percent: int | None) -> None:
        """How much of the processors that this node may use it uses, as its driver measures; None: not known."""
        self._parts.own_load.cpu = None if percent is None else max(0, min(100, percent))

    def set_overdue(self, handlers: int) -> None:
        """How many handlers go on although their calls have ended and they were cancelled, as its driver counts."""
        self._parts.own_load.overdue = max(0, handlers)

    def set_seeds(self, addresses: Sequence[Address], now: float) -> None:
        """The seed addresses as resolved now; they are contacted until one answers, and for ever after, slowly."""
        self._parts.contacts.set_seeds(addresses, now)

    def set_addresses(self, addresses: Sequence[Address], now: float) -> None:
        """Tell others these addresses from now on (at most four)."""
        now = self._enter(now)
        before = self._parts.own.addresses
        self._parts.own.readdress(tuple(addresses[:4]))
        if self._parts.life.is_running and self._parts.own.addresses != before:
            self._hearing.announce(now)
        self._settle(now)

    def register(self, spec: AgentSpec, now: float) -> int:
        """Offer an agent (or change it); returns its registry version, 0 before the node runs. Raises 1707 or 1704."""
        now = max(now, self._now)
        if lacking := self._parts.rules.lacking(spec):
            raise ConfigurationInvalid(lacking)
        record = self._parts.agents.register(spec, now)
        self._parts.event_handlers.offer(spec)
        if record is None:
            return 0
        if self._parts.life.is_running:
            self._hearing.own_record(record, now)
            self._settle(now)
        return record.fact.version

    def withdraw(self, agent: str, now: float) -> None:
        """Stop offering an agent. Raises `LocalProtocolError` if it is not offered."""
        now = max(now, self._now)
        record = self._parts.agents.withdraw(agent, now)
        self._parts.event_handlers.withdraw(agent)
        if record is not None and self._parts.life.is_running:
            self._hearing.own_record(record, now)
            self._settle(now)

    def set_own_rules(self, document: object, origin: str, now: float) -> bool:
        """Go by these rules for this node alone, before those of the cluster; None: by none. Also before the start.

        `document`: plain values as TOML has them, `origin`: their file. False if they are the same as before. Raises
        `RulesInvalid` (1704) with all that is wrong, and nothing has changed.
        """
        now = max(now, self._now)
        return self._parts.rules.set_own(document, origin, now)

    def apply_rules(self, document: object, comment: str, now: float) -> int:
        """Let the whole cluster go by these rules, in place of its former ones; returns their version.

        Raises `RulesInvalid` (1704) with all that is wrong, and nothing has changed.
        """
        now = self._enter(now)
        if not self._parts.life.is_running:
            raise LocalProtocolError("rules can be applied to the cluster while this node runs")
        record = self._parts.rules.apply(document, comment, now)
        self._parts.rule_spreading.tell(record)
        self._settle(now)
        return record.fact.version

    def call(self, spec: CallSpec, now: float) -> bytes:
        """Start a call and return its id; it ends with one `CallEnded`. Raises `CallFailed` if nobody can be asked."""
        now = self._enter(now)
        try:
            if not self._parts.life.is_running:
                raise CallFailed(
                    ErrorCode.FENCED, f"this node does not run (it is {self._parts.life.phase.value})"
                )
            try:
                return self._parts.caller.call(spec, now)
            except CallFailed as failed:
                failed.call = self._parts.hops.unplaced(spec, failed.code, failed.message, now).hex()
                raise
        finally:  # a call that fails is an input too: lateness may have been noticed
            self._settle(now)

    def cancel_call(self, call: bytes, now: float) -> None:
        """Cancel a call; it ends with `CallEnded` 1402 unless it has ended."""
        now = self._enter(now)
        self._parts.caller.cancel(call, now)
        self._settle(now)

    def send_item(self, stream: StreamKey, payload: bytes, content_type: str, now: float) -> Flow:
        """Give a stream an item: a parameter of a call, or a result of an invocation.

        WAIT: there is no credit, and `StreamReady` says when to try again. ENDED: nobody takes it any more. Raises
        `CallFailed` (1404) for an item that is too large, `LocalProtocolError` if nothing can be sent on this stream.
        """
        now = self._enter(now)
        flow = self._parts.streams.send(stream, payload, content_type, now)
        self._settle(now)
        return flow

    def end_items(self, call: bytes, now: float) -> None:
        """A call has no more parameters."""
        now = self._enter(now)
        self._parts.streams.finish_sending(call)
        self._settle(now)

    def take_item(self, stream: StreamKey, now: float) -> StreamItem | Flow:
        """Take the next item of a stream: a result of a call, or a parameter of an invocation.

        WAIT: it is not here yet, and `StreamReady` says when to try again. ENDED: none follows; how a call has ended,
        and with which last items, is in its `StreamEnded`. Raises `LocalProtocolError` if nothing is received on it.
        """
        now = self._enter(now)
        item = self._parts.streams.take(stream, now)
        self._settle(now)
        return item

    def stop_waiting(self, stream: StreamKey) -> None:
        """Whoever was told to WAIT by `take_item` does not want the item any more, for now."""
        self._parts.streams.stop_waiting(stream)

    def gather(self, wanted: HopFilter, now: float, timeout: float = GATHER_TIMEOUT) -> int:
        """Ask those that took part for recorded hops (docs/protocol/sessions.md); returns the number of the one
        `HopsGathered` that follows within `timeout` seconds. Raises `CallFailed` (1406, 1601)."""
        now = self._enter(now)
        try:
            if not self._parts.life.is_running:
                raise CallFailed(
                    ErrorCode.FENCED, f"this node does not run (it is {self._parts.life.phase.value})"
                )
            return self._parts.gatherings.begin(wanted, timeout, now)
        finally:
            self._settle(now)

    def gathered(self, gathering: int) -> Gathered:
        """What was found; once, after its `HopsGathered`."""
        return self._parts.gatherings.take(gathering)

    def cancel_gathering(self, gathering: int) -> None:
        """Nobody waits for it any more."""
        self._parts.gatherings.cancel(gathering)

    def fetch_schemas(self, hashes: Sequence[bytes], now: float) -> int | None:
        """Ask those that declare these schemas for them; the number of the one `SchemasFetched` that follows within two
        seconds. None if nobody is to be asked: none of them is declared, or all were asked for in vain a moment ago."""
        now = self._enter(now)
        parts = self._parts
        number = None
        hashes = parts.fetches.worth(hashes, now)
        if hashes and parts.life.is_running:
            number = parts.fetches.begin(declaring(parts.routing, hashes), now)
        self._settle(now)
        return number

    def adopt_span(self, invocation: int, span: bytes) -> None:
        """The program has a span of its own (8 bytes) for a running invocation: its hop goes by that."""
        self._parts.callee.adopt_span(invocation, span)

    def publish(self, spec: PublishSpec, now: float) -> int:
        """Send an event to every node that subscribes to its topic; to how many. Nothing was sent if it raises
        `CallFailed` (1404, 1407, 1601), or 1707 for a topic that is not well formed."""
        check_topic(spec.topic)
        now = self._enter(now)
        try:
            if not self._parts.life.is_running:
                raise CallFailed(
                    ErrorCode.FENCED, f"this node does not run (it is {self._parts.life.phase.value})"
                )
            return self._parts.publisher.publish(spec, now)
        finally:
            self._settle(now)

    def subscribe(self, pattern: str, now: float) -> int:
        """Want events whose topics match a pattern, as `EventReceived` with the number returned. Raises 1707, 1704."""
        check_pattern(pattern)
        now = self._enter(now)
        number = self._subscribing.subscribe(pattern, now)
        self._settle(now)
        return number

    def unsubscribe(self, subscription: int, now: float) -> None:
        """Want them no more."""
        now = self._enter(now)
        self._subscribing.unsubscribe(subscription, now)
        self._settle(now)

    def leave(self, now: float, timeout: float = DRAIN_TIMEOUT) -> None:
        """Step off the ring, drain and say goodbye: withdraw agents, serve until others have heard of it, refuse new
        work, finish what runs (all of it at most `timeout` seconds), spread LEFT; then `DrainFinished`. Before the life
        runs, or after its end, it finishes at once."""
        now = self._enter(now)
        parts = self._parts
        if not parts.life.leave():
            if parts.life.phase not in (Phase.LEAVING, Phase.LEFT):
                parts.life.left()
                self._stop(now)
                parts.effects.notify(DrainFinished(at=now, unfinished=0))
            return
        self._leaving.begin(now, timeout)
        self._settle(now)
