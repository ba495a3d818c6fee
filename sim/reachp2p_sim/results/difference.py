"""Two runs side by side: where they part, and what differs in options, verdicts, timings and budgets.

Where they part is told twice: the first event of the trace that is not the same in both, found by running both again
(a trace is too long to keep), and the first thing that a person would call a difference: a step, a process, something
said, a view that changed.
"""

from __future__ import annotations

import io
from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from reachp2p_sim.checkers.determinism import NAME as DETERMINISM
from reachp2p_sim.results.lookup import Entry, StoredRun
from reachp2p_sim.running.configuration import RunConfig, code_of
from reachp2p_sim.running.run import run_scenario

CONTEXT = 4
"""Events shown before and after the place where two runs part."""
EVENTS_MAX = 5_000_000
"""Events of a trace that are compared: eight bytes each."""
READABLE = ("step", "process", "said", "view")
SAME_BELOW = 0.005
"""Relative differences of budgets smaller than this are left out."""


@dataclass(slots=True)
class Parting:
    """Where two runs part: event number `index`, what came before it in both, and what came then in each."""

    index: int
    before: list[str]
    left: list[str]
    right: list[str]


@dataclass(slots=True)
class Difference:
    """What `compare` found. Pairs are (left, right); None where one has nothing."""

    same: bool
    """Both have the same trace digest: they are one run."""
    settings: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    verdicts: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    timings: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    budgets: dict[str, tuple[dict[str, int], dict[str, int]]] = field(default_factory=dict)
    history: Parting | None = None
    trace: Parting | None = None
    trace_unknown: str | None = None
    """Why the trace was not compared."""


def compare(left: StoredRun, right: StoredRun, *, replay: bool = True) -> Difference:
    """Compare two runs. With `replay` both are made again to find the first event that differs."""
    a, b = left.summary, right.summary
    result = Difference(a["trace_digest"] == b["trace_digest"])
    result.settings = _pairs(_settings(a), _settings(b))
    result.verdicts = _pairs(_verdicts(a, b), _verdicts(b, a))
    result.timings = _pairs(_timings(a), _timings(b))
    for kind in {**a["recording"]["by_kind"], **b["recording"]["by_kind"]}:
        nothing = {"count": 0, "bytes": 0}
        pair = a["recording"]["by_kind"].get(kind, nothing), b["recording"]["by_kind"].get(kind, nothing)
        if abs(pair[0]["bytes"] - pair[1]["bytes"]) > SAME_BELOW * max(pair[0]["bytes"], pair[1]["bytes"]):
            result.budgets[kind] = pair
    if result.same:
        return result
    result.history = _history(left.history, right.history)
    stale = [
        run.name
        for run in (left, right)
        if run.summary["environment"]["code"] != code_of(run.config.scenario)
    ]
    if not replay:
        result.trace_unknown = "the runs were not made again"
    elif stale:
        result.trace_unknown = f"made by other code than this: {', '.join(stale)}"
    else:
        result.trace = first_difference(left.config, right.config)
        if result.trace is None:
            result.trace_unknown = f"the first {EVENTS_MAX} events are the same"
    return result


def first_difference(left: RunConfig, right: RunConfig) -> Parting | None:
    """The first event of the trace in which two runs differ; None if there is none. Runs them three times at most."""
    hashes = _Hashes()
    run_scenario(left, hashes)
    finder = _Finder(hashes.seen)
    _run_until_enough(right, finder)
    index = finder.index
    if index is None and finder.count < len(hashes.seen):
        index = finder.count  # the right one ended first
    if index is None:
        return None
    again = _Excerpt(index)
    _run_until_enough(left, again)
    return Parting(index, list(again.before), again.after, finder.after)


class _Enough(BaseException):
    """All that was wanted of a run is known. No `Exception`: it leaves a run past whatever reports defects there."""


def _run_until_enough(config: RunConfig, log: io.TextIOBase) -> None:
    try:
        run_scenario(config, log)
    except _Enough:
        return


class _Hashes(io.StringIO):
    """Keeps eight bytes of each line."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = array("q")

    def write(self, line: str) -> int:
        """One event."""
        if len(self.seen) < EVENTS_MAX:
            self.seen.append(hash(line))
        return len(line)


class _Finder(io.StringIO):
    """Looks for the first line that is another one than before."""

    def __init__(self, expected: array[int]) -> None:
        super().__init__()
        self._expected = expected
        self.count = 0
        self.index: int | None = None
        self.after: list[str] = []

    def write(self, line: str) -> int:
        """One event."""
        ended = self.count >= len(self._expected)
        if (
            self.index is None
            and self.count < EVENTS_MAX
            and (ended or self._expected[self.count] != hash(line))
        ):
            self.index = self.count
        if self.index is not None:
            self.after.append(line.rstrip("\n"))
            if len(self.after) > CONTEXT:
                raise _Enough
        self.count += 1
        return len(line)


class _Excerpt(io.StringIO):
    """Keeps the lines around one."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self._index = index
        self._count = 0
        self.before: deque[str] = deque(maxlen=CONTEXT)
        self.after: list[str] = []

    def write(self, line: str) -> int:
        """One event."""
        if self._count < self._index:
            self.before.append(line.rstrip("\n"))
        else:
            self.after.append(line.rstrip("\n"))
            if len(self.after) > CONTEXT:
                raise _Enough
        self._count += 1
        return len(line)


# What differs


def _pairs(left: dict[str, Any], right: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What is not the same in both, in the order of the left one."""
    names = {**left, **right}
    return {name: (left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)}


def _settings(summary: dict[str, Any]) -> dict[str, Any]:
    config = summary["config"]
    environment = summary["environment"]
    return {
        "scenario": config["scenario"],
        "seed": config["seed"],
        "nodes": summary["nodes"],
        "mutant": config["mutant"],
        **summary["options"],
        **{key: value for key, value in config["set"].items() if key not in summary["options"]},
        "code": environment["code"],
        "Python": environment["python"],
    }


def _verdicts(summary: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    violation = summary["violation"]
    told = (
        None
        if violation is None
        else f"{violation['checker']}: {violation['message']} (t = {violation['at']} s)"
    )
    checkers = {
        f"checker {name}": verdict
        for name, verdict in summary["checkers"].items()
        if name != DETERMINISM
        or name in other["checkers"]  # judged by a second run, which may not have been wanted
    }
    return {"verdict": summary["verdict"], "broken": told, **checkers}


def _timings(summary: dict[str, Any]) -> dict[str, Any]:
    numbers = summary["recording"]
    names = ("first_suspicion_median", "verdict_median", "verdict_last", "false_suspicions", "false_verdicts")
    others = ("datagrams_per_node_second", "bytes_per_node_second", "signature_checks")
    return {
        "simulated_seconds": summary["simulated_seconds"],
        "events": summary["events"],
        **summary["timings"],
        **{name: numbers[name] for name in (*names, *others)},
    }


def _history(left: list[Entry], right: list[Entry]) -> Parting | None:
    a, b = _readable(left), _readable(right)
    shared = min(len(a), len(b))
    index = next((i for i in range(shared) if a[i] != b[i]), shared if len(a) != len(b) else None)
    if index is None:
        return None
    before = [sentence(entry) for entry in a[max(0, index - CONTEXT) : index]]
    return Parting(
        index,
        before,
        [sentence(entry) for entry in a[index : index + CONTEXT + 1]],
        [sentence(entry) for entry in b[index : index + CONTEXT + 1]],
    )


def _readable(history: list[Entry]) -> list[Entry]:
    return [entry for entry in history if entry["what"] in READABLE]


def sentence(entry: Entry) -> str:
    """One entry of a history in a line."""
    match entry["what"]:
        case "step":
            text = entry["text"]
        case "process":
            text = f"{entry['node']} process {entry['change']}"
        case "said":
            text = f"{entry['node']} says {entry['kind']}"
        case _:
            why = f" ({entry['reason']})" if entry["reason"] else ""
            text = f"{entry['observer']} holds {entry['subject']} {entry['new'] or 'no longer'}{why}"
    return f"{entry['at']:12.6f}  {text}"
