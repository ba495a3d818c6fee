"""What one demo process saw and did, written by itself as it happens: a line of JSON each, on its own clock.

Times are CLOCK_MONOTONIC, which all processes of one machine share, so lines of several journals can be compared. Each
line is one `write`, so that what a process wrote before it was killed is there, and at most its last line is cut.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The process has its life, and listens at `address`."""

    at: float
    name: str
    node: str
    address: str
    epoch: int
    process: int


class Member(msgspec.Struct, frozen=True, kw_only=True, tag="member"):
    """A member is in this state now, in the writer's own view; None when it is forgotten."""

    at: float
    name: str
    epoch: int
    incarnation: int
    state: str | None
    reason: str


class Routable(msgspec.Struct, frozen=True, kw_only=True, tag="routable"):
    """From now on the writer's own routing table sends calls of `capability` to these (name, epoch)."""

    at: float
    capability: str
    instances: list[tuple[str, int]]


class Serving(msgspec.Struct, frozen=True, kw_only=True, tag="serving"):
    """A handler of the writer's begins."""

    at: float
    call: str
    capability: str


class Served(msgspec.Struct, frozen=True, kw_only=True, tag="served"):
    """That handler ended."""

    at: float
    call: str


class Called(msgspec.Struct, frozen=True, kw_only=True, tag="called"):
    """A call of the writer's ended; `code` 0 is a result, `attempts` counts the instances asked."""

    at: float
    agent: str
    code: int
    attempts: int
    detail: str = ""


Line: TypeAlias = Started | Member | Routable | Serving | Served | Called


class Journal:
    """The writing end."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, line: Line) -> None:
        """Append one line."""
        os.write(self._file, msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Tail:
    """The reading end: what has been added since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._decoder = msgspec.json.Decoder(Line)
        self.lines: list[Line] = []
        """All lines so far; a demo has a few thousand at most."""

    def read(self) -> Sequence[Line]:
        """The new whole lines; they are added to `lines`."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        new = [self._decoder.decode(line) for line in whole.splitlines()]
        self.lines.extend(new)
        return new
