"""Several `Links` joined by a fake transport: every frame waits until the test lets it arrive (h11's pair of engines).

The transport keeps what TCP keeps: order on each link. What it does not promise is up to the test: when something
arrives, in which order two links are served, and where a link is cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

from reachp2p.core.counters import Counters
from reachp2p.core.effects import CloseLink, Dial, Effect, Effects, LinkEnd, SendFrame, ToLink
from reachp2p.core.ids import Address, Life, LinkId, NodeId
from reachp2p.core.links.hello import Handshake
from reachp2p.core.links.link import LinkDue
from reachp2p.core.links.outputs import LinkDown, LinkMessage, LinkOutput, LinkUp
from reachp2p.core.links.table import Links
from reachp2p.core.settings import Protocol, Settings
from reachp2p.core.timers import TimerKey, Timers
from reachp2p.core.wire.codec import decode_messages, encode_message, pack_messages
from reachp2p.core.wire.messages import Hello, Message

WINDOW = 1_048_576
"""Room that the fake transport reports after each frame that has arrived."""


def node_id(name: str) -> NodeId:
    """32 bytes that sort like their name."""
    return NodeId(name.encode().ljust(32, b"."))


def life(epoch: int, salt: str = "life") -> Life:
    """A life with this epoch."""
    return Life(epoch, salt.encode().ljust(16, b".")[:16])


class KeyedHash:
    """Signs and verifies with a hash keyed by the node id: as binding as a test needs."""

    def __init__(self, node: NodeId) -> None:
        self.node = node

    def sign(self, data: bytes, /) -> bytes:
        return blake2b(data, key=self.node).digest()

    def verify(self, node: NodeId, signature: bytes, data: bytes, /) -> bool:
        return signature == blake2b(data, key=node).digest()


class CountingEntropy:
    """Fresh bytes that are the same in each run."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def token(self, size: int, /) -> bytes:
        self._count += 1
        return blake2b(f"{self._name} {self._count}".encode(), digest_size=size).digest()


@dataclass(eq=False)
class End:
    """One end of a wire: whose, under which number, and what has arrived for it but was not handed over yet."""

    side: Side
    link: LinkId
    inbox: deque[bytes | LinkEnd] = field(default_factory=deque)
    is_open: bool = True
    is_told: bool = False
    """The engine knows that it is open."""


@dataclass(eq=False)
class Wire:
    """One connection. `acceptor` is missing while it is dialled."""

    address: Address
    dialler: End
    acceptor: End | None = None

    def other(self, end: End) -> End | None:
        return self.acceptor if end is self.dialler else self.dialler

    @property
    def ends(self) -> list[End]:
        return [end for end in (self.dialler, self.acceptor) if end is not None]


class Side:
    """One engine's links, driven by hand."""

    def __init__(
        self, net: Net, name: str, protocol: Protocol, cluster_id: str, node: NodeId, own: Life
    ) -> None:
        self.net = net
        self.name = name
        self.node = node
        self.life = own
        self.address = Address(f"host-{name}", 7946)
        self.effects = Effects()
        self.timers = Timers()
        self.counters = Counters()
        self.identity: NodeId | None = None
        """What the transport claims to have proven about the other end, for all links of this side."""
        self.is_busy: Callable[[NodeId], bool] = lambda other: False
        self.outputs: list[LinkOutput] = []
        self.performed: list[Effect] = []
        self.on_output: Callable[[LinkOutput, float], None] | None = None
        self.on_effect: Callable[[Effect], None] | None = None
        """For the effects that are not a link's."""
        self.on_timer: Callable[[TimerKey, float], None] | None = None
        self.on_unsent: Callable[[ToLink], None] = lambda item: None
        """For messages that were noted and found no room on their link when they were to leave."""
        self.ends: dict[LinkId, tuple[Wire, End]] = {}
        self.links = Links(
            Settings(cluster_id=cluster_id, name=name, addresses=(self.address,), protocol=protocol),
            signer=KeyedHash(node),
            verifier=KeyedHash(node),
            entropy=CountingEntropy(name),
            effects=self.effects,
            timers=self.timers,
            counters=self.counters,
            own_life=lambda: self.life,
            is_busy=lambda other: self.is_busy(other),
        )

    # What a test does

    def dial(self, other: Side | Address, node: NodeId | None = None) -> LinkId:
        address = other if isinstance(other, Address) else other.address
        link = self.links.dial(address, node, self.net.now)
        assert link is not None
        self.perform()
        return link

    def send(self, other: Side, message: Message) -> bool:
        """Send on the link in use; false if there is none or it is full."""
        link = self.links.link_to(other.node)
        sent = link is not None and self.links.send(link, message)
        self.perform()
        return sent

    def close(self, link: LinkId, reason: str = "enough", code: int = 0) -> None:
        self.take(self.links.close(link, self.net.now, reason, code))

    # What it sees

    @property
    def received(self) -> list[Message]:
        return [output.message for output in self.outputs if isinstance(output, LinkMessage)]

    @property
    def ups(self) -> list[LinkUp]:
        return [output for output in self.outputs if isinstance(output, LinkUp)]

    @property
    def downs(self) -> list[LinkDown]:
        return [output for output in self.outputs if isinstance(output, LinkDown)]

    # The driver

    def take(self, outputs: list[LinkOutput]) -> None:
        self.outputs += outputs
        if self.on_output is not None:
            for output in outputs:
                self.on_output(output, self.net.now)
        self.perform()

    def perform(self) -> None:
        """Take the effects as an engine would and carry them out."""
        performed: list[Effect] = []
        unsent: list[ToLink] = []
        for item in self.effects.take():
            if isinstance(item, ToLink):
                if not self.links.transmit(item.link, item.message):
                    unsent.append(item)
            elif isinstance(item, CloseLink):
                performed += self.links.flush()
                performed.append(item)
            else:
                assert not hasattr(item, "piggyback"), "links and calls send no datagrams"
                performed.append(item)  # type: ignore[arg-type]
        for item in unsent:
            self.on_unsent(item)
        performed += self.links.flush()
        self.performed += performed
        for effect in performed:
            if isinstance(effect, Dial):
                self.net.dial(self, effect)
            elif isinstance(effect, SendFrame):
                self.net.send(self, effect)
            elif isinstance(effect, CloseLink):
                self.net.close(self, effect)
            else:
                assert self.on_effect is not None, effect
                self.on_effect(effect)
        if unsent:
            self.perform()

    def fire(self) -> None:
        """Run all timers that are due."""
        while (key := self.timers.pop_due(self.net.now)) is not None:
            if isinstance(key, LinkDue):
                self.take(self.links.on_timer(key, self.net.now))
            else:
                assert self.on_timer is not None
                self.on_timer(key, self.net.now)
                self.perform()


class Net:
    """The fake transport between all sides of a test."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.sides: dict[str, Side] = {}
        self.wires: list[Wire] = []
        self.silent: set[Address] = set()
        """Addresses where a dial gets no answer at all."""
        self.gated: set[str] = set()
        """Sides that report no room for more frames."""
        self._accepted = 0

    def side(
        self,
        name: str,
        *,
        protocol: Protocol | None = None,
        cluster_id: str = "test",
        node: NodeId | None = None,
        own: Life | None = None,
    ) -> Side:
        side = Side(self, name, protocol or Protocol(), cluster_id, node or node_id(name), own or life(1))
        self.sides[name] = side
        return side

    # Effects

    def dial(self, side: Side, dial: Dial) -> None:
        wire = Wire(dial.address, End(side, dial.link))
        side.ends[dial.link] = (wire, wire.dialler)
        self.wires.append(wire)

    def send(self, side: Side, frame: SendFrame) -> None:
        wire, end = side.ends[frame.link]
        other = wire.other(end)
        assert end.is_open, "nothing is sent on a closed link"
        assert end.is_told, "nothing is sent before the link is open"
        if other is not None and other.is_open:
            other.inbox.append(frame.data)

    def close(self, side: Side, close: CloseLink) -> None:
        wire, end = side.ends.pop(close.link)
        other = wire.other(end)
        end.is_open = False
        end.inbox.clear()
        if other is None:
            self.wires.remove(wire)
        elif other.is_open:
            if close.abort:
                other.inbox.clear()
            other.inbox.append(LinkEnd.LOST if close.abort else LinkEnd.GOODBYE)

    # What a test lets happen

    def steps(self) -> list[tuple[Wire, End]]:
        """Everything that could happen next, without time passing."""
        possible: list[tuple[Wire, End]] = []
        for wire in self.wires:
            if wire.acceptor is None:
                if wire.address not in self.silent:
                    possible.append((wire, wire.dialler))
            else:
                possible += [(wire, end) for end in wire.ends if not end.is_told or end.inbox]
        return possible

    def step(self, wire: Wire, end: End) -> None:
        """Let one thing happen: a dial is answered, an end learns that it is open, or an item arrives."""
        side = end.side
        if wire.acceptor is None:
            target = next((s for s in self.sides.values() if s.address == wire.address), None)
            if target is None:
                self._tell_closed(wire, end, LinkEnd.REFUSED)
                return
            self._accepted += 1
            wire.acceptor = End(target, LinkId(-self._accepted))
            target.ends[wire.acceptor.link] = (wire, wire.acceptor)
        elif not end.is_told:
            end.is_told = True
            if end.is_open:
                side.take(side.links.on_opened(end.link, side.identity, self.now))
        else:
            item = end.inbox.popleft()
            if isinstance(item, LinkEnd):
                self._tell_closed(wire, end, item)
                return
            side.take(side.links.on_frame(end.link, item, self.now))
            sender = wire.other(end)
            if sender is not None and sender.is_open and sender.side.name not in self.gated:
                self.writable(sender.side, sender.link)
        self._tidy(wire)

    def writable(self, side: Side, link: LinkId, free: int = WINDOW) -> None:
        side.take(side.links.on_writable(link, free, self.now))

    def run(self, limit: int = 100_000) -> None:
        """Let everything happen that can, oldest link first, until nothing is left."""
        for _ in range(limit):
            possible = self.steps()
            if not possible:
                return
            self.step(*possible[0])
        raise AssertionError("it never ends")

    def sleep(self, seconds: float) -> None:
        """Let time pass; timers fire in order and what they send arrives."""
        until = self.now + seconds
        for _ in range(100_000):
            self.run()
            deadlines = [
                at for side in self.sides.values() if (at := side.timers.next_deadline()) is not None
            ]
            if not deadlines or min(deadlines) > until:
                self.now = until
                return
            self.now = max(self.now, min(deadlines))
            for side in list(self.sides.values()):
                side.fire()
        raise AssertionError("time stands still")

    def cut(self, wire: Wire) -> None:
        """Both ends learn that the link is lost; what was on the way is gone."""
        for end in wire.ends:
            if end.is_open and end.is_told:
                end.inbox.clear()
                end.inbox.append(LinkEnd.LOST)
            elif end.is_open and end is wire.acceptor:
                end.is_open = False
                end.inbox.clear()
        if wire.dialler.is_open and not wire.dialler.is_told:
            self._tell_closed(wire, wire.dialler, LinkEnd.LOST)

    def _tell_closed(self, wire: Wire, end: End, how: LinkEnd) -> None:
        end.is_open = False
        end.inbox.clear()
        end.side.ends.pop(end.link, None)
        other = wire.other(end)
        if other is not None and other.is_open and not any(isinstance(item, LinkEnd) for item in other.inbox):
            other.inbox.append(how)
        end.side.take(end.side.links.on_closed(end.link, how, self.now))
        self._tidy(wire)

    def _tidy(self, wire: Wire) -> None:
        if wire in self.wires and not any(end.is_open for end in wire.ends):
            self.wires.remove(wire)


class Script:
    """A remote that opens a link to `side` correctly and then says what the test wants, in any order."""

    def __init__(self, side: Side, name: str = "script", own: Life | None = None, link: int = -1) -> None:
        self.side = side
        self.link = LinkId(link)
        self.node = node_id(name)
        self.outputs: list[LinkOutput] = []
        self.effects: list[Effect] = []
        self._hear(side.links.on_opened(self.link, None, side.net.now))
        hello = Hello(
            wire_version=1,
            cluster_id="test",
            node=self.node,
            life=own or life(1),
            nonce=name.encode().ljust(16)[:16],
        )
        key = KeyedHash(self.node)
        shake = Handshake(hello, dialled=True, expected=None, identity=None, signer=key, verifier=key)
        shake.read_first(self.frames().pop())
        if self.says_hello:
            self.say_frame(shake.frame)
            self.effects.clear()
            self.say_frame(shake.prove())

    says_hello = True

    @classmethod
    def unproven(cls, side: Side) -> Script:
        """One that has not said anything yet."""
        return _Silent(side)

    def say(self, *messages: Message) -> None:
        self.say_frame(pack_messages([encode_message(message) for message in messages]))

    def say_frame(self, data: bytes) -> None:
        self._hear(self.side.links.on_frame(self.link, data, self.side.net.now))

    def end(self, how: LinkEnd) -> None:
        self._hear(self.side.links.on_closed(self.link, how, self.side.net.now))

    def timeout(self) -> None:
        """Let the side run what is due now."""
        while (key := self.side.timers.pop_due(self.side.net.now)) is not None:
            assert isinstance(key, LinkDue)
            self._hear(self.side.links.on_timer(key, self.side.net.now))

    def act(self, outputs: list[LinkOutput]) -> None:
        """Take what a command of the side has brought about."""
        self._hear(outputs)

    def frames(self) -> list[bytes]:
        return [e.data for e in self.effects if isinstance(e, SendFrame) and e.link == self.link]

    def heard(self) -> list[Message]:
        """The messages it was sent since it was last asked."""
        frames = self.frames()
        self.effects = [e for e in self.effects if not isinstance(e, SendFrame)]
        return [m for frame in frames for m in decode_messages(frame, bytes_max=65_536, messages_max=32)[0]]

    def closes(self) -> list[CloseLink]:
        return [e for e in self.effects if isinstance(e, CloseLink)]

    def downs(self) -> list[LinkDown]:
        return [output for output in self.outputs if isinstance(output, LinkDown)]

    def _hear(self, outputs: list[LinkOutput]) -> None:
        self.outputs += outputs
        for item in self.side.effects.take():
            if isinstance(item, ToLink):
                self.side.links.transmit(item.link, item.message)
            else:
                self.effects.append(item)  # type: ignore[arg-type]
        self.effects += self.side.links.flush()


class _Silent(Script):
    says_hello = False
