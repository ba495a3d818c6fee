"""Lifeguard's experiments: small set-ups that show what the large ones measure."""

from __future__ import annotations

from collections import Counter
from math import log10
from random import Random

import pytest
from reachp2p_sim.measuring.confidence import Estimate
from reachp2p_sim.papers import presets
from reachp2p_sim.papers.anomalies import (
    Configuration,
    Disturbance,
    IntervalCase,
    ThresholdCase,
    interval,
    threshold,
)
from reachp2p_sim.papers.base import Scale
from reachp2p_sim.papers.handling import cases as handling_cases
from reachp2p_sim.papers.handling import judge as judge_handling
from reachp2p_sim.papers.interval import interval_cases, judge_interval
from reachp2p_sim.papers.lifeguard_load import DURATIONS, grid_cells, judge_load, load_cases
from reachp2p_sim.papers.packets import lzw_bytes, packet_bytes
from reachp2p_sim.papers.paired import Paired

SWIM, LIFEGUARD = Configuration("SWIM"), Configuration("Lifeguard")


def test_presets_differ_in_lifeguards_parts_alone() -> None:
    parts = ("lha_probe", "lha_suspicion", "buddy")
    on = {
        name: tuple(getattr(preset().rules, part) for part in parts)
        for name, preset in presets.CONFIGURATIONS.items()
    }
    assert on == {
        "SWIM": (False, False, False),
        "LHA-Probe": (True, False, False),
        "LHA-Suspicion": (False, True, False),
        "Buddy": (False, False, True),
        "Lifeguard": (True, True, True),
    }
    assert not any(preset().rules.own_verdict for preset in presets.CONFIGURATIONS.values())
    assert presets.reachp2p().rules.own_verdict


def test_a_small_group_has_the_time_outs_of_128() -> None:
    protocol = SWIM.protocol(32)
    assert protocol.suspicion_alpha * log10(32) == pytest.approx(5.0 * log10(128))
    assert Configuration("reachp2p", 2.0, 3.0).protocol(128).suspicion_alpha == pytest.approx(2.0)
    assert Configuration("reachp2p", 2.0, 3.0).label == "reachp2p, α = 2, β = 3"


def test_a_blocked_agent_is_buried_after_the_suspicion_by_everyone() -> None:
    (found,) = threshold(ThresholdCase(SWIM, 8, 1, 32.768, 1))
    assert found.first is not None
    assert found.full is not None
    assert 5.0 * log10(128) < found.first < found.full < 5.0 * log10(128) + 8.0
    (missed,) = threshold(ThresholdCase(SWIM, 8, 1, 8.0, 1))
    assert missed.first is None


def test_lifeguard_accuses_where_swim_buries() -> None:
    swim, lifeguard = (
        interval(IntervalCase(configuration, 12, 4, 16.384, 0.001, 60.0, 1))
        for configuration in (SWIM, LIFEGUARD)
    )
    assert swim.false_positives > 0 == lifeguard.false_positives
    assert min(swim.messages, lifeguard.messages) > 1_000


def test_shares_are_judged_against_swim_on_the_same_cells() -> None:
    scale = Scale(quick=True, seed=1)
    counts = {"SWIM": 100, "Buddy": 90, "LHA-Probe": 60, "LHA-Suspicion": 5, "Lifeguard": 2, "reachp2p": 0}
    done = [
        (case, Disturbance(counts[case.configuration.preset], 0, 1_000, 50_000))
        for case in interval_cases(scale)
    ]
    rows = {row.what: row for row in judge_interval(scale, done).rows}
    assert rows["Lifeguard: FP, percent of SWIM's"].measured.value == pytest.approx(2.0)
    assert rows["Lifeguard: FP, percent of SWIM's"].verdict == "holds"
    assert "Lifeguard: FP−, percent of SWIM's" not in rows  # SWIM has none to compare with
    assert all(row.verdict == "holds" for what, row in rows.items() if what.startswith("order"))


def test_the_cells_of_a_quick_run_are_part_of_the_grid_and_the_same_for_all() -> None:
    runs: dict[bool, dict[Configuration, list[tuple[int, float, float, int]]]] = {True: {}, False: {}}
    for quick, by_configuration in runs.items():
        for case in interval_cases(Scale(quick, seed=1)):
            cell = (case.blocked, case.duration, case.awake, case.seed)
            by_configuration.setdefault(case.configuration, []).append(cell)
            assert case.memberlist_sizes == (case.configuration.preset != "reachp2p")
        assert all(cells == by_configuration[SWIM] for cells in by_configuration.values())
    few, all_ = ({cell[:3] for cell in runs[quick][SWIM]} for quick in (True, False))
    assert len(few) == len(runs[True][SWIM]) == 12
    assert few < all_
    assert len(runs[False][SWIM]) == 3 * len(all_) == 81


def test_the_cells_of_the_load_are_spread_over_the_grid() -> None:
    cells = grid_cells(seed=1, each=18)
    assert len(set(cells)) == len(cells) == 2 + 4 * 18
    for duration in DURATIONS[2:]:
        assert set(Counter(blocked for blocked, at, _ in cells if at == duration).values()) == {2}
        assert set(Counter(awake for _, at, awake in cells if at == duration).values()) == {2, 3}
    assert {blocked for blocked, at, _ in grid_cells(seed=1, each=4) if at == DURATIONS[-1]} == {
        4,
        12,
        20,
        28,
    }
    assert grid_cells(seed=2, each=18) != cells


def test_load_is_judged_in_sums_with_the_sizes_of_memberlist() -> None:
    scale = Scale(quick=False, seed=1)
    loads = {"SWIM": (1_000, 50_000), "Lifeguard": (1_200, 50_000), "LHA-Suspicion": (1_250, 55_000)}
    done = [
        (
            case,
            Disturbance(0, 0, *loads.get(case.configuration.preset, (1_000, 45_000)))
            if case.memberlist_sizes
            else Disturbance(0, 0, 2_000, 200_000),
        )
        for case in load_cases(scale)
    ]
    rows = {row.what: row for row in judge_load(scale, done).rows}
    assert rows["Lifeguard: messages, percent of SWIM's"].measured.value == pytest.approx(120.0)
    assert rows["Lifeguard: messages, percent of SWIM's"].verdict == "fails"
    assert rows["Lifeguard: bytes, percent of SWIM's"].verdict == "holds"
    assert rows["LHA-Probe: bytes, percent of SWIM's"].measured.value == pytest.approx(90.0)
    told = rows["LHA-Suspicion: messages, percent of those of a SWIM that passes on K confirmations"]
    assert (told.measured.value, told.published) == (pytest.approx(100.0), 111.3)
    assert rows["Lifeguard with updates of our size: bytes, percent of SWIM's"].measured.value == 100.0
    assert rows["SWIM: bytes of a message"].measured.value == pytest.approx(50.0)
    assert 700 < rows["SWIM: messages of an agent in a second"].measured.value * 128 * 120 < 1_000
    assert "Buddy" not in {case.configuration.preset for case in load_cases(Scale(quick=True, seed=1))}


def test_packets_are_as_large_as_those_of_memberlist() -> None:
    assert packet_bytes((("ping", 1),)) == 26
    assert packet_bytes((("ack", 1),)) == 151  # with a coordinate, which does not get shorter
    many, one = packet_bytes((("suspect", 20),)), packet_bytes((("suspect", 1),))
    assert one == 50
    assert 5 * one < many < 10 * one  # they repeat each other's field names
    assert lzw_bytes(b"a") == 4
    assert lzw_bytes(b"ab" * 100) < 50


def test_with_the_sizes_of_memberlist_agents_say_the_same() -> None:
    ours, theirs = (
        interval(IntervalCase(SWIM, 8, 2, 16.384, 0.064, 40.0, 1, memberlist_sizes=sizes))
        for sizes in (False, True)
    )
    assert theirs.messages == pytest.approx(ours.messages, rel=0.05)
    assert 0 < theirs.bytes < ours.bytes / 2


def test_paired_runs_are_resampled_within_their_strata() -> None:
    paired = Paired(["a", "a", "b", "b"], Random(1))
    assert paired.percent([1.0, 1.0, 8.0, 8.0], [2.0, 2.0, 8.0, 8.0]) == Estimate(90.0, 90.0, 90.0, 4)
    assert paired.difference([2.0] * 4, [1.0] * 4, [4.0] * 4).value == pytest.approx(25.0)
    spread = Paired(["a", "b", "c", "d"], Random(1)).percent([1.0, 1.0, 8.0, 8.0], [2.0, 2.0, 8.0, 8.0])
    assert spread.low < 90.0 < spread.high  # one of each: all are one stratum
    uneven = Paired(["a", "a", "b"], Random(1))
    assert uneven.percent([1.0, 3.0, 6.0], [2.0, 2.0, 6.0]).value == pytest.approx(
        100.0
    )  # (2 + 6) of (2 + 6)
    assert uneven.mean([1.0, 3.0, 6.0]).value == pytest.approx(4.0)
    assert uneven.percent([0.0] * 3, [0.0] * 3).value == 0.0


def test_false_positives_are_told_for_each_speed_of_handling() -> None:
    scale = Scale(quick=True, seed=1)
    done = [(case, Disturbance(round(case.handling * 1e6), 0, 1, 1)) for case in handling_cases(scale)]
    rows = judge_handling(scale, done).rows
    assert rows[0].measured.value == 0
    assert rows[-1].what == "1000 µs a datagram, Lifeguard, α = 4, β = 6: FP, sum of 2 runs"
    assert rows[-1].measured.value == 2_000
