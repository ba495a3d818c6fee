"""Own subscriptions and what arrives for them: what is told, when, and what was lost."""

from __future__ import annotations

import pytest

from reachp2p.core.commands import AgentSpec, InvokeResult, TopicSpec
from reachp2p.core.counters import Counters
from reachp2p.core.effects import CancelInvoke, Effects, Invoke
from reachp2p.core.events import EventReceived
from reachp2p.core.ids import PATTERNS_MAX, Life, NodeId
from reachp2p.core.timers import Timers
from reachp2p.core.topics.handling import HANDLER_TIMEOUT, WAITING_BYTES_MAX, WAITING_MAX, EventHandlers
from reachp2p.core.topics.subscriber import LINGER, PUBLISHERS_MAX, TELL_INTERVAL, Subscriber
from reachp2p.core.wire.messages import Publication
from reachp2p.errors import LocalProtocolError
from tests.support import CountingEntropy, events, life, node_id

AUDIT = "shop/audit"


class Bench:
    """A subscriber and its handlers; the test plays links and driver."""

    def __init__(self) -> None:
        self.effects, self.timers, self.counters = Effects(), Timers(), Counters()
        self.tokens: dict[str, int] = {}
        self.handlers = EventHandlers(
            self.tokens,
            effects=self.effects,
            timers=self.timers,
            entropy=CountingEntropy(),
            counters=self.counters,
        )
        self.subscriber = Subscriber(self.handlers, effects=self.effects, counters=self.counters)

    def hears(
        self,
        sequence: int,
        topic: str = "a.b",
        node: NodeId | None = None,
        of: Life | None = None,
        payload: bytes = b"",
        now: float = 0.0,
    ) -> list[EventReceived]:
        event = Publication(topic=topic, payload=payload, sequence=sequence, published_at=0)
        self.subscriber.on_publication(node or node_id(2), of or life(1), event, now)
        return [told for told in events(self.effects) if isinstance(told, EventReceived)]

    def started(self) -> list[Invoke]:
        return [item for item in self.effects.take() if isinstance(item, Invoke)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_gap_in_the_sequence_is_told_with_the_next_event(bench: Bench) -> None:
    bench.subscriber.subscribe("a.*")
    assert [bench.hears(n)[0].gap for n in (1, 2, 5, 6, 7)] == [0, 0, 2, 0, 0]
    assert bench.counters.value("topics.lost") == 2
    assert bench.hears(4)[0].gap == 0
    assert bench.counters.value("topics.late") == 1
    assert bench.hears(8)[0].gap == 0
    assert bench.hears(1, of=life(2))[0].gap == 0, "a new life counts anew"


def test_sequences_of_publishers_are_remembered_within_bounds(bench: Bench) -> None:
    for number in range(PUBLISHERS_MAX + 3):
        bench.hears(1, node=node_id(number))
    assert bench.subscriber.gauges()["topics.publishers"] == PUBLISHERS_MAX
    assert bench.counters.value("topics.publishers_forgotten") == 3


def test_what_is_not_well_formed_or_not_wanted_is_counted(bench: Bench) -> None:
    assert bench.hears(1, topic="a..b") == []
    assert bench.hears(1, topic="a.b") == []
    assert bench.counters.value("dropped.publication.bad_topic") == 1
    assert bench.counters.value("topics.unwanted") == 1


def test_a_new_pattern_is_told_at_once_and_further_ones_after_a_moment(bench: Bench) -> None:
    subscriber = bench.subscriber
    assert subscriber.due_at(0.0) is None
    subscriber.subscribe("a")
    assert subscriber.due_at(1.0) == 1.0
    assert subscriber.take_patterns(1.0) == ("a",)
    subscriber.subscribe("b")
    assert subscriber.due_at(1.1) == 1.0 + TELL_INTERVAL
    subscriber.subscribe("a")
    assert subscriber.take_patterns(1.5) == ("a", "b")
    assert subscriber.take_patterns(1.5) is None
    assert subscriber.due_at(2.0) is None


def test_a_pattern_lingers_after_its_last_subscriber(bench: Bench) -> None:
    subscriber = bench.subscriber
    first, second = subscriber.subscribe("a"), subscriber.subscribe("a")
    subscriber.take_patterns(0.0)
    subscriber.unsubscribe(first, 1.0)
    assert subscriber.due_at(1.0) is None
    subscriber.unsubscribe(second, 2.0)
    subscriber.unsubscribe(second, 2.0)
    assert subscriber.due_at(2.0) == 2.0 + LINGER
    subscriber.subscribe("a")
    assert subscriber.due_at(2.0) is None, "it is told already"


def test_patterns_are_bounded_and_lingering_ones_make_room(bench: Bench) -> None:
    numbers = [bench.subscriber.subscribe(f"t{n}") for n in range(PATTERNS_MAX)]
    with pytest.raises(LocalProtocolError, match="wider"):
        bench.subscriber.subscribe("more")
    bench.subscriber.subscribe("t0")
    bench.subscriber.unsubscribe(numbers[5], 0.0)
    bench.subscriber.subscribe("more")
    patterns = bench.subscriber.take_patterns(0.0)
    assert patterns is not None
    assert len(patterns) == PATTERNS_MAX
    assert "t5" not in patterns


def offer(bench: Bench, concurrency: int = 1, *, exclusive: bool = False) -> None:
    topics = (TopicSpec(pattern="a.>", concurrency_max=concurrency),)
    bench.handlers.offer(AgentSpec(agent=AUDIT, topics=topics, exclusive=exclusive))


def test_handlers_run_within_their_concurrency_and_in_order(bench: Bench) -> None:
    offer(bench, concurrency=2)
    for number in range(4):
        bench.hears(number + 1, topic=f"a.n{number}")
    first = bench.started()
    assert [invoke.event.topic for invoke in first if invoke.event] == ["a.n0", "a.n1"]
    assert all(invoke.invocation < 0 and invoke.capability == "on a.>" for invoke in first)
    bench.handlers.on_invoke_result(first[0].invocation, InvokeResult(), 1.0)
    assert [invoke.event.topic for invoke in bench.started() if invoke.event] == ["a.n2"]
    bench.handlers.on_invoke_result(first[0].invocation, InvokeResult(), 1.0)
    assert bench.counters.value("calls.result_discarded") == 1


def test_the_oldest_that_wait_are_dropped_and_the_next_is_told_how_many(bench: Bench) -> None:
    offer(bench)
    for number in range(WAITING_MAX + 6):
        bench.hears(number + 1 + (number >= 3), topic=f"a.n{number}")
    (running,) = bench.started()
    bench.handlers.on_invoke_result(running.invocation, InvokeResult(), 1.0)
    (following,) = bench.started()
    assert following.event is not None
    assert (following.event.topic, following.event.missed, following.event.gap) == ("a.n6", 5, 1)
    assert bench.counters.value("topics.dropped.handler_full") == 5
    bench.handlers.on_invoke_result(following.invocation, InvokeResult(code=1403), 1.0)
    (last,) = bench.started()
    assert last.event is not None
    assert last.event.missed == 0
    assert bench.counters.value("topics.handling_failed.1403") == 1


def test_waiting_events_are_bounded_in_bytes(bench: Bench) -> None:
    offer(bench)
    for number in range(12):
        bench.hears(number + 1, payload=bytes(1_000_000))
    assert bench.handlers.gauges()["topics.handler_waiting"] == WAITING_BYTES_MAX // 1_000_000


def test_a_handler_has_its_time_and_no_more(bench: Bench) -> None:
    offer(bench)
    bench.hears(1, now=5.0)
    bench.hears(2, now=5.0)
    (running,) = bench.started()
    assert running.deadline == 5.0 + HANDLER_TIMEOUT
    key = bench.timers.pop_due(running.deadline)
    assert key is not None
    bench.handlers.on_due(key, running.deadline)  # type: ignore[arg-type]
    cancelled, started = bench.effects.take()
    assert isinstance(cancelled, CancelInvoke)
    assert isinstance(started, Invoke)
    assert bench.handlers.running == 1


def test_pausing_cancels_and_draining_lets_finish(bench: Bench) -> None:
    offer(bench)
    for number in range(3):
        bench.hears(number + 1)
    bench.started()
    bench.handlers.drain()
    assert bench.handlers.running == 1
    assert bench.counters.value("topics.dropped.stopped") == 2
    bench.handlers.pause()
    assert bench.handlers.running == 0
    assert len(bench.timers) == 0
    bench.hears(9)
    assert bench.counters.value("topics.dropped.stopped") == 3


def test_events_that_waited_because_the_node_was_full_are_handled_when_an_agent_is_handed_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reachp2p.core.topics.handling.RUNNING_MAX", 3)
    bench.tokens[AUDIT] = 77
    bench.handlers.offer(
        AgentSpec(agent=AUDIT, exclusive=True, topics=(TopicSpec(pattern="a", concurrency_max=3),))
    )
    bench.handlers.offer(AgentSpec(agent="shop/other", topics=(TopicSpec(pattern="b"),)))
    for number in range(3):
        bench.hears(number, "a")
    bench.hears(3, "b")
    assert [invoke.agent for invoke in bench.started()] == [AUDIT] * 3
    del bench.tokens[AUDIT]
    bench.handlers.hand_back(AUDIT, 0.0)
    assert [invoke.agent for invoke in bench.started()] == ["shop/other"]


def test_an_exclusive_agent_handles_at_its_owner_and_stops_when_it_is_none(bench: Bench) -> None:
    offer(bench, exclusive=True)
    bench.hears(1)
    assert bench.started() == []
    assert bench.counters.value("topics.standing_by") == 1
    bench.tokens[AUDIT] = 77
    bench.hears(2)
    (running,) = bench.started()
    assert running.fencing_token == 77
    del bench.tokens[AUDIT]
    bench.handlers.hand_back(AUDIT, 0.0)
    assert bench.handlers.running == 0
    bench.handlers.withdraw(AUDIT)
    assert bench.handlers.gauges()["topics.handlers"] == 0
    bench.hears(3)
    assert bench.counters.value("topics.unwanted") == 1


def test_handlers_that_run_when_their_agent_is_offered_anew_count_for_its_concurrency(bench: Bench) -> None:
    offer(bench)
    bench.hears(1)
    (first,) = bench.started()
    bench.handlers.withdraw(AUDIT)
    offer(bench)
    bench.hears(2)
    assert bench.started() == []
    bench.handlers.on_invoke_result(first.invocation, InvokeResult(), 1.0)
    (second,) = bench.started()
    bench.handlers.on_invoke_result(second.invocation, InvokeResult(), 1.0)
    bench.handlers.withdraw(AUDIT)
    assert set(bench.handlers.gauges().values()) == {0}
