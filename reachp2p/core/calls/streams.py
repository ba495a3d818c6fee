"""All streams of this node: what applications give and take, what links bring, how each is kept alive and ends
(docs/protocol/streams.md; cases B36, B39).

A stream is part of a call or of an invocation, which decides when it ends. Here is what flows until then: this machine
tells `Caller` and `Callee` when the last item has arrived, when the other side is lost for good, and when the rules
were broken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from msgspec.structs import replace

from reachp2p.core.calls.inflow import Inflow
from reachp2p.core.calls.outflow import Outflow
from reachp2p.core.calls.stream import Stream, StreamInput, StreamState
from reachp2p.core.calls.stream_hearing import StreamHearing
from reachp2p.core.calls.stream_keeper import StreamKeeper, StreamOwner
from reachp2p.core.calls.stream_links import StreamLinks
from reachp2p.core.commands import Flow, StreamKey, StreamKind
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects
from reachp2p.core.ids import Address, Life, LinkId, NodeId
from reachp2p.core.links.table import Links
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import (
    Message,
    Reply,
    Request,
    StreamCredit,
    StreamEnd,
    StreamItem,
    StreamResume,
)
from reachp2p.errors import CallFailed, ErrorCode, InvalidIdentifier, LocalProtocolError

CONTENT_TYPE_MAX = 256


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
        self._links = links
        self._counters = counters
        self._keeper = StreamKeeper(protocol, own, links, effects, timers, counters)
        self._table = self._keeper.table
        self._pump = self._keeper.pump
        self._hearing = StreamHearing(protocol, own, self._keeper, counters)
        self._over_links = StreamLinks(protocol, self._keeper, links, addresses, counters)
        self._has_unsent = False
        self.on_message = self._hearing.on_message
        self.on_link_up = self._over_links.on_link_up
        self.on_link_down = self._over_links.on_link_down
        self.on_timer = self._over_links.on_timer
        """The inputs: what the other side of a stream says, what becomes of links, and what is due."""

    def wire_caller(self, owner: StreamOwner, on_reply: Callable[[Reply, float], None]) -> None:
        """Whose calls stream. `on_reply` is told a reply once all items that it counts have arrived, and replies of
        this node to itself."""
        self._keeper.caller = owner
        self._keeper.on_reply = on_reply

    def wire_callee(self, owner: StreamOwner) -> None:
        """Whose invocations stream."""
        self._keeper.callee = owner

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
        self._keeper.account(stream, now)
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
            raise LocalProtocolError(
                "the results of this call are no stream: ask for its one result, with result()"
            )
        item = inflow.take()
        if item is None:
            if inflow.is_over:
                return Flow.ENDED
            if not stream.reader_waits:
                stream.reader_waits = True
                self._keeper.wait(stream, now)
            return Flow.WAIT
        stream.moved_at = now
        if inflow.is_credit_due:
            stream.is_credit_due = True
            self._pump.ready(stream)
        self._keeper.account(stream, now)
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
            self._keeper.wait(stream, now)

    def retried(self, call: bytes) -> None:
        """Another instance is asked: all begins anew."""
        stream = self._table.get(call)
        assert stream is not None, "it was begun with its call"
        if stream.state is StreamState.UNASKED:
            return
        assert stream.is_untouched, "what has moved cannot be taken back"
        self._keeper.confirm(stream)
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
            self._keeper.break_rules(
                stream, f"it says that it has sent {reply.items} items, which is not so", now
            )
            return False
        stream.reply = reply
        self._keeper.account(stream, now)
        if self._table.get(call) is not stream:
            return False  # there was no memory for it: its call has ended so
        if stream.writer_waits:
            self._keeper.wake(stream)
        return inflow is None or inflow.is_complete

    def stop_waiting(self, key: StreamKey) -> None:
        """Nobody waits for an item any more: the time in which nobody asks does not make a stream idle."""
        stream = self._table.get(key)
        if stream is not None and stream.reader_waits:
            stream.reader_waits = False
            stream.waits_since = inf

    def end_call(self, call: bytes) -> tuple[int, list[StreamItem]]:
        """The call has ended: how many items the application has had, with those returned, which are the rest."""
        stream = self._table.get(call)
        if stream is None:
            return 0, []
        rest = stream.inflow.take_all() if stream.inflow is not None else []
        items = stream.inflow.taken if stream.inflow is not None else 0
        self._keeper.confirm(stream)
        self._keeper.end(stream)
        return items, rest

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
        self._keeper.wake(stream)
        self._pump.ready(stream)
        self._keeper.arm(stream, now)
        self._keeper.account(stream, now)  # may end it
        return reply

    def items_sent(self, number: int) -> int:
        """How many items of a handler's stream were handed to links."""
        stream = self._table.get(number)
        return stream.outflow.next if stream is not None and stream.outflow is not None else 0

    def abandon(self, number: int) -> None:
        """The handler is given up: nothing more is sent or kept."""
        stream = self._table.get(number)
        if stream is not None:
            self._keeper.end(stream)

    def forget(self, node: NodeId, life: Life, message_id: bytes) -> bool:
        """The caller has the end, or does not want it; false if no finished stream of it is kept."""
        return self._keeper.forget(node, life, message_id)

    def withdraw(self, now: float) -> None:
        """This node may return no result any more: what is kept of finished streams is replaced by that news."""
        for stream in self._table.all():
            if not stream.is_caller and stream.reply is not None:
                self._keeper.give_up(stream, "this node stopped serving before its answer was taken", now)

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
        if self._has_unsent:
            self._has_unsent = False  # a link took less than it had promised: not again in this turn
            return False
        return self._pump.pump(now)

    def on_unsent(self, link: LinkId, message: Message, now: float) -> bool:
        """A message that was handed to a link has not left; whether it was a stream's."""
        if not isinstance(message, StreamItem | StreamCredit | StreamEnd | StreamResume | Reply):
            return False
        for stream in self._of(message.message_id, self._links.node_of(link)):
            stream.unsaid(message)
            self._pump.ready(stream)
            self._has_unsent = True
            return True
        return not isinstance(message, Reply)

    # Inside

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
        raise LocalProtocolError(
            "the parameters of this call are no stream: send none and end none, and read its results with `async for`"
        )
    return stream.outflow
