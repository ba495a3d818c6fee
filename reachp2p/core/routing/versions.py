"""Semantic versions and ranges of them: which versions of an agent a call may go to.

Versions are those of SemVer 2.0.0 and are ordered by its precedence (§11; build metadata does not count). Ranges are
written in the grammar that node-semver documents, the one that most people know: `1.2.3`, `>=1.2 <2`, `^1.2`, `~1.2.3`,
`1.x`, `1.2 - 1.4`, and `||` between alternatives. Its rule for pre-releases is ours, too: `2.0.0-rc.1` is in a range
only if the range names a pre-release of that very `2.0.0`, so that nobody gets one without having asked for it.

A range is parsed once: both parsers remember what they have read (`PARSED_MAX`, least recently used).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from operator import eq, ge, gt, le, lt
from typing import NamedTuple

from reachp2p.core.ids import check_version
from reachp2p.errors import InvalidIdentifier

PARSED_MAX = 1_024
"""Texts of versions, and as many of ranges, whose meaning is remembered: a few dozen are in use at once."""
RANGE_CHARACTERS_MAX = 256
NUMBER_DIGITS_MAX = 16
"""Of a number in a range; node-semver stops at 2**53, too."""

Identifier = tuple[int, int, str]
"""One dot-separated part of a pre-release: numbers come before texts (SemVer §11.4)."""


class Version(NamedTuple):
    """One version; tuples compare by precedence. `is_release` false sorts a pre-release before its release."""

    major: int
    minor: int
    patch: int
    is_release: bool
    prerelease: tuple[Identifier, ...]

    @property
    def triple(self) -> tuple[int, int, int]:
        """What a pre-release is a pre-release of."""
        return self[:3]

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.is_release:
            return text
        parts = (str(number) if kind == 0 else name for kind, number, name in self.prerelease)
        return f"{text}-{'.'.join(parts)}"


class Comparator(NamedTuple):
    """One half of a condition: `operator`(a version, `version`)."""

    operator: Callable[[Version, Version], bool]
    version: Version


class VersionRange:
    """Any of `alternatives`, each a list of comparators that must all hold. Immutable; `text` is as it was given."""

    __slots__ = ("_alternatives", "text")

    def __init__(self, text: str, alternatives: tuple[tuple[Comparator, ...], ...]) -> None:
        self.text = text
        self._alternatives = alternatives

    def __contains__(self, version: Version) -> bool:
        return any(_holds(comparators, version) for comparators in self._alternatives)

    def __repr__(self) -> str:
        return f"VersionRange({self.text!r})"


def _holds(comparators: tuple[Comparator, ...], version: Version) -> bool:
    if not all(operator(version, bound) for operator, bound in comparators):
        return False
    if version.is_release:
        return True
    return any(not bound.is_release and bound.triple == version.triple for _, bound in comparators)


@lru_cache(maxsize=PARSED_MAX)
def read_version(text: str) -> Version | None:
    """The version that `text` says, or None: a record of another node may say anything."""
    try:
        return parse_version(text)
    except InvalidIdentifier:
        return None


def parse_version(text: str) -> Version:
    """The version that `text` says. Raises `InvalidIdentifier` (1707)."""
    check_version(text)
    core, _, _build = text.partition("+")
    core, _, prerelease = core.partition("-")
    major, minor, patch = (int(number) for number in core.split("."))
    return _version(major, minor, patch, prerelease)


@lru_cache(maxsize=PARSED_MAX)
def parse_range(text: str) -> VersionRange:
    """The range that `text` says. Raises `InvalidIdentifier` (1707) with the part that is not understood."""
    if not isinstance(text, str) or len(text) > RANGE_CHARACTERS_MAX:
        raise InvalidIdentifier(
            f"version range {text!r}: at most {RANGE_CHARACTERS_MAX} characters, as in '^1.2'"
        )
    return VersionRange(text, tuple(_alternative(part.strip(), text) for part in text.split("||")))


def split_target(text: str) -> tuple[str, str | None]:
    """`summarizer@^1.2` as its name and its range; without an `@` the range is None. The name is not checked.

    Raises `InvalidIdentifier` (1707) if the range cannot be understood.
    """
    name, at, wanted = text.partition("@")
    if not at:
        return name, None
    if not wanted.strip():
        raise InvalidIdentifier(f"target {text!r}: a version range follows '@', as in nlp/summarizer@^1.2")
    return name, parse_range(wanted).text


# The grammar

_NUMBER = rf"(?:0|[1-9]\d{{0,{NUMBER_DIGITS_MAX - 1}}})"
_PART = rf"(?:{_NUMBER}|[xX*])"
_TAIL = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_PARTIAL = re.compile(rf"v?({_PART})(?:\.({_PART})(?:\.({_PART})(?:-({_TAIL}))?(?:\+{_TAIL})?)?)?", re.ASCII)
_SIMPLE = re.compile(r"(<=|>=|<|>|=|\^|~>?|)\s*(\S+)")
_SPACED = re.compile(r"(<=|>=|<|>|=|\^|~>?)\s+")
_HYPHEN = re.compile(r"(\S+)\s+-\s+(\S+)")


class _Partial(NamedTuple):
    """A version of which the last numbers may be missing (or x): from None on."""

    major: int | None
    minor: int | None
    patch: int | None
    prerelease: str

    @property
    def floor(self) -> Version:
        """The lowest version that it can mean."""
        return _version(self.major or 0, self.minor or 0, self.patch or 0, self.prerelease)

    @property
    def ceiling(self) -> Version:
        """The first version beyond all that it can mean; not of a whole version or of `*`."""
        if self.minor is None:
            return _before((self.major or 0) + 1, 0, 0)
        return _before(self.major or 0, self.minor + 1, 0)


def _alternative(text: str, whole: str) -> tuple[Comparator, ...]:
    hyphen = _HYPHEN.fullmatch(text)
    if hyphen is not None:
        return (*_at_least(_partial(hyphen[1], whole)), *_at_most(_partial(hyphen[2], whole)))
    comparators: list[Comparator] = []
    for word in _SPACED.sub(r"\1", text).split():
        simple = _SIMPLE.fullmatch(word)
        if simple is None:
            raise _not_understood(word, whole)
        comparators += _READ[simple[1]](_partial(simple[2], whole))
    return tuple(comparators) or _ANY


def _partial(text: str, whole: str) -> _Partial:
    match = _PARTIAL.fullmatch(text)
    if match is None:
        raise _not_understood(text, whole)
    numbers: list[int | None] = []
    for part in match.group(1, 2, 3):
        is_open = part is None or part in "xX*" or (bool(numbers) and numbers[-1] is None)
        numbers.append(None if is_open else int(part))
    return _Partial(numbers[0], numbers[1], numbers[2], (match[4] or "") if numbers[2] is not None else "")


def _not_understood(part: str, whole: str) -> InvalidIdentifier:
    return InvalidIdentifier(
        f"version range {whole!r}: {part!r} is not understood; write ^1.2, ~1.2.3, 1.x, 1.2.3 or '>=1.2 <2'"
    )


def _version(major: int, minor: int, patch: int, prerelease: str = "") -> Version:
    if not prerelease:
        return Version(major, minor, patch, True, ())
    identifiers = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in prerelease.split(".")
    )
    return Version(major, minor, patch, False, identifiers)


def _before(major: int, minor: int, patch: int) -> Version:
    """The lowest pre-release of a version (`-0`): `<` it leaves out all pre-releases of it, too."""
    return _version(major, minor, patch, "0")


_ANY = (Comparator(ge, _version(0, 0, 0)),)
_NONE = (Comparator(lt, _before(0, 0, 0)),)


def _exact(partial: _Partial) -> tuple[Comparator, ...]:
    if partial.major is None:
        return _ANY
    if partial.patch is None:
        return Comparator(ge, partial.floor), Comparator(lt, partial.ceiling)
    return (Comparator(eq, partial.floor),)


def _at_least(partial: _Partial) -> tuple[Comparator, ...]:
    return (Comparator(ge, partial.floor),)


def _above(partial: _Partial) -> tuple[Comparator, ...]:
    if partial.major is None:
        return _NONE
    if partial.patch is None:
        over = partial.ceiling
        return (Comparator(ge, _version(*over.triple)),)
    return (Comparator(gt, partial.floor),)


def _below(partial: _Partial) -> tuple[Comparator, ...]:
    if partial.major is None:
        return _NONE
    if partial.patch is None:
        return (Comparator(lt, _before(*partial.floor.triple)),)
    return (Comparator(lt, partial.floor),)


def _at_most(partial: _Partial) -> tuple[Comparator, ...]:
    if partial.major is None:
        return _ANY
    if partial.patch is None:
        return (Comparator(lt, partial.ceiling),)
    return (Comparator(le, partial.floor),)


def _tilde(partial: _Partial) -> tuple[Comparator, ...]:
    """The last number that is given may grow; of a whole version, the patch."""
    if partial.major is None:
        return _ANY
    return Comparator(ge, partial.floor), Comparator(lt, partial.ceiling)


def _caret(partial: _Partial) -> tuple[Comparator, ...]:
    """Whatever is right of the first number that is not 0 may grow."""
    major, minor, patch, _ = partial
    if major is None:
        return _ANY
    if major > 0 or minor is None:
        over = _before(major + 1, 0, 0)
    elif minor > 0 or patch is None:
        over = _before(0, minor + 1, 0)
    else:
        over = _before(0, 0, patch + 1)
    return Comparator(ge, partial.floor), Comparator(lt, over)


_READ: dict[str, Callable[[_Partial], tuple[Comparator, ...]]] = {
    "": _exact,
    "=": _exact,
    ">=": _at_least,
    ">": _above,
    "<": _below,
    "<=": _at_most,
    "~": _tilde,
    "~>": _tilde,
    "^": _caret,
}
