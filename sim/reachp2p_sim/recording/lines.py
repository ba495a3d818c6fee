"""The recording as lines: `history.jsonl.gz` for scripts and `run.log` for a terminal, both in order of time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from typing import Any

import msgspec

from reachp2p_sim.recording.findings import Findings
from reachp2p_sim.recording.recorder import Recorder

LOG_BYTES_MAX = 20_000_000
"""A line has a column for each node: of a thousand nodes 20,000 lines."""
RUNNING, DOUBTED, MOSTLY_DOUBTED, BURIED, MOSTLY_BURIED, ABSENT, PAUSED = "|", "s", "S", "d", "D", ".", "z"
LEGEND = (
    f"# a column for each node, as the others see it: {RUNNING} all hold it ALIVE, {DOUBTED} some hold it SUSPECT "
    f"({MOSTLY_DOUBTED} most do), {BURIED} some hold it DEAD ({MOSTLY_BURIED} most do), {PAUSED} paused, "
    f"{ABSENT} no process and no doubt about that"
)
Entry = dict[str, Any]


def history(findings: Findings) -> Iterator[str]:
    """JSON objects with `at` (seconds) and `what`: step, process, view, said, message, settled or sample."""
    for entry in merge(*_streams(findings), key=itemgetter("at")):
        yield json.dumps(entry, separators=(",", ":"), ensure_ascii=False)


def _streams(findings: Findings) -> list[Iterator[Entry]]:
    recorder = findings.recorder
    return [
        _steps(findings),
        iter(sorted(_processes(findings), key=itemgetter("at"))),
        _views(findings),
        _said(findings),
        iter(_messages(findings)),
        (
            {
                "at": _t(s.at),
                "what": "settled",
                "disturbed_at": _t(s.disturbed_at),
                "budget": round(s.budget, 3),
            }
            for s in recorder.agreement.settled
        ),
        _samples(recorder),
    ]


def _steps(findings: Findings) -> Iterator[Entry]:
    for done in findings.world.performed:
        step = msgspec.to_builtins(done.step)
        yield {
            "at": _t(done.at),
            "what": "step",
            "number": done.number,
            "text": done.step.text(),
            "step": step,
        }


def _processes(findings: Findings) -> Iterator[Entry]:
    for process in findings.recorder.processes.spans:
        entry = {"what": "process", "node": findings.name(process.host)}
        yield {"at": _t(process.began_at), **entry, "change": "started"}
        if process.ended_at is not None:
            yield {"at": _t(process.ended_at), **entry, "change": "ended", "how": process.how}


def _views(findings: Findings) -> Iterator[Entry]:
    for change in findings.recorder.beliefs.changes:
        yield {
            "at": _t(change.at),
            "what": "view",
            "observer": findings.name(change.observer),
            "subject": findings.name(change.subject),
            "life": str(change.life),
            "incarnation": change.incarnation,
            "old": change.old,
            "new": change.new,
            "reason": change.reason,
        }


def _said(findings: Findings) -> Iterator[Entry]:
    for said in findings.recorder.said:
        yield {
            "at": _t(said.at),
            "what": "said",
            "node": findings.name(said.host),
            "kind": said.kind,
            "event": msgspec.to_builtins(said.event, builtin_types=(), str_keys=True),
        }


def _messages(findings: Findings) -> Iterator[Entry]:
    for window in findings.recorder.travel.windows:
        for message in window.messages:
            yield {
                "at": _t(message.sent_at),
                "what": "message",
                "by": "frame" if message.is_frame else "datagram",
                "from": findings.name(message.source),
                "to": None if message.target < 0 else findings.name(message.target),
                "received_at": None if message.received_at is None else _t(message.received_at),
                "fate": message.fate,
                "bytes": message.size,
                "kinds": list(message.kinds),
                "about": list(message.about),
            }


def _samples(recorder: Recorder) -> Iterator[Entry]:
    for row in recorder.agreement.samples.rows:
        values = dict(zip(recorder.agreement.samples.names, (round(v, 6) for v in row[1:]), strict=True))
        yield {"at": _t(row[0]), "what": "sample", **values}


def _t(at: float) -> float:
    return round(at, 6)


# The log for a terminal


def log(findings: Findings) -> Iterator[str]:
    """One line an event: time, node, a column for each node, what happened."""
    recorder = findings.recorder
    hosts = recorder.world.nodes
    yield LEGEND
    yield f"# {'time':>10}  {'node':<12} {_header(len(hosts))}"
    columns = _Columns(findings)
    happenings = merge(*_happenings(findings), key=itemgetter(0))
    size = 0
    for at, index, text, step in happenings:
        columns.apply(step)
        name = findings.name(index) if index >= 0 else ""
        line = f"{at:12.6f}  {name:<12} {columns.text()}  {text}"
        size += len(line) + 1
        if size > LOG_BYTES_MAX:
            left_out = 1 + sum(1 for _ in happenings)
            yield f"# {left_out} more lines are left out: a log has {LOG_BYTES_MAX // 1_000_000} MB at most"
            return
        yield line


def _header(count: int) -> str:
    """Node numbers modulo ten, with a mark at each ten."""
    return "".join(str(index % 10) for index in range(count))


Happening = tuple[float, int, str, tuple[str, Any]]


def _happenings(findings: Findings) -> list[Iterator[Happening]]:
    recorder = findings.recorder
    changes = (
        (c.at, c.observer, _change(findings, c.subject, c), ("view", c)) for c in recorder.beliefs.changes
    )
    processes: list[Happening] = []
    for process in recorder.processes.spans:
        processes.append((process.began_at, process.host, "process starts", ("start", process.host)))
        if process.ended_at is not None:
            text = f"process ends ({process.how})"
            processes.append((process.ended_at, process.host, text, ("stop", process.host)))
    for index, began_at, ended_at in recorder.processes.pauses:
        processes.append((began_at, int(index), "paused", ("pause", int(index))))
        if ended_at <= recorder.world.now:
            processes.append((ended_at, int(index), "resumed", ("resume", int(index))))
    processes.sort(key=itemgetter(0))
    return [
        ((p.at, -1, f"STEP {p.number} {p.step.text()}", ("", None)) for p in recorder.world.performed),
        iter(processes),
        changes,
        ((s.at, s.host, f"says {s.kind}{_details(s.event)}", ("", None)) for s in recorder.said),
        (
            (s.at, -1, f"EQUAL all views, {s.at - s.disturbed_at:.3f} s after the last change", ("", None))
            for s in recorder.agreement.settled
        ),
    ]


def _change(findings: Findings, subject: int, change: Any) -> str:
    why = f" ({change.reason})" if change.reason else ""
    return (
        f"holds {findings.name(subject)} {change.new or 'no longer'}, was {change.old or 'unknown'}, "
        f"life {change.life} incarnation {change.incarnation}{why}"
    )


def _details(event: Any) -> str:
    values = {name: getattr(event, name) for name in event.__struct_fields__ if name != "at"}
    shown = [f"{name} {value}" for name, value in values.items() if isinstance(value, int | float | str)]
    shown += [
        f"{name} {value}" for name, value in values.items() if type(value).__name__ in ("Life", "Address")
    ]
    return f" {', '.join(shown)}" if shown else ""


class _Columns:
    """The state of every node as one character each."""

    def __init__(self, findings: Findings) -> None:
        self._views: list[dict[int, str]] = [{} for _ in findings.world.nodes]
        """By subject: who holds it for what."""
        self._by_observer: dict[int, dict[bytes, int]] = {}
        self._nodes = [host.node for host in findings.world.nodes]
        self._running: set[int] = set()
        self._paused: set[int] = set()
        self._shown = [ABSENT] * len(self._views)

    def apply(self, step: tuple[str, Any]) -> None:
        """Something happened."""
        what, value = step
        match what:
            case "view":
                self._view(value)
            case "start":
                self._running.add(value)
                self._show(value)
            case "stop":
                self._running.discard(value)
                self._paused.discard(value)
                for subject in self._by_observer.pop(value, {}).values():
                    self._views[subject].pop(value, None)
                    self._show(subject)
                self._show(value)
            case "pause":
                self._paused.add(value)
                self._show(value)
            case "resume":
                self._paused.discard(value)
                self._show(value)
            case _:
                pass

    def _view(self, change: Any) -> None:
        if change.subject < 0:
            return
        held = self._by_observer.setdefault(change.observer, {})
        node = self._nodes[change.subject]
        before = held.pop(node, None)
        if before is not None:
            self._views[before].pop(change.observer, None)
            self._show(before)
        if change.new is not None:
            held[node] = change.subject
            self._views[change.subject][change.observer] = change.new
        self._show(change.subject)

    def _show(self, index: int) -> None:
        states = list(self._views[index].values())
        dead, suspect = states.count("DEAD"), states.count("SUSPECT")
        half = len(states) / 2
        if index in self._paused:
            glyph = PAUSED
        elif dead:
            glyph = MOSTLY_BURIED if dead >= half else BURIED
        elif suspect:
            glyph = MOSTLY_DOUBTED if suspect >= half else DOUBTED
        else:
            glyph = RUNNING if index in self._running or "ALIVE" in states else ABSENT
        self._shown[index] = glyph

    def text(self) -> str:
        """All columns."""
        return "".join(self._shown)
