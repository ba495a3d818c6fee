"""How busy this process is, as a part of what it may use."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from reachp2p.runtime import processor as module
from reachp2p.runtime.processor import INTERVAL, Processor, tell_engine


@pytest.mark.parametrize(
    ("count", "thread", "process", "percent"),
    [(1, 0.0, 0.0, 0), (4, 1.0, 1.0, 50), (4, 0.1, 7.6, 95), (4, 2.5, 2.5, 100), (1, 0.0, 0.9, 45)],
)
def test_the_busier_of_event_loop_and_process_counts(
    monkeypatch: pytest.MonkeyPatch, count: int, thread: float, process: float, percent: int
) -> None:
    times = iter([(10.0, 1.0, 1.0), (12.0, 1.0 + thread, 1.0 + process), (12.0, 9.0, 9.0)])
    monkeypatch.setattr(module, "_times", lambda: next(times))
    processor = Processor()
    monkeypatch.setattr(processor, "_count", count)
    assert processor.percent() == percent
    assert processor.percent() == 0, "no time has passed"


def test_it_measures() -> None:
    processor = Processor()
    sum(range(300_000))
    assert 0 < processor.percent() <= 100


@pytest.mark.trio
async def test_the_engine_is_told_again_and_again(autojump_clock: MockClock) -> None:
    told: list[int | None] = []
    overdue: list[int] = []

    class Engine:
        def set_cpu(self, percent: int | None) -> None:
            told.append(percent)

        def set_overdue(self, handlers: int) -> None:
            overdue.append(handlers)

    with trio.move_on_after(5 * INTERVAL + 0.1):
        await tell_engine(Engine(), lambda: 3)  # type: ignore[arg-type]
    assert len(told) == 5
    assert overdue == [3] * 5
