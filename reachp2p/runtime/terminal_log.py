"""The log of a program that has set up no logging of its own: warnings and errors on stderr, harmless to a terminal.

It stays silent as soon as the program configures logging: then that is where everything goes.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from types import TracebackType
from typing import TextIO, TypeAlias

from reachp2p.runtime.text import plain

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
TIMES = "%H:%M:%S"
LINE_MAX = 2_000
"""Characters of one line of a traceback."""

ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def log_to_terminal(level: int = logging.WARNING) -> None:
    """Show what reachp2p logs from `level` on; called again it only changes the level."""
    ours = logging.getLogger("reachp2p")
    for handler in ours.handlers:
        if isinstance(handler, TerminalHandler):
            handler.setLevel(level)
            break
    else:
        ours.addHandler(TerminalHandler(level))
    if level < logging.WARNING:
        ours.setLevel(level)


def say(text: str) -> None:
    """One line on stderr, if there is a stderr and it can be written: no message is worth a running node."""
    stream: TextIO | None = sys.stderr
    if stream is None:  # print would take stdout
        return
    with suppress(OSError, ValueError):  # nobody reads any more, or it is closed
        print(text, file=stream, flush=True)


def settle(stream: TextIO | None) -> None:
    """Give up what stdout or stderr still holds and cannot be written: the interpreter would try again at its end and
    turn the exit code into 120."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
            stream.flush()


class TerminalHandler(logging.Handler):
    """Writes to whatever `sys.stderr` is at the time."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.setFormatter(HarmlessFormatter(FORMAT, TIMES))

    def emit(self, record: logging.LogRecord) -> None:
        """One record, unless the program has a log of its own."""
        if logging.getLogger().handlers:
            return
        stream: TextIO | None = sys.stderr
        if stream is None:  # pythonw and the like
            return
        try:
            stream.write(self.format(record) + "\n")
            stream.flush()
        except Exception:  # noqa: BLE001 (as logging has it: a log never ends the program)
            self.handleError(record)


class HarmlessFormatter(logging.Formatter):
    """What an exception says may come from another node, so that no line of its traceback may act on a terminal."""

    def formatException(self, ei: ExcInfo) -> str:  # noqa: N802 (logging's name)
        """The traceback, line by line without controls."""
        return "\n".join(plain(line, LINE_MAX) for line in super().formatException(ei).split("\n"))
