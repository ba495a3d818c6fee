"""What a campaign runs: scenarios × points of a grid × seeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import msgspec

from reachp2p_sim.running.configuration import NODES_MAX, RunConfig, UsageError, check, short_name

RUNS_MAX = 1_000_000
"""Runs in one campaign: its results are summed up in memory, about a kilobyte each."""
NODES = "nodes"
SHORT_NAMES = {"loss": "path_loss"}
"""Names that a grid and `--set` take for an option of every scenario."""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration of a campaign. Two equal plans under one code version have equal results.

    `set` holds options for all runs, `grid` the values of each option that is varied; a key is an option of the
    scenarios, `protocol.CONSTANT`, or `nodes`.
    """

    scenarios: tuple[str, ...]
    seeds: int
    first_seed: int = 0
    nodes: int | None = None
    mutant: str | None = None
    set: dict[str, str] = {}
    grid: dict[str, tuple[str, ...]] = {}
    determinism: bool = False
    """Whether each run is made a second time, in another process under another `PYTHONHASHSEED`."""

    @property
    def cells(self) -> list[Cell]:
        """Each scenario at each point of the grid, scenarios first, in the order they were named."""
        points = [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]
        pairs = ((scenario, point) for scenario in self.scenarios for point in points)
        return [Cell(number, scenario, point) for number, (scenario, point) in enumerate(pairs)]

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.cells) * self.seeds

    def tasks(self) -> Iterator[Task]:
        """All runs, one seed of every cell before the next seed, so that an unfinished campaign knows all cells."""
        cells = self.cells
        for offset in range(self.seeds):
            seed = self.first_seed + offset
            for cell in cells:
                yield Task(cell.number * self.seeds + offset, cell.number, self._config(cell, seed))

    def numbered(self) -> Callable[[int], Task]:
        """The run of a number, for whoever asks for many. It raises `ValueError` for one that there is not."""
        cells = self.cells

        def task_of(number: int) -> Task:
            if not 0 <= number < len(cells) * self.seeds:
                raise ValueError(f"there is no run {number}: the plan has 0 to {len(cells) * self.seeds - 1}")
            cell, offset = divmod(number, self.seeds)
            return Task(number, cell, self._config(cells[cell], self.first_seed + offset))

        return task_of

    def _config(self, cell: Cell, seed: int) -> RunConfig:
        settings = {**self.set, **cell.point}
        nodes = settings.pop(NODES, None)
        return RunConfig(
            cell.scenario, seed, self.nodes if nodes is None else int(nodes), self.mutant, settings
        )

    def check(self) -> None:
        """Raise `UsageError` if any of it cannot be run; nothing has run then."""
        if not self.scenarios:
            raise UsageError("a campaign needs a scenario; `reachp2p-sim list` names them")
        if len(set(self.scenarios)) < len(self.scenarios):
            raise UsageError(f"a scenario is named twice: {', '.join(self.scenarios)}")
        if not 1 <= self.runs <= RUNS_MAX:
            raise UsageError(f"a campaign has 1 to {RUNS_MAX} runs, not {self.runs}")
        if self.nodes is not None and NODES in self.grid:
            raise UsageError("nodes are given by --nodes and varied by --grid: use one of them")
        for key in self.grid:
            if key in self.set:
                raise UsageError(f"{key} is given by --set and varied by --grid: use one of them")
        for text in self.grid.get(NODES, ()):
            if not re.fullmatch(r"0*[0-9]{1,9}", text) or int(text) > NODES_MAX:
                raise UsageError(
                    f"--grid {NODES}={text}: a whole number of nodes is wanted, {NODES_MAX} at most"
                )
        for cell in self.cells:
            try:
                check(self._config(cell, self.first_seed))
            except UsageError as error:
                raise UsageError(f"{cell.name}: {error}" if cell.point else str(error)) from error


@dataclass(slots=True, frozen=True)
class Cell:
    """One scenario at one point of the grid; its seeds are repetitions of one experiment."""

    number: int
    scenario: str
    point: dict[str, str]

    @property
    def name(self) -> str:
        """For people: `partition path_loss=0.1`."""
        return " ".join([short_name(self.scenario), *(f"{key}={value}" for key, value in self.point.items())])


@dataclass(slots=True, frozen=True)
class Task:
    """One run. `number` is its place in the results: by cell, then by seed."""

    number: int
    cell: int
    config: RunConfig


def grid(axes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The grid of `KEY=VALUE,VALUE,…` words. Raises `UsageError` if one of them is none."""
    found: dict[str, tuple[str, ...]] = {}
    for axis in axes:
        key, equals, text = axis.partition("=")
        key = SHORT_NAMES.get(key, key)
        values = tuple(value.strip() for value in text.split(","))
        if not equals or not key or not all(values):
            raise UsageError(f"--grid {axis}: write KEY=VALUE,VALUE,…, as in loss=0,0.1,0.3")
        if key in found:
            raise UsageError(f"--grid names {key} twice: give all its values at once")
        if len(set(values)) < len(values):
            raise UsageError(f"--grid {axis}: a value is there twice")
        found[key] = values
    return found
