"""Breakers at work: who is skipped, for how long, how many at most, and how they come back."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.routing.breaker import BreakerState
from reachp2p.core.routing.breakers import BreakerDue, Breakers, BreakerStage
from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.measures import Measures
from reachp2p.core.routing.pool import ejected_max
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.stages import STAGES, Selector
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.routing.traffic import TrafficTable
from reachp2p.core.timers import Timers
from tests.unit.routing.conftest import Desk

ALL = Selector("text.summarize", None)


class Guarded(Desk):
    """A desk with breakers, and time."""

    def __init__(self, count: int = 0) -> None:
        super().__init__()
        self.now = 0.0
        self.timers = Timers()
        traffic = TrafficTable(self.counters)
        self.table = RoutingTable(self.counters, virtual_nodes=5, stages=(*STAGES, BreakerStage(traffic)))
        self.breakers = Breakers(traffic, self.timers, self.counters)
        self.breakers.changed = self.table.reconsider
        self.router = Router(
            self.table, Random(1), self.counters, measures=Measures(traffic), breakers=self.breakers
        )
        for number in range(1, count + 1):
            self.offer(number)

    def call(self, fails: Any = (), code: int = 1403, **query: Any) -> int:
        """One call; it fails on the nodes in `fails`. The number of the node that was asked."""
        pick = self.router.route(self.query(**query), now=self.now)
        self.router.start(pick, self.now)
        number = pick.instance.node[0]
        self.router.end(pick, code if number in fails else 0, self.now)
        return number

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        while (key := self.timers.pop_due(self.now)) is not None:
            assert isinstance(key, BreakerDue)
            self.breakers.on_timer(key, self.now)

    def state(self, number: int) -> BreakerState:
        return self.router.measures.traffic.entries[self.node(number), "nlp/summarizer"].breaker.state

    def preferred(self) -> list[int]:
        pool = self.table.pool(ALL)
        return [] if pool is None else [instance.node[0] for instance in pool.preferred.items]


def test_a_sinkhole_gets_five_calls_and_then_none_for_half_a_minute() -> None:
    """Case B8.4."""
    world = Guarded(20)
    asked = [world.call(fails=[7]) for _ in range(2_000)]
    assert asked.count(7) == 5
    assert world.counters.value("routing.breaker_opened") == 1
    world.sleep(29.9)
    assert 7 not in [world.call() for _ in range(500)]
    world.sleep(0.2)
    assert world.state(7) is BreakerState.HALF_OPEN
    assert [world.call(fails=[7]) for _ in range(500)].count(7) == 1
    world.sleep(59.9)
    assert 7 not in [world.call() for _ in range(500)]
    world.sleep(0.2)
    assert [world.call() for _ in range(2_000)].count(7) > 50
    assert world.state(7) is BreakerState.CLOSED
    assert world.counters.value("routing.breaker_closed") == 1


def test_its_keys_keep_their_place() -> None:
    world = Guarded(20)
    pool = world.table.pool(ALL)
    assert pool is not None
    before = pool.fingerprint()
    while world.state(world.call(fails=range(1, 21))) is BreakerState.CLOSED:
        pass
    assert len(world.preferred()) == 19
    assert pool.fingerprint() == before


def test_a_trial_is_one_at_a_time_and_its_cancellation_lets_the_next_one_in() -> None:
    world = Guarded(2)
    while world.call(fails=[1]) != 1 or world.state(1) is BreakerState.CLOSED:
        pass
    world.sleep(30.0)
    assert world.preferred() == [1, 2]
    pick = world.router.route(world.query(tags={}), [world.node(2)], world.now)
    world.router.start(pick, world.now)
    assert world.preferred() == [2]
    world.router.end(pick, 1402, world.now)
    assert world.preferred() == [1, 2]
    assert world.state(1) is BreakerState.HALF_OPEN


def test_what_is_in_flight_since_before_is_no_trial() -> None:
    world = Guarded(2)
    long = world.router.route(world.query(tags={}), [world.node(2)], world.now)
    world.router.start(long, world.now)
    while world.call(fails=[1]) != 1 or world.state(1) is BreakerState.CLOSED:
        pass
    world.sleep(30.0)
    assert world.preferred() == [1, 2]
    trial = world.router.route(world.query(tags={}), [world.node(2)], world.now)
    world.router.start(trial, world.now)
    assert world.preferred() == [2]
    world.router.end(long, 1402, world.now)
    assert world.preferred() == [2], "the trial is still in flight"
    world.router.end(trial, 0, world.now)
    assert world.preferred() == [1, 2]


def test_a_trial_that_takes_very_long_holds_up_no_other() -> None:
    world = Guarded(2)
    while world.call(fails=[1]) != 1 or world.state(1) is BreakerState.CLOSED:
        pass
    world.sleep(30.0)
    stream = world.router.route(world.query(tags={}), [world.node(2)], world.now)
    world.router.start(stream, world.now)
    world.sleep(29.9)
    assert world.preferred() == [2]
    world.sleep(0.2)
    assert world.preferred() == [1, 2]
    other = world.router.route(world.query(tags={}), [world.node(2)], world.now)
    world.router.start(other, world.now)
    assert world.preferred() == [2]
    world.router.end(stream, 1402, world.now)
    assert world.preferred() == [2], "it is counted no more"
    world.router.end(other, 0, world.now)
    assert world.preferred() == [1, 2]


@pytest.mark.parametrize(
    ("sound", "ejected"), [(0, 0), (1, 0), (2, 1), (3, 1), (10, 1), (19, 1), (20, 2), (1_000, 100)]
)
def test_a_tenth_and_never_the_last(sound: int, ejected: int) -> None:
    assert ejected_max(sound) == ejected


def test_when_half_of_a_pool_fails_a_tenth_is_skipped() -> None:
    world = Guarded(40)
    for _ in range(3_000):
        world.call(fails=range(1, 21))
    assert Counter(world.state(number) for number in range(1, 21)) == {BreakerState.OPEN: 20}
    assert len(world.preferred()) == 36
    assert set(range(21, 41)) < set(world.preferred())


def test_the_only_instance_is_asked_however_broken() -> None:
    world = Guarded(1)
    assert {world.call(fails=[1]) for _ in range(20)} == {1}
    assert world.state(1) is BreakerState.OPEN
    world.offer(2, state=MemberState.SUSPECT)
    assert world.preferred() == [1]
    world.offer(3)
    assert world.preferred() == [3]


def test_the_callers_own_mistakes_open_nothing() -> None:
    world = Guarded(2)
    for code in (1304, 1402, 1404, 1405, 1407, 1408, 1410, 1413) * 20:
        world.call(fails=[1, 2], code=code)
    pick = world.router.route(world.query())
    for _ in range(20):
        world.router.start(pick, world.now)
        world.router.end(pick, 1403, world.now, callers_fault=True)
    assert world.state(1) is world.state(2) is BreakerState.CLOSED
    assert world.preferred() == [1, 2]


def times_out(world: Guarded, after: float) -> None:
    pick = world.router.route(world.query(), now=world.now)
    world.router.start(pick, world.now)
    world.sleep(after)
    world.router.end(pick, 1401, world.now)


def test_a_time_out_in_which_nobody_could_answer_opens_nothing() -> None:
    world = Guarded(1)
    for _ in range(40):
        times_out(world, 0.005)
    assert world.state(1) is BreakerState.CLOSED
    assert world.counters.value("routing.no_fair_chance") == 40
    traffic = world.router.measures.traffic.entries[world.node(1), "nlp/summarizer"]
    assert (traffic.in_flight, traffic.peak) == (0, None), "nor does it measure anything"
    for _ in range(5):
        times_out(world, 0.11)
    assert world.state(1) is BreakerState.OPEN


def test_who_usually_answers_quicker_than_that_has_failed() -> None:
    world = Guarded(1)
    pick = world.router.route(world.query())
    world.router.start(pick, world.now)
    world.sleep(0.001)
    world.router.end(pick, 0, world.now)
    for _ in range(20):
        times_out(world, 0.003)
    assert world.state(1) is BreakerState.CLOSED
    for _ in range(5):
        times_out(world, 0.005)
    assert world.state(1) is BreakerState.OPEN


def test_an_instance_without_room_has_not_failed() -> None:
    """A pool that was asked for more than it could do shut out one of its own and did still less."""
    world = Guarded(2)
    for _ in range(40):
        world.call(fails=[1, 2], code=1406)
    assert world.state(1) is world.state(2) is BreakerState.CLOSED
    for _ in range(30):  # and says nothing of what else it does
        world.call(fails=[1], code=1403)
        world.call(fails=[1], code=1406)
    assert world.state(1) is BreakerState.OPEN


def test_a_new_life_has_a_new_breaker() -> None:
    world = Guarded(2)
    while world.preferred() != [2]:
        world.call(fails=[1])
    life = world.table.instance(world.node(1), "nlp/summarizer").life  # type: ignore[union-attr]
    newer = type(life)(life.epoch + 1, life.life_id)
    world.offer(1, life=newer)
    world.believe(1, MemberState.ALIVE, life=newer)
    assert world.preferred() == [1, 2]
    while world.call() != 1:
        pass
    world.sleep(30.0)
    assert world.state(1) is BreakerState.CLOSED


def test_an_explanation_tells_of_it() -> None:
    world = Guarded(3)
    while world.preferred() != [2, 3]:
        world.call(fails=[1])
    told = explain(world.router, world.query())
    assert (told.candidates[0].removed_by, told.candidates[0].why) == (
        "breaker",
        "breaker open: skipped while another candidate exists",
    )


class EjectionMachine(RuleBasedStateMachine):
    """Whatever fails and comes and goes: a tenth of those that nothing else speaks against, and as many as may be."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Guarded(12)
        self.world.preferred()
        self.counters = Counters()

    @rule(first=st.integers(1, 24), count=st.integers(1, 12), code=st.sampled_from([1403, 1411, 1402]))
    def fail(self, first: int, count: int, code: int) -> None:
        for _ in range(10 * count):
            self.world.call(fails=range(first, first + count), code=code)

    @rule(number=st.integers(1, 24), state=st.sampled_from(MemberState))
    def believe(self, number: int, state: MemberState) -> None:
        self.world.offer(number, state=state)
        self.world.call()

    @rule(seconds=st.sampled_from([1.0, 31.0, 400.0]))
    def sleep(self, seconds: float) -> None:
        self.world.sleep(seconds)

    @invariant()
    def no_more_than_a_tenth_is_ejected_and_no_less_than_may_be(self) -> None:
        pool = self.world.table.pool(ALL)
        assert pool is not None
        alive = [i for i in pool.placed.items if i.state is MemberState.ALIVE]
        shut = [
            instance
            for instance in alive
            if (traffic := self.world.router.measures.traffic.get(instance)) is not None
            and traffic.breaker.is_shut
        ]
        assert len(pool.ejected) == min(len(shut), ejected_max(len(alive)))
        assert set(pool.ejected) <= {instance.key for instance in shut}
        assert pool.preferred.keys == [i.key for i in alive if i.key not in pool.ejected]
        assert all(pool.preferred.get(instance.key) is instance for instance in pool.preferred.items)


TestEjection = EjectionMachine.TestCase
TestEjection.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
