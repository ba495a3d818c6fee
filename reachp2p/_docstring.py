"""What a handler's docstring says: its first line, and a line for each parameter.

Google (`Args:`), NumPy (underlined `Parameters`) and Sphinx (`:param name:`) styles are understood as far as
they are commonly written; anything else is left alone. Only descriptions are taken, types come from the hints.
"""

from __future__ import annotations

import inspect
import re

_GOOGLE_SECTION = re.compile(r"(args|arguments|parameters|params)\s*:\s*", re.IGNORECASE)
_GOOGLE_PARAMETER = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY_PARAMETER = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_SPHINX_PARAMETER = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return (summary, descriptions by parameter name) of a docstring."""
    if not text:
        return "", {}
    lines = inspect.cleandoc(text).splitlines()
    summary: list[str] = []
    for index, line in enumerate(lines):
        if not line.strip() or _is_section(lines, index):
            break
        summary.append(line.strip())
    parameters: dict[str, str] = {}
    for index, line in enumerate(lines):
        stripped = line.strip()
        if _GOOGLE_SECTION.fullmatch(stripped):
            _read_indented(lines, index + 1, _indent(line), parameters)
        elif stripped.lower() == "parameters" and _is_underline(lines, index + 1):
            _read_numpy(lines, index + 2, _indent(line), parameters)
        elif found := _SPHINX_PARAMETER.fullmatch(stripped):
            words = [found[2], *_continuation(lines, index + 1, _indent(line))]
            parameters[found[1]] = " ".join(word for word in words if word)
    return " ".join(summary), parameters


def _read_indented(lines: list[str], start: int, outer: int, parameters: dict[str, str]) -> None:
    """Google: `name (type): text`, one level inside the section, continued further in."""
    level: int | None = None
    for index in range(start, len(lines)):
        line = lines[index]
        if not line.strip():
            continue
        indent = _indent(line)
        if indent <= outer:
            return
        level = indent if level is None else level
        if indent == level and (found := _GOOGLE_PARAMETER.fullmatch(line.strip())):
            words = [found[2], *_continuation(lines, index + 1, indent)]
            parameters[found[1]] = " ".join(word for word in words if word)


def _read_numpy(lines: list[str], start: int, outer: int, parameters: dict[str, str]) -> None:
    """NumPy: `name : type` at the section's own level, the text one level inside."""
    for index in range(start, len(lines)):
        line = lines[index]
        if not line.strip() or _indent(line) > outer:
            continue
        if _indent(line) < outer or _is_underline(lines, index + 1):
            return
        found = _NUMPY_PARAMETER.fullmatch(line.strip())
        words = _continuation(lines, index + 1, outer)
        if found is None or not words:
            continue
        for name in found[1].split(","):
            parameters[name.strip()] = " ".join(words)


def _continuation(lines: list[str], start: int, outer: int) -> list[str]:
    """The lines from `start` that are further in than `outer`, up to a blank one."""
    words = []
    for line in lines[start:]:
        if not line.strip() or _indent(line) <= outer:
            break
        words.append(line.strip())
    return words


def _is_section(lines: list[str], index: int) -> bool:
    line = lines[index].strip()
    return bool(
        _GOOGLE_SECTION.fullmatch(line)
        or _SPHINX_PARAMETER.fullmatch(line)
        or (line.lower() == "parameters" and _is_underline(lines, index + 1))
    )


def _is_underline(lines: list[str], index: int) -> bool:
    return index < len(lines) and len(lines[index].strip()) >= 3 and not lines[index].strip().strip("-=")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
