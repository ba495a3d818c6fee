"""Everything that arrives: datagrams and links taken apart, each message to its machine.

The outer wall is here: cluster, life, signature and limits are checked before anything is looked at, and
whatever fails is dropped and counted by reason. Nothing is learned from a source address. An unknown sender gets no
more than it sends: an Ack no larger than its Ping, or, once in a period, the head of a member of whom it has spread
something outdated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reachp2p.core.consequences import Consequences
from reachp2p.core.dissemination.anti_entropy import ExchangeOver
from reachp2p.core.effects import CloseLink, LinkEnd, ToNode
from reachp2p.core.events import MemberState
from reachp2p.core.hearing import Hearing, Source
from reachp2p.core.ids import Address, Life, LinkId, NodeId
from reachp2p.core.introductions import Introductions
from reachp2p.core.links.outputs import (
    CallRejected,
    CloneReached,
    LinkDown,
    LinkMessage,
    LinkOutput,
    LinkUp,
    SelfReached,
)
from reachp2p.core.membership.probe import answer
from reachp2p.core.parts import Parts
from reachp2p.core.push_pull import PushPull
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import (
    COORDINATE_EXTENSION,
    LOAD_EXTENSION,
    AccusationUpdate,
    Ack,
    Cancel,
    Challenge,
    ChallengeAnswer,
    ContactAnswer,
    ContactRequest,
    Extensions,
    HeadRequest,
    HeadUpdate,
    HopPage,
    HopWant,
    Message,
    Nack,
    Ping,
    PingReq,
    Publication,
    RecordUpdate,
    RelayedAck,
    Reply,
    Request,
    RulesBodies,
    RulesList,
    RulesNotice,
    RulesWant,
    SchemaBodies,
    SchemaWant,
    StreamCredit,
    StreamEnd,
    StreamItem,
    StreamResume,
    SyncDelta,
    SyncDigest,
    SyncEnd,
    SyncOffer,
    SyncWant,
)

DATAGRAM_MESSAGES_MAX = 64


class Inbound:
    """Takes apart what arrives."""

    def __init__(
        self,
        parts: Parts,
        hearing: Hearing,
        consequences: Consequences,
        push_pull: PushPull,
        introductions: Introductions,
    ) -> None:
        self._parts = parts
        self._hearing = hearing
        self._consequences = consequences
        self._push_pull = push_pull
        self._introductions = introductions
        self._codec = parts.codec
        self._reader = parts.codec.reader(parts.settings.cluster_id, parts.own.node, parts.verifier.verify)
        self._handlers: dict[type[Message], Callable[[Any, Source, Life, bytes, float], None]] = {
            Ping: self._ping,
            Ack: self._ack,
            PingReq: self._ping_req,
            Nack: self._nack,
            RelayedAck: self._relayed_ack,
            HeadUpdate: self._head_update,
            AccusationUpdate: self._accusation_update,
            RecordUpdate: self._record_update,
            HeadRequest: self._head_request,
            RulesNotice: self._rules_notice,
        }
        """What may come by datagram or by link, and who hears it: with source, life, the whole datagram (empty if it
        came by link) and time."""

    # Datagrams

    def datagram(self, source: Address, data: bytes, now: float) -> None:
        """One UDP payload."""
        parts = self._parts
        counters = parts.counters
        counters.add_sized("datagrams.received", "bytes.datagrams_received", len(data))
        if parts.own.life is None or parts.life.is_over:
            counters.add("dropped.datagram.not_running")
            return
        try:
            datagram = self._reader.read(data)
            messages, skipped = self._codec.unpack(
                datagram.body,
                bytes_max=len(datagram.body),
                messages_max=DATAGRAM_MESSAGES_MAX,
                datagram=True,
                on_rejected=self._rejected,
            )
        except WireError as error:
            counters.add(f"dropped.datagram.{error.reason}")
            return
        if skipped:
            counters.add("skipped.message.unknown_number", skipped)
        self._hear(source, datagram.node, datagram.life, data, messages, now)

    def _rejected(self, reason: str) -> None:
        self._parts.counters.add(f"dropped.message.{reason}")

    def _hear(
        self, address: Address, node: NodeId, life: Life, data: bytes, messages: list[Message], now: float
    ) -> None:
        parts = self._parts
        source = Source(node, address)
        if node == parts.own.node:
            self._own_key(messages, life, source, now)
            return
        member = parts.table.get(node)
        if member is not None and life != member.life and life < member.life:
            # An older life of this node still speaks: it is told, and not listened to (I-FENCE).
            parts.counters.add("dropped.datagram.old_life")
            self._hearing.answer_about(node, source, now)
            return
        for message in messages:
            self._message(message, source, life, data, now)
        if member is not None and life == member.life:
            if parts.touch.is_lost:
                parts.touch.on_heard(node, life, now)
            return  # nearly always: a life that is known never gets lower
        known = parts.table.get(node)
        if known is not None and life != known.life and life > known.life:
            self._hearing.ask_head(node, source, now)

    def _own_key(self, messages: list[Message], life: Life, source: Source, now: float) -> None:
        """Another life of our own key speaks, or one of our own datagrams has come back."""
        parts = self._parts
        if life == parts.own.life:
            parts.counters.add("dropped.datagram.own_echo")
            return
        for message in messages:
            match message:
                case Challenge():
                    reply = parts.life.on_challenge(message)
                    parts.life.on_lower_life(life, source.address, now)
                    if reply is not None:
                        parts.effects.add(
                            ToNode(parts.own.node, reply, address=source.address, piggyback=False)
                        )
                case ChallengeAnswer() if message.life == life:
                    self._hearing.steps += parts.life.on_challenge_answer(message, now)
                case HeadUpdate():
                    self._hearing.head(message.head, source, now)
                case _:
                    parts.counters.add("dropped.message.own_key")

    def _message(self, message: Message, source: Source, life: Life, data: bytes, now: float) -> None:
        """A message that may come by datagram or by link."""
        handler = self._handlers.get(type(message))
        if handler is not None:
            handler(message, source, life, data, now)
        else:
            self._parts.counters.add("dropped.message.misplaced")

    def _ping(self, ping: Ping, source: Source, life: Life, data: bytes, now: float) -> None:
        parts = self._parts
        is_known = source.node in parts.table
        # A stranger gets no more than it sends, and what a helper passes on has a limit of its own.
        told = parts.tell(now) if is_known and ping.origin is None else None
        parts.effects.add(ToNode(source.node, answer(ping, told), address=source.address, piggyback=is_known))

    def _ping_req(self, request: PingReq, source: Source, life: Life, data: bytes, now: float) -> None:
        if source.address is None:
            self._parts.counters.add("dropped.message.misplaced")
        elif source.node in self._parts.table:
            self._parts.relays.on_ping_req(source.node, source.address, request, now)
        else:
            self._parts.counters.add("dropped.ping_req.stranger")

    def _nack(self, nack: Nack, source: Source, life: Life, data: bytes, now: float) -> None:
        self._parts.prober.on_nack(nack.nonce, source.node)

    def _head_update(self, update: HeadUpdate, source: Source, life: Life, data: bytes, now: float) -> None:
        self._hearing.head(update.head, source, now)

    def _accusation_update(
        self, update: AccusationUpdate, source: Source, life: Life, data: bytes, now: float
    ) -> None:
        self._hearing.accusation(update.accusation, source, now)

    def _record_update(
        self, update: RecordUpdate, source: Source, life: Life, data: bytes, now: float
    ) -> None:
        self._hearing.record(update.record, source, now)

    def _head_request(
        self, request: HeadRequest, source: Source, life: Life, data: bytes, now: float
    ) -> None:
        for subject in request.subjects:
            self._hearing.answer_request(NodeId(subject), source, now)

    def _rules_notice(self, notice: RulesNotice, source: Source, life: Life, data: bytes, now: float) -> None:
        parts = self._parts
        if parts.life.is_running and source.node in parts.table:
            parts.rule_spreading.on_notice(notice, source.node, now)
        else:
            parts.counters.add("dropped.rules.stranger")

    def _ack(self, ack: Ack, source: Source, life: Life, data: bytes, now: float) -> None:
        parts = self._parts
        if ack.extensions:
            self._told(ack.extensions, source.node, life, now)
        if ack.origin is not None and ack.origin != parts.own.node:
            relayed = parts.relays.on_ack(ack.nonce, source.node, data)
            if relayed is not None:
                origin, address, message = relayed
                parts.effects.add(ToNode(origin, message, address=address, piggyback=False))
            return
        if parts.touch.is_lost:
            member = parts.table.get(source.node)
            is_present = member is not None and member.life == life
            if is_present and parts.touch.on_ack(ack.nonce, source.node, life, now):
                return
            if is_present and parts.prober.take_late(ack.nonce, source.node, life):
                parts.touch.on_answer(source.node, now)
                return
        result = parts.prober.on_ack(ack.nonce, source.node, life, source.address, now)
        if result is not None:
            if result.round_trip is not None and COORDINATE_EXTENSION in ack.extensions:
                place = ack.extensions[COORDINATE_EXTENSION]
                parts.places.on_round_trip(source.node, place, result.round_trip)
            self._consequences.probed(result, now)

    def _told(self, extensions: Extensions, node: NodeId, life: Life, now: float) -> None:
        """What a member tells of itself beside an answer, in its present life."""
        member = self._parts.table.get(node)
        if member is not None and member.life == life and LOAD_EXTENSION in extensions:
            self._parts.loads.on_report(node, life, extensions[LOAD_EXTENSION], now)

    def _relayed_ack(self, message: RelayedAck, source: Source, life: Life, data: bytes, now: float) -> None:
        """An Ack that a helper forwards whole: signed by the target for the helper, its nonce is ours."""
        parts = self._parts
        try:
            inner = self._reader.read(message.datagram, source.node)
            messages, _ = self._codec.unpack(
                inner.body, bytes_max=len(inner.body), messages_max=1, datagram=True
            )
        except WireError as error:
            parts.counters.add(f"dropped.relayed_ack.{error.reason}")
            return
        ack = messages[0] if messages else None
        if not isinstance(ack, Ack) or ack.origin != parts.own.node:
            parts.counters.add("dropped.relayed_ack.not_ours")
            return
        result = parts.prober.on_ack(ack.nonce, inner.node, inner.life, None, now, helper=source.node)
        if result is not None:
            self._consequences.probed(result, now)

    # Links

    def link_opened(self, link: LinkId, identity: NodeId | None, now: float) -> None:
        """The driver has opened or accepted a link."""
        if self._parts.own.life is None or self._parts.life.is_over:
            self._parts.counters.add("links.refused.not_running")
            self._parts.effects.add(CloseLink(link, abort=True))
            return
        self.link_outputs(self._parts.links.on_opened(link, identity, now), now)

    def link_closed(self, link: LinkId, end: LinkEnd, now: float) -> None:
        """The driver reports the end of a link or dial."""
        self.link_outputs(self._parts.links.on_closed(link, end, now), now)

    def link_outputs(self, outputs: list[LinkOutput], now: float) -> None:
        """What happened on links, in order."""
        for output in outputs:
            match output:
                case LinkMessage():
                    self._link_message(output, now)
                case CallRejected():
                    self._call_rejected(output, now)
                case LinkUp():
                    self._link_up(output, now)
                case LinkDown():
                    self._link_down(output, now)
                case SelfReached():
                    if self._parts.contacts.on_self(output.address, now):
                        self._hearing.steps += self._parts.life.on_contact_over(now)
                case CloneReached():
                    self._clone(output, now)

    def _call_rejected(self, output: CallRejected, now: float) -> None:
        call = output.call
        if call.is_request:
            self._parts.callee.on_unreadable(output.link, output.node, output.life, call, now)
        else:
            self._parts.caller.on_unreadable(output.link, output.node, output.life, call, now)

    def _clone(self, output: CloneReached, now: float) -> None:
        parts = self._parts
        self._hearing.steps += parts.life.on_other_life(output.life, output.address, now)
        if parts.life.is_running:  # our head says to a lower life that we have begun, which a hello does not
            parts.links.send(output.link, HeadUpdate(head=parts.own.head(now).data))
        if not parts.life.is_starting:  # who still asks waits for that head, or for the end of its patience
            self.link_outputs(parts.links.close(output.link, now, "another life of this key runs"), now)

    def _link_up(self, up: LinkUp, now: float) -> None:
        parts = self._parts
        member = parts.table.get(up.node)
        if member is not None and up.life < member.life:
            # It is told which life we hold before the link ends: it may be asking (lost or copied disk), and asks once.
            parts.links.send(up.link, HeadUpdate(head=member.head.data))
            self.link_outputs(parts.links.close(up.link, now, "a newer life of your node is known here"), now)
            return
        if parts.contacts.on_link_up(up.link, up.node):
            link = parts.links.link_to(up.node) or up.link  # ours is on its way out if theirs is preferred
            if parts.links.send(link, ContactRequest(node=parts.own.node)):
                parts.contacts.on_asked(link)
            else:
                self._hearing.steps += parts.life.on_contact_over(now)
        if parts.life.is_running:
            parts.contacts.joined(up.address, now)
            self._push_pull.on_link_up(up.link, up.node, now)
            parts.rule_spreading.on_link_up(up.link, up.node)
        if member is not None and member.life == up.life:
            if up.address is not None:
                member.answered_at(up.address)
            self._consequences.draw(parts.detector.on_alive_link(up.node, now), now)
            parts.touch.on_answer(up.node, now)
        elif parts.life.is_running:
            self._hearing.ask_head(up.node, Source(up.node, link=up.link), now)
        parts.streams.on_link_up(up, now)
        parts.caller.on_link_up(up, now)
        parts.publisher.on_link_up(up.node)
        parts.gatherings.on_link_up(up.node, now)
        parts.fetches.on_link_up(up.node)

    def _link_down(self, down: LinkDown, now: float) -> None:
        parts = self._parts
        if parts.contacts.on_link_down(down.link):
            if down.address is not None and not down.was_proven:
                parts.contacts.on_unreached(down.address, down.end, down.code, down.detail, now)
            self._hearing.steps += parts.life.on_contact_over(now)
        for over in parts.sync.on_link_down(down.link):
            self._push_pull.on_exchange_over(over, now)
        parts.streams.on_link_down(down, now)
        parts.callee.on_link_down(down, now)
        if down.node is None:
            return
        if not parts.links.is_dialling(down.node):
            self._push_pull.on_link_down(down.node, now)
        parts.caller.on_link_down(down, now)
        parts.publisher.on_link_down(down.node)
        parts.gatherings.on_link_down(down.node, now)
        if not parts.life.is_running:
            self._introductions.on_link_down(down.link)
            return
        if parts.table.size == 1:
            parts.contacts.alone(now, begin_anew=False)  # whoever answered has gone before we knew anybody
        if not parts.settings.protocol.rules.refusals:
            return
        linked = parts.links.link_to(down.node) is not None
        if down.end is LinkEnd.REFUSED and down.address is not None and not linked:
            self._consequences.draw(parts.detector.on_refused(down.node, down.address, now), now)
        elif down.end is LinkEnd.LOST and down.was_proven and not linked:
            # An established link is gone without a goodbye: ask its host whether the process still is.
            member = parts.table.get(down.node)
            if member is not None and member.life == down.life and member.state is not MemberState.LEFT:
                parts.counters.add("refusal.dials")
                parts.dial_member(member, now)

    def _link_message(self, heard: LinkMessage, now: float) -> None:
        parts, message = self._parts, heard.message
        is_own = heard.node == parts.own.node
        if type(message) is Request and not is_own:  # most of all, by far: calls
            parts.callee.on_request(heard.link, heard.node, heard.life, message, now)
            return
        if type(message) is Reply and not is_own:
            if message.extensions:
                self._told(message.extensions, heard.node, heard.life, now)
            parts.caller.on_reply(heard.link, heard.node, heard.life, message, now)
            return
        source = Source(heard.node, link=heard.link)
        if is_own:  # a clone's link proves that it lives; its head, that its life has begun
            if isinstance(message, HeadUpdate):
                self._hearing.head(message.head, source, now)
            else:
                parts.counters.add("dropped.message.own_key")
            return
        match message:
            case Publication():
                if parts.life.is_running:
                    parts.subscriber.on_publication(heard.node, heard.life, message, now)
                else:
                    parts.counters.add("dropped.publication.not_running")
            case Cancel():
                parts.callee.on_cancel(heard.node, heard.life, message, now)
            case StreamItem() | StreamCredit() | StreamEnd() | StreamResume():
                parts.streams.on_message(heard.node, heard.life, message, now)
            case SyncOffer() | SyncDigest() | SyncWant() | SyncDelta() | SyncEnd():
                if not parts.life.is_running:
                    parts.counters.add("dropped.sync.not_running")
                    if isinstance(message, SyncOffer):  # whoever offers can ask somebody else at once
                        parts.links.send(heard.link, SyncEnd(exchange=message.exchange))
                    return
                if isinstance(message, SyncOffer):
                    parts.rule_spreading.on_offer(message, heard.link)
                    self._push_pull.tell_doubts(heard.link, now)
                for output in parts.sync.on_message(heard.link, heard.node, message, now):
                    if isinstance(output, ExchangeOver):
                        self._push_pull.on_exchange_over(output, now)
                    else:
                        self._hearing.delta(output, source, now)
            case RulesList() | RulesWant() | RulesBodies():
                self._rules(message, heard.link, now)
            case ContactRequest():
                self._introductions.on_request(message, source, now)
            case ContactAnswer():
                self._introductions.on_answer(message, source, now)
            case HopWant():
                parts.hop_answers.on_want(heard.link, heard.node, message, now)
            case HopPage():
                parts.gatherings.on_page(heard.node, message, now)
            case SchemaWant():
                parts.fetches.on_want(heard.link, message)
            case SchemaBodies():
                parts.fetches.learn(message.bodies, now)
            case _:
                self._message(message, source, heard.life, b"", now)

    def _rules(self, message: RulesList | RulesWant | RulesBodies, link: LinkId, now: float) -> None:
        parts = self._parts
        if not parts.life.is_running:
            parts.counters.add("dropped.rules.not_running")
            return
        match message:
            case RulesList():
                parts.rule_spreading.on_list(message, link)
            case RulesWant():
                parts.rule_spreading.on_want(message, link)
            case RulesBodies():
                parts.rule_spreading.on_bodies(message, now, spreads=self._hearing.spreads)
