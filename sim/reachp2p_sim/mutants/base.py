"""What a mutant is, and how it is installed for one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from reachp2p_sim.world.world import World


class Patches:
    """Replaced attributes, and how to put them back."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._undo: list[tuple[object, str, Any]] = []

    def replace(self, owner: object, name: str, value: Any) -> Any:
        """Replace an attribute of a class or module; returns what was there."""
        old = getattr(owner, name)
        self._undo.append((owner, name, old))
        setattr(owner, name, value)
        return old

    def limit(self, **constants: Any) -> None:
        """Give protocol constants other values, so that a bound is met in a small world."""
        self.world.protocol = msgspec.structs.replace(self.world.protocol, **constants)

    def restore(self) -> None:
        """Put everything back, last first."""
        while self._undo:
            owner, name, old = self._undo.pop()
            setattr(owner, name, old)


@dataclass(slots=True, frozen=True)
class Mutant:
    """One broken core. `scenario` shows it, with as few nodes and as short as `nodes` and `set` say, and `caught_by` is
    the checker that says so."""

    name: str
    summary: str
    scenario: str
    caught_by: tuple[str, ...]
    install: Callable[[Patches], None]
    nodes: int = 6
    set: Mapping[str, str] = field(default_factory=dict)
    """Settings of the scenario, as `--set` takes them."""

    @contextmanager
    def installed(self, world: World) -> Iterator[None]:
        """Break the core for the time of a run."""
        patches = Patches(world)
        try:
            self.install(patches)
            yield
        finally:
            patches.restore()


MUTANTS: dict[str, Mutant] = {}


def mutant(
    name: str, summary: str, *, scenario: str, caught_by: str, nodes: int = 6, **settings: str
) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
    """Register a mutant. `settings` are those of `--set` for the scenario that shows it (a dot is written `__`)."""

    def register(install: Callable[[Patches], None]) -> Callable[[Patches], None]:
        assert name not in MUTANTS, f"two mutants are named {name}"
        values = {key.replace("__", "."): value for key, value in settings.items()}
        MUTANTS[name] = Mutant(
            name, summary, scenario, tuple(caught_by.split(" or ")), install, nodes, values
        )
        return install

    return register
