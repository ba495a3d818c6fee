"""Anti-entropy: two nodes compare digests over a link and exchange what differs (Demers 1987, Scuttlebutt 2008).

    initiator                         responder
      SyncOffer(hash)      ->
                           <-         SyncEnd(equal)            one hash ends it, or
                           <-         SyncDigest pages
      SyncDelta, SyncWant  ->
                           <-         SyncDelta ... last        one for each SyncWant
      SyncEnd              ->

An exchange is a round object that ends in a named way: equal, done, lost with its link, or timed out. What is compared
and applied is behind `Replica`; this module knows only the conversation and its bounds. A `SyncWant` outside
an exchange (number 0) is a pull.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.ids import LIFE_ID_BYTES, Life, LinkId, NodeId, Rng
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import (
    DigestEntry,
    Extensions,
    Message,
    SyncDelta,
    SyncDigest,
    SyncEnd,
    SyncOffer,
    SyncWant,
)

EXCHANGE_TIMEOUT = 10.0
"""Seconds without progress; memberlist gives its TCP push-pull the same."""
EXCHANGE_MAX = 120.0
"""Seconds for a whole exchange, so that one that only trickles ends too: 16,384 members in 9 kB a second."""
WANTS_MAX = 16_384
"""Nodes asked about in one exchange, as many as a view may have members; more are left for the next, and counted."""
INITIATED_MAX = 8
ANSWERED_MAX = 64
"""A seed answers many joiners at once; beyond this an offer is refused (counted) and the initiator tries another."""
ANSWERED_ON_A_LINK_MAX = 4
"""Of those, over one link: nobody needs more than one at a time."""
PAGE_ENTRIES = 512
PULL = 0
NOTHING = Life(0, bytes(LIFE_ID_BYTES))


class ExchangeEnds(msgspec.Struct, frozen=True):
    """An exchange has made no progress for too long."""

    link: LinkId
    exchange: int


class ExchangeOver(msgspec.Struct, frozen=True):
    """An exchange that we began has ended. `outcome`: equal, done, refused, lost or timeout."""

    node: NodeId
    outcome: str


class Replica(Protocol):
    """What is kept equal."""

    def digest(self, now: float) -> list[DigestEntry]:
        """One entry a node, in NodeId order."""

    def summary(self, now: float) -> tuple[bytes, int]:
        """A hash over the digest, and its number of entries."""

    def deltas(self, theirs: Sequence[DigestEntry], exchange: int, now: float) -> list[SyncDelta]:
        """What we hold about these nodes beyond what the entries say; frames of at most 64 records."""


def absent(node: bytes) -> DigestEntry:
    """The entry of somebody who holds nothing about `node`."""
    return DigestEntry(node, NOTHING, False, 0, 0, 0, False)


def numbers(entry: DigestEntry) -> tuple[Life, bool, int, int]:
    """What orders two heads of one node."""
    return (entry.life, entry.left, entry.incarnation, entry.version)


def has_news(ours: DigestEntry, theirs: DigestEntry) -> bool:
    """Whether we hold anything that they lack: a newer head, more records, or a doubt."""
    if numbers(ours) > numbers(theirs):
        return True
    if ours.life != theirs.life:
        return False
    if ours.complete > theirs.complete:
        return True
    return (
        ours.dead and not theirs.dead and (ours.left, ours.incarnation) >= (theirs.left, theirs.incarnation)
    )


class Exchange(msgspec.Struct):
    """One conversation. `after`: the last NodeId of the pages seen so far."""

    node: NodeId
    initiated: bool
    ends: float
    """No progress extends it beyond this."""
    ours: dict[bytes, DigestEntry] = {}
    wants: list[DigestEntry] = []
    after: bytes = b""
    outstanding: int = 0


class AntiEntropy:
    """Runs exchanges: at most `INITIATED_MAX` of our own and `ANSWERED_MAX` of others at once."""

    def __init__(
        self,
        replica: Replica,
        send: Callable[[LinkId, Message], bool],
        *,
        timers: Timers,
        rng: Rng,
        counters: Counters,
        extensions: Callable[[], Extensions] = dict,
    ) -> None:
        """`extensions`: what an offer says besides (docs/protocol/rules.md)."""
        self._extensions = extensions
        self._replica = replica
        self._send = send
        self._timers = timers
        self._rng = rng
        self._counters = counters
        self._exchanges: dict[tuple[LinkId, int], Exchange] = {}

    def begin(self, link: LinkId, node: NodeId, now: float) -> bool:
        """Offer an exchange on a proven link; false if one with this node is running, too many are, or nothing can be
        sent."""
        ours = [e for e in self._exchanges.values() if e.initiated]
        if len(ours) >= INITIATED_MAX or any(e.node == node for e in ours):
            return False
        number = 1 + self._rng.randrange(2**62)
        hashed, nodes = self._replica.summary(now)
        offer = SyncOffer(exchange=number, hash=hashed, nodes=nodes, extensions=self._extensions())
        if not self._send(link, offer):
            return False
        self._exchanges[link, number] = Exchange(node, initiated=True, ends=now + EXCHANGE_MAX)
        self._progress(link, number, now)
        self._counters.add("sync.begun")
        return True

    def pull(self, link: LinkId, entries: Sequence[DigestEntry]) -> None:
        """Ask for what the other side holds beyond these entries, without an exchange."""
        self._send(link, SyncWant(exchange=PULL, entries=list(entries[:PAGE_ENTRIES])))

    def on_message(
        self, link: LinkId, node: NodeId, message: Message, now: float
    ) -> list[SyncDelta | ExchangeOver]:
        """One message of an exchange; returns deltas to apply, and the end of an exchange that we began."""
        match message:
            case SyncOffer():
                self._on_offer(link, node, message, now)
            case SyncDigest():
                return self._on_digest(link, message, now)
            case SyncWant():
                self._on_want(link, message, now)
            case SyncDelta():
                return self._on_delta(link, message, now)
            case SyncEnd():
                return self._on_end(link, message)
            case _:
                raise AssertionError(f"not a message of anti-entropy: {type(message).__name__}")
        return []

    def _on_offer(self, link: LinkId, node: NodeId, offer: SyncOffer, now: float) -> None:
        number = offer.exchange
        if offer.hash == self._replica.summary(now)[0]:
            self._counters.add("sync.answered_equal")
            self._send(link, SyncEnd(exchange=number, equal=True))
            return
        answered = [its_link for (its_link, _), e in self._exchanges.items() if not e.initiated]
        is_full = len(answered) >= ANSWERED_MAX or answered.count(link) >= ANSWERED_ON_A_LINK_MAX
        if is_full or (link, number) in self._exchanges:
            self._counters.add("sync.refused")
            self._send(link, SyncEnd(exchange=number))
            return
        self._exchanges[link, number] = Exchange(node, initiated=False, ends=now + EXCHANGE_MAX)
        self._progress(link, number, now)
        digest = iter(self._replica.digest(now))
        page = list(islice(digest, PAGE_ENTRIES))
        while True:
            following = list(islice(digest, PAGE_ENTRIES))
            self._send(link, SyncDigest(exchange=number, entries=page, last=not following))
            if not following:
                return
            page = following

    def _on_digest(self, link: LinkId, page: SyncDigest, now: float) -> list[SyncDelta | ExchangeOver]:
        exchange = self._exchanges.get((link, page.exchange))
        if exchange is None or not exchange.initiated:
            self._counters.add("dropped.sync.unknown_exchange")
            return []
        if exchange.outstanding:
            self._counters.add("dropped.sync.page_after_last")
            return []
        is_empty = not page.entries and not page.last
        if is_empty or (page.entries and exchange.after and page.entries[0].node <= exchange.after):
            self._counters.add("dropped.sync.page_turned_back")  # everything would be sent again
            return []
        if not exchange.after:
            exchange.ours = {e.node: e for e in self._replica.digest(now)}
        self._progress(link, page.exchange, now)
        behind: list[DigestEntry] = []
        seen: dict[bytes, None] = {}
        for theirs in page.entries:
            seen[theirs.node] = None
            ours = exchange.ours.get(theirs.node, absent(theirs.node))
            if has_news(ours, theirs):
                behind.append(theirs)
            if has_news(theirs, ours):
                if len(exchange.wants) < WANTS_MAX:
                    exchange.wants.append(ours)
                else:
                    self._counters.add("sync.wants_full")
        end = page.entries[-1].node if page.entries else exchange.after
        for node in exchange.ours:
            if node > exchange.after and (page.last or node <= end) and node not in seen:
                behind.append(absent(node))
        exchange.after = max(end, b"\x00")
        for delta in self._replica.deltas(behind, page.exchange, now) if behind else ():
            self._send(link, delta)
        if not page.last:
            return []
        wants = exchange.wants
        for start in range(0, len(wants), PAGE_ENTRIES):
            exchange.outstanding += 1
            part = wants[start : start + PAGE_ENTRIES]
            self._send(link, SyncWant(exchange=page.exchange, entries=part))
        if exchange.outstanding == 0:
            return self._finish(link, page.exchange)
        return []

    def _on_want(self, link: LinkId, want: SyncWant, now: float) -> None:
        if want.exchange != PULL and (link, want.exchange) not in self._exchanges:
            self._counters.add("dropped.sync.unknown_exchange")
            return
        deltas = self._replica.deltas(want.entries, want.exchange, now)
        for delta in deltas[:-1]:
            self._send(link, delta)
        last = deltas[-1] if deltas else SyncDelta(exchange=want.exchange)
        self._send(link, msgspec.structs.replace(last, last=True))
        if want.exchange != PULL:
            self._progress(link, want.exchange, now)

    def _on_delta(self, link: LinkId, delta: SyncDelta, now: float) -> list[SyncDelta | ExchangeOver]:
        exchange = self._exchanges.get((link, delta.exchange))
        if exchange is None:
            if delta.exchange != PULL:
                self._counters.add("dropped.sync.unknown_exchange")
                return []
            return [delta]
        self._progress(link, delta.exchange, now)
        result: list[SyncDelta | ExchangeOver] = [delta]
        if delta.last and exchange.initiated:
            exchange.outstanding -= 1
            if exchange.outstanding <= 0:
                result += self._finish(link, delta.exchange)
        return result

    def _finish(self, link: LinkId, number: int) -> list[SyncDelta | ExchangeOver]:
        self._send(link, SyncEnd(exchange=number))
        return [self._over(link, number, "done")]

    def _on_end(self, link: LinkId, end: SyncEnd) -> list[SyncDelta | ExchangeOver]:
        exchange = self._exchanges.get((link, end.exchange))
        if exchange is None:
            return []
        over = self._over(link, end.exchange, "equal" if end.equal else "refused")
        return [over] if exchange.initiated else []

    def on_exchange_ends(self, link: LinkId, number: int) -> list[ExchangeOver]:
        """No progress for `EXCHANGE_TIMEOUT`, or not done in `EXCHANGE_MAX`."""
        exchange = self._exchanges.get((link, number))
        if exchange is None:
            return []
        over = self._over(link, number, "timeout")
        return [over] if exchange.initiated else []

    def on_link_down(self, link: LinkId) -> list[ExchangeOver]:
        """All exchanges of a link end with it."""
        lost = [(key, e) for key, e in self._exchanges.items() if key[0] == link]
        overs = [(self._over(*key, "lost"), e) for key, e in lost]
        return [over for over, exchange in overs if exchange.initiated]

    def _over(self, link: LinkId, number: int, outcome: str) -> ExchangeOver:
        exchange = self._exchanges.pop((link, number))
        self._timers.cancel(ExchangeEnds(link, number))
        if exchange.initiated:
            self._counters.add(f"sync.{outcome}")
        return ExchangeOver(exchange.node, outcome)

    def _progress(self, link: LinkId, number: int, now: float) -> None:
        ends = min(now + EXCHANGE_TIMEOUT, self._exchanges[link, number].ends)
        self._timers.set(ExchangeEnds(link, number), ends)

    def __len__(self) -> int:
        return len(self._exchanges)
