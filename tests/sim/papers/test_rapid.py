"""Rapid's stories on small clusters: memberlist's rules waver, and what is counted is what happened."""

from __future__ import annotations

import pytest
from reachp2p_sim.papers.base import Scale
from reachp2p_sim.papers.rapid import judge_crashes, judge_flip_flop
from reachp2p_sim.papers.unstable import (
    Mode,
    Trouble,
    TroubleCase,
    measure_bootstrap,
    measure_trouble,
)


def test_memberlists_rules_waver_about_a_member_that_hears_nobody_half_of_the_time() -> None:
    found = measure_trouble(TroubleCase(1, "flip-flop", "memberlist", nodes=6, faulty=1, seconds=80.0))
    assert len(found.flips) == 5
    assert min(found.flips) >= 2
    assert {round(size) for _, size in found.sizes} == {5, 6}


@pytest.mark.parametrize("story", ["crash", "silent"])
def test_who_crashed_is_out_once_and_for_good(story: str) -> None:
    case = TroubleCase(2, story, "ours", nodes=8, faulty=2, seconds=30.0)  # type: ignore[arg-type]
    found = measure_trouble(case)
    assert found.flips == [1] * 12
    assert found.healthy_dead == 0
    assert all(since is not None and 0 < since < 25 for since in found.out_since)
    assert found.sizes[-1][1] == 6
    assert set(found.changes) <= {1, 2}
    assert found.turns == [1] * 12
    assert all(since is not None and since < 12 for since in found.unasked_since)
    rows = judge_crashes(Scale(True, 1), [(case, found)]).rows
    assert [row.verdict for row in rows] == ["holds", "reported", "reported", "reported", "holds"]


def test_who_loses_most_of_what_it_is_sent_is_asked_no_more_and_ends_nobody() -> None:
    found = measure_trouble(TroubleCase(3, "loss-in", "ours", nodes=12, faulty=1, seconds=70.0))
    assert found.healthy_dead == 0
    assert all(since is not None and since < 60 for since in found.unasked_since)


def test_who_hears_nobody_half_of_the_time_is_asked_no_more() -> None:
    found = measure_trouble(TroubleCase(1, "flip-flop", "ours", nodes=12, faulty=1, seconds=80.0))
    assert found.turns == [1] * 11
    assert max(found.flips) > 2
    assert found.healthy_dead == 0


def test_a_member_that_comes_back_again_and_again_fails_the_goal() -> None:
    cases: list[Mode] = ["memberlist", "ours"]
    sizes = [(1.0, 2.0), (130.0, 3.0)]
    restless = Trouble([2, 6], [None], [2, 4], [None], 0.9, [3, 3], 0, 0, 0.95, sizes, [3, 3])
    done = [(TroubleCase(1, "flip-flop", mode, 3, 1, 200.0), restless) for mode in cases]
    assert [row.verdict for row in judge_flip_flop(Scale(True, 1), done).rows] == [
        "holds",
        "holds",
        "fails",
        "fails",
        "holds",
        "holds",
        "reported",
    ]


def test_a_bootstrap_is_complete_when_everybody_sees_everybody() -> None:
    found = measure_bootstrap(TroubleCase(4, "bootstrap", "ours", nodes=6, faulty=0, seconds=0.0))
    assert found.complete is not None
    assert 1.0 <= found.complete < 10.0
    assert 1 <= found.sizes <= 6
