"""What the journals of a demo run add up to: plain functions from lines to figures, and the verdict.

Nothing here is measured by the demo itself except the two moments in which it acted, the kill and the restart; whether
and when the others noticed is read from what each of them wrote about its own view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from reachp2p_node.demo.journal import Called, Line, Member, Routable, Served, Serving, Started

CALLS_MIN = 200

Says: TypeAlias = Callable[[Line], bool | None]
"""Whether a line says that something is so, or is not so; None if it is about something else."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to whom, and when (CLOCK_MONOTONIC)."""

    victim: str
    capability: str
    killed_at: float | None
    restarted_at: float | None


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The last thing a process knew of a member."""

    state: str
    epoch: int
    incarnation: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The object that `reachp2p demo --json` prints."""

    ok: bool
    problems: list[str]
    calls: int
    calls_failed: int
    in_flight_at_kill: int
    retried: int
    seconds_until_out_of_every_table: float | None
    """From the kill until the last survivor's routing table no longer offered the killed instance."""
    seconds_until_suspect_anywhere: float | None
    seconds_until_dead_everywhere: float | None
    """From the kill until the last survivor declared the killed life DEAD."""
    seconds_until_new_life_routed_to: float | None
    """From the restart until a call reached a handler of the new life."""
    seconds_until_back_in_every_table: float | None
    epochs: dict[str, int | None]
    """`before` and `after` the restart."""
    false_alarms: int
    """Times a member that was not killed was called SUSPECT or DEAD by anybody."""
    members: dict[str, dict[str, View]]
    """What each process saw at the end."""


def judge(journals: Mapping[str, Sequence[Line]], act: Act, problems: Sequence[str] = ()) -> Outcome:
    """Add up a run. `journals` are by process name; the victim's holds the lines of both its lives.

    `problems` are those that the demo met itself.
    """
    survivors = {name: lines for name, lines in journals.items() if name != act.victim}
    epochs = [line.epoch for line in journals.get(act.victim, ()) if isinstance(line, Started)]
    old = epochs[0] if epochs else None
    new = epochs[-1] if len(epochs) > 1 else None
    calls = [line for lines in survivors.values() for line in lines if isinstance(line, Called)]
    restarted_at = act.restarted_at
    figures = {
        "calls": len(calls),
        "calls_failed": sum(line.code != 0 for line in calls),
        "in_flight_at_kill": in_flight(journals.get(act.victim, ()), act.killed_at),
        "retried": sum(line.code == 0 and line.attempts > 1 for line in calls),
    }
    new_life = _after_second_start(journals.get(act.victim, ()))
    waits: dict[str, Any] = {
        "seconds_until_out_of_every_table": last(
            survivors, act.killed_at, lambda line: _opposite(_offers(line, act, old))
        ),
        "seconds_until_suspect_anywhere": first(
            survivors, act.killed_at, lambda line: _is_state(line, act.victim, old, "SUSPECT")
        ),
        "seconds_until_dead_everywhere": last(
            survivors, act.killed_at, lambda line: _is_state(line, act.victim, old, "DEAD")
        ),
        "seconds_until_new_life_routed_to": first(
            {act.victim: new_life}, restarted_at, lambda line: isinstance(line, Serving) or None
        ),
        "seconds_until_back_in_every_table": last(
            survivors, restarted_at, lambda line: _offers(line, act, new)
        ),
    }
    alarms = false_alarms(survivors, act.victim)
    found = [*problems, *_problems(figures, waits, old, new)]
    return Outcome(
        ok=not found,
        problems=found,
        epochs={"before": old, "after": new},
        false_alarms=alarms,
        members={name: last_views(lines) for name, lines in journals.items()},
        **figures,
        **waits,
    )


def in_flight(lines: Sequence[Line], moment: float | None) -> int:
    """Handlers that had begun and not ended at that moment."""
    if moment is None:
        return 0
    begun = {line.call for line in lines if isinstance(line, Serving) and line.at <= moment}
    ended = {line.call for line in lines if isinstance(line, Served) and line.at <= moment}
    return len(begun - ended)


def last(journals: Mapping[str, Sequence[Line]], since: float | None, is_so: Says) -> float | None:
    """Seconds from `since` until it was so for the last of these processes; None if it never was for one."""
    waits = [first({name: lines}, since, is_so) for name, lines in journals.items()]
    known = [wait for wait in waits if wait is not None]
    return max(known) if known and len(known) == len(waits) else None


def first(journals: Mapping[str, Sequence[Line]], since: float | None, is_so: Says) -> float | None:
    """Seconds from `since` until it was so for any of these processes; None if it never was."""
    if since is None:
        return None
    moments = [moment for lines in journals.values() if (moment := _moment(lines, since, is_so)) is not None]
    return round(min(moments) - since, 3) if moments else None


def _moment(lines: Sequence[Line], since: float, is_so: Says) -> float | None:
    """When it was so for the first time from `since` on, which is `since` itself if it was so already."""
    was_so = False
    for line in lines:
        said = is_so(line)
        if line.at >= since:
            if was_so:
                return since
            if said:
                return line.at
        elif said is not None:
            was_so = said
    return since if was_so else None


def false_alarms(journals: Mapping[str, Sequence[Line]], victim: str) -> int:
    """Lines that doubt a member other than the killed one."""
    return sum(
        isinstance(line, Member) and line.name != victim and line.state in ("SUSPECT", "DEAD")
        for lines in journals.values()
        for line in lines
    )


def last_views(lines: Sequence[Line]) -> dict[str, View]:
    """The members as the writer saw them last, by name."""
    views: dict[str, View] = {}
    for line in lines:
        if isinstance(line, Started):
            views = {line.name: View(state="ALIVE", epoch=line.epoch, incarnation=0)}
        elif isinstance(line, Member):
            if line.state is None:
                views.pop(line.name, None)
            else:
                views[line.name] = View(state=line.state, epoch=line.epoch, incarnation=line.incarnation)
    return views


def _offers(line: Line, act: Act, epoch: int | None) -> bool | None:
    """Whether this line says that calls may go to that life of the victim; None if it says nothing about it."""
    if not isinstance(line, Routable) or line.capability != act.capability or epoch is None:
        return None
    return (act.victim, epoch) in line.instances


def _opposite(said: bool | None) -> bool | None:
    return None if said is None else not said


def _is_state(line: Line, name: str, epoch: int | None, state: str) -> bool | None:
    if not isinstance(line, Member) or (line.name, line.epoch) != (name, epoch):
        return None
    return line.state == state


def _after_second_start(lines: Sequence[Line]) -> Sequence[Line]:
    starts = [place for place, line in enumerate(lines) if isinstance(line, Started)]
    return lines[starts[1] :] if len(starts) > 1 else []


def _problems(
    figures: Mapping[str, int], waits: Mapping[str, float | None], old: int | None, new: int | None
) -> list[str]:
    """What a run must show and did not, in words."""
    problems = []
    if figures["calls"] < CALLS_MIN:
        problems.append(f"{figures['calls']} calls, fewer than {CALLS_MIN}")
    if figures["calls_failed"]:
        problems.append(f"{figures['calls_failed']} calls failed")
    if figures["in_flight_at_kill"] < 1:
        problems.append("nothing was in flight at the killed instance")
    if figures["retried"] < 1:
        problems.append("no call was retried")
    problems.extend(f"{name.replace('_', ' ')}: never" for name, wait in waits.items() if wait is None)
    if old is None or new is None or new <= old:
        problems.append(f"the new life's epoch {new} is not above {old}")
    return problems
