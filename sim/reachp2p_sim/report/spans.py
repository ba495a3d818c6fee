"""What was wrong with the world and for how long: the spans that a report shades."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from reachp2p_sim.recording.findings import Findings
from reachp2p_sim.report import words
from reachp2p_sim.steps.processes import Block

SPANS_MAX = 400


@dataclass(slots=True, frozen=True)
class Span:
    """Something was wrong from `began_at` to `ended_at`, both within the run. `hosts`: None for the whole network."""

    began_at: float
    ended_at: float
    kind: str
    """`cut`, `weather`, `down`, `paused` (or blocked) or `unsound` (hostile, slow, with a wrong clock)."""
    label: str
    hosts: tuple[int, ...] | None = None


def spans(findings: Findings) -> list[Span]:
    """All spans in order of time, at most `SPANS_MAX`."""
    end = findings.world.now
    found = [*_cuts(findings), *_weather(findings), *_hosts(findings)]
    inside = [
        Span(max(s.began_at, 0.0), min(s.ended_at, end), s.kind, s.label, s.hosts)
        for s in found
        if s.began_at < end
    ]
    return sorted(inside, key=lambda s: (s.began_at, s.kind))[:SPANS_MAX]


def _cuts(findings: Findings) -> list[Span]:
    """Cuts with the same beginning and end are one; both directions of one cut are."""
    grouped: dict[tuple[float, float, bool], list[tuple[int, int]]] = {}
    for cut in findings.world.history.cuts:
        grouped.setdefault((cut.began_at, cut.ended_at, cut.is_held), []).append((cut.sources, cut.targets))
    result: list[Span] = []
    for (began_at, ended_at, held), pairs in grouped.items():
        sources, targets = pairs[0]
        one_way = (targets, sources) not in pairs
        left, right = _names(findings, sources), _names(findings, targets)
        label = f"{left} {'→' if one_way else '|'} {right}" + (" (held)" if held else "")
        more = len({frozenset(pair) for pair in pairs}) - 1
        result.append(Span(began_at, ended_at, "cut", label + (f" and {more} more" if more else "")))
    return result


def _names(findings: Findings, mask: int) -> str:
    hosts = [host.name for host in findings.world.nodes if mask >> host.index & 1]
    parts = words.ranges(hosts)
    return ", ".join(parts[:3]) + (f" +{len(parts) - 3}" if len(parts) > 3 else "")


def _weather(findings: Findings) -> list[Span]:
    weather = findings.world.history.weather
    if not weather:
        return []
    usual = weather[0]
    result: list[Span] = []
    for one in weather:
        parts: list[str] = []
        if one.loss > 0:
            parts.append(f"loss {words.share(one.loss)}")
        if one.delay > usual.delay * 1.5:
            parts.append(f"delay {words.seconds(one.delay)}")
        if parts and one.ended_at > one.began_at:
            result.append(Span(one.began_at, one.ended_at, "weather", ", ".join(parts)))
    return result


def _hosts(findings: Findings) -> list[Span]:
    result: list[Span] = []
    for host in findings.world.nodes:
        for began_at, ended_at in findings.down(host.index):
            if ended_at - began_at > 1e-6:
                result.append(Span(began_at, ended_at, "down", f"{host.name} down", (host.index,)))
    for index, began_at, ended_at in findings.recorder.processes.pauses:
        name = findings.name(int(index))
        result.append(Span(began_at, min(ended_at, inf), "paused", f"{name} paused", (int(index),)))
    blocked = {
        (name, performed.at)
        for performed in findings.world.performed
        if isinstance(performed.step, Block)
        for name in performed.step.hosts
    }
    for host in findings.world.nodes:
        for absence in findings.world.history.absences.get(host.index, ()):
            if absence.why != "process":
                label = f"{host.name} {_UNSOUND.get(absence.why, absence.why)}"
                result.append(Span(absence.began_at, absence.ended_at, "unsound", label, (host.index,)))
            elif (host.name, absence.began_at) in blocked:
                label = f"{host.name} blocked"
                result.append(Span(absence.began_at, absence.ended_at, "paused", label, (host.index,)))
    return result


_UNSOUND = {"clock": "clock wrong"}


def lanes(found: list[Span], lanes_max: int, gap: float) -> list[list[Span]]:
    """Spans on lanes so that none covers another; those that find no lane are left out. `gap` in seconds."""
    rows: list[list[Span]] = []
    for span in found:
        row = next((r for r in rows if r[-1].ended_at + gap <= span.began_at), None)
        if row is not None:
            row.append(span)
        elif len(rows) < lanes_max:
            rows.append([span])
    return rows
