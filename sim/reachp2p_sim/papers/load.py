"""Routing by load: what old numbers are worth, and what the policy that ships makes of them."""

from __future__ import annotations

from reachp2p_sim.papers.balancing import balance_cases, judge_balance, measure_balance
from reachp2p_sim.papers.base import Experiment, Paper
from reachp2p_sim.papers.stale_board import fresh_cases, judge_fresh, judge_stale, measure_queue, stale_cases

PAPER = Paper(
    "load",
    "Routing by load",
    "Mitzenmacher, The Power of Two Choices in Randomized Load Balancing (IEEE TPDS 2001) and How Useful Is Old "
    "Information? (IEEE TPDS 2000); Vvedenskaya, Dobrushin, Karpelevich (1996)",
    (
        Experiment(
            "fresh",
            ("R8.1",),
            "100 servers that take one job after the other, 100,000 jobs without the first tenth; of two or three "
            "drawn the one with the shortest queue at this moment. Times are in mean service times.",
            fresh_cases,
            measure_queue,
            judge_fresh,
        ),
        Experiment(
            "stale",
            ("R8.2",),
            "The same by a board of all queues that is renewed every T, for everybody at once.",
            stale_cases,
            measure_queue,
            judge_stale,
        ),
        Experiment(
            "policy",
            ("B8.3",),
            "`least_loaded` in the routers of the core that ships, fed with load reports on replies and on answers to "
            "probes, one of each server to each caller in a lag; beside it the less of two by the answers to probes "
            "alone, the less of two by own calls in flight, and chance, all with the same jobs.",
            balance_cases,
            measure_balance,
            judge_balance,
        ),
    ),
)
