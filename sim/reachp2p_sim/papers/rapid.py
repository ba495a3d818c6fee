"""Suresh et al., Stable and Consistent Membership at Scale with Rapid (USENIX ATC 2018): SWIM's bad days, and ours.

The paper breaks members by halves: they hear nobody every other 20 seconds, or lose four of five packets. Memberlist
then wavers for ever. The same stories are told to our core with SWIM's and Lifeguard's rules alone, which has to waver
too, or the simulator is wrong; and to the core that ships.
"""

from __future__ import annotations

from collections.abc import Sequence

from reachp2p_sim.measuring import confidence
from reachp2p_sim.measuring.confidence import exact
from reachp2p_sim.papers.base import Experiment, Figure, Findings, Paper, Row, Scale, at_least, at_most
from reachp2p_sim.papers.figure import Axis, Series, chart
from reachp2p_sim.papers.unstable import (
    BOOTSTRAP_LIMIT,
    Bootstrap,
    Mode,
    Story,
    Trouble,
    TroubleCase,
    measure_bootstrap,
    measure_trouble,
)
from reachp2p_sim.world.randomness import Randomness

FLIPS_MAX = 2
"""In to out, and at most one return."""
OUT_WITHIN = 60.0
CHANGES_MAX = 3
COMPLETE_WITHIN = {1_000: 30.0, 2_000: 53.0}
"""Nodes: seconds; Rapid itself needs 30 and 53."""

Done = Sequence[tuple[TroubleCase, Trouble]]


def _case(scale: Scale, story: Story, mode: Mode, seconds: float, faulty: int) -> TroubleCase:
    nodes = scale.pick(64, 1_000)
    return TroubleCase(Randomness(scale.seed).number("rapid", story), story, mode, nodes, faulty, seconds)


def flip_flop_cases(scale: Scale) -> list[TroubleCase]:
    """Both cores, on the same seed."""
    seconds = scale.pick(240.0, 900.0)
    modes: tuple[Mode, ...] = ("memberlist", "ours")
    return [_case(scale, "flip-flop", mode, seconds, scale.pick(1, 10)) for mode in modes]


def judge_flip_flop(scale: Scale, done: Done) -> Findings:
    """R3.1 and B3.2."""
    (case, theirs), (_, ours) = done
    share, steady = f"{case.faulty} of {case.nodes}", case.nodes - case.faulty
    findings = Findings(
        [
            Row(
                "R3.1",
                f"memberlist's rules: changes of the steadiest pair, {share} deaf 20 s in 40",
                exact(min(theirs.flips), len(theirs.flips)),
                2.0,
                "figure",
                at_least(2.0),
                note="once out and back again is one oscillation",
            ),
            Row(
                "R3.1",
                f"memberlist's rules: part of the time after 120 s with a mean size of {steady}",
                exact(_part_at(theirs, steady), len(theirs.sizes)),
                0.0,
                "figure",
                at_most(0.9),
            ),
            _goal(
                "B3.2",
                "ours, by where calls go: turns of the most restless pair (asked, not asked)",
                max(ours.turns),
                FLIPS_MAX,
            ),
            _goal(
                "B3.2",
                "ours, by membership: changes of the most restless pair (in, out)",
                max(ours.flips),
                FLIPS_MAX,
                must_hold=False,
            ),
            *_healthy("B3.2", "ours", ours),
            Row(
                "B3.2",
                "ours: part of the time after 120 s in which all healthy members agree on who is in",
                exact(ours.equal, len(ours.sizes)),
                0.9,
                "own",
                at_least(0.9),
                "beat",
            ),
            _report("B3.2", "ours: part of the time in which they ask the same members", ours.routes_equal),
        ]
    )
    findings.remarks.append(
        "By membership B3.2 is not met: who is in wavers with our core as with memberlist's rules. The member refutes "
        "its death whenever it hears of it, and only the subject speaks for itself: nobody else may keep a living "
        "member out, where Rapid lets the observers of a member agree on its end. What does not waver is whom calls go "
        "to: a member that comes and goes is avoided (docs/protocol/routing.md)."
    )
    title = f"Members that healthy ones hold in, {share} deaf every other 20 s"
    findings.figures.append(_sizes("flip-flop", title, done))
    return findings


def _goal(row: str, what: str, value: float, limit: float, *, must_hold: bool = True) -> Row:
    return Row(row, what, exact(value), float(limit), "own", at_most(limit), "beat", must_hold)


def _report(row: str, what: str, value: float, unit: str = "") -> Row:
    return Row(row, what, exact(value), aim="report", unit=unit)


def _part_at(trouble: Trouble, size: float) -> float:
    late = [mean for at, mean in trouble.sizes if at > 120.0 or len(trouble.sizes) <= 120]
    return sum(abs(mean - size) < 0.01 for mean in late) / len(late)


def _healthy(row: str, whose: str, trouble: Trouble) -> list[Row]:
    dead = exact(trouble.healthy_dead, len(trouble.flips))
    return [Row(row, f"{whose}: verdicts on healthy members", dead, 0.0, "own", (0.0, 0.0), "beat")]


def loss_cases(scale: Scale) -> list[TroubleCase]:
    """Either direction, since text and caption of the paper differ; both cores, in a quick run one of them once."""
    seconds = scale.pick(120.0, 810.0)
    told: list[tuple[Story, Mode]] = [("loss-in", "memberlist"), ("loss-in", "ours"), ("loss-out", "ours")]
    if not scale.quick:
        told.append(("loss-out", "memberlist"))
    return [_case(scale, story, mode, seconds, scale.pick(1, 10)) for story, mode in told]


def judge_loss(scale: Scale, done: Done) -> Findings:
    """B3.3."""
    findings = Findings()
    for case, trouble in done:
        whose = "ours" if case.mode == "ours" else "memberlist's rules"
        where = "of what they are sent" if case.story == "loss-in" else "of what they send"
        is_ours = case.mode == "ours"
        story = f"{whose}, {case.faulty} of {case.nodes} lose 80 % {where}"
        for what, since_when in (
            ("by where calls go: how many of them nobody asks", trouble.unasked_since),
            ("by membership: how many of them nobody has in", trouble.out_since),
        ):
            gone = sum(since is not None and since <= OUT_WITHIN for since in since_when)
            findings.rows.append(
                Row(
                    "B3.3",
                    f"{story}, {what} from second 60 on",
                    exact(gone, case.faulty),
                    float(case.faulty) if is_ours else None,
                    "own",
                    at_least(case.faulty) if is_ours else None,
                    "beat" if is_ours else "report",
                    must_hold=since_when is trouble.unasked_since,
                )
            )
        findings.rows += [
            Row(
                "B3.3",
                f"{story}: changes of a pair (in, out), mean",
                confidence.mean([float(flips) for flips in trouble.flips]),
                aim="report",
            ),
        ]
        if is_ours:
            findings.rows += _healthy("B3.3", f"ours, 80 % {where}", trouble)
    findings.remarks.append(
        "By membership B3.3 is not met: a member that loses four of five datagrams is alive, and answers one of the "
        "ways it is asked (directly, through three helpers, over a link, whose stream repeats what is lost), so hardly "
        "any doubt about it lasts until its timer ends. Rapid removes it because 40 % of the probes of its observers "
        "fail. Ours keeps it a member, whom gossip and records still reach, and sends it no calls while its probes "
        "fail."
    )
    title = f"Members that healthy ones hold in, {done[0][0].faulty} lose 80 %"
    findings.figures.append(_sizes("loss", title, done))
    return findings


def crash_cases(scale: Scale) -> list[TroubleCase]:
    """Killed processes, whose hosts refuse, and machines that vanish."""
    stories: tuple[Story, ...] = ("crash", "silent")
    return [_case(scale, story, "ours", scale.pick(60.0, 120.0), 10) for story in stories]


def judge_crashes(_: Scale, done: Done) -> Findings:
    """B3.4."""
    findings = Findings()
    for case, trouble in done:
        how = "processes killed" if case.story == "crash" else "machines gone"
        findings.rows += [
            _goal(
                "B3.4",
                f"10 {how} of {case.nodes}: seconds in which an observer's routes changed, most of any",
                max(trouble.route_changes),
                CHANGES_MAX,
            ),
            _report(
                "B3.4", f"10 {how}: changes of who is in, 1 s coalesced, most of any", max(trouble.changes)
            ),
            _report(
                "B3.4",
                f"10 {how}: seconds until the last observer had the last one out",
                max((since for since in trouble.out_since if since is not None), default=case.seconds),
                "s",
            ),
            _report(
                "B3.4",
                f"10 {how}: seconds until nobody asked any of them",
                max((since for since in trouble.unasked_since if since is not None), default=case.seconds),
                "s",
            ),
            *_healthy("B3.4", f"10 {how}", trouble),
        ]
    findings.figures.append(_sizes("crashes", "Members that healthy ones hold in, 10 gone at once", done))
    return findings


def bootstrap_cases(scale: Scale) -> list[TroubleCase]:
    """Through one seed node."""
    sizes = scale.pick((64,), (1_000, 2_000))
    number = Randomness(scale.seed).number("rapid", "bootstrap")
    return [TroubleCase(number, "bootstrap", "ours", nodes, 0, 0.0) for nodes in sizes]


def judge_bootstrap(_: Scale, done: Sequence[tuple[TroubleCase, Bootstrap]]) -> Findings:
    """B3.5."""
    findings = Findings()
    for case, found in done:
        limit = COMPLETE_WITHIN.get(case.nodes, COMPLETE_WITHIN[1_000])
        complete = found.complete is not None
        took = exact(found.complete if found.complete is not None else BOOTSTRAP_LIMIT)
        findings.rows += [
            Row(
                "B3.5",
                f"{case.nodes} nodes through one seed: until everybody sees everybody"
                + ("" if complete else " (never)"),
                took,
                limit,
                "figure",
                at_most(limit),
                "beat",
                must_hold=case.nodes <= 1_000,
                unit="s",
            ),
            Row(
                "B3.5",
                f"{case.nodes} nodes: different sizes that anybody saw",
                exact(found.sizes),
                {1_000: 4.0, 2_000: 8.0}.get(case.nodes),
                aim="report",
                note="published is Rapid's; memberlist showed 901 of 1,000 and 1,858 of 2,000",
            ),
        ]
    return findings


def _sizes(name: str, title: str, done: Done) -> Figure:
    series = []
    for case, trouble in done:
        whose = "ours" if case.mode == "ours" else "memberlist"
        series.append(Series(f"{whose}, {case.story}", trouble.sizes))
    nodes, faulty = done[0][0].nodes, done[0][0].faulty
    axis = Axis("members in, mean", low=nodes - faulty - 1.0, high=nodes)
    return Figure(name, title, chart(title, Axis("seconds", low=0.0), axis, series))


PAPER = Paper(
    "rapid",
    "Rapid",
    "Suresh, Malkhi, Gopalan, Carreiro, Lokhandwala: Stable and Consistent Membership at Scale with Rapid (USENIX "
    "ATC 2018)",
    (
        Experiment(
            "flip-flop",
            ("R3.1", "B3.2"),
            "One node in a hundred hears nobody for 20 s, then everybody for 20 s, and so on; what it sends arrives.",
            flip_flop_cases,
            measure_trouble,
            judge_flip_flop,
        ),
        Experiment(
            "loss",
            ("B3.3",),
            "One node in a hundred loses four of five packets, of those it is sent or of those it sends.",
            loss_cases,
            measure_trouble,
            judge_loss,
        ),
        Experiment(
            "crashes",
            ("B3.4",),
            "Ten nodes end at once.",
            crash_cases,
            measure_trouble,
            judge_crashes,
        ),
        Experiment(
            "bootstrap",
            ("B3.5",),
            "One seed node; ten seconds later all others start within a second and know nothing but it.",
            bootstrap_cases,
            measure_bootstrap,
            judge_bootstrap,
        ),
    ),
)
