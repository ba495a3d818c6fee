"""Wall time runs with the steady clock between reports, and a step is noticed once."""

from __future__ import annotations

import pytest

from reachp2p.core.clock import STEP_NOTICED, WallClock


def test_wall_time_runs_with_the_steady_clock_between_reports() -> None:
    clock = WallClock()
    assert clock.report(1_700_000_000.0, 50.0) == 0.0
    assert clock.at(50.0) == 1_700_000_000
    assert clock.at(61.9) == 1_700_000_011


def test_wall_time_is_asked_for_only_after_a_report() -> None:
    with pytest.raises(AssertionError):
        WallClock().at(1.0)


@pytest.mark.parametrize("step", [86_400.0, -86_400.0, 1.0, -1.0])
def test_a_step_is_reported_once_and_followed(step: float) -> None:
    clock = WallClock()
    clock.report(1_700_000_000.0, 0.0)
    assert clock.report(1_700_000_010.0 + step, 10.0) == step
    assert clock.at(10.0) == 1_700_000_010 + int(step)
    assert clock.report(1_700_000_020.0 + step, 20.0) == 0.0


def test_a_small_difference_is_followed_without_a_word() -> None:
    clock = WallClock()
    clock.report(1_700_000_000.0, 0.0)
    assert clock.report(1_700_000_010.0 + STEP_NOTICED / 2, 10.0) == 0.0
    assert clock.at(10.5) == 1_700_000_011


def test_wall_time_is_never_negative() -> None:
    clock = WallClock()
    clock.report(-5.0, 0.0)
    assert clock.at(0.0) == 0
