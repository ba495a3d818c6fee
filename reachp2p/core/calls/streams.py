"""All streams of this node: what applications give and take, what links bring, how each is kept alive and ends
(docs/protocol/streams.md; cases B36, B39).

A stream is part of a call or of an invocation, which decides when it ends. Here is what flows until then: this machine
tells `Caller` and `Callee` when the last item has arrived, when the other side is lost for good, and when the rules
were broken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Protocol as TypingProtocol

from msgspec.structs import replace

from reachp2p.core.calls.inflow import Arrival, Inflow
from reachp2p.core.calls.outflow import Outflow
from reachp2p.core.calls.stream import Stream, StreamDue, StreamInput, StreamState
from reachp2p.core.calls.stream_pump import StreamPump
from reachp2p.core.calls.stream_table import StreamTable
from reachp2p.core.commands import Flow, StreamKey, StreamKind
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, StreamReady
from reachp2p.core.ids import Address, Life, LinkId, NodeId
from reachp2p.core.links.outputs import LinkDown, LinkUp
from reachp2p.core.links.table import Links
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import (
    Cancel,
    Message,
    Reply,
    Request,
    StreamCredit,
    StreamEnd,
    StreamItem,
    StreamResume,
)
from reachp2p.errors import CallFailed, ErrorCode, InvalidIdentifier, LocalProtocolError

REDIAL_INTERVAL = 1.0
"""Seconds between two dials to the other life of an interrupted stream."""
CONTENT_TYPE_MAX = 256


class StreamOwner(TypingProtocol):
    """What a stream is part of: the `Caller` has calls, the `Callee` invocations."""

    def on_stream_lost(self, key: StreamKey, detail: str, now: float) -> None:
        """The other side is gone, or the link was broken for too long."""

    def on_stream_failed(self, key: StreamKey, code: ErrorCode, detail: str, now: float) -> None:
        """It cannot go on: nothing came for too long (1401), memory ran out (1402), rules were broken (1404)."""


class Streams:
    """Bounds: `streams_max`, the window of each, `stream_bytes_max` for all that they hold."""

    def __init__(
        self,
        protocol: Protocol,
        *,
        own: NodeId,
        links: Links,
        addresses: Callable[[NodeId], Sequence[Address]],
        effects: Effects,
        timers: Timers,
        counters: Counters,
    ) -> None:
        """`addresses` says where a member may be dialled again."""
        self._protocol = protocol
        self._own = own
        self._links = links
        self._addresses = addresses
        self._effects = effects
        self._timers = timers
        self._counters = counters
        self._table = StreamTable(protocol.streams_max)
        self._pump = StreamPump(own, links, counters, locally=self._hear_locally)
        self.caller: StreamOwner | None = None
        """Set by the `Caller`, as the next two; there is no stream before."""
        self.on_reply: Callable[[Reply, float], None] | None = None
        """Told a reply once all items that it counts have arrived, and replies of this node to itself."""
        self.callee: StreamOwner | None = None
        """Set by the `Callee`."""

    # Commands of the application, by call or invocation

    def send(self, key: StreamKey, payload: bytes, content_type: str, now: float) -> Flow:
        """Give an item. WAIT: there is no credit, and `StreamReady` says when to try again. ENDED: nobody takes it.

        Raises `CallFailed` (1404) for an item that is too large, `LocalProtocolError` if nothing can be sent here.
        """
        stream = self._table.get(key)
        if stream is None:
            return Flow.ENDED
        outflow = _out(stream)
        if stream.reply is not None:
            return Flow.ENDED
        if outflow.is_finished:
            raise LocalProtocolError("the items of this stream were ended already")
        size_max = self._protocol.payload_max
        if len(payload) > size_max:
            raise CallFailed(
                ErrorCode.PAYLOAD_TOO_LARGE,
                f"an item has {len(payload)} bytes, at most {size_max}; send several, or pass a reference",
            )
        if len(content_type) > CONTENT_TYPE_MAX or not content_type.isprintable():
            raise InvalidIdentifier(f"content_type: at most {CONTENT_TYPE_MAX} printable characters")
        if not outflow.offer(stream.message_id, payload, content_type):
            stream.writer_waits = True
            self._counters.add("streams.waits_for_credit")
            return Flow.WAIT
        self._pump.ready(stream)
        self._account(stream, now)
        return Flow.DONE

    def finish_sending(self, key: StreamKey) -> None:
        """A caller has no more parameters."""
        stream = self._table.get(key)
        if stream is not None and not _out(stream).is_finished:
            _out(stream).is_finished = True
            self._pump.ready(stream)

    def take(self, key: StreamKey, now: float) -> StreamItem | Flow:
        """Take the next item. WAIT: it is not here yet, `StreamReady` says when to try again. ENDED: none follows."""
        stream = self._table.get(key)
        if stream is None:
            return Flow.ENDED
        inflow = stream.inflow
        if inflow is None:
            if stream.reply is not None:
                return Flow.ENDED
            raise LocalProtocolError("nothing is received on this stream")
        item = inflow.take()
        if item is None:
            if inflow.is_over:
                return Flow.ENDED
            if not stream.reader_waits:
                stream.reader_waits = True
                self._wait(stream, now)
            return Flow.WAIT
        stream.moved_at = now
        if inflow.is_credit_due:
            stream.is_credit_due = True
            self._pump.ready(stream)
        self._account(stream, now)
        return item

    # Calls

    @property
    def has_room(self) -> bool:
        """Whether one more stream may begin here."""
        return self._table.has_room

    def begin(self, call: bytes, kind: StreamKind, idle_timeout: float | None, now: float) -> None:
        """A call that streams has begun; its request was not sent yet."""
        idle = self._protocol.stream_idle_timeout if idle_timeout is None else idle_timeout
        stream = Stream(call, call, None, None, idle, now, StreamState.UNASKED)
        self._reset(stream, kind)
        self._table.add(stream)
        self._counters.add("streams.begun")

    def asked(self, call: bytes, node: NodeId, life: Life, now: float) -> None:
        """Its request was sent."""
        stream = self._table.get(call)
        assert stream is not None, "it was begun with its call"
        stream.move(StreamInput.ASKED)
        stream.node, stream.life = node, life
        self._table.list_at_node(stream)
        self._pump.ready(stream)
        if stream.reader_waits:
            self._wait(stream, now)

    def retried(self, call: bytes) -> None:
        """Another instance is asked: all begins anew."""
        stream = self._table.get(call)
        assert stream is not None, "it was begun with its call"
        if stream.state is StreamState.UNASKED:
            return
        assert stream.is_untouched, "what has moved cannot be taken back"
        self._confirm(stream)
        stream.move(StreamInput.RETRIED)
        self._pump.forget(stream)
        self._table.unlist(stream)
        is_finished = stream.outflow is not None and stream.outflow.is_finished
        kind = StreamKind((stream.inflow is not None) + 2 * (stream.outflow is not None))
        self._reset(stream, kind)
        if stream.outflow is not None:
            stream.outflow.is_finished = is_finished

    def is_untouched(self, call: bytes) -> bool:
        """Whether another instance may still be asked: no item has moved."""
        stream = self._table.get(call)
        return stream is None or stream.is_untouched

    def is_complete(self, call: bytes, reply: Reply, now: float) -> bool:
        """A reply has come. Whether it is the end now; if not, `on_reply` is told it once its last item is here."""
        stream = self._table.get(call)
        if stream is None:
            return True
        inflow = stream.inflow
        if inflow is not None and reply.code:
            inflow.end_early(reply.items)
        elif inflow is not None and not inflow.end(reply.items):
            self._break(stream, f"it says that it has sent {reply.items} items, which is not so", now)
            return False
        stream.reply = reply
        self._account(stream, now)
        if stream.writer_waits:
            self._wake(stream)
        return inflow is None or inflow.is_complete

    def end_call(self, call: bytes) -> tuple[int, list[StreamItem]]:
        """The call has ended: how many items the application has had, with those returned, which are the rest."""
        stream = self._table.get(call)
        if stream is None:
            return 0, []
        rest = stream.inflow.take_all() if stream.inflow is not None else []
        items = stream.inflow.taken if stream.inflow is not None else 0
        self._confirm(stream)
        self._end(stream)
        return items, rest

    def _confirm(self, stream: Stream) -> None:
        """If the callee has said how it ended, it need not keep that any longer."""
        if stream.reply is None or stream.node is None or stream.life is None:
            return
        if stream.node == self._own:
            self.forget(stream.node, stream.life, stream.message_id)
        else:
            confirmation = StreamCredit(message_id=stream.message_id, ended=True)
            self._pump.farewell(stream.node, stream.life, confirmation)

    def farewell(self, node: NodeId, life: Life, message: Message) -> None:
        """Say a last word for a stream, as soon as there is room on a link to that life."""
        self._pump.farewell(node, life, message)

    # Invocations

    def accept(self, number: int, node: NodeId, life: Life, request: Request, now: float) -> None:
        """A request for a stream was accepted; its handler may have to wait."""
        outflow = Outflow() if request.stream & StreamKind.RESULTS else None
        if outflow is not None:
            outflow.grant(request.credit)
        idle = self._protocol.stream_idle_timeout
        stream = Stream(
            number, request.message_id, None, outflow, idle, now, StreamState.FLOWING, node=node, life=life
        )
        self._table.add(stream)
        self._counters.add("streams.accepted")

    def start(self, number: int, request: Request) -> None:
        """The handler starts: parameters may come."""
        stream = self._table.get(number)
        assert stream is not None, "it was accepted with its request"
        if request.stream & StreamKind.PARAMETERS:
            stream.inflow = Inflow(self._protocol.stream_window)
            stream.is_credit_due = True
            self._pump.ready(stream)

    def is_known(self, node: NodeId, message_id: bytes) -> bool:
        """Whether a stream that this node has asked for is kept here, whether its handler has ended or not."""
        return self._table.of_message(node, message_id, is_caller=False) is not None

    def finish(self, number: int, reply: Reply, deadline: float, now: float) -> Reply:
        """The handler has ended: its reply follows the last item, and all are kept until the caller has them.

        Returns the reply with the count of items.
        """
        stream = self._table.get(number)
        assert stream is not None, "it was accepted with its request"
        outflow = stream.outflow
        if outflow is not None:
            outflow.is_finished = True
            reply = replace(reply, items=outflow.items)
        stream.inflow = None
        stream.reply = reply
        stream.waits_since = inf
        stream.forget_at = max(deadline, now + self._protocol.stream_resume_window)
        self._wake(stream)
        self._pump.ready(stream)
        self._account(stream, now)
        self._arm(stream, now)
        return reply

    def items_sent(self, number: int) -> int:
        """How many items of a handler's stream were handed to links."""
        stream = self._table.get(number)
        return stream.outflow.next if stream is not None and stream.outflow is not None else 0

    def abandon(self, number: int) -> None:
        """The handler is given up: nothing more is sent or kept."""
        stream = self._table.get(number)
        if stream is not None:
            self._end(stream)

    def forget(self, node: NodeId, life: Life, message_id: bytes) -> bool:
        """The caller has the end, or does not want it; false if no finished stream of it is kept."""
        stream = self._table.of_message(node, message_id, is_caller=False)
        if stream is None or stream.life != life or stream.reply is None:
            return False
        self._end(stream)
        return True

    def withdraw(self, now: float) -> None:
        """This node may return no result any more: what is kept of finished streams is replaced by that news."""
        for stream in self._table.all():
            if not stream.is_caller and stream.reply is not None:
                self._give_up(stream, "this node stopped serving before its answer was taken", now)

    # Questions

    @property
    def unconfirmed(self) -> int:
        """Streams whose handler has ended and whose caller has not confirmed the end."""
        return sum(s.reply is not None and not s.is_caller for s in self._table.all()) if self._table else 0

    def is_busy(self, node: NodeId) -> bool:
        """Whether a stream to or from this node has not ended."""
        return self._table.is_linked(node)

    def gauges(self) -> dict[str, int]:
        """The sizes of what is bounded, by name."""
        return {
            "streams": len(self._table),
            "streams.bytes": self._table.bytes,
            "streams.farewells": self._pump.farewells,
        }

    # Outputs

    @property
    def is_ready(self) -> bool:
        """Whether `pump` may have something to do."""
        return self._pump.is_ready

    def pump(self, now: float) -> bool:
        """When the driver takes the effects: hand to links what may leave now; whether anything did."""
        return self._pump.pump(now)

    def on_unsent(self, link: LinkId, message: Message, now: float) -> bool:
        """A message that was handed to a link has not left; whether it was a stream's."""
        message_id = getattr(message, "message_id", None)
        node = self._links.node_of(link)
        if message_id is None or isinstance(message, Request):
            return False
        for stream in self._of(message_id, node):
            stream.unsaid(message)
            self._pump.ready(stream)
            return True
        return not isinstance(message, Reply)

    # Inputs

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

    def on_link_up(self, up: LinkUp, now: float) -> None:
        """A link is open: interrupted calls to the same life go on, those to a former life are lost."""
        for stream in self._table.of_node(up.node):
            assert stream.life is not None, "it knows its node"
            if stream.life < up.life:
                self._lose(stream, "its node has begun another life", now)
            elif stream.life == up.life:
                self._relink(stream, now)

    def on_link_down(self, down: LinkDown, now: float) -> None:
        """A proven link has ended: if not everything on it was delivered, its streams are interrupted."""
        if down.node is None or not down.was_proven:
            return
        other = self._links.link_to(down.node)
        goes_on = other is not None and self._links.life_of(other) == down.life
        if not goes_on:
            self._pump.drop_farewells(down.node)
        for stream in self._table.of_node(down.node):
            if stream.life != down.life:
                continue
            if goes_on and down.clean:
                self._pump.ready(stream)
                continue
            if stream.state is StreamState.FLOWING or stream.state is StreamState.RESUMING:
                self._interrupt(stream, now)
            if goes_on:
                self._relink(stream, now)

    def on_timer(self, key: StreamDue, now: float) -> None:
        """A stream is to be looked at."""
        stream = self._table.get(key.stream)
        if stream is None:
            return
        if now >= stream.lost_at + self._protocol.stream_resume_window:
            self._lose(stream, f"its link was broken for {self._protocol.stream_resume_window:g} s", now)
            return
        if now >= stream.forget_at:
            self._counters.add("streams.unconfirmed")
            self._end(stream)
            return
        if now >= stream.waits_since + stream.idle_timeout:
            self._counters.add("streams.idle")
            detail = f"nothing has come for {stream.idle_timeout:g} s"
            self._fail(stream, ErrorCode.DEADLINE_EXCEEDED, detail, now)
            return
        if stream.state is StreamState.INTERRUPTED and stream.is_caller:
            self._redial(stream, now)
        self._arm(stream, now)

    # What is heard

    def _hear_locally(self, stream: Stream, message: Message, now: float) -> None:
        """A stream of this node says something to the other one."""
        if isinstance(message, Reply):
            assert self.on_reply is not None, "a local call has a caller"
            self.on_reply(message, now)
            return
        other = self._table.of_message(self._own, stream.message_id, is_caller=not stream.is_caller)
        if other is not None:
            self._hear(other, message, now)

    def _hear(self, stream: Stream, message: Message, now: float) -> None:
        match message:
            case StreamItem():
                self._on_item(stream, message, now)
            case StreamCredit(ended=True):
                if not stream.is_caller and stream.reply is not None:
                    self._end(stream)
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
                self._break(stream, "it sends items without credit", now)
            else:
                self._counters.add("streams.item_unwanted")  # parameters for a handler that has ended
            return
        if len(item.payload) > self._protocol.payload_max:
            self._break(stream, f"an item has {len(item.payload)} bytes", now)
            return
        arrival = inflow.arrive(item)
        if arrival is Arrival.REPEATED:
            self._counters.add("streams.item_repeated")
            return
        if arrival is not Arrival.NEW:
            self._break(stream, f"it sends {arrival.value}", now)
            return
        self._counters.add("streams.items_received")
        if stream.reader_waits:
            if inflow.received > inflow.taken:
                self._wake(stream)
            else:  # an earlier one is missing, and has as long again
                stream.waits_since = now
        if stream.reply is not None and inflow.is_complete:
            assert self.on_reply is not None, "a stream of a caller"
            self.on_reply(stream.reply, now)
        else:
            self._account(stream, now)

    def _on_credit(self, stream: Stream, credit: int, now: float) -> None:
        outflow = stream.outflow
        if outflow is None:
            return
        outflow.grant(credit)
        if outflow.is_finished:  # its end waits for the first credit
            self._pump.ready(stream)
        stream.moved_at = now
        self._account(stream, now)
        if stream.writer_waits:
            self._wake(stream)

    def _on_end(self, stream: Stream, end: StreamEnd, now: float) -> None:
        inflow = stream.inflow
        if stream.is_caller or (inflow is None and stream.reply is None):
            self._break(stream, "it ends what it cannot have begun", now)
        elif inflow is not None:
            if not inflow.end(end.items):
                self._break(stream, f"it says that it has sent {end.items} items, which is not so", now)
            elif stream.reader_waits and inflow.is_over:
                self._wake(stream)

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
            self._wait(stream, now)
        self._pump.ready(stream)
        self._account(stream, now)
        if stream.writer_waits:
            self._wake(stream)

    # Links

    def _interrupt(self, stream: Stream, now: float) -> None:
        stream.move(StreamInput.LINK_LOST)
        self._counters.add("streams.interrupted")
        stream.is_resume_due = stream.is_answer_due = False
        stream.waits_since = inf
        stream.lost_at = min(stream.lost_at, now)
        self._pump.forget(stream)
        if stream.is_caller and not self._is_linked(stream):
            self._redial(stream, now)
        self._arm(stream, now)

    def _relink(self, stream: Stream, now: float) -> None:
        """A link leads to the other life."""
        if stream.state is StreamState.FLOWING:
            self._pump.ready(stream)
        elif stream.state is StreamState.INTERRUPTED:
            stream.move(StreamInput.LINKED)
            stream.is_resume_due = True
            self._pump.ready(stream)

    def _redial(self, stream: Stream, now: float) -> None:
        if stream.node is not None:
            self._links.ensure(stream.node, self._addresses(stream.node), now)

    def _is_linked(self, stream: Stream) -> bool:
        link = self._links.link_to(stream.node) if stream.node is not None else None
        return link is not None and self._links.life_of(link) == stream.life

    # Time and memory

    def _wait(self, stream: Stream, now: float) -> None:
        """Its reader finds nothing: from now on it may become idle, unless nothing can come."""
        if stream.state is StreamState.FLOWING:
            stream.waits_since = now
            self._arm(stream, now)

    def _arm(self, stream: Stream, now: float) -> None:
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

    def _account(self, stream: Stream, now: float) -> None:
        """What a stream holds has changed; beyond the bound of all, those that move least go first."""
        self._table.account(stream)
        while self._table.bytes > self._protocol.stream_bytes_max:
            victim = self._table.longest_unmoved()
            self._counters.add("streams.evicted")
            detail = (
                f"the streams of this node hold more than {self._protocol.stream_bytes_max} bytes, "
                "and nothing has moved in this one for longest"
            )
            self._fail(victim, ErrorCode.CANCELLED, detail, now)

    def _wake(self, stream: Stream) -> None:
        """Its application should look again."""
        stream.waits_since = inf
        if stream.reader_waits or stream.writer_waits:
            stream.reader_waits = stream.writer_waits = False
            self._effects.add(StreamReady(stream.key))

    # Ends

    def _break(self, stream: Stream, detail: str, now: float) -> None:
        self._counters.add("streams.broken")
        self._fail(stream, ErrorCode.PAYLOAD_TOO_LARGE, f"the other side breaks the rules: {detail}", now)

    def _fail(self, stream: Stream, code: ErrorCode, detail: str, now: float) -> None:
        if stream.is_caller or stream.reply is None:
            self._owner(stream).on_stream_failed(stream.key, code, detail, now)
            assert self._table.get(stream.key) is None, "its owner ends it"
        else:
            self._give_up(stream, detail, now, code)

    def _lose(self, stream: Stream, detail: str, now: float) -> None:
        self._counters.add("streams.lost")
        if stream.is_caller or stream.reply is None:
            self._owner(stream).on_stream_lost(stream.key, detail, now)
        else:
            self._end(stream)

    def _give_up(
        self, stream: Stream, detail: str, now: float, code: ErrorCode = ErrorCode.NODE_LOST
    ) -> None:
        """Keep nothing more of a stream whose handler has ended; its caller is told, once, if it does not know."""
        assert stream.node is not None, "the callee's side"
        assert stream.life is not None, "the callee's side"
        was_told = stream.is_reply_sent
        items = stream.outflow.next if stream.outflow is not None else 0
        self._end(stream)
        if was_told:
            return
        reply = Reply(message_id=stream.message_id, code=code, detail=detail, items=items)
        if stream.node == self._own:
            self._hear_locally(stream, reply, now)
        else:
            self._pump.farewell(stream.node, stream.life, reply)

    def _end(self, stream: Stream) -> None:
        """Nothing of it is left here."""
        stream.move(StreamInput.ENDED)
        self._pump.forget(stream)
        self._table.remove(stream)
        self._timers.cancel(StreamDue(stream.key))
        self._wake(stream)

    def _owner(self, stream: Stream) -> StreamOwner:
        owner = self.caller if stream.is_caller else self.callee
        assert owner is not None, "whoever begins streams is wired"
        return owner

    def _reset(self, stream: Stream, kind: StreamKind) -> None:
        """As if nothing had been asked."""
        stream.node = stream.life = stream.reply = None
        stream.is_end_sent = stream.is_credit_due = stream.is_resume_due = stream.is_answer_due = False
        stream.lost_at = stream.waits_since = inf
        stream.inflow = Inflow(self._protocol.stream_window) if kind & StreamKind.RESULTS else None
        stream.outflow = Outflow() if kind & StreamKind.PARAMETERS else None

    def _of(self, message_id: bytes, node: NodeId | None) -> list[Stream]:
        if node is None:
            return []
        sides = (self._table.of_message(node, message_id, is_caller=is_caller) for is_caller in (True, False))
        return [stream for stream in sides if stream is not None]


def _out(stream: Stream) -> Outflow:
    if stream.outflow is None:
        raise LocalProtocolError("nothing can be sent on this stream")
    return stream.outflow
