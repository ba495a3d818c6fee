"""The file of a node's own rules (docs/protocol/rules.md): read at the start, and again whenever it has changed.

A file that cannot be used stops the start. Later the rules that were in force stay so, and the refusal is told: as an
event, as a counter and in the log, once for each state of the file. A named pipe, whose reading waits for whoever
writes, cannot be used. A disk that hangs changes no rules and keeps no node from ending.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from reachp2p.config import parse_toml, read_file
from reachp2p.core.counters import Counters
from reachp2p.core.engine import Engine
from reachp2p.core.events import RulesRefused
from reachp2p.errors import ConfigurationInvalid

LOOK_INTERVAL = 1.0
"""Seconds between two looks at the file's time and size."""

Stamp = tuple[int, int, int]
"""Time of the last change in ns, size, and number of the file: a new file may be put in the place of the old one."""


class RulesFile:
    """One file, and what was last read of it. Size: a stamp."""

    def __init__(self, path: Path, counters: Counters, on_refused: Callable[[RulesRefused], None]) -> None:
        self.path = path
        self._counters = counters
        self._on_refused = on_refused
        self._seen: Stamp | None = None
        self._has_rules = False
        """The file that is in force says something."""

    async def load(self, engine: Engine) -> bool:
        """Read the file now and go by it; false if it says what it said before.

        Raises `ConfigurationInvalid` (1704) that begins with the file's name, and nothing has changed.
        """
        self._seen, document = await trio.to_thread.run_sync(_read, self.path, abandon_on_cancel=True)
        if isinstance(document, ConfigurationInvalid):
            raise document
        if self._has_rules and not document:
            raise ConfigurationInvalid(
                f"{self.path}: says nothing any more, as a file that was cut off; to go by no rules from now on, write "
                "rule = []"
            )
        has_changed = engine.set_own_rules(document, str(self.path), trio.current_time())
        self._has_rules = bool(document.get("rule"))
        self._counters.add("rules.file_read")
        return has_changed

    async def watch(self, engine: Engine, wake: Callable[[], None]) -> None:
        """Look at the file for ever. `wake`: the engine has something to tell."""
        while True:
            await trio.sleep(LOOK_INTERVAL)
            if await trio.to_thread.run_sync(_stamp, self.path, abandon_on_cancel=True) == self._seen:
                continue
            try:
                if await self.load(engine):
                    wake()
            except ConfigurationInvalid as error:
                self._counters.add("rules.file_refused")
                self._on_refused(
                    RulesRefused(at=trio.current_time(), origin=str(self.path), reason=error.message)
                )


def _stamp(path: Path) -> Stamp | None:
    """What tells one state of the file from the next; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> tuple[Stamp | None, dict[str, Any] | ConfigurationInvalid]:
    """The stamp from before reading, so that a change meanwhile is seen, and what the file says or why it cannot."""
    stamp = _stamp(path)
    try:
        if stamp is not None and stat.S_ISFIFO(path.stat().st_mode):
            raise ConfigurationInvalid(
                f"{path}: a named pipe, which cannot be read again; put a file in its place"
            )
        return stamp, parse_toml(read_file(path, "rules"), str(path), "rules")
    except ConfigurationInvalid as error:
        return stamp, error
    except OSError as error:  # gone since
        return stamp, ConfigurationInvalid(f"{path}: cannot be read: {error.strerror}")
