"""`herding`: what the least loaded is worth is judged by the calls of the run itself, not by an endless run's mean."""

from __future__ import annotations

from itertools import accumulate
from random import Random

import pytest
from reachp2p_sim.running.configuration import RunConfig
from reachp2p_sim.running.run import run_scenario
from reachp2p_sim.scenarios.pools import WORTH, by_chance


def test_dealing_by_chance_takes_as_long_as_the_theory_of_a_single_queue_says() -> None:
    chance, busy, servers = Random(3), 0.7, 3
    arrivals = list(accumulate(chance.expovariate(busy * servers) for _ in range(20_000)))
    works = [chance.expovariate(1.0) for _ in arrivals]
    assert by_chance(arrivals, works, servers, Random(4)) == pytest.approx(1 / (1 - busy), rel=0.07)


def test_calls_that_come_one_after_the_other_take_what_their_work_takes() -> None:
    assert by_chance([0.0, 2.0, 4.0], [1.0, 0.5, 1.5], 2, Random(1)) == pytest.approx(1.0)


def test_a_run_with_more_work_than_usual_is_judged_by_what_chance_would_make_of_it() -> None:
    """Seed 75 has 885 calls where 840 are usual: 3.70 service times, more than chance takes in the mean."""
    result = run_scenario(RunConfig("herding", seed=75, nodes=8))
    assert result.verdict == "pass", (result.violation, result.error, result.replay)
    assert result.timings["mean_in_service_times"] > 3.5
    assert result.timings["mean_in_service_times"] < WORTH * result.timings["mean_by_chance"]
