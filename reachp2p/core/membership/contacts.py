"""Finding others and never giving up: seeds, the address book and the dead (docs/protocol/membership.md).

A node that knows nobody dials all its seeds again and again, faster at first. A node with company dials one of those
it has lost, in turn, every `recontact_interval`: dead members, seeds that belong to no present member, and addresses
from its book. Reaching oneself is not joining. Only dialling happens here; what is said on the links is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, LinkEnd
from reachp2p.core.events import Joined, MemberState, SeedUnreached, SelfContacted
from reachp2p.core.ids import Address, LinkId, NodeId, Rng
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.errors import ErrorCode

SEEDS_MAX = 64
BOOK_MAX = 4_096
"""Addresses of nodes no longer in the table; the longest unheard of is forgotten first."""
ASKED_AT_START = 6
"""Contacts asked what they hold about our own id: up to three seeds and three others."""
DIALLED_ALONE = 8
"""Addresses other than seeds that a node which knows nobody dials in one round, in turn."""
RETRY_FIRST, RETRY_FACTOR, RETRY_MAX = 1.0, 1.5, 10.0
"""Seconds between rounds of dialling while nobody has answered yet."""
_WHY = {
    LinkEnd.REFUSED: "nobody listens there",
    LinkEnd.TIMEOUT: "no answer, or none that a node would give",
    LinkEnd.LOST: "whoever answers there is no node, or has ended meanwhile",
}


class ContactDue(msgspec.Struct, frozen=True):
    """Dial again."""


class Contacts:
    """Addresses to turn to. Sizes: `SEEDS_MAX` seeds, `BOOK_MAX` in the book."""

    def __init__(
        self,
        protocol: Protocol,
        table: MemberTable,
        dial: Callable[[Address, NodeId | None, float], LinkId | None],
        *,
        effects: Effects,
        timers: Timers,
        rng: Rng,
        counters: Counters,
    ) -> None:
        self._protocol = protocol
        self._table = table
        self._dial = dial
        self._effects = effects
        self._timers = timers
        self._rng = rng
        self._counters = counters
        self.seeds: list[Address] = []
        self._book: dict[NodeId, tuple[Address, ...]] = {}
        self._own_addresses: dict[Address, None] = {}
        self._dialled: dict[LinkId, Address] = {}
        self._asked: dict[LinkId, None] = {}
        """Links on which a contact was asked and has not answered yet; no more than there are links."""
        self._unreached: dict[Address, str] = {}
        """Seeds that could not be reached, with the reason that was told."""
        self._turn = 0
        self._taken_at = -1
        """The version of the table that the next two are of."""
        self._present: dict[Address, None] = {}
        self._dead: list[Address] = []
        self._retry = RETRY_FIRST
        self.has_joined = False

    def set_seeds(self, addresses: Sequence[Address], now: float) -> None:
        """The seeds as resolved now. New ones are dialled soon if nobody has answered yet."""
        unique = list(dict.fromkeys(addresses))
        if len(unique) > SEEDS_MAX:
            self._counters.add("dropped.seeds", len(unique) - SEEDS_MAX)
        if self.seeds != unique[:SEEDS_MAX]:
            self.seeds = unique[:SEEDS_MAX]
            self._own_addresses.clear()
            self._unreached = {a: why for a, why in self._unreached.items() if a in self.seeds}
            if not self.has_joined and self._timers.due_at(ContactDue()) is not None:
                self._retry = RETRY_FIRST
                self._timers.set(ContactDue(), now)

    def remember(self, node: NodeId, addresses: tuple[Address, ...]) -> None:
        """Put a node that leaves the table, or was never in it, into the book."""
        self._book.pop(node, None)
        if addresses:
            self._book[node] = addresses
            if len(self._book) > BOOK_MAX:
                del self._book[next(iter(self._book))]
                self._counters.add("address_book.evicted")

    def ask(self, now: float) -> int:
        """Dial contacts before announcing ourselves; how many are being dialled."""
        half = ASKED_AT_START // 2
        known = [m.address for m in self._table if m.address is not None]
        known += [addresses[0] for addresses in self._book.values()]
        others = [a for a in dict.fromkeys(known) if a not in self.seeds]
        chosen = self._rng.sample(self.seeds, min(half, len(self.seeds)))
        chosen += self._rng.sample(others, min(half, len(others)))
        return sum(self._try(address, None, now) for address in chosen)

    def start(self, now: float) -> None:
        """Keep looking from now on."""
        self._timers.set(ContactDue(), now + self._protocol.gossip_interval * (1 + self._rng.random()))

    def stop(self) -> None:
        """Look no more: dials that still end are nobody's failure."""
        self._timers.cancel(ContactDue())
        self._dialled.clear()
        self._asked.clear()

    def _try(self, address: Address, node: NodeId | None, now: float) -> bool:
        if address in self._own_addresses or address in self._dialled.values():
            return False
        link = self._dial(address, node, now)
        if link is None:
            return False
        self._dialled[link] = address
        return True

    def on_contact_due(self, now: float) -> None:
        """One round of dialling while alone, one contact in its turn afterwards."""
        if (
            not self.has_joined or self._table.size == 1
        ):  # whoever has answered is not believed yet, or does not us
            lost = self._lost()
            others = [a for a in lost if a not in self.seeds]
            self._turn += DIALLED_ALONE
            turn = [others[(self._turn + i) % len(others)] for i in range(min(DIALLED_ALONE, len(others)))]
            for address in [a for a in lost if a in self.seeds] + turn:
                self._try(address, None, now)
            delay = self._retry
            self._retry = min(RETRY_MAX, self._retry * RETRY_FACTOR)
        else:
            lost = self._lost() if self._protocol.rules.recontact else []
            if lost:
                self._turn += 1
                self._try(lost[self._turn % len(lost)], None, now)
                self._counters.add("contacts.recontacted")
            delay = self._protocol.recontact_interval
        self._timers.set(ContactDue(), now + delay * (0.75 + 0.5 * self._rng.random()))

    def _lost(self) -> list[Address]:
        if self._taken_at != self._table.version:
            self._taken_at = self._table.version
            self._present, self._dead = {}, []
            for member in self._table:
                if member.state in (MemberState.ALIVE, MemberState.SUSPECT):
                    self._present.update(dict.fromkeys(member.addresses))
                elif member.state is MemberState.DEAD:
                    self._dead += member.addresses
        booked = [a for addresses in self._book.values() for a in addresses]
        candidates = dict.fromkeys([*self.seeds, *self._dead, *booked])
        return [a for a in candidates if a not in self._present and a not in self._own_addresses]

    def on_link_up(self, link: LinkId, node: NodeId) -> bool:
        """A link is proven; true if we had dialled it to find somebody."""
        self._book.pop(node, None)
        address = self._dialled.pop(link, None)
        if address is not None:
            self._unreached.pop(address, None)
        return address is not None

    def on_asked(self, link: LinkId) -> None:
        """A contact has been asked over a link."""
        self._asked[link] = None

    def on_answered(self, link: LinkId) -> bool:
        """It has answered; false if it was not asked, or has answered before."""
        return self._asked.pop(link, link) is None

    def on_link_down(self, link: LinkId) -> bool:
        """A link is gone or never came; true if we had dialled it to find somebody, or have asked over it and have no
        answer: whoever holds us for a former life says which it knows and hangs up, and is not waited for."""
        was_dialled = self._dialled.pop(link, None) is not None
        was_asked = self._asked.pop(link, link) is None
        return was_dialled or was_asked

    def on_unreached(self, address: Address, end: LinkEnd, code: int, detail: str, now: float) -> None:
        """What we had dialled did not open, for this reason: a wrong or missing seed is told, once."""
        if address not in self.seeds or (end is LinkEnd.GOODBYE and code == 0):
            return  # nobody's setting, or closed by ourselves
        reason = detail if code else _WHY.get(end, end.value)
        if self._unreached.get(address) == reason:
            return
        self._unreached[address] = reason
        self._counters.add("contacts.seed_unreached")
        told = code or int(ErrorCode.NO_SEED_REACHABLE)
        self._effects.notify(SeedUnreached(at=now, address=address, code=told, reason=reason))

    def on_self(self, address: Address, now: float) -> bool:
        """`address` leads back to us: do not dial it again until the seeds change. True if we had dialled it to find
        somebody."""
        if address not in self._own_addresses:
            self._own_addresses[address] = None
            self._effects.notify(SelfContacted(at=now, address=address))
            if len(self._own_addresses) > SEEDS_MAX:
                del self._own_addresses[next(iter(self._own_addresses))]
        link = next((link for link, dialled in self._dialled.items() if dialled == address), None)
        return link is not None and self._dialled.pop(link) is not None

    def joined(self, via: Address | None, now: float) -> None:
        """Another member has answered."""
        if not self.has_joined:
            self.has_joined = True
            self._effects.notify(Joined(at=now, via=via))
            if self._timers.due_at(ContactDue()) is not None and self._table.size > 1:
                delay = self._protocol.recontact_interval * (0.5 + 0.5 * self._rng.random())
                self._timers.set(ContactDue(), now + delay)

    def alone(self, now: float, *, begin_anew: bool = True) -> None:
        """Nobody is left: dial everybody again, as at the start, or at the pace of the last attempts."""
        if self.has_joined:
            self.has_joined = False
            if begin_anew:
                self._retry = RETRY_FIRST
            if self._timers.due_at(ContactDue()) is not None:
                self._timers.set(ContactDue(), now + self._retry * self._rng.random())

    def __len__(self) -> int:
        return len(self._book)
