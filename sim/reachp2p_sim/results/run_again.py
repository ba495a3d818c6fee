"""What to run again: the line that every failure prints, the folder of a stored run, or the folder of a campaign."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from os.path import isdir  # of a line that is too long for a path it says no, where pathlib raises
from pathlib import Path
from typing import Any

import msgspec

from reachp2p_sim.running.run import RunConfig, UsageError

SUMMARY = "summary.json"
_VALUED = ("--nodes", "--seed", "--mutant", "--set", "--codec", "--code", "--log", "--record", "--store")
_BARE = ("--json", "--no-store", "--no-determinism", "--determinism")
_WHAT = (
    "the line that a failure prints (reachp2p-sim run …), the folder of a stored run, or that of a campaign"
)


@dataclass(slots=True, frozen=True)
class Past:
    """A run that was made before. `code` made it, and `digest` was its trace, if that is known."""

    config: RunConfig
    code: str | None = None
    digest: str | None = None


def past_run(text: str) -> Past:
    """The run that a line or a folder is of; of a campaign its first failure. Raises `UsageError`."""
    path = Path(text)
    if (text and isdir(path)) or path.name == SUMMARY:
        return _in_folder(path if isdir(path) else path.parent)
    words = _words(text)
    if "run" not in words:
        raise UsageError(f"{text!r} is no folder, and no line: {_WHAT} is wanted")
    return _in_line(words[words.index("run") + 1 :], text)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text}: {error}") from error


def _in_folder(folder: Path) -> Past:
    try:
        summary: dict[str, Any] = msgspec.json.decode((folder / SUMMARY).read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        raise UsageError(f"{folder}: there is no {SUMMARY} in it; {_WHAT} is wanted") from None
    except OSError as error:
        raise UsageError(f"{folder / SUMMARY}: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{folder / SUMMARY}: damaged: {error}") from error
    if "cells" in summary:
        if not summary["failures"]:
            raise UsageError(f"{folder}: no run of this campaign failed; name a run by its line")
        failure = summary["failures"][0]
        past = past_run(failure["replay"])
        return Past(past.config, past.code, failure.get("trace_digest"))
    if "replay" not in summary:
        raise UsageError(f"{folder / SUMMARY}: it says of no run; {_WHAT} is wanted")
    past = past_run(summary["replay"])
    return Past(past.config, past.code, summary.get("trace_digest"))


def _in_line(words: list[str], text: str) -> Past:
    given: dict[str, str] = {}
    settings: dict[str, str] = {}
    names: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _VALUED and word.startswith("--"):
            value = value if equals else next(rest, "")
            if name == "--set":
                key, _, settings_value = value.partition("=")
                settings[key] = settings_value
            elif name == "--codec":
                settings["codec"] = value
            else:
                given[name] = value
        elif not word.startswith("-"):
            names.append(word)
        elif word not in _BARE:
            raise UsageError(f"{text}: {word}: no option of a run")
    if len(names) != 1:
        raise UsageError(f"{text}: one scenario is wanted; there are: {', '.join(names) or 'none'}")
    nodes = given.get("--nodes")
    return Past(
        RunConfig(
            names[0],
            _number("--seed", given.get("--seed", "0")),
            None if nodes is None else _number("--nodes", nodes),
            given.get("--mutant"),
            settings,
        ),
        given.get("--code"),
    )


def _number(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{option} {text}: a whole number is wanted") from None
