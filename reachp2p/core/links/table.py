"""All links of one engine (docs/protocol/links.md).

Messages are sent to nodes, whoever has dialled. `send` notes a message; when the driver takes the effects, the engine
calls `transmit` for each of them in order and then `flush`, which makes frames. Every input returns what happened as
a list of outputs, so nothing here calls back into a half-updated engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from reachp2p.core.counters import Counters
from reachp2p.core.effects import CloseLink, Effects, LinkEnd, SendFrame
from reachp2p.core.ids import NONCE_BYTES, Address, Entropy, Life, LinkId, NodeId, Ticket
from reachp2p.core.links.book import LinkBook
from reachp2p.core.links.hello import HELLO_NONCE_BYTES, OPENING_FRAME_MAX, Handshake, HelloRefused, own_hello
from reachp2p.core.links.keepalive import Verdict, judge, next_check
from reachp2p.core.links.link import Doom, Link, LinkDue, LinkInput, LinkState
from reachp2p.core.links.outputs import (
    CallRejected,
    CloneReached,
    LinkMessage,
    LinkOutput,
    LinkUp,
    SelfReached,
)
from reachp2p.core.settings import Settings
from reachp2p.core.timers import Timers
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p.core.wire.engine_codec import CODEC, Codec
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import Ack, Cancel, Chunk, Goodbye, Hello, HelloProof, Message, Ping, Reply
from reachp2p.errors import ErrorCode

_OF_LINKS = frozenset({Ping, Ack, Goodbye, Hello, HelloProof})
_LAST_WORDS = (Reply, Cancel)
"""What may follow our own goodbye, until the other side has said its own."""
"""Messages for the link itself; an `Ack` that is not for us goes up all the same."""


class Links:
    """Every link of this engine: dialled, accepted, proven, kept alive, closed."""

    def __init__(
        self,
        settings: Settings,
        *,
        signer: Signer,
        verifier: Verifier,
        entropy: Entropy,
        effects: Effects,
        timers: Timers,
        counters: Counters,
        own_life: Callable[[], Life],
        is_busy: Callable[[NodeId], bool] = lambda node: False,
        codec: Codec = CODEC,
    ) -> None:
        """`own_life` is asked at each opening; `is_busy` whether calls to or from a node are under way."""
        self._cluster_id = settings.cluster_id
        self._protocol = settings.protocol
        self._signer = signer
        self._verifier = verifier
        self._own = signer.node
        self._entropy = entropy
        self._effects = effects
        self._counters = counters
        self._own_life = own_life
        self._is_busy = is_busy
        self._book = LinkBook(
            signer.node, settings.protocol, effects=effects, timers=timers, counters=counters, codec=codec
        )
        self._directory = self._book.directory
        self.waiting: dict[LinkId, Link] = {}
        """Links for which `flush` may have something to send. Read only."""
        self._pinned: dict[NodeId, None] = {}

    # Commands

    def dial(
        self, address: Address, node: NodeId | None, now: float, *, candidates: Sequence[Address] = ()
    ) -> LinkId | None:
        """Open a link to `address`, and if that fails to the next of `candidates`; None if there is no room.

        `node` is whom we mean to reach; if another node answers, the link is closed.
        """
        if self._book.is_full:
            idlest = self._book.idlest(self._may_close, now, dialled=True)
            if idlest is not None:  # room for the next one
                self._book.doom(idlest, Doom.EVICTED, now)
            self._counters.add("links.dial_refused.full")
            return None
        return self._book.begin_dial(address, node, tuple(candidates), now).id

    def ensure(self, node: NodeId, addresses: Sequence[Address], now: float) -> LinkId | None:
        """The link to use for `node`, or the dial that may become one; dials if there is neither.

        None if no address is known or there is no room. What becomes of a dial: `LinkUp`, or a `LinkDown` after which
        `is_dialling(node)` is false.
        """
        link = self.link_to(node) or self._directory.dial_to(node)
        if link is not None:
            return link
        return self.dial(addresses[0], node, now, candidates=addresses[1:]) if addresses else None

    def send(self, link: LinkId, message: Message, after: tuple[Ticket, ...] = ()) -> bool:
        """Send a message on a proven link; false, and nothing is sent, if it is not open or its queue is full.

        Small messages keep their order. A large one may be overtaken by smaller ones, unless both are `ORDERED`.
        """
        found = self._book.get(link)
        kind = type(message)
        if found is None or not (found.is_usable or (kind in _LAST_WORDS and self.takes_replies(link))):
            self._counters.add("links.send_refused.closed")
            return False
        if not found.outgoing.promise(message):
            self._counters.add("links.send_refused.queue_full")
            return False
        if kind is not Ping and kind is not Ack:
            found.was_used = True
        self._effects.send_link(link, message, after)
        return True

    def close(self, link: LinkId, now: float, reason: str, code: int = 0) -> list[LinkOutput]:
        """End a link. A proven one ends after an exchange of goodbyes, in bounded time; its `LinkDown` follows then."""
        found = self._book.get(link)
        if found is None:
            return []
        if found.state is LinkState.PROVEN:
            self._book.say_goodbye(found, LinkInput.CLOSE_ASKED, now, reason, code)
        elif found.state is LinkState.DIALING or found.state is LinkState.OPEN:
            found.move(LinkInput.CLOSE_ASKED)
            found.candidates = ()
            return self._book.hang_up(found, code, reason, now)
        return []

    def close_all(self, now: float, reason: str, code: int = 0) -> list[LinkOutput]:
        """End all links."""
        return [output for link in self._book for output in self.close(link.id, now, reason, code)]

    def give_up(self, link: LinkId, now: float) -> None:
        """The other side does not read what it must be told: its link is LOST at the next timeout, due at once."""
        found = self._book.get(link)
        if found is not None and found.is_usable:
            self._book.doom(found, Doom.GIVEN_UP, now)

    def supersede(self, node: NodeId, life: Life, now: float) -> None:
        """A newer life of a node is known: links to its former lives are used no more, and end at the next timeout."""
        for link in self._directory.outlived(node, life):
            self._book.doom(link, Doom.SUPERSEDED, now)

    def on_lag(self, seconds: float) -> None:
        """We did not run for `seconds`: what others said during an opening is not read yet, so it has that much longer.

        What is proven is judged with our lateness in mind already (`keepalive`).
        """
        for link in self._book:
            if link.state is LinkState.DIALING or link.state is LinkState.OPEN:
                self._book.set_due(link, link.due_at + seconds)

    def pin(self, nodes: Iterable[NodeId]) -> None:
        """Links to these nodes stay open when idle; replaces the former choice."""
        self._pinned = dict.fromkeys(nodes)

    # Questions

    def link_to(self, node: NodeId) -> LinkId | None:
        """The proven link to use for a node."""
        link = self._directory.link_to(node)
        return None if link is None else link.id

    def linked(self) -> list[NodeId]:
        """All nodes that there is a link to use for."""
        return self._directory.linked()

    def takes_replies(self, link: LinkId) -> bool:
        """Whether a reply may still be sent: whoever says goodbye first answers what had been sent to it before. So may
        a cancel, which must not overtake its request on a newer link."""
        found = self._book.get(link)
        return found is not None and (found.is_usable or found.state is LinkState.CLOSING)

    def life_of(self, link: LinkId) -> Life | None:
        """The life that has been proven on a link."""
        found = self._book.get(link)
        return None if found is None else found.life

    def node_of(self, link: LinkId) -> NodeId | None:
        """The node that has been proven on a link."""
        found = self._book.get(link)
        return None if found is None else found.node

    def backlog(self, link: LinkId) -> int:
        """Bytes that wait for a link here, promised ones included, which its driver had no room for yet."""
        found = self._book.get(link)
        return 0 if found is None else found.outgoing.waiting_bytes

    def is_dialling(self, node: NodeId) -> bool:
        """Whether a dial that is meant for this node is under way."""
        return self._directory.dial_to(node) is not None

    def gauges(self) -> dict[str, int]:
        """The sizes of what is bounded, by name."""
        return {
            "links": len(self._book),
            "links.nodes": len(self._directory),
            "links.dials": self._directory.dials,
            "links.queued_bytes": sum(link.outgoing.queued_bytes for link in self._book),
            "links.assembling": sum(link.incoming.assembling for link in self._book),
        }

    # Inputs

    def on_opened(self, link: LinkId, identity: NodeId | None, now: float) -> list[LinkOutput]:
        """The driver has opened a link that we dialled, or (negative number) accepted one."""
        outputs: list[LinkOutput] = []
        found = self._book.get(link)
        if link < 0:
            assert found is None, "a driver uses each number once"
            if self._book.is_full_of_accepted:
                outputs += self._make_room(now)
            if self._book.is_full_of_accepted or self._book.is_full_of_unproven:
                self._book.refuse(link)
                return outputs
            found = self._book.begin_accepted(link, now)
        elif found is None or found.state is not LinkState.DIALING:
            self._counters.add("links.late")  # closed in the meantime, which the driver has been told
            return []
        found.move(LinkInput.OPENED)
        found.handshake = Handshake(
            own_hello(self._cluster_id, self._own, self._own_life(), self._entropy.token(HELLO_NONCE_BYTES)),
            dialled=found.dialled,
            expected=found.expected,
            identity=identity,
            signer=self._signer,
            verifier=self._verifier,
        )
        self._book.send_frame(found, found.handshake.frame)
        return outputs

    def on_frame(self, link: LinkId, data: bytes, now: float) -> list[LinkOutput]:
        """A frame has arrived. Never raises: what is wrong is counted and ends the link."""
        found = self._book.get(link)
        if found is None or found.state is LinkState.CLOSED or found.state is LinkState.DIALING:
            self._counters.add("dropped.frame.no_link")
            return []
        found.heard_at = now
        outputs: list[LinkOutput] = []
        try:
            if found.handshake is None:
                self._on_messages(found, found.incoming.decode(data), now, outputs)
            else:
                self._on_opening(found, found.handshake, data, now, outputs)
        except WireError as error:
            self._counters.add(f"dropped.frame.{error.reason}")
            detail = f"a frame that no correct node sends: {error.reason}"
            outputs += self._book.fail(found, "bad_frame", ErrorCode.BAD_SIGNATURE, detail, now)
        except HelloRefused as refused:
            self._counters.add(f"dropped.hello.{refused.reason}")
            outputs += self._book.fail(found, "hello_refused", refused.code, refused.detail, now)
        return outputs

    def on_writable(self, link: LinkId, free_bytes: int, now: float) -> list[LinkOutput]:
        """The driver has this much room for a link."""
        found = self._book.get(link)
        if found is not None:
            found.outgoing.credit = free_bytes
            self.waiting[link] = found
        return []

    def on_closed(self, link: LinkId, end: LinkEnd, now: float) -> list[LinkOutput]:
        """The driver reports the end of a link, or of a dial."""
        found = self._book.get(link)
        if found is None:
            return []
        if found.state is LinkState.CLOSED:
            return self._book.end(found, end, now)
        has_heard_goodbye = found.state is LinkState.PARTING
        found.move(LinkInput.TRANSPORT_CLOSED)
        clean = has_heard_goodbye and end is LinkEnd.GOODBYE and found.outgoing.has_said_goodbye
        how = LinkEnd.GOODBYE if has_heard_goodbye else end
        return self._book.end(found, how, now, clean=clean, heard_all=has_heard_goodbye)

    def on_timer(self, key: LinkDue, now: float) -> list[LinkOutput]:
        """A link's deadline has come."""
        link = self._book.get(key.link)
        if link is None:
            return []
        if link.doom is Doom.GIVEN_UP:
            return self._book.abort(link, LinkEnd.LOST, "given_up", now)
        if link.doom is not None and link.state is not LinkState.CLOSED:
            return self._book.fail(link, link.doom.name.lower(), 0, link.doom.value, now)
        match link.state:
            case LinkState.PROVEN:
                return self._check(link, now)
            case LinkState.DIALING | LinkState.OPEN:
                return self._book.abort(link, LinkEnd.TIMEOUT, "opening_timeout", now)
            case LinkState.PARTING:
                return self._book.abort(link, LinkEnd.GOODBYE, "closing_timeout", now)
            case LinkState.CLOSING | LinkState.CLOSED:
                return self._book.abort(link, LinkEnd.LOST, "closing_timeout", now)

    # Outputs: when the driver takes the effects

    def transmit(self, link: LinkId, message: Message) -> bool:
        """Queue a noted message; false if its link has ended or is full, which is counted."""
        found = self._book.get(link)
        if found is None or not found.is_transport_open or found.handshake is not None:
            self._counters.add("dropped.link.closed")
            return False
        self.waiting[link] = found
        if isinstance(message, Goodbye):
            found.outgoing.finish(message)
            return True
        if not found.outgoing.put(message):
            self._counters.add("dropped.link.queue_full")
            return False
        return True

    def flush(self) -> list[SendFrame | CloseLink]:
        """Frames of all that waits, as far as the driver has room."""
        if not self.waiting:
            return []
        effects: list[SendFrame | CloseLink] = []
        dirty, self.waiting = self.waiting, {}
        for number, link in dirty.items():
            if self._book.get(number) is not link:
                continue
            outgoing = link.outgoing
            while (frame := outgoing.next_frame()) is not None:
                effects.append(SendFrame(number, frame))
            if link.state is LinkState.CLOSED and outgoing.is_empty:
                effects.append(CloseLink(number))
                self._book.forget(link)
        return effects

    # Opening

    def _on_opening(
        self, link: Link, handshake: Handshake, data: bytes, now: float, outputs: list[LinkOutput]
    ) -> None:
        if len(data) > OPENING_FRAME_MAX:
            raise WireError("too_large")
        if handshake.remote is None:
            first = handshake.read_first(data)
            if isinstance(first, Hello):
                self._book.send_frame(link, handshake.prove())
                return
            messages: list[Message] = [first]
        else:
            messages = link.incoming.decode(data)
        if not messages:
            raise WireError("not_a_proof")
        if isinstance(messages[0], Goodbye):
            self._on_hangup(link, messages[0], now, outputs)
        elif isinstance(messages[0], HelloProof):
            self._on_proven(link, handshake.check_proof(messages[0]), now, outputs)
            if link.handshake is None:
                self._on_messages(link, messages[1:], now, outputs)
        else:
            raise WireError("not_a_proof")

    def _on_proven(self, link: Link, hello: Hello, now: float, outputs: list[LinkOutput]) -> None:
        node = NodeId(hello.node)
        if node == self._own and hello.life == self._own_life():
            if link.address is not None:
                outputs.append(SelfReached(link.address))
            outputs += self._book.fail(link, "self", 0, "this address leads back to its dialler", now)
            return
        link.move(LinkInput.PROOF_VERIFIED)
        link.handshake = None
        link.node = node
        link.life = hello.life
        self._counters.add("links.proven")
        if link.expected is not None:
            self._directory.remove_dial(link.expected, link.id)
        self._book.set_due(link, now + self._protocol.link_keepalive)
        if node == self._own:
            outputs.append(CloneReached(node, hello.life, link.address, link.id))
            return
        self._directory.add(node, link)
        outputs.append(LinkUp(link.id, node, hello.life, link.address, link.dialled))
        outputs += self._book.release(node)
        for outlived in self._directory.outlived(node, hello.life):
            outputs += self._book.fail(outlived, "superseded", 0, Doom.SUPERSEDED.value, now)
        for surplus in self._directory.surplus(node):
            outputs += self._book.fail(surplus, "surplus", 0, "your newer links replace this one", now)
        for redundant in self._directory.redundant(node):
            outputs += self.close(redundant.id, now, "another link to the same node is used")

    # Messages

    def _on_messages(
        self, link: Link, messages: Sequence[Message], now: float, outputs: list[LinkOutput]
    ) -> None:
        node, life = link.node, link.life
        assert node is not None
        assert life is not None
        for message in messages:
            if isinstance(message, Chunk):
                whole = link.incoming.add_chunk(message)
                if whole is None:
                    continue
                message = whole
            if type(message) in _OF_LINKS:
                self._on_control(link, message, now, outputs)
                if link.state is LinkState.CLOSED:
                    return
            elif link.state is LinkState.PARTING and type(message) not in _LAST_WORDS:
                self._counters.add("dropped.message.after_goodbye")
            else:
                link.was_used = True
                outputs.append(LinkMessage(link.id, node, life, message))
        outputs += [CallRejected(link.id, node, life, call) for call in link.incoming.take_rejected_calls()]

    def _on_control(self, link: Link, message: Message, now: float, outputs: list[LinkOutput]) -> None:
        """A message that is for the link itself."""
        match message:
            case Ping() if link.state is LinkState.PARTING:
                self._counters.add("dropped.message.after_goodbye")
            case Ping() if message.origin is not None and link.node is not None and link.life is not None:
                outputs.append(LinkMessage(link.id, link.node, link.life, message))
            case Ping():
                self.send(link.id, Ack(nonce=message.nonce))
            case Ack():
                if message.nonce == link.ping_nonce:
                    self._on_keepalive_answered(link, now)
                elif link.node is not None and link.life is not None:
                    outputs.append(LinkMessage(link.id, link.node, link.life, message))
            case Goodbye() if message.final:
                self._on_hangup(link, message, now, outputs)
            case Goodbye() if link.state is LinkState.PARTING:
                raise WireError("goodbye_again")
            case Goodbye():
                self._on_goodbye(link, message, now, outputs)
            case _:
                raise WireError("hello_again")

    def _on_keepalive_answered(self, link: Link, now: float) -> None:
        if link.pinged_at is not None and link.state is LinkState.PROVEN and link.doom is None:
            link.pinged_at = None
            link.pings = 0
            self._book.set_due(link, next_check(link, now, self._protocol))

    def _on_goodbye(self, link: Link, goodbye: Goodbye, now: float, outputs: list[LinkOutput]) -> None:
        if link.state is LinkState.PROVEN:
            link.goodbye = goodbye
            self._book.say_goodbye(link, LinkInput.GOODBYE_HEARD, now)
            return
        # Ours came first: all that they had to say is here, and we close once our own last words are out.
        link.move(LinkInput.GOODBYE_HEARD)
        self.waiting[link.id] = link
        outputs += self._book.report(link, LinkEnd.GOODBYE, now, clean=True, heard_all=True)

    def _on_hangup(self, link: Link, goodbye: Goodbye, now: float, outputs: list[LinkOutput]) -> None:
        """The other side has closed already: what is on its way there will not be read."""
        link.move(LinkInput.HANGUP_HEARD)
        link.goodbye = goodbye
        self._effects.add(CloseLink(link.id))
        outputs += self._book.end(link, LinkEnd.GOODBYE, now)

    # Upkeep

    def _check(self, link: Link, now: float) -> list[LinkOutput]:
        verdict = judge(link, now, self._protocol, self._may_close)
        match verdict:
            case Verdict.SILENT | Verdict.STALLED:
                return self._book.abort(link, LinkEnd.LOST, verdict.value, now)
            case Verdict.PING:
                link.pinged_at = now
                link.pings += 1
                link.ping_nonce = self._entropy.token(NONCE_BYTES)
                self.send(link.id, Ping(nonce=link.ping_nonce))
            case Verdict.IDLE:
                return self.close(link.id, now, "idle")
            case Verdict.FINE:
                pass
        self._book.set_due(link, next_check(link, now, self._protocol))
        return []

    def _may_close(self, link: Link) -> bool:
        node = link.node
        return node is not None and node not in self._pinned and not self._is_busy(node)

    def _make_room(self, now: float) -> list[LinkOutput]:
        """No room for an accepted link: the idlest accepted one goes."""
        idlest = self._book.idlest(self._may_close, now, dialled=False)
        if idlest is None:
            return []
        return self._book.fail(idlest, "evicted", 0, Doom.EVICTED.value, now)
