"""Repetition: old datagrams of others, byte for byte, and old news in datagrams of its own."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from reachp2p.core.ids import Address
from reachp2p.core.wire.codec import decode_messages
from reachp2p.core.wire.datagram import parse_datagram
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import AccusationUpdate, HeadUpdate, Message, RecordUpdate
from reachp2p_sim.hostile.base import Behaviour

KEPT_MAX = 2_000
"""Datagrams and pieces of news that are kept, each; the oldest make room."""
A_TURN = 10
MESSAGES_MAX = 64


class Repetition(Behaviour):
    """Every period it sends ten old datagrams to others than they were meant for, and ten pieces of old news."""

    name: ClassVar[str] = "repetition"
    summary: ClassVar[str] = (
        "repeats what it has heard, however old: whole datagrams of others and their news"
    )

    _datagrams: deque[bytes]
    _news: deque[Message]

    def begin(self) -> None:
        """Keep what is heard from now on."""
        self._datagrams = deque(maxlen=KEPT_MAX)
        self._news = deque(maxlen=KEPT_MAX)
        super().begin()

    def on_hear(self, source: Address, data: bytes) -> bool:
        """The engine sees it, too."""
        self._datagrams.append(data)
        try:
            body = parse_datagram(data).body
            messages, _ = decode_messages(
                body, bytes_max=len(body), messages_max=MESSAGES_MAX, datagram=True, on_rejected=_ignore
            )
        except WireError:
            return True
        self._news += [
            message
            for message in messages
            if isinstance(message, HeadUpdate | AccusationUpdate | RecordUpdate)
        ]
        return True

    def act(self) -> None:
        """Drawn from all that is kept, whatever its age."""
        for other in self.some(A_TURN):
            if self._datagrams:
                self.send_bytes(other, self._datagrams[self.chance.randrange(len(self._datagrams))])
            if self._news:
                self.send(other, self._news[self.chance.randrange(len(self._news))])


def _ignore(reason: str) -> None:
    """What cannot be read is not news."""
