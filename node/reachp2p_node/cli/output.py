"""What the command line prints: data on stdout, messages on stderr, nothing from the network unless made harmless.

`--json` prints one object for each command, with a stable set of keys. Tables follow NO_COLOR and are plain text when
stdout is no terminal. rich is loaded for a table only.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from reachp2p.errors import ReachError
from reachp2p.runtime.terminal_log import say, settle
from reachp2p.runtime.text import plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

OK = 0
FAILED = 1
USAGE = 2
FORCED = 3
"""A second signal ended the node before it had said goodbye."""
INTERRUPTED = 130
"""Ctrl-C in a command that was waiting for an answer (128 + SIGINT, as shells have it)."""

MESSAGE_MAX = 2_000
PIPE_WIDTH = 160
"""Columns of a table that is not shown on a terminal."""
_RISKY = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
"""Characters that JSON leaves as they are although a terminal acts on them; they are escaped, which means the same."""


class StdoutLost(OSError):
    """What a command prints cannot be written."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"stdout cannot be written: {reason}")


def print_json(value: object) -> None:
    """One JSON document on stdout; text in it is readable, and harmless on a terminal."""
    print_text(_harmless(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)))


def print_json_line(value: object) -> None:
    """One JSON document on one line. Raises `BrokenPipeError` or `StdoutLost`."""
    print_text(_harmless(json.dumps(value, ensure_ascii=False, allow_nan=False)))


def tell_json_line(value: object) -> None:
    """The same for programs that go on (`seed`, `run`): that it is not read does not end them."""
    try:
        print_json_line(value)
    except BrokenPipeError:
        settle(sys.stdout)
    except StdoutLost as error:
        settle(sys.stdout)
        note(f"reachp2p: {error}")


def print_text(text: str) -> None:
    """A text and the end of its line on stdout. Raises `BrokenPipeError` or `StdoutLost`."""
    with _writing() as out:
        print(text, file=out, flush=True)


def print_table(*parts: RenderableType) -> None:
    """Tables and lines on stdout. Raises `BrokenPipeError` or `StdoutLost`."""
    with _writing():
        out = console()
        for part in parts:
            out.print(part)


def table_width() -> int:
    """Columns that a table on stdout can have."""
    return console().width


def note_left_out(columns: list[str]) -> None:
    """Say which columns a narrow terminal has no place for, if any."""
    if columns:
        note(f"too narrow for {', '.join(columns)}: --json shows everything")


def console(*, stderr: bool = False) -> Console:
    """A console that interprets nothing in the text it is given. Raises `StdoutLost` if its stdout is closed."""
    from rich.console import Console

    stream: TextIO | None = sys.stderr if stderr else _stdout()
    width = None if (stream and stream.isatty()) or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(
        file=stream,
        quiet=stream is None,  # without a stderr, which it would replace by stdout
        width=width,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
    )


def note(text: str) -> None:
    """A message for the person at the terminal, on stderr."""
    say(plain(text, MESSAGE_MAX))


def finish() -> None:
    """Before the program ends: what cannot be written is given up."""
    settle(sys.stdout)
    settle(sys.stderr)


def report(error: ReachError, *, as_json: bool, as_line: bool = False) -> None:
    """Say what went wrong: a line on stderr, and with `--json` an object with the code on stdout, on one line if it
    comes after others."""
    note(f"reachp2p: {error}")
    call = getattr(error, "call", None)
    if call is not None:
        note(f"`reachp2p trace {call}` shows how it went")
    if as_json:
        (print_json_line if as_line else print_json)({"error": error_object(error)})


def _stdout() -> TextIO:
    """Stdout; without one `print` would be silent."""
    out: TextIO | None = sys.stdout
    if out is None:
        raise StdoutLost("it is closed")
    return out


@contextmanager
def _writing() -> Iterator[TextIO]:
    """Stdout, while something is written."""
    try:
        yield _stdout()
    except (BrokenPipeError, StdoutLost):
        raise
    except OSError as error:
        raise StdoutLost(error.strerror or str(error)) from error


def _harmless(text: str) -> str:
    return _RISKY.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def error_object(error: ReachError) -> dict[str, Any]:
    """An error as `--json` shows it."""
    return {
        "code": int(error.code),
        "name": error.code.name,
        "message": error.message,
        "retryable": error.retryable,
        "detail": getattr(error, "detail", None),
        "node": getattr(error, "node", None),
        "attempts": getattr(error, "attempts", None),
        "call": getattr(error, "call", None),
    }
