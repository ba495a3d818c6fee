"""What an experiment is, what it finds, and when a finding holds.

An experiment has three functions. `cases(scale)` lists what is to be run, as picklable values that carry their own
seed; `measure(case)` runs one of them in any process and returns plain data; `judge(scale, done)` turns all cases with
their results, in the order of the list, into rows. A row sets a measured number with its interval beside the published
one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, Generic, Literal, TypeVar

from reachp2p_sim.measuring.confidence import Estimate

Case = TypeVar("Case")
Result = TypeVar("Result")
Value = TypeVar("Value")

Aim = Literal["reproduce", "beat", "report"]
"""`reproduce`: the simulator is right. `beat`: the protocol is good. `report`: no limit, only the distance."""
Verdict = Literal["holds", "open", "fails", "reported"]
"""`open`: outside the limits, but its interval reaches into them: more samples would tell."""
Source = Literal["text", "figure", "computed", "own"]
"""Where the published number is from: the text or a table of the paper, read off a figure (about 5 %), computed from
a formula of the paper, or a goal of our own."""


@dataclass(slots=True, frozen=True)
class Scale:
    """How much of an experiment is run, and from which run seed."""

    quick: bool
    seed: int

    def pick(self, quick: Value, full: Value) -> Value:
        """The first for `--quick`, else the second."""
        return quick if self.quick else full


@dataclass(slots=True, frozen=True)
class Row:
    """One number: published, measured, verdict.

    `accepted` are the limits of what counts as reproduced or beaten, ends included; None reports the number alone.
    """

    id: str
    what: str
    measured: Estimate
    published: float | None = None
    source: Source = "text"
    accepted: tuple[float, float] | None = None
    aim: Aim = "reproduce"
    must_hold: bool = True
    """Whether the command fails if this does not hold."""
    unit: str = ""
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """The measured number against its limits."""
        if self.accepted is None:
            return "reported"
        low, high = self.accepted
        if low <= self.measured.value <= high:
            return "holds"
        if self.measured.low <= high and self.measured.high >= low:
            return "open"
        return "fails"

    @property
    def distance(self) -> float:
        """How far the measured number is outside its limits, in its own unit; 0 within."""
        if self.accepted is None:
            return 0.0
        low, high = self.accepted
        return max(0.0, low - self.measured.value, self.measured.value - high)

    def is_broken(self, quick: bool) -> bool:
        """Whether this fails the command. A quick run may leave a row open, a full one may not."""
        verdict = self.verdict
        return self.must_hold and (verdict == "fails" or (verdict == "open" and not quick))

    def to_json(self) -> dict[str, Any]:
        """Plain data; an endless end of an interval is null."""
        return {
            "id": self.id,
            "what": self.what,
            "aim": self.aim,
            "published": self.published,
            "source": self.source,
            "measured": self.measured.value,
            "interval": [_finite(self.measured.low), _finite(self.measured.high)],
            "samples": self.measured.samples,
            "unit": self.unit,
            "accepted": None if self.accepted is None else [_finite(end) for end in self.accepted],
            "verdict": self.verdict,
            "distance": self.distance,
            "must_hold": self.must_hold,
            "note": self.note,
        }


def around(published: float, absolute: float = 0.0, relative: float = 0.0) -> tuple[float, float]:
    """Limits around a published number; `relative` is a share of it."""
    width = absolute + abs(published) * relative
    return published - width, published + width


def at_most(limit: float) -> tuple[float, float]:
    """No more than this."""
    return -inf, limit


def at_least(limit: float) -> tuple[float, float]:
    """No less than this."""
    return limit, inf


@dataclass(slots=True, frozen=True)
class Figure:
    """A picture for docs/papers.md. `name` is a part of its file name, `svg` the whole file."""

    name: str
    caption: str
    svg: str


@dataclass(slots=True)
class Findings:
    """What an experiment found. `remarks` are paragraphs for readers: what differs from the paper, and why."""

    rows: list[Row] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class Experiment(Generic[Case, Result]):
    """One set-up and the rows that come out of it. `measure` is a function of a module, so that it can be pickled."""

    name: str
    ids: tuple[str, ...]
    """The ids of all its rows."""
    set_up: str
    """A sentence or two for the page: what is run, with which parameters."""
    cases: Callable[[Scale], list[Case]]
    measure: Callable[[Case], Result]
    judge: Callable[[Scale, Sequence[tuple[Case, Result]]], Findings]


@dataclass(slots=True, frozen=True)
class Paper:
    """A paper and its experiments."""

    name: str
    title: str
    """For headings, such as `Consistent hashing`."""
    citation: str
    """Authors, title, where and when."""
    experiments: tuple[Experiment[Any, Any], ...]

    def choose(self, ids: Sequence[str]) -> Paper:
        """Only the experiments that yield one of these ids (all if there are none). `KeyError` names an unknown "
        "id."""
        if not ids:
            return self
        known = {row_id for experiment in self.experiments for row_id in experiment.ids}
        for row_id in ids:
            if row_id not in known:
                raise KeyError(row_id)
        chosen = tuple(e for e in self.experiments if any(row_id in e.ids for row_id in ids))
        return Paper(self.name, self.title, self.citation, chosen)


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
