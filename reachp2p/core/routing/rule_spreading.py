"""How the rules of a cluster reach every node, also after their author has gone (docs/protocol/rules.md).

    gossip, link RulesNotice: there is this record          ->  RulesWant over a link, to whoever said so
    exchange     SyncOffer with a summary of the book       ->  RulesList, if that of the other side differs
    RulesList    what the sender holds                      ->  RulesWant for what we lack, RulesBodies of what it lacks
    RulesWant    digests                                    ->  RulesBodies

A record that is new here is told on; so it reaches everybody who is connected within moments, and anti-entropy brings
it to whoever was away. Any node that holds it can hand it on: nobody is asked for what it has signed itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.dissemination.broadcast_queue import BroadcastQueue, Kind
from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.core.links.table import Links
from reachp2p.core.routing.rule_book import HISTORY_MAX, entry_of
from reachp2p.core.routing.rule_keeper import RuleKeeper
from reachp2p.core.timers import Timers
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.engine_codec import Codec
from reachp2p.core.wire.facts import RulesRecord
from reachp2p.core.wire.messages import (
    RULES_KEY,
    Extensions,
    RulesBodies,
    RulesEntry,
    RulesList,
    RulesNotice,
    RulesWant,
    SyncOffer,
)

WANTS_MAX = HISTORY_MAX
"""Records looked for at once, as many as a book holds; the one that was asked for first is forgotten for one more."""
TELLERS_MAX = 4
"""Nodes remembered that have told of one record."""
TRIES_MAX = 5
"""After so many questions in vain the next exchange has to bring it."""
RETRY = 1.0
"""Seconds until the next teller is asked, or the disk is tried again."""


class RulesDue(msgspec.Struct, frozen=True):
    """Something of the rules is to be tried again: a question, or a write."""


class Want(msgspec.Struct):
    """A record that was told of: by whom, and how often we have asked."""

    entry: RulesEntry
    tellers: list[NodeId]
    tries: int = 0


class RuleSpreading:
    """Tells of records, asks for them and hands them out. Size: `WANTS_MAX` wants."""

    def __init__(
        self,
        keeper: RuleKeeper,
        *,
        links: Links,
        queue: BroadcastQueue,
        addresses: Callable[[NodeId], Sequence[Address]],
        timers: Timers,
        counters: Counters,
        codec: Codec,
    ) -> None:
        self._keeper = keeper
        self._links = links
        self._queue = queue
        self._addresses = addresses
        self._timers = timers
        self._counters = counters
        self._codec = codec
        self._wants: dict[bytes, Want] = {}
        """By digest."""

    def tell(self, record: Checked[RulesRecord]) -> None:
        """Let the news of a record circulate, and tell whoever there is a link to.

        Gossip is quick, and misses somebody now and then, most of all in a small part of a cluster that still gossips
        to those it has lost. Links miss nobody: each node has one to its next successors.
        """
        entry = entry_of(record)
        notice = RulesNotice(version=entry.version, author=entry.author, digest=entry.digest)
        self._queue.put(Kind.RULES, entry.digest, self._codec.encode(notice))
        for node in self._links.linked():
            link = self._links.link_to(node)
            if link is not None:
                self._links.send(link, notice)

    def extensions(self) -> Extensions:
        """What an offer of an exchange says of our book: nothing while it is empty."""
        return {RULES_KEY: self._keeper.book.summary()} if len(self._keeper.book) else {}

    # What arrives

    def on_notice(self, notice: RulesNotice, node: NodeId, now: float) -> None:
        """There is a record, and `node` has it."""
        entry = RulesEntry(notice.version, notice.author, notice.digest)
        if not self._keeper.book.lacks(entry):
            return
        want = self._wants.get(entry.digest)
        if want is not None:
            if node not in want.tellers and len(want.tellers) < TELLERS_MAX:
                want.tellers.append(node)
            return
        if len(self._wants) >= WANTS_MAX:
            del self._wants[next(iter(self._wants))]
            self._counters.add("rules.wants_forgotten")
        want = self._wants[entry.digest] = Want(entry, [node])
        self._ask(want, now)
        self._set_due(now)

    def on_offer(self, offer: SyncOffer, link: LinkId) -> None:
        """Somebody wants to compare views: if its book is another one than ours, say what we hold."""
        theirs = offer.extensions.get(RULES_KEY)
        book = self._keeper.book
        if theirs is None and not len(book):
            return
        if theirs != book.summary():
            self._links.send(link, RulesList(entries=book.entries))

    def on_list(self, message: RulesList, link: LinkId) -> None:
        """What the other side holds."""
        book = self._keeper.book
        wanted = [entry.digest for entry in message.entries if book.lacks(entry)]
        if wanted:
            self._links.send(link, RulesWant(digests=wanted))
        records = book.missing_from(message.entries)
        if records:
            self._links.send(link, RulesBodies(records=[record.data for record in records]))

    def on_want(self, message: RulesWant, link: LinkId) -> None:
        """The other side asks for records."""
        records = self._keeper.book.get(message.digests)
        if records:
            self._counters.add("rules.handed_out", len(records))
            self._links.send(link, RulesBodies(records=[record.data for record in records]))

    def on_bodies(self, message: RulesBodies, now: float, *, spreads: bool) -> None:
        """Records. `spreads`: what is new here is news for others, too; not so for a newcomer that catches up."""
        for data in message.records:
            record = self._keeper.hear(data, now)
            if record is not None:
                was_wanted = self._wants.pop(record.digest, None) is not None
                if was_wanted or spreads:
                    self.tell(record)
        if self._keeper.has_unwritten:
            self._set_due(now)

    def on_link_up(self, link: LinkId, node: NodeId) -> None:
        """A link is proven: ask over it for what its node has told of."""
        if not self._wants:
            return
        digests = [digest for digest, want in self._wants.items() if node in want.tellers]
        if digests:
            self._links.send(link, RulesWant(digests=digests))

    # Trying again

    def on_write_failed(self, now: float) -> None:
        """The book is not on disk."""
        self._set_due(now)

    def on_due(self, now: float) -> None:
        """Ask the next tellers for what has not come, and write what is not on disk."""
        self._keeper.write_again()
        for digest, want in list(self._wants.items()):
            if want.tries >= TRIES_MAX or not self._keeper.book.lacks(want.entry):
                del self._wants[digest]
                if want.tries >= TRIES_MAX:
                    self._counters.add("rules.wants_given_up")
            else:
                self._ask(want, now)
        if self._wants:
            self._timers.set(RulesDue(), now + RETRY)

    def stop(self) -> None:
        """Nothing is asked any more."""
        self._timers.cancel(RulesDue())
        self._wants.clear()

    def _ask(self, want: Want, now: float) -> None:
        node = want.tellers[want.tries % len(want.tellers)]
        want.tries += 1
        link = self._links.link_to(node)
        if link is not None:
            self._links.send(link, RulesWant(digests=[want.entry.digest]))
        else:
            self._links.ensure(node, self._addresses(node), now)  # asked in `on_link_up`

    def _set_due(self, now: float) -> None:
        if self._timers.due_at(RulesDue()) is None:
            self._timers.set(RulesDue(), now + RETRY)

    def gauges(self) -> dict[str, int]:
        """The sizes of what is bounded, by name."""
        keeper = self._keeper
        return {
            "rules.book": len(keeper.book),
            "rules.wants": len(self._wants),
            "rules.memory": len(keeper.in_force),
        }
