"""A task that waits for gathered hops leaves nothing behind, whatever ends its wait."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
import trio.testing

from reachp2p.core.calls.gathering import Gathered
from reachp2p.core.calls.hops import HopFilter
from reachp2p.core.events import HopsGathered
from reachp2p.runtime.tracing import Gatherer

pytestmark = pytest.mark.trio

NOTHING = Gathered(hops=[], heard=[], missing=[], left_out=0)


class FakeEngine:
    """Its one question; plays the driver, too."""

    def __init__(self) -> None:
        self.engine = self
        self.now = 0.0
        self.results: dict[int, Gathered] = {}

    def wake(self) -> None:
        pass

    def gather(self, wanted: HopFilter, now: float, timeout: float) -> int:
        return 1

    def gathered(self, number: int) -> Gathered:
        return self.results.pop(number)

    def cancel_gathering(self, number: int) -> None:
        self.results.pop(number, None)


async def test_a_result_that_comes_with_the_cancellation_of_its_task_is_not_kept() -> None:
    engine, gatherer = FakeEngine(), Gatherer()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gatherer.gather, cast(Any, engine), HopFilter(), 1.0)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            engine.results[1] = NOTHING
            gatherer.on_gathered(HopsGathered(at=0.0, gathering=1))
    assert engine.results == {}


async def test_a_result_is_taken_once() -> None:
    engine, gatherer = FakeEngine(), Gatherer()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gatherer.gather, cast(Any, engine), HopFilter(), 1.0)
        await trio.testing.wait_all_tasks_blocked()
        engine.results[1] = NOTHING
        gatherer.on_gathered(HopsGathered(at=0.0, gathering=1))
    assert engine.results == {}
