"""JSON as an argument of a command."""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import Any

import typer


def read_json(text: str) -> Any:
    """A value as JSON from the command line, stdin (`-`) or a file (`@FILE`). Raises `typer.BadParameter`."""
    import json

    try:
        if text == "-":
            if sys.stdin is None:
                raise OSError(errno.EBADF, "stdin is closed")
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        params = json.loads(text, parse_constant=_no_constant)
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


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
