"""Epidemics: the processes are those of the paper, and one update of ours reaches everybody."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

import pytest
from reachp2p_sim.papers.base import Scale
from reachp2p_sim.papers.epidemic import bound, judge_spread
from reachp2p_sim.papers.rumours import Ending, Rumour, Source, draw_from, pull, push, spread_rumour
from reachp2p_sim.papers.spread import AT_ONCE, SpreadCase, measure_spread


def endings(rumour: Rumour, runs: int = 30, sites: int = 500) -> list[Ending]:
    draw = draw_from("streams", 1, "test", rumour.k)
    return [spread_rumour(sites, rumour, draw) for _ in range(runs)]


@pytest.mark.parametrize("source", ["streams", "paths"])
def test_a_push_epidemic_at_most_doubles_and_ends_near_the_bound(source: Source) -> None:
    draw = draw_from(source, 1, "test")
    runs = [push(200, draw) for _ in range(40)]
    for run in runs:
        assert (run[0], run[-1]) == (1, 200)
        assert all(before <= after <= 2 * before for before, after in pairwise(run))
    assert fmean(len(run) - 1 for run in runs) == pytest.approx(bound(200) + 1.0, abs=0.6)


def test_a_pull_epidemic_ends_sooner_than_a_push() -> None:
    draw = draw_from("streams", 1, "test")
    assert fmean(len(pull(500, draw)) for _ in range(30)) < fmean(len(push(500, draw)) for _ in range(30))


def test_chance_follows_seed_and_name() -> None:
    for source in ("streams", "paths"):
        first, again, other = (draw_from(source, 1, name) for name in ("a", "a", "b"))  # type: ignore[arg-type]
        drawn = [first() for _ in range(5)]
        assert [again() for _ in range(5)] == drawn != [other() for _ in range(5)]
        assert all(0 <= number < 1 for number in drawn)


def test_more_persistence_leaves_less() -> None:
    residues = [
        fmean(e.residue for e in endings(Rumour("push", k, counter=True, feedback=True))) for k in (1, 2, 3)
    ]
    assert residues[0] == pytest.approx(0.176, abs=0.02)
    assert residues[0] > residues[1] > residues[2]


def test_contacts_one_after_the_other_leave_what_the_equations_say() -> None:
    for k, theory in ((1, 0.2032), (2, 0.0595)):
        rumour = Rumour("push", k, counter=False, feedback=True, at_once=True)
        assert fmean(e.residue for e in endings(rumour, runs=60)) == pytest.approx(theory, rel=0.1)


def test_a_blind_rumour_that_is_told_once_is_told_in_a_chain() -> None:
    for ending in endings(Rumour("push", 1, counter=False, feedback=False)):
        assert ending.traffic * 500 == ending.last + 1  # the last contact meets somebody who knows
        assert (1 - ending.residue) * 500 == pytest.approx(ending.traffic * 500)


def test_a_source_asked_in_vain_once_is_silent_only_if_nobody_needed_it() -> None:
    found = endings(Rumour("pull", 1, counter=True, feedback=True))
    assert fmean(e.residue for e in found) == pytest.approx(0.031, abs=0.008)
    assert fmean(e.traffic for e in found) == pytest.approx(2.7, abs=0.1)


def test_our_update_reaches_everybody_and_rows_say_so() -> None:
    case = SpreadCase(seed=5, nodes=8, loss=0.1, batches=1)
    updates = measure_spread(case)
    assert [len(update) for update in updates] == [7] * AT_ONCE
    assert all(0 < update[0] <= update[-1] < bound(8) for update in updates)
    rows = judge_spread(Scale(quick=True, seed=1), [(case, updates)]).rows
    assert [row.verdict for row in rows] == ["holds", "holds", "reported"]
    missed = [update[:-1] for update in updates[:1]] + updates[1:]
    assert judge_spread(Scale(quick=True, seed=1), [(case, missed)]).rows[0].measured.value == 0.75
