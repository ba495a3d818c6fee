"""How Lifeguard's interval experiment depends on a number its paper does not give: how fast an agent handles what has
queued up while it was blocked.

An agent that is awake for a moment hears refutations only as far as it gets with its queue. So the same anomalies are
met with several speeds, and the numbers set side by side; which one the tables use is said at `anomalies.HANDLING`.
"""

from __future__ import annotations

from collections.abc import Sequence

from reachp2p_sim.measuring import confidence
from reachp2p_sim.papers.anomalies import AGENTS, Configuration, Disturbance, IntervalCase, interval
from reachp2p_sim.papers.base import Experiment, Findings, Row, Scale

SPEEDS = (0.0, 20e-6, 50e-6, 100e-6, 500e-6, 1e-3)
"""Seconds a datagram."""
CELLS = ((32, 8.192, 0.001), (16, 2.048, 0.064))
"""Agents of 128 that block, seconds of each anomaly, seconds between two: what queues up in the one is more than can be
handled in the other."""
CONFIGURATIONS = (Configuration("SWIM"), Configuration("Lifeguard"), Configuration("Lifeguard", 4.0, 6.0))


def cases(scale: Scale) -> list[IntervalCase]:
    """Every speed meets the same anomalies."""
    nodes, seconds = scale.pick((32, 60.0), (AGENTS, 120.0))
    return [
        IntervalCase(
            configuration,
            nodes,
            count * nodes // AGENTS,
            duration,
            awake,
            seconds,
            scale.seed + cell,
            speed,
            memberlist_sizes=True,
        )
        for speed in SPEEDS
        for configuration in CONFIGURATIONS
        for cell, (count, duration, awake) in enumerate(CELLS)
    ]


def judge(_: Scale, done: Sequence[tuple[IntervalCase, Disturbance]]) -> Findings:
    """Counts, not shares: at some speeds there is nothing to compare with."""
    counts: dict[tuple[float, Configuration], list[int]] = {}
    for case, found in done:
        counts.setdefault((case.handling, case.configuration), []).append(found.false_positives)
    return Findings(
        [
            Row(
                "R2.2",
                f"{speed * 1e6:g} µs a datagram, {configuration.label}: FP, sum of {len(found)} runs",
                confidence.exact(sum(found), len(found)),
                aim="report",
            )
            for (speed, configuration), found in counts.items()
        ]
    )


EXPERIMENT = Experiment(
    "handling",
    ("R2.2",),
    "The interval experiment at several speeds of agents, for two of its cells: a quarter of the agents blocked for "
    "8.2 s with 1 ms between, and an eighth for 2.0 s with 64 ms between.",
    cases,
    interval,
    judge,
)
