"""WebSocket framing (RFC 6455 §5) as bytes in, messages out; no socket, no clock.

Own code rather than wsproto or trio-websocket, because every call pays for its frames (an echo of 400 bytes costs its
client 16 µs of CPU this way, 48 with wsproto, 173 with trio-websocket), because limits must hold before anything is
buffered (LESSONS 12), and because sending must not need a task. The tests take both libraries as oracles.

Only what a link needs: binary messages, also fragmented; Ping, Pong, Close. Text is refused (1003), extensions are
never negotiated, so reserved bits are refused (1002).
"""

from __future__ import annotations

import os
from enum import IntEnum
from functools import lru_cache
from typing import TypeAlias

import msgspec

HEADER_MAX = 14
CONTROL_MAX = 125


class Opcode(IntEnum):
    """RFC 6455 §11.8."""

    CONTINUATION = 0x0
    TEXT = 0x1
    BINARY = 0x2
    CLOSE = 0x8
    PING = 0x9
    PONG = 0xA


class CloseCode(IntEnum):
    """The codes that links use (RFC 6455 §7.4.1)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    UNSUPPORTED_DATA = 1003
    NO_STATUS = 1005
    """Never on the wire: the other side's Close carried no code."""
    MESSAGE_TOO_BIG = 1009


class Control(msgspec.Struct, frozen=True, gc=False):
    """A control frame that arrived; `code` is that of a Close, else 0."""

    opcode: Opcode
    payload: bytes
    code: int = 0


Item: TypeAlias = bytes | Control
"""A whole binary message, or a control frame."""


class FrameRefused(Exception):
    """The other side broke the framing rules or our limits; `code` goes into our Close. The stream ends here."""

    def __init__(self, code: CloseCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class FrameReader:
    """Cuts the bytes of one direction into messages. Holds at most one incomplete frame and one incomplete message."""

    def __init__(self, *, is_masked: bool, message_max: int) -> None:
        """`is_masked`: whether the other side is the client, whose frames must be masked."""
        self._is_masked = is_masked
        self._message_max = message_max
        self._rest = bytearray()
        self._fragments: bytearray | None = None
        self._is_closed = False

    def feed(self, data: bytes | memoryview, items: list[Item]) -> None:
        """Take the next bytes and append what they complete to `items`; nothing is read after a Close.

        Raises `FrameRefused`; what came whole before the fault is in `items` then.
        """
        if self._rest:
            self._rest += data
            view = memoryview(self._rest)
            try:
                position = self._read(view, items)
            finally:
                view.release()
            del self._rest[:position]
        else:
            view = memoryview(data)
            self._rest += view[self._read(view, items) :]

    def _read(self, view: memoryview, items: list[Item]) -> int:
        """Read whole frames; returns how many bytes they took."""
        position, end = 0, len(view)
        while end - position >= 2 and not self._is_closed:
            first, length = view[position], view[position + 1]
            if (length >= 0x80) != self._is_masked:
                raise FrameRefused(CloseCode.PROTOCOL_ERROR, "masked the wrong way")
            length &= 0x7F
            start = position + 2
            if length >= 126:
                width = 2 if length == 126 else 8
                if end - start < width:
                    break
                shortest = 126 if length == 126 else 0x1_0000
                length = int.from_bytes(view[start : start + width], "big")
                if length < shortest:
                    raise FrameRefused(CloseCode.PROTOCOL_ERROR, "length not in its shortest form")
                start += width
            self._check(first, length)
            if self._is_masked:
                start += 4
            stop = start + length
            if stop > end:
                break
            payload = bytes(view[start:stop])
            if self._is_masked:
                payload = mask(payload, bytes(view[start - 4 : start]))
            if first == 0x82:  # by far the most frequent: a binary message in one frame
                items.append(payload)
            else:
                self._take(first, payload, items)
            position = stop
        return end if self._is_closed else position

    def _check(self, first: int, length: int) -> None:
        """Refuse a frame by its header, before its payload is waited for."""
        if first & 0x70:
            raise FrameRefused(CloseCode.PROTOCOL_ERROR, "reserved bits set")
        opcode = first & 0x0F
        if opcode >= 0x8:
            if opcode > Opcode.PONG:
                raise FrameRefused(CloseCode.PROTOCOL_ERROR, f"unknown opcode {opcode}")
            if length > CONTROL_MAX or not first & 0x80:
                raise FrameRefused(CloseCode.PROTOCOL_ERROR, "control frame too long or fragmented")
            return
        if opcode == Opcode.TEXT:
            raise FrameRefused(CloseCode.UNSUPPORTED_DATA, "text message")
        if opcode > Opcode.BINARY:
            raise FrameRefused(CloseCode.PROTOCOL_ERROR, f"unknown opcode {opcode}")
        if (opcode == Opcode.CONTINUATION) != (self._fragments is not None):
            raise FrameRefused(CloseCode.PROTOCOL_ERROR, "fragments out of order")
        if length + len(self._fragments or b"") > self._message_max:
            raise FrameRefused(CloseCode.MESSAGE_TOO_BIG, f"message of more than {self._message_max} bytes")

    def _take(self, first: int, payload: bytes, items: list[Item]) -> None:
        """A control frame, or a fragment."""
        opcode = Opcode(first & 0x0F)
        if opcode in (Opcode.PING, Opcode.PONG):
            items.append(Control(opcode, payload))
        elif opcode is Opcode.CLOSE:
            items.append(Control(opcode, payload, _close_code(payload)))
            self._is_closed = True
        else:
            if self._fragments is None:
                self._fragments = bytearray()
            self._fragments += payload
            if first & 0x80:
                items.append(bytes(self._fragments))
                self._fragments = None


class FrameWriter:
    """Makes the frames of one direction."""

    def __init__(self, *, is_masked: bool) -> None:
        """`is_masked`: whether we are the client."""
        self._is_masked = is_masked

    def message(self, data: bytes) -> bytes:
        """One binary message in one frame."""
        return self._frame(0x82, data)

    def pong(self, payload: bytes) -> bytes:
        """The answer to a Ping."""
        return self._frame(0x80 | Opcode.PONG, payload)

    def close(self, code: CloseCode) -> bytes:
        """Our Close."""
        return self._frame(0x80 | Opcode.CLOSE, int(code).to_bytes(2, "big"))

    def _frame(self, first: int, data: bytes) -> bytes:
        length, mask_bit = len(data), 0x80 if self._is_masked else 0
        if length < 126:
            header = bytes((first, mask_bit | length))
        elif length < 0x1_0000:
            header = bytes((first, mask_bit | 126)) + length.to_bytes(2, "big")
        else:
            header = bytes((first, mask_bit | 127)) + length.to_bytes(8, "big")
        if not self._is_masked:
            return header + data
        key = os.urandom(4)
        return header + key + mask(data, key)


_WHOLE_MAX = 2_048
"""Up to here one XOR of big integers is faster (400 bytes: 2.2 against 2.8 µs), beyond it four translations (12,800
bytes: 33 against 43 µs)."""


def mask(data: bytes, key: bytes) -> bytes:
    """XOR with a key of four bytes, repeated (RFC 6455 §5.3); undoes itself."""
    length = len(data)
    if length <= _WHOLE_MAX:
        pad = (key * (length // 4 + 1))[:length]
        return (int.from_bytes(data, "little") ^ int.from_bytes(pad, "little")).to_bytes(length, "little")
    masked = bytearray(data)
    for index in range(4):
        masked[index::4] = masked[index::4].translate(_xor_table(key[index]))
    return bytes(masked)


@lru_cache(maxsize=256)
def _xor_table(byte: int) -> bytes:
    """Every byte XOR `byte`; made when first needed (10 µs), since all 256 would cost every import 8 ms."""
    return bytes(byte ^ other for other in range(256))


def _close_code(payload: bytes) -> int:
    if not payload:
        return CloseCode.NO_STATUS
    if len(payload) == 1:
        raise FrameRefused(CloseCode.PROTOCOL_ERROR, "close frame of one byte")
    code = int.from_bytes(payload[:2], "big")
    if not (1000 <= code <= 4999) or code in (1004, 1005, 1006, 1015):
        raise FrameRefused(CloseCode.PROTOCOL_ERROR, f"close code {code}")
    return code
