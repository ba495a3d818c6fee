"""A run as a log for ShiViz (Beschastnikh et al., 2016), the viewer of space-time diagrams for logs with vector clocks.

The first line is the regular expression that its parser needs, the second the (empty) delimiter of executions, so that
the file can be uploaded as it is. Each event takes two lines: what happened, then host and vector clock. A host's own
entry begins at 1 and grows by 1 with each of its events (Fidge, Mattern); a receipt takes the larger of each entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

REGEX = r"(?<time>\S+) (?<event>.*)\n(?<host>\S+) (?<clock>{.*})"
EVENTS_MAX = 5_000
"""ShiViz draws every event; with many more a browser takes minutes."""
Entry = dict[str, Any]


@dataclass(slots=True)
class Log:
    """What `export` has written: the lines, and how many events did not fit."""

    lines: list[str]
    events: int
    left_out: int


@dataclass(slots=True, frozen=True)
class _Event:
    at: float
    order: int
    host: str
    text: str
    message: int | None = None
    is_receipt: bool = False


def export(
    history: Iterable[Entry],
    *,
    began_at: float = 0.0,
    ended_at: float = float("inf"),
    nodes: Sequence[str] = (),
    kinds: Sequence[str] = (),
    events_max: int = EVENTS_MAX,
) -> Log:
    """A log of what happened between two times, at these nodes (all if none), with messages of these kinds (all).

    A message whose other end is left out, or that was sent before `began_at`, is an event of one host.
    """
    chosen = [e for e in history if began_at <= e["at"] <= ended_at]
    events = sorted(_events(chosen, ended_at, set(nodes), set(kinds)), key=lambda e: (e.at, e.order))
    kept, left_out = events[:events_max], max(len(events) - events_max, 0)
    return Log(list(_lines(kept)), len(kept), left_out)


def kinds_in(history: Iterable[Entry]) -> list[str]:
    """The kinds of messages that are in a history, sorted."""
    return sorted({kind for entry in history if entry["what"] == "message" for kind in entry["kinds"]})


def _events(entries: Sequence[Entry], ended_at: float, nodes: set[str], kinds: set[str]) -> Iterator[_Event]:
    for number, entry in enumerate(entries):
        match entry["what"]:
            case "message":
                if kinds and not kinds & set(entry["kinds"]):
                    continue
                yield from _message(number, entry, ended_at, nodes)
            case "view" if not nodes or entry["observer"] in nodes:
                if entry["old"] is None and entry["new"] == "ALIVE" and entry["incarnation"] == 0:
                    continue  # first sightings: n² of them, and the messages tell them
                text = f"holds {entry['subject']} {entry['new'] or 'no longer'} (was {entry['old'] or 'unknown'})"
                yield _Event(entry["at"], 2 * number, entry["observer"], text)
            case "process" if not nodes or entry["node"] in nodes:
                yield _Event(entry["at"], 2 * number, entry["node"], f"process {entry['change']}")
            case "said" if not nodes or entry["node"] in nodes:
                yield _Event(entry["at"], 2 * number, entry["node"], f"says {entry['kind']}")
            case _:
                pass


def _message(number: int, entry: Entry, ended_at: float, nodes: set[str]) -> Iterator[_Event]:
    what = " + ".join(entry["kinds"])
    about = f" ({'; '.join(entry['about'])})" if entry["about"] else ""
    source, target = entry["from"], entry["to"]
    if not nodes or source in nodes:
        gone = "" if entry["received_at"] is not None else f", {entry['fate']}"
        yield _Event(
            entry["at"], 2 * number, source, f"sends {what} to {target or 'nobody'}{about}{gone}", number
        )
    arrived = entry["received_at"]
    if arrived is not None and arrived <= ended_at and target is not None and (not nodes or target in nodes):
        yield _Event(arrived, 2 * number + 1, target, f"receives {what} from {source}{about}", number, True)


def _lines(events: Sequence[_Event]) -> Iterator[str]:
    yield REGEX
    yield ""
    clocks: dict[str, dict[str, int]] = {}
    sent: dict[int, dict[str, int]] = {}
    for event in events:
        clock = clocks.setdefault(event.host, {})
        if event.is_receipt and event.message is not None:
            for host, count in sent.get(event.message, {}).items():
                clock[host] = max(clock.get(host, 0), count)
        clock[event.host] = clock.get(event.host, 0) + 1
        if event.message is not None and not event.is_receipt:
            sent[event.message] = dict(clock)
        yield f"{event.at:.6f} {event.text}"
        yield f"{event.host} {json.dumps(clock)}"
