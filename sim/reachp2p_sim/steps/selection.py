"""Which machines a step is about: names, or a few words that a person would write.

    "n03"            one machine                 "first half", "second half"
    "n03..n07"       a range                     "first 5", "last 5", "first 25%", "last 25%"
    "all", "rest"    everybody; the others       "random 3", "random 25%"  drawn anew for each step
    "running", "stopped"                         "all but n03", "n00,n04..n06"
    "every 3", "every 4 from 1"                  n00, n03, …; n01, n05, …
    ["n00", "n05"]   a list

A share is rounded to the nearest machine and is at least one. A name that was given to a selection before
(`[groups]` of a scenario file, `world.groups`) stands for the same machines each time, drawn ones included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from reachp2p_sim.world.world import World

Selection: TypeAlias = str | tuple[str, ...]


class StepImpossible(ValueError):
    """A step cannot be performed in the world as it is. The message says what would be right."""


class UnknownMachine(StepImpossible):
    """A selection names a machine, or uses words, that there are none for. The message says what would be right."""


GRAMMAR = (
    "a name such as n03, a range n03..n07, a list, all, running, stopped, rest, first|last|random N or P%, "
    "first half, second half, every N, every N from M, all but …, or a group"
)


def select(selection: Selection, world: World) -> tuple[str, ...]:
    """The names of the machines selected, in order of their number. Raises `UnknownMachine`."""
    if not isinstance(selection, str):
        return tuple(name for part in selection for name in select(part, world))
    text = selection.strip()
    if text in world.groups:
        group = world.groups[text]
        if isinstance(group, str):
            group = world.groups[text] = select(group, world)
        return group
    names = [host.name for host in world.nodes]
    if text in ("running", "stopped"):
        return tuple(host.name for host in world.nodes if host.is_running == (text == "running"))
    if text.startswith("all but "):
        excluded = select(text.removeprefix("all but "), world)
        return tuple(name for name in names if name not in excluded)
    if match := re.fullmatch(r"random (\d+)(%?)", text):
        chance = world.randomness.stream("selection", world.steps_performed, text)
        return tuple(sorted(chance.sample(names, _count(match[1], match[2], names)), key=names.index))
    return among(text, names)


def among(text: str, names: list[str]) -> tuple[str, ...]:
    """Selections that depend on names alone."""
    if text == "all":
        return tuple(names)
    if text in ("first half", "second half"):
        middle = len(names) // 2
        return tuple(names[:middle] if text == "first half" else names[middle:])
    if match := re.fullmatch(r"(first|last) (\d+)(%?)", text):
        count = _count(match[2], match[3], names)
        return tuple(names[:count] if match[1] == "first" else names[len(names) - count :])
    if match := re.fullmatch(r"every ([1-9]\d*)(?: from (\d+))?", text):
        return tuple(names[int(match[2] or 0) :: int(match[1])])
    if "," in text:
        return tuple(name for part in text.split(",") for name in among(part.strip(), names))
    if match := re.fullmatch(r"(n\d+)\.\.(n\d+)", text):
        first, last = (_known(name, names) for name in match.groups())
        return tuple(names[names.index(first) : names.index(last) + 1])
    return (_known(text, names),)


def _count(number: str, percent: str, names: list[str]) -> int:
    count = max(1, round(int(number) * len(names) / 100)) if percent else int(number)
    if count > len(names):
        raise UnknownMachine(f"{count} machines are wanted and there are {len(names)}")
    return count


def _known(name: str, names: Iterable[str]) -> str:
    known = list(names)
    if name not in known:
        there_are = f"{known[0]} to {known[-1]}" if known else "none"
        raise UnknownMachine(f"there is no machine {name!r}; there are {there_are}; or write {GRAMMAR}")
    return name
