"""Das, Gupta, Motivala: SWIM: Scalable Weakly-consistent Infection-style Process Group Membership Protocol (DSN 2002).

Formulas of §3 to §4 and the measurements of §5, with the core that ships: as SWIM describes itself where SWIM is in
question (`presets.swim_2002`), as it ships for the load and where the paper is to be beaten. `probing` has the set-ups.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, log2
from statistics import fmean

from reachp2p_sim.measuring import confidence
from reachp2p_sim.measuring.confidence import Estimate
from reachp2p_sim.papers.base import (
    Experiment,
    Figure,
    Findings,
    Paper,
    Row,
    Scale,
    around,
    at_least,
    at_most,
)
from reachp2p_sim.papers.figure import Axis, Series, chart
from reachp2p_sim.papers.joins import join_cases, judge_joins, measure_joins
from reachp2p_sim.papers.probing import (
    AFTER,
    LoadCase,
    NewsCase,
    Probing,
    ProbingCase,
    Rate,
    RateCase,
    measure_load,
    measure_news,
    measure_probing,
    measure_rate,
)

# First detection (R1.1) and its bound (R1.6)

ROUNDS = 1.582
"""e/(e − 1): the limit of `expected_rounds` for large n."""
SIZES = (8, 16, 32, 55, 128)


def expected_rounds(nodes: int) -> float:
    """Rounds until somebody pings a crashed member, if each of n − 1 members draws among n − 1 others (§3.1)."""
    return 1.0 / (1.0 - (1.0 - 1.0 / (nodes - 1)) ** (nodes - 1))


def expected_wait(nodes: int) -> float:
    """The same in periods if the members do not probe in step: the integral of the chance that nobody has pinged."""
    others = nodes - 1
    nobody = (1.0 - 1.0 / others) ** others
    within = others / nodes * (1.0 - (1.0 - 1.0 / others) ** nodes)
    return within / (1.0 - nobody)


def probing_cases(scale: Scale) -> list[ProbingCase]:
    """So many periods of each member; five times as many where the formula is close to its limit."""
    wanted = {nodes: scale.pick(15_000, 60_000) * (5 if nodes < 16 else 1) for nodes in SIZES}
    return [
        ProbingCase(scale.seed + number, nodes, wanted[nodes] // nodes + AFTER, round_robin)
        for number, round_robin in enumerate((False, True))
        for nodes in scale.pick(SIZES[:4], SIZES)
    ]


def judge_probing(_: Scale, done: Sequence[tuple[ProbingCase, Probing]]) -> Findings:
    """R1.1 with targets drawn at random, which the formula is about; R1.6 with the list that ships."""
    findings = Findings()
    means: list[tuple[float, float]] = []
    beyond: list[tuple[float, float]] = []
    lines: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for case, found in done:
        counted = confidence.mean(found.rounds)
        lines[case.round_robin].append((float(case.nodes), counted.value))
        if case.round_robin:
            findings.rows += _list_rows(case, found, counted)
            continue
        means.append((log(case.nodes), counted.value))
        beyond.append((log(case.nodes), counted.value - expected_rounds(case.nodes)))
        findings.rows += [
            Row(
                "R1.1",
                f"{case.nodes} members, targets at random: rounds to the first probe, mean",
                counted,
                ROUNDS,
                "text",
                around(ROUNDS, 0.08),
                note=f"for this size the formula gives {expected_rounds(case.nodes):.3f}",
            ),
            Row(
                "R1.1",
                f"{case.nodes} members, targets at random: time to the first probe, mean",
                confidence.mean(found.waits),
                expected_wait(case.nodes),
                "computed",
                around(expected_wait(case.nodes), 0.05),
                unit="periods",
            ),
        ]
    rises = "the formula itself rises by 0.03 for each unit of ln n between 8 and 55 members"
    findings.rows += [
        Row(
            "R1.1",
            name,
            confidence.slope([x for x, _ in points], [y for _, y in points]),
            0.0,
            "text",
            (-0.03, 0.03),
            note=note,
        )
        for name, points, note in (
            ("slope of the mean rounds over ln n", means, rises),
            ("slope of the mean rounds over ln n, less the formula's", beyond, ""),
        )
    ]
    title = "Rounds from a crash to the first probe"
    findings.figures.append(
        Figure(
            "first-probe",
            title,
            chart(
                title,
                Axis("members", is_log=True),
                Axis("rounds, mean", low=1.0, high=2.0),
                [
                    Series("targets at random (§3.1)", lines[False]),
                    Series("shuffled list (§4.3)", lines[True]),
                    Series(
                        "formula", [(n, expected_rounds(int(n))) for n, _ in lines[False]], is_published=True
                    ),
                ],
            ),
        )
    )
    return findings


def _list_rows(case: ProbingCase, found: Probing, counted: Estimate) -> list[Row]:
    bound = 2 * case.nodes - 1
    return [
        Row(
            "R1.1",
            f"{case.nodes} members, shuffled list (as it ships): rounds to the first probe, mean",
            counted,
        ),
        Row(
            "R1.6",
            f"{case.nodes} members: most own periods between two probes of one member, {found.gaps} pauses",
            confidence.exact(found.longest, found.gaps),
            bound,
            "text",
            at_most(bound),
        ),
    ]


# Load (R1.2)


def load_cases(scale: Scale) -> list[LoadCase]:
    """Up to 1,000 members in a full run."""
    return [LoadCase(scale.seed, n, 60) for n in scale.pick((8, 16, 32), (8, 32, 128, 512, 1_000))]


def judge_load(_: Scale, done: Sequence[tuple[LoadCase, list[float]]]) -> Findings:
    """R1.2."""
    findings = Findings()
    for case, found in done:
        mean = confidence.mean(found)
        limits = around(2.0, 0.05)
        name = f"{case.nodes} members: datagrams sent by a member in a period, mean"
        findings.rows.append(Row("R1.2", name, mean, 2.0, "text", limits))
    xs = [log2(case.nodes) for case, _ in done]
    ys = [fmean(found) / 2.0 for _, found in done]
    findings.rows.append(
        Row(
            "R1.2",
            "change of the load with each doubling of n",
            confidence.slope(xs, ys),
            0.0,
            "text",
            (-0.01, 0.01),
        )
    )
    return findings


# False detections (R1.3)


def false_rate(loss: float, helpers: int) -> float:
    """The chance that a round with a healthy member fails: the direct path, and each of the indirect ones (§3.1)."""
    delivered = 1.0 - loss
    return (1.0 - delivered**2) * (1.0 - delivered**4) ** helpers


def rate_cases(scale: Scale) -> list[RateCase]:
    """A million rounds for each in a full run."""
    grid = scale.pick(((0.1, 1), (0.2, 1), (0.2, 3)), tuple((p, k) for p in (0.05, 0.1, 0.2) for k in (1, 3)))
    parts = scale.pick(1, 20)
    return [
        RateCase(scale.seed + part, 16, loss, helpers, scale.pick(4_000, 3_200))
        for loss, helpers in grid
        for part in range(parts)
    ]


def judge_rate(_: Scale, done: Sequence[tuple[RateCase, Rate]]) -> Findings:
    """R1.3."""
    sums: dict[tuple[float, int], list[int]] = {}
    for case, found in done:
        total = sums.setdefault((case.loss, case.helpers), [0, 0])
        total[0] += found.failed
        total[1] += found.rounds
    rows = [
        Row(
            "R1.3",
            f"{loss:.0%} loss, k = {helpers}: healthy members that fail a probe, of all probes",
            confidence.share(failed, rounds_),
            false_rate(loss, helpers),
            "computed",
            around(false_rate(loss, helpers), relative=0.05),
        )
        for (loss, helpers), (failed, rounds_) in sums.items()
    ]
    remark = (
        "The paper prints the rate of false detections with a last factor e/(e − 1). With it the expression is the "
        "rate for each expected detection time (1.58 periods), not for each period; measured here, and computed, is "
        "the rate for each period."
    )
    return Findings(rows=rows, remarks=[remark])


# Dissemination (R1.4)


def bound(nodes: int) -> float:
    """lg n + ln n periods."""
    return log2(nodes) + log(nodes)


def news_cases(scale: Scale) -> list[NewsCase]:
    """Two sizes, three rates of loss; by piggyback alone and as a node ships."""
    parts = scale.pick(1, 4)
    return [
        NewsCase(scale.seed + part, nodes, loss, scale.pick(60, 100), ships)
        for nodes in scale.pick((32,), (32, 128))
        for ships in (True, False)
        for loss in (0.0, 0.1, 0.3)
        for part in range(parts)
    ]


def judge_news(_: Scale, done: Sequence[tuple[NewsCase, list[list[float]]]]) -> Findings:
    """R1.4."""
    updates: dict[tuple[int, float, bool], list[list[float]]] = {}
    for case, found in done:
        updates.setdefault((case.nodes, case.loss, case.ships), []).extend(found)
    findings = Findings()
    for (nodes, loss, ships), all_ in updates.items():
        limit = bound(nodes) * (1.5 if loss > 0.1 else 1.0)
        in_time = sum(len(times) == nodes - 1 and times[-1] <= limit for times in all_)
        last = [times[-1] for times in all_ if len(times) == nodes - 1]
        name = f"{nodes} members, {loss:.0%} loss, {'as it ships' if ships else 'piggyback alone'}"
        findings.rows += [
            Row(
                "R1.4",
                f"{name}: updates that everybody has within {limit:.1f} periods",
                confidence.share(in_time, len(all_)),
                0.99,
                "computed",
                at_least(0.99),
                must_hold=ships or loss <= 0.1,
            ),
            Row("R1.4", f"{name}: until the last has it, median", confidence.median(last), unit="periods"),
        ]
    findings.remarks.append(
        "The bound is one for what ships. At 30 % loss piggyback alone cannot meet it: a member sends an update "
        "λ·⌈ln(n + 1)⌉ times, 12 of 32 members, in five to six periods, fewer when failed probes make it send more. In "
        "each of them one other member pings a given one (70 % arrive) and it pings one other (49 % of the answers "
        "arrive): about six copies reach it, and with e^−6 for each of 31 members one update in twelve misses somebody "
        "for good, at best. A node as it ships also has gossip ticks and compares views."
    )
    return findings


PAPER = Paper(
    name="swim",
    title="SWIM",
    citation="A. Das, I. Gupta, A. Motivala: SWIM: Scalable Weakly-consistent Infection-style Process Group Membership "
    "Protocol, DSN 2002",
    experiments=(
        Experiment(
            "first-probe",
            ("R1.1", "R1.6"),
            "A quiet group, T = 1 s. From any moment to the next probe of each member: up to it nobody does anything "
            "else than if the member had crashed then. Rounds begin at the moment and last a period. Means over all "
            "moments of 20 periods of one member; a sample is one such mean.",
            probing_cases,
            measure_probing,
            judge_probing,
        ),
        Experiment(
            "load",
            ("R1.2",),
            "Nodes as they ship, quiet, no loss, 60 periods.",
            load_cases,
            measure_load,
            judge_load,
        ),
        Experiment(
            "false-detections",
            ("R1.3",),
            "16 members, every datagram lost with the given chance; nothing follows from a failed probe.",
            rate_cases,
            measure_rate,
            judge_rate,
        ),
        Experiment(
            "dissemination",
            ("R1.4",),
            "One update a second, λ = 3: by SWIM's piggyback alone, and as a node ships.",
            news_cases,
            measure_news,
            judge_news,
        ),
        Experiment(
            "joins",
            ("R1.5",),
            "17 members join one every 5 s, each through a member drawn at random, 10 % of all datagrams lost, 175 s. "
            "SWIM: T = 2 s, k = 1, DEAD for good, a suspicion of 9 periods. reachp2p as it ships.",
            join_cases,
            measure_joins,
            judge_joins,
        ),
    ),
)
