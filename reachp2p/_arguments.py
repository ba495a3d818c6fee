"""Arguments of the public functions, checked at the door: what was given, and what to write instead (1704).

Without this a slip (`timeout="5"`, `seeds=[7946]`) surfaces as a `TypeError` deep inside, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan
from typing import Any, TypeVar

from reachp2p.errors import ConfigurationInvalid, LocalProtocolError

SHOWN_MAX = 80
"""Characters of a wrong value that are quoted back."""

T = TypeVar("T")


def shown(value: object) -> str:
    """A value of anybody's as one short line for a message; never raises."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 (a repr of the caller's, or an int of more digits than Python prints)
        text = f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    text = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 1]}…"


def wrong(what: str, value: object, write: str) -> LocalProtocolError:
    """The error for an argument `what` that was given `value`; `write` says what to write."""
    return ConfigurationInvalid(f"{what} {shown(value)}: write {write}")


def is_unicode(text: str) -> bool:
    """Whether text can be sent: UTF-8 has no lone surrogates, which are what Python makes of bytes that are no text."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(what: str, value: object, example: str) -> str:
    """Text without lone surrogates. Raises `ConfigurationInvalid` (1704), as all of these."""
    if not isinstance(value, str) or not is_unicode(value):
        raise wrong(what, value, f"text, as in {example!r}")
    return value


def check_optional_text(what: str, value: object, example: str) -> str | None:
    """Text or None."""
    return None if value is None else check_text(what, value, example)


def check_bool(what: str, value: object) -> bool:
    """True or False and nothing that only looks like it: "no" is true."""
    if not isinstance(value, bool):
        raise wrong(what, value, "True or False")
    return value


def check_seconds(what: str, value: object) -> float:
    """Seconds. None, text, booleans, nan and an integer beyond all floats are refused; what a negative number means
    is left to the caller."""
    try:
        if not isinstance(value, bool) and isinstance(value, int | float) and not isnan(value):
            return value
    except OverflowError:
        pass  # `isnan` has made a float of it
    raise wrong(what, value, "a number of seconds, as in 2.5")


def check_optional_seconds(what: str, value: object) -> float | None:
    """Seconds or None."""
    return None if value is None else check_seconds(what, value)


def check_kind(what: str, value: object, kind: type[T], write: str) -> T:
    """An object of one class."""
    if not isinstance(value, kind):
        raise wrong(what, value, write)
    return value


def check_tags(what: str, value: object) -> dict[str, str]:
    """Tags that instances must have, as a dict of texts; None is none."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) and isinstance(text, str) for key, text in value.items()
    ):
        raise wrong(what, value, 'a dict of texts, as in {"env": "prod"}')
    return dict(value)


def check_names(given: Mapping[str, Any], known: Iterable[str], function: str) -> None:
    """Keyword arguments that a function passes on. Raises for an unknown one, with the nearest that is known."""
    names = list(known)
    for name in given:
        if name not in names:
            import difflib  # for the unlucky only

            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(names)}"
            raise ConfigurationInvalid(f"{function} takes no {name!r}; {hint}")
