"""What the notes of a `restarts.py` run add up to: plain functions from what the processes wrote to figures."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STATE_LOCKED = 1703
EARLY = 0.2
"""Seconds after a start that count as its beginning."""


@dataclass(slots=True, eq=False, kw_only=True)
class Process:
    """One process: what was done to it, and what it said (lines of `restarts_worker.py`)."""

    name: str
    number: int
    """Its process id, as in its notes."""
    spawned_at: float
    killed_at: float | None = None
    ended_at: float | None = None
    is_wished_to_leave: bool = False
    exit_code: int | None = None
    lines: Sequence[Mapping[str, Any]] = ()

    def said(self, what: str) -> Mapping[str, Any] | None:
        """The last line of a kind."""
        return next((line for line in reversed(self.lines) if line["is"] == what), None)


@dataclass(slots=True, kw_only=True)
class Turn:
    """One kill, and the start after it."""

    kind: str
    before: str
    """How the victim had ended before the start that was killed (early kinds), or `running`."""
    killed: Process
    restarted: Process
    others: list[Process] = field(default_factory=list)
    """The processes that ran at the restart, whose views count."""


def back_after(turn: Turn) -> float | None:
    """Seconds from the start of the process until the last of the others saw its life ALIVE; None if one never did."""
    started = turn.restarted.said("started")
    if started is None:
        return None
    moments = [first_alive(other, started["node"], started["life"]) for other in turn.others]
    known = [moment for moment in moments if moment is not None]
    return max(known) - turn.restarted.spawned_at if known and len(known) == len(moments) else None


def first_alive(observer: Process, node: str, life: str) -> float | None:
    """When a life of a node was ALIVE for the first time in the view of another process."""
    for line in observer.lines:
        if line["is"] == "member" and (line["node"], line["life"], line["state"]) == (node, life, "ALIVE"):
            return float(line["at"])
    return None


def since_start(killed: Process) -> float:
    """Seconds from the start of a process, or from when it began to open its node, until it was killed."""
    assert killed.killed_at is not None, "it was killed"
    starting = killed.said("starting")
    return killed.killed_at - (killed.spawned_at if starting is None else float(starting["at"]))


def hit(killed: Process, notes: Sequence[Mapping[str, Any]]) -> str:
    """How far a process had come when it was killed."""
    if killed.said("started"):
        return "running"
    if any(note["process"] == killed.number for note in notes):
        return "asking others"
    if killed.said("writing"):
        return "writing its epoch"
    return "opening its node" if killed.said("starting") else "importing"


def reused(notes: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Notes whose epoch is not above all earlier ones of their node."""
    found = []
    for name, lines in notes.items():
        highest = 0
        for line in lines:
            if line["epoch"] <= highest:
                found.append(f"{name}: epoch {line['epoch']} after {highest} (process {line['process']})")
            highest = max(highest, line["epoch"])
    return found


def unnoted(processes: Iterable[Process], notes: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Lives that somebody saw and nobody noted: they would escape `reused`."""
    noted = {line["life"]: line["epoch"] for lines in notes.values() for line in lines}
    found: dict[str, None] = {}
    for process in processes:
        for line in process.lines:
            if line["is"] == "member" and noted.get(line["life"]) != line["epoch"]:
                found[f"{line['node'][:8]}: epoch {line['epoch']}, life {line['life']}"] = None
    return list(found)


def false_verdicts(
    processes: Sequence[Process], notes: Mapping[str, Sequence[Mapping[str, Any]]], state: str
) -> list[str]:
    """Times at which a life was SUSPECT or DEAD in somebody's view while its process ran."""
    by_number = {(process.name, process.number): process for process in processes}
    owners = {
        line["life"]: by_number[name, line["process"]] for name, lines in notes.items() for line in lines
    }
    found = []
    for process in processes:
        for line in process.lines:
            if line["is"] != "member" or line["state"] != state or line["life"] not in owners:
                continue
            owner = owners[line["life"]]
            end = owner.killed_at if owner.killed_at is not None else owner.ended_at
            if end is None or line["at"] < end:
                found.append(
                    f"{process.name} held {owner.name} {state} at {line['at']:.3f}: {line['reason']}"
                )
    return found


def failures(processes: Iterable[Process]) -> tuple[list[str], list[str]]:
    """Processes that found their state locked, and those that ended for any other reason of their own."""
    locked, failed = [], []
    for process in processes:
        ended = process.said("ended")
        if ended is not None and ended["code"] == STATE_LOCKED:
            locked.append(f"{process.name}: {ended['reason']}")
        elif process.killed_at is None and process.exit_code not in (None, 0):
            failed.append(f"{process.name}: exit code {process.exit_code}, {ended and ended['reason']}")
        elif process.killed_at is None and process.exit_code == 0 and not process.is_wished_to_leave:
            failed.append(f"{process.name} has left by itself")
    return locked, failed


def verdict(
    turns: Sequence[Turn],
    processes: Sequence[Process],
    notes: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    kills: int,
    limit: float,
) -> dict[str, Any]:
    """All figures, and `ok`: nothing that the bench demands was missed. `kills` were asked for."""
    seconds = [back_after(turn) for turn in turns]
    locked, failed = failures(processes)
    late = [value for value in seconds if value is None or value > limit]
    used_twice = reused(notes)
    ghosts = unnoted(processes, notes)
    deaths = false_verdicts(processes, notes, "DEAD")
    doubts = false_verdicts(processes, notes, "SUSPECT")
    problems = [
        *([f"{len(turns)} of {kills} kills were done"] if len(turns) < kills else []),
        *([f"{len(late)} restarts were not back in every view within {limit:g} s"] if late else []),
        *used_twice,
        *(f"a life that nobody noted: {ghost}" for ghost in ghosts),
        *locked,
        *failed,
        *deaths,
    ]
    return {
        "ok": not problems,
        "problems": problems[:20],
        "kills": len(turns),
        "kills_within_200_ms_of_a_start": sum(since_start(turn.killed) <= EARLY for turn in turns),
        "kills_besides": sum(p.killed_at is not None for p in processes) - len(turns),
        "kills_by_kind": dict(Counter(turn.kind for turn in turns)),
        "early_kills_hit": dict(
            Counter(hit(t.killed, notes[t.killed.name]) for t in turns if t.kind != "running")
        ),
        "back_in_every_view": summary(seconds),
        "of_this_until_the_node_is_opened": summary([until(turn, "starting") for turn in turns]),
        "of_this_until_the_life_has_begun": summary([until(turn, "started") for turn in turns]),
        "epochs_used": sum(map(len, notes.values())),
        "highest_epochs": {
            name: max((n["epoch"] for n in lines), default=0) for name, lines in notes.items()
        },
        "epochs_used_twice": len(used_twice),
        "lock_failures": len(locked),
        "failed_starts": len(failed),
        "false_deaths": len(deaths),
        "false_suspicions": len(doubts),
        "some_false_suspicions": doubts[:5],
        "turns": [
            {
                "kind": turn.kind,
                "before": turn.before,
                "node": turn.killed.name,
                "hit": hit(turn.killed, notes[turn.killed.name]),
                "epoch": (turn.restarted.said("started") or {}).get("epoch"),
                "views": len(turn.others),
                "seconds": None if value is None else round(value, 3),
            }
            for turn, value in zip(turns, seconds, strict=True)
        ],
    }


def until(turn: Turn, what: str) -> float | None:
    """Seconds from the start of the process until it said something."""
    line = turn.restarted.said(what)
    return None if line is None else line["at"] - turn.restarted.spawned_at


def summary(values: Sequence[float | None]) -> dict[str, Any]:
    """Median, p99 and worst in seconds, and how many never came."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return {"count": 0, "missing": len(values)}
    return {
        "count": len(known),
        "missing": len(values) - len(known),
        "median": round(statistics.median(known), 3),
        "p99": round(known[math.ceil(0.99 * len(known)) - 1], 3),
        "max": round(known[-1], 3),
    }
