"""The first words with a node that was dialled in order to find somebody (docs/protocol/membership.md).

Whoever dials asks what is held about its own id, which tells a copied or lost disk, and whom the other knows. Both can
be asked before their own life runs; what needs that life is said when it does.
"""

from __future__ import annotations

from reachp2p.core.events import MemberState
from reachp2p.core.hearing import Hearing, Source
from reachp2p.core.ids import LinkId, NodeId
from reachp2p.core.parts import Parts
from reachp2p.core.push_pull import PushPull
from reachp2p.core.trust.facts import FactRejected
from reachp2p.core.wire.facts import Head
from reachp2p.core.wire.messages import ContactAnswer, ContactRequest, HeadUpdate

SAMPLE = 16
"""Random members named to a newcomer."""
CONTACTS_MAX = 64
"""Contacts that have asked or answered before our life ran; more are not remembered, and counted."""


class Introductions:
    """Asks for and gives introductions. Size: twice `CONTACTS_MAX`."""

    def __init__(self, parts: Parts, hearing: Hearing, push_pull: PushPull) -> None:
        self._parts = parts
        self._hearing = hearing
        self._push_pull = push_pull
        self._answers: list[tuple[NodeId, list[NodeId]]] = []
        self._askers: dict[LinkId, None] = {}
        """Links on which we were asked before our life ran, when we had no head to answer with."""

    def on_request(self, request: ContactRequest, source: Source, now: float) -> None:
        """A node asks what we hold about its id, and whom we know."""
        parts = self._parts
        if request.node != source.node:
            parts.counters.add("dropped.contact_request.not_own_id")
            return
        alive = [m for m in parts.table if m.state is MemberState.ALIVE and m.node != source.node]
        sample = parts.rng.sample(alive, min(SAMPLE, len(alive)))
        heads = [m.head.data for m in sample]
        assert source.link is not None, "contacts are links"
        if parts.life.is_running:
            heads.insert(0, parts.own.head(now).data)
        elif len(self._askers) < CONTACTS_MAX:
            self._askers[source.link] = None
        else:
            parts.counters.add("contacts.too_early_forgotten")
        held = parts.table.get(source.node)
        answer_ = ContactAnswer(held=held.head.data if held is not None else None, heads=heads)
        parts.links.send(source.link, answer_)

    def on_answer(self, message: ContactAnswer, source: Source, now: float) -> None:
        """A contact says what it holds about our id, and names others."""
        parts = self._parts
        assert source.link is not None, "contacts are links"
        was_asked = parts.contacts.on_answered(source.link)
        held = None
        if message.held is not None:
            try:
                held = parts.checker.open(Head, message.held)
            except FactRejected as rejected:
                parts.counters.add(f"dropped.head.{rejected.reason}")
        if held is not None and held.fact.node != parts.own.node:
            parts.counters.add("dropped.contact_answer.not_own_head")
            held = None
        named: list[NodeId] = []
        for data in message.heads:
            self._hearing.head(data, source, now, by_sync=True)
            node = self._hearing.subject(data)
            if node is not None:
                named.append(node)
        if was_asked:
            self._hearing.steps += parts.life.on_answer(held, now)
        else:  # nobody can answer for the others that were asked
            parts.counters.add("contacts.answer_unasked")
            if held is not None:
                self._hearing.steps += parts.life.on_own_head(held, now)
        if parts.life.is_running:
            self._push_pull.first_sync(source.node, named, now)
        elif len(self._answers) < CONTACTS_MAX:
            self._answers.append((source.node, named))
        else:
            parts.counters.add("contacts.too_early_forgotten")

    def on_link_down(self, link: LinkId) -> None:
        """Whoever asked us too early has gone."""
        self._askers.pop(link, None)

    def after_start(self, now: float) -> None:
        """Our life runs: tell those who asked us too early, and go on with the contacts that had answered before."""
        askers, self._askers = self._askers, {}
        for link in askers:
            self._parts.links.send(link, HeadUpdate(head=self._parts.own.head(now).data))
        answers, self._answers = self._answers, []
        for node, named in answers:
            self._parts.contacts.joined(None, now)
            self._push_pull.first_sync(node, named, now)
