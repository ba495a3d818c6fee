"""Runs the handlers that agents have for events: each pattern has a bulkhead of its own (docs/protocol/events.md).

A handler that is slow keeps events of its own pattern waiting, and of no other; when too many wait, the oldest is
dropped and the next one says how many were missed. Invocations have negative numbers, so that they are told from
those of calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from reachp2p.core.commands import AgentSpec, InvokeResult, TopicSpec
from reachp2p.core.counters import Counters
from reachp2p.core.effects import CancelInvoke, Effects, Invoke
from reachp2p.core.events import EventReceived
from reachp2p.core.ids import MESSAGE_ID_BYTES, Entropy
from reachp2p.core.timers import Timers
from reachp2p.core.topics.matching import Matching

RUNNING_MAX = 1_024
"""Handlers of events at once in a node."""
WAITING_MAX = 1_024
"""Events that wait for the handler of one pattern."""
WAITING_BYTES_MAX = 8_388_608
HANDLER_TIMEOUT = 30.0
"""Seconds for a handler whose pattern names none: as the deadline of a call."""


class EventHandlingDue(msgspec.Struct, frozen=True):
    """A handler has had its time."""

    invocation: int


class _Bulkhead(msgspec.Struct):
    """One pattern of one agent."""

    agent: str
    topic: TopicSpec
    waiting: deque[EventReceived]
    size: int = 0
    """Bytes of payload that wait."""
    running: int = 0
    missed: int = 0
    """Events dropped since one was last handed out."""
    gap: int = 0
    """Losses that those told of."""


class EventHandlers:
    """Handlers of events. Bounds: `RUNNING_MAX` that run, `WAITING_MAX` and `WAITING_BYTES_MAX` for each pattern."""

    def __init__(
        self,
        tokens: Mapping[str, int],
        *,
        effects: Effects,
        timers: Timers,
        entropy: Entropy,
        counters: Counters,
    ) -> None:
        """`tokens` are those of the exclusive agents that this node owns."""
        self._tokens = tokens
        self._effects = effects
        self._timers = timers
        self._entropy = entropy
        self._counters = counters
        self._specs: dict[str, AgentSpec] = {}
        self._bulkheads: dict[tuple[str, str], _Bulkhead] = {}
        self._matching: Matching[tuple[str, str]] = Matching()
        self._invocations: dict[int, _Bulkhead] = {}
        self._last_number = 0
        self._is_stopped = False
        self._is_draining = False

    # Commands

    def offer(self, spec: AgentSpec) -> None:
        """An agent is offered with these patterns, or changed; what waits for patterns that it keeps stays."""
        self._specs[spec.agent] = spec
        wanted = {topic.pattern: topic for topic in spec.topics}
        for key in [key for key in self._bulkheads if key[0] == spec.agent and key[1] not in wanted]:
            self._close(key)
        for pattern, topic in wanted.items():
            held = self._bulkheads.get((spec.agent, pattern))
            if held is not None:
                held.topic = topic
            else:
                self._bulkheads[spec.agent, pattern] = self._still_running(spec.agent, topic)
                self._matching.add(pattern, (spec.agent, pattern))

    def withdraw(self, agent: str) -> None:
        """It is offered no more: what waits is dropped, what runs goes on."""
        self._specs.pop(agent, None)
        for key in [key for key in self._bulkheads if key[0] == agent]:
            self._close(key)

    def hand_back(self, agent: str, now: float) -> None:
        """This node owns an exclusive agent no more: drop what waits, cancel what runs; others have its places."""
        for key, bulkhead in self._bulkheads.items():
            if key[0] == agent:
                self._forget_waiting(bulkhead)
        self._cancel([n for n, b in self._invocations.items() if b.agent == agent], "another node owns it")
        for bulkhead in list(self._bulkheads.values()):
            self._start_waiting(bulkhead, now)

    def drain(self) -> None:
        """Begin nothing more; what runs may finish."""
        self._is_draining = True
        for bulkhead in self._bulkheads.values():
            self._forget_waiting(bulkhead)

    def pause(self) -> None:
        """A higher life of this key was heard of: begin nothing, cancel what runs."""
        self._is_stopped = True
        for bulkhead in self._bulkheads.values():
            self._forget_waiting(bulkhead)
        self._cancel(list(self._invocations), "this node has stopped serving")

    def resume(self) -> None:
        """This node goes on, under a new life."""
        self._is_stopped = False

    def _still_running(self, agent: str, topic: TopicSpec) -> _Bulkhead:
        """The bulkhead of a pattern that is offered anew: that of its handlers which still run, so that they count."""
        for bulkhead in self._invocations.values():
            if bulkhead.agent == agent and bulkhead.topic.pattern == topic.pattern:
                bulkhead.topic = topic
                return bulkhead
        return _Bulkhead(agent, topic, deque())

    def _close(self, key: tuple[str, str]) -> None:
        self._forget_waiting(self._bulkheads.pop(key))
        self._matching.remove(key[1], key)

    def _forget_waiting(self, bulkhead: _Bulkhead) -> None:
        if bulkhead.waiting:
            self._counters.add("topics.dropped.stopped", len(bulkhead.waiting))
        bulkhead.waiting.clear()
        bulkhead.size = 0

    def _cancel(self, numbers: list[int], reason: str) -> None:
        for number in numbers:
            self._effects.add(CancelInvoke(number, reason))
            self._finish(number)

    # Inputs

    def on_event(self, event: EventReceived, now: float) -> bool:
        """An event has arrived; whether an agent here wants it."""
        keys = self._matching.match(event.topic)
        for key in keys:
            bulkhead = self._bulkheads[key]
            spec = self._specs[bulkhead.agent]
            if self._is_stopped or self._is_draining:
                self._counters.add("topics.dropped.stopped")
            elif spec.exclusive and bulkhead.agent not in self._tokens:
                self._counters.add("topics.standing_by")
            else:
                self._queue(bulkhead, event)
                self._start_waiting(bulkhead, now)
        return bool(keys)

    def _queue(self, bulkhead: _Bulkhead, event: EventReceived) -> None:
        waiting = bulkhead.waiting
        bulkhead.size += len(event.payload)
        waiting.append(event)
        while len(waiting) > WAITING_MAX or (bulkhead.size > WAITING_BYTES_MAX and len(waiting) > 1):
            lost = waiting.popleft()
            bulkhead.size -= len(lost.payload)
            bulkhead.missed += 1
            bulkhead.gap += lost.gap
            self._counters.add("topics.dropped.handler_full")

    def on_invoke_result(self, number: int, result: InvokeResult, now: float) -> None:
        """A handler has ended."""
        if number not in self._invocations:
            self._counters.add("calls.result_discarded")  # cancelled before
            return
        self._counters.add(
            "topics.handled" if result.code == 0 else f"topics.handling_failed.{int(result.code)}"
        )
        self._go_on(self._finish(number), now)

    def on_due(self, key: EventHandlingDue, now: float) -> None:
        """A handler has had its time."""
        if key.invocation in self._invocations:
            self._counters.add("topics.handling_failed.1401")
            self._effects.add(CancelInvoke(key.invocation, "its time is over"))
            self._go_on(self._finish(key.invocation), now)

    # Running

    def _go_on(self, bulkhead: _Bulkhead, now: float) -> None:
        """A handler of this bulkhead has ended. Others wait for it only if the node was full."""
        if len(self._invocations) == RUNNING_MAX - 1:
            for other in list(self._bulkheads.values()):
                if other is not bulkhead:
                    self._start_waiting(other, now)
        self._start_waiting(bulkhead, now)

    def _start_waiting(self, bulkhead: _Bulkhead, now: float) -> None:
        topic = bulkhead.topic
        while (
            bulkhead.waiting
            and bulkhead.running < topic.concurrency_max
            and len(self._invocations) < RUNNING_MAX
        ):
            event = bulkhead.waiting.popleft()
            bulkhead.size -= len(event.payload)
            told = replace(event, missed=bulkhead.missed, gap=event.gap + bulkhead.gap)
            bulkhead.missed = bulkhead.gap = 0
            self._start(bulkhead, told, now)

    def _start(self, bulkhead: _Bulkhead, event: EventReceived, now: float) -> None:
        self._last_number -= 1
        deadline = now + (bulkhead.topic.timeout or HANDLER_TIMEOUT)
        self._invocations[self._last_number] = bulkhead
        bulkhead.running += 1
        self._timers.set(EventHandlingDue(self._last_number), deadline)
        self._effects.add(
            Invoke(
                invocation=self._last_number,
                agent=bulkhead.agent,
                capability=bulkhead.topic.handler,
                content_type=event.content_type,
                payload=event.payload,
                caller=event.publisher,
                message_id=self._entropy.token(MESSAGE_ID_BYTES),
                deadline=deadline,
                attempt=1,
                session_id=event.session_id,
                idempotency_key=None,
                traceparent=event.traceparent,
                path=(bulkhead.agent,),
                hops_left=event.hops_left - 1,
                fencing_token=self._tokens.get(bulkhead.agent),
                event=event,
            )
        )

    def _finish(self, number: int) -> _Bulkhead:
        bulkhead = self._invocations.pop(number)
        bulkhead.running -= 1
        self._timers.cancel(EventHandlingDue(number))
        return bulkhead

    # Questions

    @property
    def running(self) -> int:
        """Handlers that run."""
        return len(self._invocations)

    def is_serving(self, agent: str) -> bool:
        """Whether handlers of this agent run."""
        return any(bulkhead.agent == agent for bulkhead in self._invocations.values())

    def gauges(self) -> dict[str, int]:
        """The sizes of what is bounded, by name."""
        return {
            "topics.handling": len(self._invocations),
            "topics.handlers": len(self._bulkheads),
            "topics.handler_waiting": sum(len(b.waiting) for b in self._bulkheads.values()),
        }
