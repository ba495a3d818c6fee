"""What is wrong with a value that somebody has written, in the words of whoever wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "object": "a table",
    "array": "a list",
    "null": "nothing",
}
_AT = r"(?: - at `\$(?P<at>.*)`)?"
_EXPECTED = re.compile(r"Expected `(?P<kinds>[^`]*)`(?P<bound>[^,]*?)(?:, got `(?P<got>[^`]*)`)?" + _AT)
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`" + _AT)


def in_words(error: Exception) -> str:
    """What msgspec says of a value of the wrong kind or size, as key, what is wanted, and what is there."""
    text = str(error)
    if missing := _MISSING.fullmatch(text):
        return f"{_key(missing['at'], missing['field'])} is missing"
    expected = _EXPECTED.fullmatch(text)
    if expected is None:
        return text
    kinds = " or ".join(_KINDS.get(kind, kind) for kind in expected["kinds"].split(" | "))
    where = f"{_key(expected['at'])}: " if expected["at"] else ""
    got = f", not {_KINDS.get(expected['got'], expected['got'])}" if expected["got"] else ""
    return f"{where}{kinds}{expected['bound']} is wanted{got}"


def _key(at: str | None, *more: str) -> str:
    return ".".join(part for part in ((at or "").lstrip("."), *more) if part)


def unknown(kind: str, name: str, names: Iterable[str]) -> str:
    """That there is nothing of this kind and name, what there is, and what it was perhaps meant to be."""
    known = sorted(names)
    close = get_close_matches(name, known, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"there is no {kind} {name!r}; there are: {', '.join(known)}{meant}"
