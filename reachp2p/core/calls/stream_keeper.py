"""What is done to a stream, whoever asks for it: who waits is woken, what it holds is counted, it ends once."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol as TypingProtocol

from reachp2p.core.calls.stream import Stream, StreamDue, StreamInput, StreamState
from reachp2p.core.calls.stream_pump import StreamPump
from reachp2p.core.calls.stream_table import StreamTable
from reachp2p.core.commands import StreamKey
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, StreamReady
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.links.table import Links
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import Message, Reply, StreamCredit
from reachp2p.errors import ErrorCode

REDIAL_INTERVAL = 1.0
"""Seconds between two dials to the other life of an interrupted stream."""


class StreamOwner(TypingProtocol):
    """What a stream is part of: the `Caller` has calls, the `Callee` invocations."""

    def on_stream_lost(self, key: StreamKey, detail: str, now: float) -> None:
        """The other side is gone, or the link was broken for too long."""

    def on_stream_failed(self, key: StreamKey, code: ErrorCode, detail: str, now: float) -> None:
        """It cannot go on: nothing came for too long (1401), memory ran out (1402), rules were broken (1404)."""


class StreamKeeper:
    """The streams of a node and their ends. Bounds: `streams_max`, `stream_bytes_max` for all that they hold."""

    def __init__(
        self,
        protocol: Protocol,
        own: NodeId,
        links: Links,
        effects: Effects,
        timers: Timers,
        counters: Counters,
    ) -> None:
        self._protocol = protocol
        self._own = own
        self._effects = effects
        self._timers = timers
        self._counters = counters
        self.table = StreamTable(protocol.streams_max)
        self.pump = StreamPump(own, links, counters, locally=self.say_locally)
        self.caller: StreamOwner | None = None
        self.callee: StreamOwner | None = None
        self.on_reply: Callable[[Reply, float], None] | None = None
        self.on_said_locally: Callable[[Stream, Message, float], None] | None = None
        """Takes what a stream of this node says to another of this node, replies excepted."""

    def say_locally(self, stream: Stream, message: Message, now: float) -> None:
        """A stream of this node says something to the other one."""
        if isinstance(message, Reply):
            assert self.on_reply is not None, "a local call has a caller"
            self.on_reply(message, now)
        else:
            assert self.on_said_locally is not None, "wired"
            self.on_said_locally(stream, message, now)

    def forget(self, node: NodeId, life: Life, message_id: bytes) -> bool:
        """The caller has the end, or does not want it; false if no finished stream of it is kept."""
        stream = self.table.of_message(node, message_id, is_caller=False)
        if stream is None or stream.life != life or stream.reply is None:
            return False
        self.end(stream)
        return True

    def wait(self, stream: Stream, now: float) -> None:
        """Its reader finds nothing: from now on it may become idle, unless nothing can come."""
        if stream.state is StreamState.FLOWING:
            stream.waits_since = now
            self.arm(stream, now)

    def arm(self, stream: Stream, now: float) -> None:
        """Have it looked at in time; a timer that is set earlier already looks again."""
        at = min(
            stream.lost_at + self._protocol.stream_resume_window,
            stream.waits_since + stream.idle_timeout,
            stream.forget_at,
        )
        if stream.state is StreamState.INTERRUPTED and stream.is_caller:
            at = min(at, now + REDIAL_INTERVAL)
        due = self._timers.due_at(StreamDue(stream.key))
        if at < inf and (due is None or at < due):
            self._timers.set(StreamDue(stream.key), at)

    def account(self, stream: Stream, now: float) -> None:
        """What a stream holds has changed; beyond the bound of all, those that move least go first."""
        self.table.account(stream)
        while self.table.bytes > self._protocol.stream_bytes_max:
            victim = self.table.longest_unmoved()
            self._counters.add("streams.evicted")
            detail = (
                f"the streams of this node hold more than {self._protocol.stream_bytes_max} bytes, "
                "and nothing has moved in this one for longest"
            )
            self.fail(victim, ErrorCode.CANCELLED, detail, now)

    def wake(self, stream: Stream) -> None:
        """Its application should look again."""
        stream.waits_since = inf
        if stream.reader_waits or stream.writer_waits:
            stream.reader_waits = stream.writer_waits = False
            self._effects.add(StreamReady(stream.key))

    def break_rules(self, stream: Stream, detail: str, now: float) -> None:
        """The other side does what no correct node does: its stream ends with 1404."""
        self._counters.add("streams.broken")
        self.fail(stream, ErrorCode.PAYLOAD_TOO_LARGE, f"the other side breaks the rules: {detail}", now)

    def fail(self, stream: Stream, code: ErrorCode, detail: str, now: float) -> None:
        """It cannot go on: its owner ends it, or, after its handler, nobody does."""
        if stream.is_caller or stream.reply is None:
            self._owner(stream).on_stream_failed(stream.key, code, detail, now)
            assert self.table.get(stream.key) is None, "its owner ends it"
        else:
            self.give_up(stream, detail, now, code)

    def lose(self, stream: Stream, detail: str, now: float) -> None:
        """The other side is gone, or was not reached for too long."""
        self._counters.add("streams.lost")
        if stream.is_caller or stream.reply is None:
            self._owner(stream).on_stream_lost(stream.key, detail, now)
        else:
            self.end(stream)

    def give_up(self, stream: Stream, detail: str, now: float, code: ErrorCode = ErrorCode.NODE_LOST) -> None:
        """Keep nothing more of a stream whose handler has ended; its caller is told, once, if it does not know."""
        assert stream.node is not None, "the callee's side"
        assert stream.life is not None, "the callee's side"
        was_told = stream.is_reply_sent
        items = stream.outflow.next if stream.outflow is not None else 0
        self.end(stream)
        if was_told:
            return
        reply = Reply(message_id=stream.message_id, code=code, detail=detail, items=items)
        if stream.node == self._own:
            self.say_locally(stream, reply, now)
        else:
            self.pump.farewell(stream.node, stream.life, reply)

    def end(self, stream: Stream) -> None:
        """Nothing of it is left here."""
        stream.move(StreamInput.ENDED)
        self.pump.forget(stream)
        self.table.remove(stream)
        self._timers.cancel(StreamDue(stream.key))
        self.wake(stream)

    def _owner(self, stream: Stream) -> StreamOwner:
        owner = self.caller if stream.is_caller else self.callee
        assert owner is not None, "whoever begins streams is wired"
        return owner

    def confirm(self, stream: Stream) -> None:
        """If the callee has said how it ended, it need not keep that any longer."""
        if stream.reply is None or stream.node is None or stream.life is None:
            return
        if stream.node == self._own:
            self.forget(stream.node, stream.life, stream.message_id)
        else:
            confirmation = StreamCredit(message_id=stream.message_id, ended=True)
            self.pump.farewell(stream.node, stream.life, confirmation)
