"""This node speaking of itself: its life, incarnation and registry version, and the head it signs over them.

Only here are a node's own numbers raised. Every change signs a new head; the same numbers are never signed
over two different bodies, because that would be an equivocation. A head is renewed by taking the next
version, so a renewal is a change like any other.
"""

from __future__ import annotations

from reachp2p.core.clock import WallClock
from reachp2p.core.ids import COUNTER_MAX, Address, Life, NodeId
from reachp2p.core.ring.placement import PLACEMENT_VERSION
from reachp2p.core.settings import Settings
from reachp2p.core.trust.facts import Checked, FactChecker, FactSigner
from reachp2p.core.wire.facts import Head
from reachp2p.core.wire.messages import WIRE_VERSION

COUNTER_RESERVE = 1_000_000
"""Steps kept for what one input, and a drain, may still take."""
NUMBER_MAX = COUNTER_MAX - COUNTER_RESERVE


class OwnNode:
    """The numbers of this node's present life. `open` begins a life; nothing is signed before."""

    def __init__(
        self, node: NodeId, settings: Settings, signer: FactSigner, checker: FactChecker, clock: WallClock
    ) -> None:
        self.node = node
        self.name = settings.name
        self.addresses: tuple[Address, ...] = settings.addresses
        self._zone = settings.zone
        self._valid_for = int(settings.protocol.head_validity)
        self._signer = signer
        self._checker = checker
        self._clock = clock
        self.life: Life | None = None
        self.since = 0.0
        """When this life began, monotonic seconds."""
        self.incarnation = 0
        self.version = 0
        self.floor = 0
        self.has_left = False
        self._head: Checked[Head] | None = None

    def open(self, life: Life, now: float) -> None:
        """Begin a life at `now`: incarnation and version start at 0, nothing of a former life is kept."""
        assert self.life is None or life > self.life, "lives only grow"
        self.life = life
        self.since = now
        self.incarnation = 0
        self.version = 0
        self.floor = 0
        self.has_left = False
        self._head = None

    @property
    def is_used_up(self) -> bool:
        """A counter is close to its bound: the life has to end before the next changes reach it."""
        return self.version >= NUMBER_MAX or self.incarnation >= NUMBER_MAX

    def next_version(self) -> int:
        """Take the next registry version; the head must be signed anew before anybody hears of it."""
        self.version += 1
        self._head = None
        return self.version

    def refute(self, incarnation: int) -> bool:
        """Rise above an accusation of our own `incarnation`; false if it is not about our present one."""
        if incarnation != self.incarnation or self.has_left:
            return False
        self.incarnation += 1
        self._head = None
        return True

    def readdress(self, addresses: tuple[Address, ...]) -> None:
        """Tell other addresses from now on."""
        if addresses != self.addresses:
            self.addresses = addresses
            self.next_version()

    def leave(self) -> None:
        """This life has left; it beats every incarnation of it and never comes back."""
        if not self.has_left:
            self.has_left = True
            self._head = None

    def head(self, now: float) -> Checked[Head]:
        """Our signed head as it stands; the same bytes until a number changes."""
        if self._head is None:
            assert self.life is not None, "no life is open"
            fact = Head(
                node=self.node,
                life=self.life,
                incarnation=self.incarnation,
                version=self.version,
                left=self.has_left,
                issued_at=self._clock.at(now),
                valid_for=self._valid_for,
                name=self.name,
                addresses=list(self.addresses),
                floor=self.floor,
                zone=self._zone,
                wire_min=WIRE_VERSION,
                wire_max=WIRE_VERSION,
                placement=PLACEMENT_VERSION,
            )
            self._head = self._checker.open(Head, self._signer.sign(fact))
        return self._head
