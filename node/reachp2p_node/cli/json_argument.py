"""JSON as an argument of a command."""

from __future__ import annotations

import errno
import sys
from math import isinf
from pathlib import Path
from typing import Any, TextIO

import typer

CHARACTERS_MAX = 64 << 20
"""Of an argument from a file: far more than any payload has."""


def read_json(text: str) -> Any:
    """A value as JSON from the command line, stdin (`-`) or a file (`@FILE`). Raises `typer.BadParameter`."""
    import json

    try:
        if text == "-":
            if sys.stdin is None:
                raise OSError(errno.EBADF, "stdin is closed")
            text = _read(sys.stdin)
        elif text.startswith("@"):
            with Path(text[1:]).open(encoding="utf-8") as file:
                text = _read(file)
        params = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        json.dumps(params, ensure_ascii=False).encode()  # half a surrogate pair is no text
        return params
    except UnicodeEncodeError as error:
        raise typer.BadParameter("not valid JSON: a lone surrogate is no text", param_hint="JSON") from error
    except RecursionError as error:
        raise typer.BadParameter("nested too deeply", param_hint="JSON") from error
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot be read: {error}", param_hint="JSON") from error
    except ValueError as error:
        raise typer.BadParameter(
            f'not valid JSON: {error}; quote it for the shell, as in \'{{"text": "hello"}}\'',
            param_hint="JSON",
        ) from error


def _read(file: TextIO) -> str:
    """All of a file that ends; some never do."""
    text = file.read(CHARACTERS_MAX + 1)
    if len(text) > CHARACTERS_MAX:
        raise OSError(errno.EFBIG, f"more than {CHARACTERS_MAX} characters, which no payload may have")
    return text


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(f"{text} is beyond all floating-point numbers")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
