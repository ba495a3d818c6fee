"""The rules of a circuit breaker: every pair of state and input, both thresholds, and the way back."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.routing.breaker import (
    CALLERS_FAULTS,
    CALM_AFTER,
    MINUTE_FAILURES,
    MINUTE_SHARE,
    OPEN_MAX,
    RECENT,
    RECENT_FAILURES,
    SUCCESSES_TO_CLOSE,
    TRANSITIONS,
    Breaker,
    BreakerInput,
    BreakerState,
    open_seconds,
)

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


def fed(*outcomes: bool, now: float = 0.0, every: float = 0.0) -> tuple[Breaker, list[BreakerInput | None]]:
    """A breaker that has noted these failures (True) and successes."""
    breaker = Breaker()
    return breaker, [breaker.note(failed, now + every * turn) for turn, failed in enumerate(outcomes)]


@pytest.mark.parametrize(("state", "happened"), list(product(BreakerState, BreakerInput)))
def test_every_pair_of_state_and_input_moves_as_the_table_says_or_is_a_defect(
    state: BreakerState, happened: BreakerInput
) -> None:
    breaker = Breaker(state=state)
    after = TRANSITIONS.get((state, happened))
    if after is None:
        with pytest.raises(AssertionError):
            breaker.move(happened, 1.0)
    else:
        breaker.move(happened, 1.0)
        assert (breaker.state, breaker.since) == (after, 1.0)


@pytest.mark.parametrize(
    ("openings", "seconds"),
    [(1, 30), (2, 60), (3, 120), (4, 240), (5, OPEN_MAX), (6, OPEN_MAX), (5_000, OPEN_MAX)],
)
def test_it_stays_open_twice_as_long_each_time(openings: int, seconds: float) -> None:
    assert open_seconds(openings) == seconds


def test_it_trips_with_the_fifth_failure_of_the_last_ten() -> None:
    _, said = fed(*[False] * 1_000, True, False, True, False, True, False, True, False, True)
    assert said[:-1] == [None] * (len(said) - 1)
    assert said[-1] is BreakerInput.TRIPPED
    _, said = fed(*[False] * 1_000, *[True, False, False] * 20)
    assert set(said) == {None}, "a third of few calls fails, and never five of ten; 20 of 1,060 are below 5 %"


def test_it_trips_above_a_twentieth_of_a_minute() -> None:
    """One of 15: never five of ten, and 6.7 %."""
    _, said = fed(*([True] + [False] * 14) * 5, every=0.5)
    assert said.index(BreakerInput.TRIPPED) == 60
    _, said = fed(*([True] + [False] * 24) * 5, every=0.1)
    assert set(said) == {None}, "4 %"
    _, said = fed(*([True] + [False] * 14) * 5, every=2.0)
    assert set(said) == {None}, "never five in a minute"


@given(st.lists(st.booleans(), max_size=60), st.floats(0.0, 3.0))
def test_it_trips_exactly_where_one_of_the_two_rules_says(outcomes: list[bool], every: float) -> None:
    breaker = Breaker()
    for turn, failed in enumerate(outcomes):
        now = turn * every
        happened = breaker.note(failed, now)
        recent = outcomes[max(0, turn - RECENT + 1) : turn + 1]
        since = (now // 10 - 5) * 10  # whole slots of ten seconds: the present one and five before it
        minute = [o for place, o in enumerate(outcomes[: turn + 1]) if place * every >= since]
        too_many = sum(recent) >= RECENT_FAILURES or (
            sum(minute) >= MINUTE_FAILURES and sum(minute) > MINUTE_SHARE * len(minute)
        )
        assert (happened is BreakerInput.TRIPPED) is (failed and too_many)


def test_what_ends_while_it_is_open_moves_nothing() -> None:
    breaker = Breaker(state=OPEN)
    assert [breaker.note(failed, 0.0) for failed in (True, False) * 10] == [None] * 20


def test_half_open_it_lets_twice_as_many_in_after_each_success_and_closes_after_four() -> None:
    breaker = Breaker(state=OPEN)
    assert breaker.is_shut
    breaker.move(BreakerInput.COOLED, 30.0)
    for allowed in (1, 2, 4, 8):
        breaker.trials = allowed - 1
        assert not breaker.is_shut
        breaker.trials = allowed
        assert (breaker.allowed, breaker.is_shut) == (allowed, True)
        happened = breaker.note(False, 31.0)
    assert happened is BreakerInput.PROVEN
    assert allowed == 1 << (SUCCESSES_TO_CLOSE - 1)
    breaker.move(happened, 31.0)
    assert not breaker.is_shut
    assert [breaker.note(True, 32.0) for _ in range(4)] == [None] * 4, "its former failures are forgotten"


def test_a_failed_trial_opens_it_again_for_longer_until_it_was_calm() -> None:
    breaker = Breaker()
    breaker.move(BreakerInput.TRIPPED, 0.0)
    breaker.move(BreakerInput.COOLED, 30.0)
    assert breaker.note(True, 31.0) is BreakerInput.FAILED
    breaker.move(BreakerInput.FAILED, 31.0)
    breaker.move(BreakerInput.COOLED, 91.0)
    breaker.move(BreakerInput.PROVEN, 92.0)
    breaker.move(BreakerInput.TRIPPED, 92.0 + CALM_AFTER)
    assert breaker.openings == 3
    breaker.move(BreakerInput.COOLED, 600.0)
    breaker.move(BreakerInput.PROVEN, 600.0)
    breaker.move(BreakerInput.TRIPPED, 601.0 + CALM_AFTER)
    assert breaker.openings == 1


def test_the_callers_own_mistakes_are_named() -> None:
    assert sorted(int(code) for code in CALLERS_FAULTS) == [1304, 1402, 1404, 1405, 1407, 1408, 1410, 1413]
