"""The links that exist: how one begins, and the few ways in which one ends.

The rules are elsewhere (`table`); here they are carried out, so that every end forgets all that belongs to a link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from reachp2p.core.counters import Counters
from reachp2p.core.effects import CloseLink, Dial, Effects, LinkEnd, SendFrame
from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.core.links.directory import Directory
from reachp2p.core.links.hello import OPENING_FRAME_MAX, opening_frame
from reachp2p.core.links.incoming import Incoming
from reachp2p.core.links.keepalive import note_use
from reachp2p.core.links.link import Doom, Link, LinkDue, LinkInput, LinkState
from reachp2p.core.links.outgoing import Outgoing
from reachp2p.core.links.outputs import LinkDown, LinkOutput
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.codec import encode_message, pack_messages
from reachp2p.core.wire.engine_codec import CODEC, Codec
from reachp2p.core.wire.messages import Goodbye
from reachp2p.errors import ErrorCode

_REASON_MAX = 256
GIVES_WAY_AFTER = 5.0
"""Seconds without use after which a link may be closed for another one, where there is no room: the first exchange of a
newcomer, for which most links to a seed are opened, is over by then; those that wait have tried three times."""


class LinkBook:
    """Links by number. Bounds: `links_max` in all, three quarters of them accepted, a quarter accepted and unproven."""

    def __init__(
        self,
        own: NodeId,
        protocol: Protocol,
        *,
        effects: Effects,
        timers: Timers,
        counters: Counters,
        codec: Codec = CODEC,
    ) -> None:
        self._codec = codec
        self.directory = Directory(own)
        self._protocol = protocol
        self._effects = effects
        self._timers = timers
        self._counters = counters
        self._links: dict[LinkId, Link] = {}
        self._last_dialled = 0
        self._held: dict[NodeId, list[LinkOutput]] = {}
        """Ends that are told once the dial that is under way to the link's node has ended, one way or the other."""

    def get(self, link: LinkId) -> Link | None:
        """The link of this number, if it has not been forgotten."""
        return self._links.get(link)

    def __iter__(self) -> Iterator[Link]:
        return iter(list(self._links.values()))

    def __len__(self) -> int:
        return len(self._links)

    @property
    def is_full(self) -> bool:
        """Whether no further link may be dialled."""
        return len(self._links) >= self._protocol.links_max

    @property
    def is_full_of_accepted(self) -> bool:
        """Whether no further link may be accepted: what is left is kept for links that we need ourselves."""
        accepted = sum(not link.dialled for link in self._links.values())
        return accepted >= max(1, self._protocol.links_max * 3 // 4) or self.is_full

    @property
    def is_full_of_unproven(self) -> bool:
        """Whether too many of the accepted links still have to prove who is at the other end."""
        unproven = sum(link.state is LinkState.OPEN and not link.dialled for link in self._links.values())
        return unproven >= max(1, self._protocol.links_max // 4)

    def idlest(self, may_close: Callable[[Link], bool], now: float, *, dialled: bool) -> Link | None:
        """The proven link that has been of no use for longest, at least for `GIVES_WAY_AFTER`, if it may go."""
        for link in self._links.values():
            note_use(link, now)
        idle = [
            link
            for link in self._links.values()
            if link.dialled is dialled
            and link.is_usable
            and link.used_at + GIVES_WAY_AFTER <= now
            and may_close(link)
        ]
        return min(idle, key=lambda link: link.used_at, default=None)

    # Beginnings

    def begin_dial(
        self, address: Address, node: NodeId | None, candidates: tuple[Address, ...], now: float
    ) -> Link:
        """A link that the driver is told to open."""
        self._last_dialled += 1
        link = self._new(LinkId(self._last_dialled), now)
        link.address = address
        link.expected = node
        link.candidates = candidates
        if node is not None:
            self.directory.add_dial(node, link.id)
        self._counters.add("links.dialled")
        self._effects.add(Dial(link.id, address, node, self._protocol.link_open_timeout))
        return link

    def begin_accepted(self, link: LinkId, now: float) -> Link:
        """A link that the driver has accepted."""
        self._counters.add("links.accepted")
        return self._new(link, now)

    def refuse(self, link: LinkId) -> None:
        """An accepted link for which there is no room; its dialler is told."""
        self._counters.add("links.refused.full")
        goodbye = Goodbye(reason="no room for another link here", code=ErrorCode.REFUSED_FULL, final=True)
        self._effects.add(SendFrame(link, opening_frame(goodbye)))
        self._effects.add(CloseLink(link))

    def _new(self, number: LinkId, now: float) -> Link:
        link = Link(
            id=number,
            state=LinkState.DIALING,
            handshake=None,
            outgoing=Outgoing(self._protocol, self._codec),
            incoming=Incoming(self._protocol, self._counters, self._codec),
            opened_at=now,
            heard_at=now,
            used_at=now,
        )
        self._links[number] = link
        self.set_due(link, now + self._protocol.link_open_timeout)
        return link

    def set_due(self, link: Link, at: float) -> None:
        """When the link is to be judged."""
        link.due_at = at
        self._timers.set(LinkDue(link.id), at)

    def send_frame(self, link: Link, frame: bytes) -> None:
        """Send a frame of the opening or a last one, ahead of the queue."""
        link.outgoing.note_sent(len(frame))
        self._effects.add(SendFrame(link.id, frame))

    # Endings

    def say_goodbye(
        self, link: Link, happened: LinkInput, now: float, reason: str = "", code: int = 0
    ) -> None:
        """Our Goodbye, behind all that waits; from now on the link is not used for anything new."""
        link.move(happened)
        goodbye = Goodbye(reason=reason[:_REASON_MAX], code=code)
        if happened is LinkInput.CLOSE_ASKED:
            link.goodbye = goodbye
        if link.node is not None:
            self.directory.refresh(link.node)
        self.set_due(link, now + self._protocol.link_open_timeout)
        self._effects.send_link(link.id, goodbye)

    def fail(self, link: Link, why: str, code: int, detail: str, now: float) -> list[LinkOutput]:
        """End a link at once because a rule was broken, and tell the other side which. Nothing else is sent."""
        link.move(LinkInput.FAILED)
        self._counters.add(f"links.closed.{why}")
        return self.hang_up(link, code, detail, now)

    def hang_up(self, link: Link, code: int, detail: str, now: float) -> list[LinkOutput]:
        """Say why and close, whatever still waits; the link is in its last state already."""
        link.goodbye = Goodbye(reason=detail[:_REASON_MAX], code=code, final=True)
        has_room = link.outgoing.credit >= OPENING_FRAME_MAX and not link.outgoing.has_said_goodbye
        if has_room and link.is_transport_open:
            self.send_frame(link, pack_messages((encode_message(link.goodbye),)))
            self._effects.add(CloseLink(link.id))
        else:
            self._effects.add(CloseLink(link.id, abort=True))
        return self.end(link, LinkEnd.GOODBYE, now)

    def doom(self, link: Link, why: Doom, now: float) -> None:
        """End a link at the next timeout, which is due at once: for those who cannot take a `LinkDown` just now."""
        link.doom = why
        if link.node is not None:
            self.directory.refresh(link.node)
        self.set_due(link, now)

    def abort(self, link: Link, end: LinkEnd, why: str, now: float) -> list[LinkOutput]:
        """End a link at once and without a word."""
        self._counters.add(f"links.closed.{why}")
        if link.state is not LinkState.CLOSED:
            link.move(LinkInput.FAILED)
        self._effects.add(CloseLink(link.id, abort=True))
        return self.end(link, end, now)

    def end(
        self, link: Link, end: LinkEnd, now: float, *, clean: bool = False, heard_all: bool = False
    ) -> list[LinkOutput]:
        """Forget a link, and report it unless that has happened."""
        self.forget(link)
        return [] if link.is_reported else self.report(link, end, now, clean=clean, heard_all=heard_all)

    def forget(self, link: Link) -> None:
        """Nothing of this link is left to do."""
        self._links.pop(link.id, None)
        self._timers.cancel(LinkDue(link.id))

    def report(
        self, link: Link, end: LinkEnd, now: float, *, clean: bool, heard_all: bool
    ) -> list[LinkOutput]:
        """The link is of no more use to anybody: said once. A dial that failed goes on at the next address.

        The end of one on which the other side has said all is told later while a dial to the same node is under way:
        the other side may have closed the link because it uses that dial's already, whose last frame is still on its
        way here, and what waits for an answer is to go on over it.
        """
        link.is_reported = True
        was_proven = link.life is not None
        if link.expected is not None:
            self.directory.remove_dial(link.expected, link.id)
        if link.node is not None:
            self.directory.remove(link.node, link)
        if not was_proven and not link.dialled:
            return []
        if not was_proven and link.candidates and not self.is_full:
            self.begin_dial(link.candidates[0], link.expected, link.candidates[1:], now)
        down = LinkDown(
            link=link.id,
            node=link.node if was_proven else link.expected,
            life=link.life,
            address=link.address,
            end=end,
            dialled=link.dialled,
            was_proven=was_proven,
            clean=clean,
            heard_all=heard_all,
            code=link.goodbye.code,
            detail=link.goodbye.reason,
        )
        node = link.node
        if heard_all and node is not None and self._is_about_to_be_linked(node):
            self._counters.add("links.ends_held")
            self._held.setdefault(node, []).append(down)
            return []
        released = [] if link.expected is None or not self._held else self.release(link.expected)
        return [down, *released]

    def _is_about_to_be_linked(self, node: NodeId) -> bool:
        return self.directory.link_to(node) is None and self.directory.dial_to(node) is not None

    def release(self, node: NodeId) -> list[LinkOutput]:
        """The ends of links to this node that were held, unless they are to be held on."""
        if node not in self._held or self._is_about_to_be_linked(node):
            return []
        return self._held.pop(node)
