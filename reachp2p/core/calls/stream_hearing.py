"""What the other side of a stream says, and what follows from it (docs/protocol/streams.md)."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from reachp2p.core.calls.inflow import Arrival
from reachp2p.core.calls.stream import Stream, StreamInput, StreamState
from reachp2p.core.calls.stream_keeper import StreamKeeper
from reachp2p.core.counters import Counters
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.messages import (
    Cancel,
    Message,
    Reply,
    StreamCredit,
    StreamEnd,
    StreamItem,
    StreamResume,
)
from reachp2p.errors import ErrorCode


class StreamHearing:
    """Hands messages to their streams. Whatever breaks the rules ends its own stream and nothing else."""

    def __init__(self, protocol: Protocol, own: NodeId, keeper: StreamKeeper, counters: Counters) -> None:
        self._protocol = protocol
        self._own = own
        self._keeper = keeper
        self._table = keeper.table
        self._pump = keeper.pump
        self._counters = counters
        keeper.on_said_locally = self._on_said_locally

    def on_message(
        self,
        node: NodeId,
        life: Life,
        message: StreamItem | StreamCredit | StreamEnd | StreamResume,
        now: float,
    ) -> None:
        """What the other side of a stream says."""
        stream = self._table.of_message(node, message.message_id, is_caller=True)
        if stream is None:
            stream = self._table.of_message(node, message.message_id, is_caller=False)
        if stream is not None and stream.life == life:
            self._hear(stream, message, now)
        elif isinstance(message, StreamResume):
            self._counters.add("streams.resume_unknown")
            # The one is for a caller, the other for a callee; whichever asks ignores what is not for it.
            detail = "this stream is not known here any more, or has never been"
            code = ErrorCode.OUTCOME_UNKNOWN
            reply = Reply(message_id=message.message_id, code=code, detail=detail)
            self._pump.farewell(node, life, reply)
            self._pump.farewell(node, life, Cancel(message_id=message.message_id))
        else:
            self._counters.add("streams.message_unmatched")  # it has ended here, and the other side is told

    def _on_said_locally(self, stream: Stream, message: Message, now: float) -> None:
        other = self._table.of_message(self._own, stream.message_id, is_caller=not stream.is_caller)
        if other is not None:
            self._hear(other, message, now)

    def _hear(self, stream: Stream, message: Message, now: float) -> None:
        match message:
            case StreamItem():
                self._on_item(stream, message, now)
            case StreamCredit(ended=True):
                if not stream.is_caller and stream.reply is not None:
                    self._keeper.end(stream)
            case StreamCredit():
                self._on_credit(stream, message.credit, now)
            case StreamEnd():
                self._on_end(stream, message, now)
            case StreamResume():
                self._on_resume(stream, message, now)

    def _on_item(self, stream: Stream, item: StreamItem, now: float) -> None:
        inflow = stream.inflow
        if inflow is None:
            if stream.reply is None:
                self._keeper.break_rules(stream, "it sends items without credit", now)
            else:
                self._counters.add("streams.item_unwanted")  # parameters for a handler that has ended
            return
        if len(item.payload) > self._protocol.payload_max:
            self._keeper.break_rules(stream, f"an item has {len(item.payload)} bytes", now)
            return
        if item.extensions:  # of a later version, and not counted
            item = replace(item, extensions={})
        arrival = inflow.arrive(item)
        if arrival is Arrival.REPEATED:
            self._counters.add("streams.item_repeated")
            return
        if arrival is not Arrival.NEW:
            self._keeper.break_rules(stream, f"it sends {arrival.value}", now)
            return
        self._counters.add("streams.items_received")
        if stream.reader_waits:
            if inflow.received > inflow.taken:
                self._keeper.wake(stream)
            else:  # an earlier one is missing, and has as long again
                stream.waits_since = now
        if stream.reply is not None and inflow.is_complete:
            assert self._keeper.on_reply is not None, "a stream of a caller"
            self._keeper.on_reply(stream.reply, now)
        else:
            self._keeper.account(stream, now)

    def _on_credit(self, stream: Stream, credit: int, now: float) -> None:
        outflow = stream.outflow
        if outflow is None:
            return
        before = outflow.credit
        outflow.grant(credit)
        if outflow.is_finished:  # its end waits for the first credit
            self._pump.ready(stream)
        if outflow.credit > before:  # or whoever repeats itself would look as if it read
            stream.moved_at = now
        self._keeper.account(stream, now)
        if stream.writer_waits:
            self._keeper.wake(stream)

    def _on_end(self, stream: Stream, end: StreamEnd, now: float) -> None:
        inflow = stream.inflow
        if stream.is_caller or (inflow is None and stream.reply is None):
            self._keeper.break_rules(stream, "it ends what it cannot have begun", now)
        elif inflow is not None:
            if not inflow.end(end.items):
                self._keeper.break_rules(
                    stream, f"it says that it has sent {end.items} items, which is not so", now
                )
            elif stream.reader_waits and inflow.is_over:
                self._keeper.wake(stream)

    def _on_resume(self, stream: Stream, resume: StreamResume, now: float) -> None:
        if resume.answers and stream.state is not StreamState.RESUMING:
            # Both sides had asked and we have gone on already, or the link that was asked on is lost, too.
            self._counters.add("streams.resume_late")
            return
        if stream.outflow is not None:
            if stream.outflow.resume(resume.next) is None:
                self._counters.add("streams.resume_late")
            stream.outflow.grant(resume.credit)
        stream.move(StreamInput.RESUMED)
        self._counters.add("streams.resumed")
        stream.lost_at = inf
        stream.is_end_sent = stream.is_reply_sent = False
        stream.is_resume_due = False
        stream.is_answer_due = stream.is_answer_due or not resume.answers
        if stream.reader_waits:
            self._keeper.wait(stream, now)
        self._pump.ready(stream)
        self._keeper.account(stream, now)
        if stream.writer_waits:
            self._keeper.wake(stream)
