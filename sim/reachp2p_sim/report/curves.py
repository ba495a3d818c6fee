"""The curves of a report, each beside what theory says of it.

Detection: SWIM (Das, Gupta, Motivala 2002, §3.1): with n members some member probes a given one within t periods with
probability 1 − e^(−t), as n grows. Spreading: a push epidemic (Demers et al. 1987, §1.3) in rounds of the gossip tick:
with fan-out f a share 1 − e^(−f·i) of those not informed hear of it in a round, i being the share that is informed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp
from statistics import median
from typing import Any

from reachp2p_sim.measuring.budgets import detection_p99
from reachp2p_sim.recording.findings import Findings
from reachp2p_sim.recording.news import Update
from reachp2p_sim.report import words
from reachp2p_sim.report.plots import Line, Mark, Points, plot
from reachp2p_sim.report.spans import Span

UPDATES_SHOWN_MAX = 60
SPREADING_SECONDS_MAX = 8.0
CURVE_POINTS = 80
TRAFFIC_BINS = 200


def first_probe(after: float, period: float, share: float = 1.0) -> float:
    """Share of failures that some member has probed within `after` seconds (SWIM §3.1).

    `share` of the members can notice it: all, or those on the other side of a cut.
    """
    return 1.0 - exp(-share * after / period)


def epidemic(nodes: int, fanout: int, interval: float, seconds: float) -> list[tuple[float, float]]:
    """(seconds, share informed) of a push epidemic that begins with one of `nodes`."""
    informed = 1.0 / max(nodes, 1)
    points = [(0.0, informed)]
    at = 0.0
    while at < seconds:
        at += interval
        informed += (1.0 - informed) * (1.0 - exp(-fanout * informed))
        points.append((at, informed))
    return points


def agreement(findings: Findings, bands: Sequence[Span]) -> dict[str, Any]:
    """How much of what is believed is right, over the run."""
    rows = findings.recorder.agreement.samples.rows
    marks = [
        Mark(s.at, f"equal after {words.seconds(s.at - findings.settling_from(s))}", "good")
        for s in findings.recorder.agreement.settled
    ]
    return plot(
        [
            Line("beliefs that are right", [(r[0], r[3]) for r in rows], "area-line"),
            Line("views that are right in all", [(r[0], r[2]) for r in rows], "second-line"),
        ],
        x_max=findings.world.now,
        x_label="run time",
        marks=marks[-1:],
        bands=bands,
    )


def routing(findings: Findings, bands: Sequence[Span]) -> dict[str, Any] | None:
    """How many nodes would offer a call to the same instances, over the run; None if nobody offers anything."""
    if not any(host.application.offers for host in findings.world.nodes):
        return None
    rows = findings.recorder.agreement.samples.rows
    return plot(
        [
            Line("nodes that choose among the same instances", [(r[0], r[5]) for r in rows], "area-line"),
            Line("… and these are the ones that run", [(r[0], r[6]) for r in rows], "second-line"),
        ],
        x_max=findings.world.now,
        x_label="run time",
        bands=bands,
    )


def traffic(findings: Findings, bands: Sequence[Span]) -> dict[str, Any]:
    """Datagrams per node and second, over the run."""
    rows = findings.recorder.agreement.samples.rows
    every = max(1, len(rows) // TRAFFIC_BINS)
    picked = rows[::every]
    points: list[tuple[float, float]] = []
    for before, after in pairwise(picked):
        elapsed, nodes = after[0] - before[0], max(after[1], 1.0)
        if elapsed > 0:
            points.append((after[0], (after[8] - before[8]) / elapsed / nodes))
    top = max((y for _, y in points), default=1.0)
    return plot(
        [Line("datagrams per node and second", points, "area-line")],
        x_max=findings.world.now,
        y_max=top * 1.08,
        y_text=lambda value: f"{value:g}",
        x_label="run time",
        bands=bands,
    )


def detection(findings: Findings) -> dict[str, Any] | None:
    """Shares of losses noticed and of verdicts given, over the seconds since; None if nothing was lost.

    Processes that ended without a word, or if there are none, nodes on the other side of a cut.
    """
    lost = [d for d in findings.detections if d.first_suspect is not None]
    what, since = ("lost process", "lost processes"), "the process was gone"
    if not lost:
        lost = [d for d in findings.cut_off() if d.first_suspect is not None]
        what, since = ("node cut off", "nodes cut off"), "the cut"
    if not lost:
        return None
    detections = lost
    period = findings.world.protocol.probe_interval
    firsts = sorted(d.first_suspect for d in detections if d.first_suspect is not None)
    verdicts = sorted(after for d in detections for after, _ in d.dead)
    expected = max(sum(d.others for d in detections), len(verdicts), 1)
    x_max = max([6 * period, *(x * 1.12 for x in (*firsts[-1:], *verdicts[-1:]))])
    n = max(d.others for d in detections) + 1
    share = sum(d.share for d in detections) / len(detections)
    lines = [
        Line(
            f"first doubt, of {words.plural(len(firsts), *what)}",
            _cdf(firsts, len(detections), x_max),
            "suspect-line",
            steps=True,
        ),
        Line(
            "verdicts of DEAD, of all views that lost it",
            _cdf(verdicts, expected, x_max),
            "dead-line",
            steps=True,
        ),
        Line(
            f"theory: somebody has probed it, 1 − e^(−{'t/T' if share > 0.999 else f'{share:.2f}·t/T'}) (SWIM)",
            [(x, first_probe(x, period, share)) for x in _grid(x_max)],
            "theory-line",
        ),
    ]
    p99 = detection_p99(n, findings.world.protocol)
    return plot(
        lines,
        x_max=x_max,
        x_label=f"seconds since {since}",
        marks=[Mark(p99, f"goal for the last verdict, 99 of 100: {words.seconds(p99)}")],
    )


def spreading(findings: Findings) -> dict[str, Any] | None:
    """How each piece of news reached the nodes; None if there was none after the start."""
    updates = _news(findings)
    if not updates:
        return None
    protocol = findings.world.protocol
    nodes = max(update.others for update in updates) + 1
    reached = sorted(u.times[min(len(u.times), u.whole) - 1] for u in updates)
    x_max = min(max(1.2 * reached[int(0.9 * (len(reached) - 1))], 1.0), SPREADING_SECONDS_MAX)
    step = max(1, len(updates) // UPDATES_SHOWN_MAX)
    lines = [
        Line("one update each", _share(update, x_max), "thin-line", steps=True, legend=not number)
        for number, update in enumerate(updates[::step])
    ]
    middle = [(x, median(_informed(update, x) for update in updates)) for x in _grid(x_max)]
    lines += [
        Line("median", middle, "bold-line"),
        Line(
            f"theory: push epidemic, {protocol.gossip_fanout} members each {words.seconds(protocol.gossip_interval)}",
            [
                p
                for p in epidemic(nodes, protocol.gossip_fanout, protocol.gossip_interval, x_max)
                if p[0] <= x_max
            ],
            "theory-line",
        ),
    ]
    picture = plot(lines, x_max=x_max, x_label="seconds since the first node had it")
    picture["count"] = len(updates)
    return picture


def _news(findings: Findings) -> list[Update]:
    """Updates that appeared after the first views were equal, or all if none did."""
    settled = findings.recorder.agreement.settled
    updates = [u for u in findings.recorder.news.updates if len(u.times) > 1 and u.others > 1]
    late = [u for u in updates if settled and u.at > settled[0].at]
    return late or updates


def _informed(update: Update, x: float) -> float:
    return min(1.0, sum(time <= x for time in update.times) / update.whole)


def _share(update: Update, x_max: float) -> Points:
    points = [(0.0, 0.0)]
    points += [
        (time, min(1.0, number / update.whole))
        for number, time in enumerate(update.times, start=1)
        if time <= x_max
    ]
    return [*points, (x_max, points[-1][1])]


def _cdf(values: Sequence[float], total: int, x_max: float) -> Points:
    points = [(0.0, 0.0)]
    points += [(value, number / total) for number, value in enumerate(values, start=1)]
    return [*points, (x_max, points[-1][1])] if values else []


def _grid(x_max: float) -> list[float]:
    return [x_max * number / CURVE_POINTS for number in range(CURVE_POINTS + 1)]
