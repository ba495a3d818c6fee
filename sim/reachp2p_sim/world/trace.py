"""The trace of a run: every event in order, as one running SHA-256, and as text for a person if wanted.

What goes in: each input that reaches a node, each effect that leaves one, each thing a node tells its application, and
each fault. Two runs of one seed have equal digests whatever the process (I-DET). The text log has one line an event and
is byte-identical too.
"""

from __future__ import annotations

import struct
from hashlib import sha256
from typing import Protocol

import msgspec

from reachp2p.core.events import Event
from reachp2p.core.wire.cose import SIGNATURE_BYTES

_pack = struct.Struct("<dcii").pack
"""When, what, which host, how many bytes (or which number)."""
_FLUSH_AT = 2_048
"""Parts that wait for the hash: one long update is cheaper than many short ones."""

DATAGRAM_SENT = b"D"
DATAGRAM_RECEIVED = b"d"
FRAME_SENT = b"F"
FRAME_RECEIVED = b"f"
LINK = b"l"
DISK = b"w"
TIMEOUT = b"t"
INVOKE = b"i"
NOTIFY = b"n"
COMMAND = b"c"
FAULT = b"!"


class Lines(Protocol):
    """Where the text of a trace goes: a file, a buffer, whatever takes lines."""

    def write(self, text: str, /) -> object:
        """Take one more line."""


class Trace:
    """Collects one run. `log` receives the text lines."""

    def __init__(self, log: Lines | None = None) -> None:
        self._hash = sha256()
        self._parts: list[bytes] = []
        self._log = log
        self.events = 0

    def number(self, kind: bytes, at: float, host: int, number: int) -> None:
        """An event that one number tells: which datagram arrived, which ticket became durable."""
        self.events += 1
        parts = self._parts
        parts.append(_pack(at, kind, host, number))
        if self._log is not None:
            self._log.write(f"{at:14.6f} {host:5d} {_WORDS[kind]} {number}\n")
        if len(parts) >= _FLUSH_AT:
            self._flush()

    def data(self, kind: bytes, at: float, host: int, data: bytes) -> None:
        """An event with bytes: what was sent."""
        self.events += 1
        parts = self._parts
        parts.append(_pack(at, kind, host, len(data)))
        parts.append(data)
        if self._log is not None:
            self._log.write(
                f"{at:14.6f} {host:5d} {_WORDS[kind]} {len(data)} B {sha256(data).hexdigest()[:8]}\n"
            )
        if len(parts) >= _FLUSH_AT:
            self._flush()

    def datagram(self, at: float, host: int, data: bytes) -> None:
        """A datagram was sent. Its signature is left out: who signs, and whether anybody does, is no part of a run."""
        self.data(DATAGRAM_SENT, at, host, data[:-SIGNATURE_BYTES])

    def text(self, kind: bytes, at: float, host: int, text: str) -> None:
        """An event in words: a fault, a command, a dial."""
        self.events += 1
        data = text.encode()
        self._parts.append(_pack(at, kind, host, len(data)))
        self._parts.append(data)
        if self._log is not None:
            self._log.write(f"{at:14.6f} {host:5d} {_WORDS[kind]} {text}\n")
        if len(self._parts) >= _FLUSH_AT:
            self._flush()

    def event(self, at: float, host: int, event: Event) -> None:
        """What a node told its application."""
        self.text(NOTIFY, at, host, f"{type(event).__name__} {msgspec.json.encode(event).decode()}")

    def digest(self) -> str:
        """SHA-256 over everything so far, as hex."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        self._hash.update(b"".join(self._parts))
        self._parts.clear()


_WORDS = {
    DATAGRAM_SENT: "sends datagram ",
    DATAGRAM_RECEIVED: "receives datagram",
    FRAME_SENT: "sends frame    ",
    FRAME_RECEIVED: "receives frame ",
    LINK: "link           ",
    DISK: "disk           ",
    TIMEOUT: "timeout        ",
    INVOKE: "invoke         ",
    NOTIFY: "says           ",
    COMMAND: "is told        ",
    FAULT: "FAULT          ",
}
