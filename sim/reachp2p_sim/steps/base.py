"""What a step is: one act of a story as plain data, with names of machines instead of objects.

A story performs steps (`world.perform`), a scenario file is a list of them, the record of a run can be written out and
run again, a shrinker takes some away, a report shades them. So a step holds everything that it needs to be done again:
its machines by name, its numbers, nothing else. Chance that it needs comes from streams named after its machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from reachp2p_sim.steps.selection import Selection, StepImpossible, select

if TYPE_CHECKING:
    from reachp2p_sim.world.world import World


NUMBER_MAX = 1e9
"""No number of a step is larger, or below its negative: thirty years of seconds, or a gigabyte a second."""
EVERY_MIN = 0.001
"""Seconds at least between two looks at a world."""


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


class Step(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="do",
    tag=_kebab,
):
    """Base of all steps. In a scenario file a step is a table; `do` says which, other keys are its fields."""

    machines: ClassVar[tuple[str, ...]] = ()
    """The fields that select machines."""
    acts: ClassVar[bool] = True
    """Whether it does anything to the world: what does not leaves nothing in the trace."""
    is_recorded: ClassVar[bool] = True
    """Whether the record of a run keeps it."""
    may_be_empty: ClassVar[bool] = False
    """Whether it means something without any machine, too."""
    between: ClassVar[tuple[str, str] | None] = None
    """The two fields of `machines` between which it does something: neither may be empty."""
    apart: ClassVar[bool] = False
    """Whether no machine may be on both sides."""
    opens: ClassVar[str | None] = None
    """What it brings about under its `name`, until a step that `ends` it: a cut, a hold, weather."""
    ends: ClassVar[str | None] = None
    """What it ends: that of its `name`, or all if it has none."""
    disturbs: ClassVar[bool] = True
    """Whether views may differ for a while because of it: the heal budget runs from the last such step."""

    @classmethod
    def word(cls) -> str:
        """What `do` says for this kind of step."""
        return str(cls.__struct_config__.tag)

    def resolved(self, world: World) -> Step:
        """The same step with its machines by name. Raises `UnknownMachine`."""
        names: dict[str, tuple[str, ...]] = {}
        later: list[str] = []
        for field in self.machines:
            selection = getattr(self, field)
            if selection == "rest":
                later.append(field)
            elif selection is not None:
                names[field] = select(selection, world)
        for field in later:
            taken = {name for selected in names.values() for name in selected}
            names[field] = tuple(host.name for host in world.nodes if host.name not in taken)
        return msgspec.structs.replace(self, **names) if names else self

    def check(self, selected: Mapping[str, tuple[str, ...]]) -> None:
        """Raise `StepImpossible` if it means nothing with these machines, by field; of a field left out they are not
        known yet."""
        if self.between is None:
            return
        for field in self.between:
            if selected.get(field) == ():
                raise StepImpossible(
                    f"{field} selects no machine: both sides need one, or nothing would happen"
                )
        both = [
            name for name in selected.get(self.between[0], ()) if name in selected.get(self.between[1], ())
        ]
        if self.apart and both:
            raise StepImpossible(
                f"{short_names(tuple(both))} would be on both sides: {' and '.join(self.between)} may have no machine "
                "in common"
            )

    def check_values(self) -> None:
        """Raise `StepImpossible` if a field holds what a scenario file could not: Python does not look at that."""
        try:
            msgspec.convert(msgspec.to_builtins(self), type(self))
        except msgspec.ValidationError as error:
            raise StepImpossible(f"{self.word()}: {error}") from error
        for field in msgspec.structs.fields(type(self)):
            value = getattr(self, field.name)
            if isinstance(value, float) and not -NUMBER_MAX <= value <= NUMBER_MAX:
                raise StepImpossible(f"{field.name} = {value}: a number within ±{NUMBER_MAX:g} is wanted")

    def perform(self, world: World) -> None:
        """Do it now. The step has been resolved."""
        raise NotImplementedError

    def text(self) -> str:
        """It in one line, for traces and people."""
        words = [self.word().replace("-", " ")]
        for field in msgspec.structs.fields(type(self)):
            value = getattr(self, field.name)
            if field.name in self.machines:
                if value or field.required:
                    words.append(short_names(value))
            elif field.required or value != default_of(field):
                words.append(f"{field.name}={_shown(value)}")
        return " ".join(words)

    def named(self) -> tuple[str, ...]:
        """All machines that it names, each once."""
        found: dict[str, None] = {}
        for field in self.machines:
            selection = getattr(self, field)
            if isinstance(selection, tuple):
                found.update(dict.fromkeys(selection))
        return tuple(found)

    def without(self, gone: Iterable[str]) -> Step | None:
        """The same step if these machines did not exist, or None if nothing is left of it. The step was resolved."""
        missing = set(gone)
        changes: dict[str, Any] = {}
        for field in self.machines:
            selection = getattr(self, field)
            if isinstance(selection, tuple):
                changes[field] = tuple(name for name in selection if name not in missing)
                if selection and not changes[field] and not self.may_be_empty:
                    return None
        return msgspec.structs.replace(self, **changes) if changes else self


def short_names(names: Selection) -> str:
    """`n00,n01,n02,n05` as `n00..n02,n05`."""
    if isinstance(names, str):
        return names
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ",".join(run[0] if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs) or "nobody"


def _follows(before: str, name: str) -> bool:
    left, right = re.fullmatch(r"n(\d+)", before), re.fullmatch(r"n(\d+)", name)
    return left is not None and right is not None and int(right[1]) == int(left[1]) + 1


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list):
        return ",".join(_shown(item) for item in value)
    if isinstance(value, dict):
        return ",".join(f"{key}={_shown(item)}" for key, item in value.items()) or "fair"
    return str(value)


def default_of(field: msgspec.structs.FieldInfo) -> object:
    """What a field is if nobody says."""
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
