"""Where hops go besides the node that records them: `Node(exporters=[JsonLines("hops.jsonl")])`, or a class of yours.

Exporters get hops in batches, in a worker thread, from a bounded queue. A slow one loses hops, one that raises is
counted and logged; neither delays a call (docs/protocol/sessions.md).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from reachp2p.core.calls.hops import Hop
from reachp2p.errors import ConfigurationInvalid

MAX_BYTES = 67_108_864
"""What a file of `JsonLines` holds unless told otherwise: about 100,000 hops."""


@runtime_checkable
class Exporter(Protocol):
    """Takes hops. Both methods are called from a worker thread, never at once; they may take their time."""

    def export(self, hops: Sequence[Hop]) -> None:
        """Take hops, in the order in which they ended."""

    def close(self) -> None:
        """The node has ended; nothing more comes."""


class JsonLines:
    """One JSON object a line. A full file becomes `<path>.1` (which replaces a former one) and another is begun; or,
    with `rotate=False`, what comes is dropped and counted."""

    def __init__(
        self, path: str | os.PathLike[str], max_bytes: int = MAX_BYTES, *, rotate: bool = True
    ) -> None:
        """The file is opened with the first hop, and appended to. Raises `ConfigurationInvalid` (1704)."""
        if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1:
            raise ConfigurationInvalid(f"max_bytes = {max_bytes!r}: write a number of bytes, above 0")
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise ConfigurationInvalid(f"path = {path!r}: write the path of a file")
        self._path = Path(path)
        self._max = max_bytes
        self._rotate = rotate
        self._file: int | None = None
        self._size = 0
        self.written = 0
        """Hops in the file, and in former ones."""
        self.dropped = 0
        """Hops for which there was no room."""
        self.rotations = 0

    def export(self, hops: Sequence[Hop]) -> None:
        """Append hops. Raises `OSError` if the disk does not take them; no half line is left then."""
        lines: list[bytes] = []
        size = 0
        for hop in hops:
            line = msgspec.json.encode(hop_object(hop)) + b"\n"
            if self._opened_size + size + len(line) > self._max and (lines or self._opened_size):
                self._append(lines)
                lines, size = [], 0
                if self._rotate and len(line) <= self._max:
                    self._begin_anew()
            if self._opened_size + size + len(line) > self._max:
                self.dropped += 1
                continue
            lines.append(line)
            size += len(line)
        self._append(lines)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def _opened_size(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._size = os.fstat(self._file).st_size
        return self._size

    def _append(self, lines: list[bytes]) -> None:
        if not lines:
            return
        before = self._opened_size
        assert self._file is not None, "just opened"
        data = memoryview(b"".join(lines))
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            self.dropped += len(lines)
            os.ftruncate(self._file, before)
            raise
        self._size = os.fstat(self._file).st_size
        self.written += len(lines)

    def _begin_anew(self) -> None:
        self.close()
        self._path.replace(self._path.with_name(self._path.name + ".1"))
        self.rotations += 1


def hop_object(hop: Hop) -> dict[str, Any]:
    """A hop in JSON's terms: ids in hexadecimal digits, times in Unix seconds and seconds."""
    told: dict[str, Any] = {
        "node": hop.node.hex(),
        "side": hop.side.value,
        "other": None if hop.other is None else hop.other.hex(),
        "session": hop.session.hex(),
        "trace": hop.trace.hex(),
        "span": hop.span.hex(),
        "parent": None if hop.parent is None else hop.parent.hex(),
        "message_id": hop.message_id.hex(),
        "attempt": hop.attempt,
        "depth": hop.depth,
        "agent": hop.agent,
        "capability": hop.capability,
        "started": round(hop.started, 6),
        "duration": round(hop.duration, 6),
        "queued": round(hop.queued, 6),
        "bytes_in": hop.bytes_in,
        "bytes_out": hop.bytes_out,
        "code": hop.code,
        "detail": hop.detail,
        "retries": hop.retries,
        "items": hop.items,
        "handed": hop.handed,
        "answered": hop.answered,
    }
    for name, payload in (("payload_in", hop.payload_in), ("payload_out", hop.payload_out)):
        if payload is not None:
            told[name] = payload_text(payload)
    return told


def payload_text(payload: bytes) -> str:
    """A recorded payload as text: itself if it is UTF-8, else `hex:` and its digits."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return f"hex:{payload.hex()}"
