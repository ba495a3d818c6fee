"""The retry budget: a fifth of the requests of the last ten seconds, and ten a second besides."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.routing.budget import RetryBudget


def taken(budget: RetryBudget, now: float, wanted: int = 10_000) -> int:
    return sum(budget.take(now) for _ in range(wanted))


def test_a_quiet_caller_may_retry_ten_times_a_second() -> None:
    budget = RetryBudget()
    assert taken(budget, 0.5) == 100
    assert taken(budget, 9.9) == 0
    assert taken(budget, 10.0) == 100


def test_each_request_gives_a_fifth_of_a_retry_for_ten_seconds() -> None:
    budget = RetryBudget(free_per_second=0)
    for number in range(50):
        budget.on_request(number / 25)
    assert budget.left(1.96) == 10
    assert taken(budget, 2.0, 4) == 4
    assert budget.left(9.9) == 6
    assert budget.left(10.0) == 1, (
        "those of the first second are forgotten, the four retries of the third are not"
    )
    assert budget.left(11.0) == 0
    assert budget.left(12.0) == budget.left(1e9) == 0


def test_nothing_is_owed_after_the_credits_are_gone() -> None:
    budget = RetryBudget(free_per_second=0)
    for _ in range(5):
        budget.on_request(0.0)
    assert taken(budget, 5.0) == 1
    for _ in range(5):
        budget.on_request(11.0)
    assert budget.left(11.0) == 0, "the retry still counts while its credits do not"
    assert budget.left(15.0) == 1


@given(st.lists(st.tuples(st.floats(0.0, 2.0), st.booleans()), max_size=200))
def test_in_any_ten_seconds_retries_are_bounded(steps: list[tuple[float, bool]]) -> None:
    budget = RetryBudget(free_per_second=1)
    now = 0.0
    requests: list[float] = []
    retries: list[float] = []
    for wait, is_request in steps:
        now += wait
        if is_request:
            budget.on_request(now)
            requests.append(now)
        elif budget.take(now):
            retries.append(now)
        start = now // 1 - 9  # whole seconds: the present one and nine before it
        assert sum(at >= start for at in retries) <= 10 + 0.2 * sum(at >= start - 10 for at in requests)
