"""A case: the steps of a run with their times, its end and its seed; and smaller cases made of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import msgspec

from reachp2p_sim.running.scenario_file import Timed
from reachp2p_sim.steps import Step
from reachp2p_sim.steps.base import default_of
from reachp2p_sim.steps.in_force import InForce
from reachp2p_sim.steps.processes import AddNodes, Clone
from reachp2p_sim.steps.selection import StepImpossible
from reachp2p_sim.steps.story import Expect
from reachp2p_sim.world.world import Performed

HELPERS = {"heal", "release", "resume", "start", "set-name", "expect", "run", "add-nodes"}
"""Steps that are no faults: they build the network up, or end a fault."""


@dataclass(slots=True, frozen=True)
class Case:
    """What is run. Steps are in the order of their times, all resolved: they name machines."""

    steps: tuple[Timed, ...]
    ends_at: float
    seed: int

    @property
    def machines(self) -> list[str]:
        """The machines that are added, without clones, in order."""
        return [name for timed in self.steps if isinstance(timed.step, AddNodes) for name in timed.step.names]

    @property
    def faults(self) -> int:
        """How many of the steps do harm."""
        return sum(timed.step.disturbs and timed.step.word() not in HELPERS for timed in self.steps)

    @property
    def counts(self) -> dict[str, float]:
        """How large it is."""
        return {
            "nodes": len(self.machines),
            "steps": len(self.steps),
            "faults": self.faults,
            "seconds": round(self.ends_at, 3),
        }

    @property
    def size(self) -> str:
        """The same for people."""
        return ", ".join(f"{count:g} {what}" for what, count in self.counts.items())

    def with_steps(self, steps: Iterable[Timed]) -> Case:
        """The same with other steps. What makes no sense among these is taken out: machines that are never made, and
        steps that end what never began."""
        return replace(self, steps=tuple(_possible(_without_strangers(steps))))

    def with_machines(self, kept: Iterable[str]) -> Case:
        """The same as if only these machines had ever been there."""
        gone = set(self.machines) - set(kept)
        return self.with_steps(_without(self.steps, gone))

    def until(self, failed_at: float) -> Case:
        """The same without what came after a moment, ended at the next whole second."""
        steps = tuple(timed for timed in self.steps if _at(timed) <= failed_at)
        return replace(self, steps=steps, ends_at=min(self.ends_at, float(ceil(failed_at))))

    def as_performed(self, performed: Sequence[Performed]) -> Case:
        """The same with the times at which its first steps were done: later than theirs if an `expect` took longer."""
        done = [Timed(timed.step, when.at) for timed, when in zip(self.steps, performed, strict=False)]
        return replace(self, steps=(*done, *self.steps[len(done) :]))

    def shifted(self, number: int, gap: float) -> Case:
        """The same with another time between a step (or the start) and the one before; all later ones move along."""
        before = _at(self.steps[number - 1]) if number else 0.0
        last = self.ends_at if number == len(self.steps) else _at(self.steps[number])
        saved = (last - before) - gap
        moved = [
            timed if index < number else Timed(timed.step, _at(timed) - saved)
            for index, timed in enumerate(self.steps)
        ]
        return replace(self, steps=tuple(moved), ends_at=self.ends_at - saved)

    def gap(self, number: int) -> float:
        """The time between a step (or the end, after the last) and the one before."""
        before = _at(self.steps[number - 1]) if number else 0.0
        return (self.ends_at if number == len(self.steps) else _at(self.steps[number])) - before

    def simpler(self, number: int) -> Iterator[Case]:
        """The same with one step made a little simpler, in each way there is."""
        timed = self.steps[number]
        for step in _simpler(timed.step):
            yield self.with_steps([*self.steps[:number], Timed(step, timed.at), *self.steps[number + 1 :]])


def case_of(performed: Iterable[Performed], ends_at: float, seed: int) -> Case:
    """What was done in a run, as a case."""
    return Case(tuple(Timed(p.step, p.at) for p in performed), ends_at, seed)


def _at(timed: Timed) -> float:
    assert timed.at is not None, "the steps of a case have their times"
    return timed.at


def _without(steps: Iterable[Timed], gone: set[str]) -> Iterator[Timed]:
    for timed in steps:
        step = timed.step.without(gone)
        if step is not None:
            yield Timed(step, timed.at)


def _without_strangers(steps: Iterable[Timed]) -> Iterator[Timed]:
    """Take machines that are never made out of the steps that name them."""
    made: dict[str, int] = {}
    for timed in steps:
        step: Step | None = timed.step
        if isinstance(step, AddNodes):
            made.update(dict.fromkeys(step.names, 0))
        else:
            step = timed.step.without(name for name in timed.step.named() if name not in made)
        if step is None:
            continue
        if isinstance(step, Clone):
            for name in step.hosts:
                original = name.split("-clone")[0]
                made[original] = made.get(original, 0) + 1
                made[f"{original}-clone{made[original]}"] = 0
        yield Timed(step, timed.at)


def _possible(steps: Iterable[Timed]) -> Iterator[Timed]:
    """Without what can no longer be done."""
    in_force = InForce()
    for timed in steps:
        selected = {field: getattr(timed.step, field) for field in timed.step.machines}
        try:
            timed.step.check({field: names for field, names in selected.items() if isinstance(names, tuple)})
            in_force.note(timed.step)
        except StepImpossible:
            continue
        yield timed


def _simpler(step: Step) -> Iterator[Step]:
    """One machine fewer in a selection, a field as nobody would say it, a rounder number."""
    for field in msgspec.structs.fields(type(step)):
        value = getattr(step, field.name)
        if isinstance(step, Expect):
            continue  # with less patience anything fails
        if field.name in step.machines:
            if isinstance(value, tuple) and len(value) > 1 and not isinstance(step, AddNodes):
                for index in range(len(value)):
                    yield _changed(step, field.name, value[:index] + value[index + 1 :])
        elif not field.required:
            if value != default_of(field):
                yield _changed(step, field.name, default_of(field))
        elif isinstance(value, float) and value != round(value):
            yield _changed(step, field.name, float(round(value)))
        if isinstance(value, dict):
            for key in value:
                yield _changed(step, field.name, {k: v for k, v in value.items() if k != key})


def _changed(step: Step, name: str, value: Any) -> Step:
    return msgspec.structs.replace(step, **{name: value})
