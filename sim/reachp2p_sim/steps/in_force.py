"""Which partitions, holds and weather are in force by their names, as far as steps tell."""

from __future__ import annotations

from typing import Any

from reachp2p_sim.steps.base import Step
from reachp2p_sim.steps.selection import StepImpossible


class InForce:
    """Follows the steps of a story, of a file that is checked, or of a case that is shrunk."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def note(self, step: Step) -> None:
        """One more step. Raises `StepImpossible` if it ends what was never begun, or has ended."""
        named: Any = step  # each kind that opens or ends something has a field `name`
        if step.opens is not None:
            self._names.setdefault(step.opens, {})[named.name] = None
        if step.ends is None:
            return
        names = self._names.setdefault(step.ends, {})
        name = named.name
        if name is None:
            names.clear()
        elif name in names:
            del names[name]
        else:
            there_are = ", ".join(repr(name) for name in names) or "none"
            raise StepImpossible(
                f"there is no {step.ends} named {name!r} to end (there are: {there_are}); without a name all are ended"
            )
