"""Calls that take long: the synchronous limit, tasks that go on without anybody who waits, their ends kept (B32)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from reachp2p.core.calls import tasks as tasks_module
from reachp2p.core.calls.tasks import TasksDue, TaskState
from reachp2p.core.commands import InvokeResult, Lasting
from reachp2p.core.settings import Protocol
from reachp2p.errors import CallFailed, ErrorCode
from tests.unit.calls.world import AGENT, CAPABILITY, Node, World


def pair(*, protocol: dict[str, Any] | None = None, **offer: Any) -> tuple[World, Node, Node]:
    """A caller and a node that offers the capability."""
    world = World()
    settings = replace(Protocol(), **(protocol or {}))
    a, b = world.node("a", protocol=settings), world.node("b", protocol=settings)
    b.offer(**offer)
    return world, a, b


def nothing_left(*nodes: Node) -> bool:
    return all(node.leftovers == {} for node in nodes)


# The synchronous limit


@pytest.mark.parametrize(
    ("offer", "limit"),
    [
        ({}, 30.0),
        ({"tier": "quick-query"}, 10.0),
        ({"tier": "heavy-task"}, 300.0),
        ({"tier": "gold"}, 30.0),
        ({"tier": "quick-query", "timeout": 2.0}, 2.0),
    ],
)
def test_a_call_outlasts_its_limit_and_goes_on_as_a_task(offer: dict[str, Any], limit: float) -> None:
    world, a, b = pair(**offer)
    begun = world.now
    call = a.call(lasting=Lasting.OUTLAST)
    world.sleep(limit - 0.1)
    assert (a.outlasted, a.caller.tasks.get(call)) == ([], None)
    world.sleep(0.2)
    (outlasted,) = a.outlasted
    assert (outlasted.call, outlasted.deadline) == (call, begun + 3_600.0)
    view = a.caller.tasks.get(call)
    assert view is not None
    assert (view.state, view.agent, view.capability, view.node) == (
        TaskState.RUNNING,
        AGENT,
        CAPABILITY,
        b.node,
    )
    b.finish()
    world.run()
    assert a.end_of(call).payload == b"answer"
    assert nothing_left(a, b)


def test_the_handler_has_the_time_of_the_task() -> None:
    world, a, b = pair(task_timeout=120.0)
    a.call(lasting=Lasting.OUTLAST)
    world.run()
    assert b.invoked[0].deadline - world.now == pytest.approx(120.0, abs=0.1)


def test_a_limit_above_the_deadline_of_tasks_is_the_deadline() -> None:
    world, a, b = pair(tier="heavy-task", task_timeout=5.0)
    call = a.call(lasting=Lasting.OUTLAST)
    world.sleep(300.1)
    assert a.end_of(call).code == ErrorCode.DEADLINE_EXCEEDED
    assert a.outlasted == []
    assert nothing_left(a, b)


@pytest.mark.parametrize("lasting", [Lasting.OUTLAST, Lasting.END])
def test_an_explicit_timeout_is_the_end_of_the_call(lasting: Lasting) -> None:
    world, a, b = pair(tier="heavy-task")
    call = a.call(lasting=lasting, timeout=2.0)
    world.sleep(2.1)
    assert a.end_of(call).code == ErrorCode.DEADLINE_EXCEEDED
    assert (a.outlasted, len(a.caller.tasks)) == ([], 0)
    assert nothing_left(a, b)


def test_a_repeatable_call_is_asked_elsewhere_within_the_time_that_somebody_waits() -> None:
    world, a, b = pair(repeatable=True)
    c = world.node("c")
    c.offer(repeatable=True)
    call = a.call(lasting=Lasting.OUTLAST)
    world.sleep(0.7 * 30 + 0.1)
    assert (len(b.running), len(c.running)) == (0, 1)
    world.sleep(60.0)
    c.finish()
    world.run()
    assert (a.end_of(call).code, len(a.outlasted)) == (0, 1)
    assert nothing_left(a, b, c)


# The connect part


def test_an_attempt_waits_for_its_link_as_long_as_the_connect_part_says() -> None:
    world, a, b = pair()
    c = world.node("c")
    c.offer()
    world.silent.add(b.address)
    call = a.call(timeout=20.0, connect=1.0)
    world.sleep(1.1)
    assert [invoke.message_id for invoke in c.invoked] == [call]
    c.finish()
    world.run()
    assert a.end_of(call).attempts == 2
    assert nothing_left(a, c)


def test_a_link_that_does_not_open_in_its_part_and_no_other_instance_end_the_call_safely() -> None:
    world, a, b = pair(tier="quick-query")
    world.silent.add(b.address)
    call = a.call(lasting=Lasting.OUTLAST)
    world.sleep(3.1)
    ended = a.end_of(call)
    assert (ended.code, ended.detail) == (ErrorCode.NODE_LOST, "no link to it opened within 3 s")
    assert nothing_left(a)


def test_the_connect_part_does_not_bound_the_wait_for_an_answer() -> None:
    world, a, b = pair()
    call = a.call(timeout=20.0, connect=1.0)
    world.sleep(10.0)
    b.finish()
    world.run()
    assert a.end_of(call).code == 0


def test_an_attempt_may_answer_within_its_read_part_if_another_may_be_asked() -> None:
    world, a, b = pair(repeatable=True)
    c = world.node("c")
    c.offer(repeatable=True)
    call = a.call(timeout=20.0, read=1.0)
    world.sleep(1.1)
    assert (len(b.running), len(c.running)) == (0, 1)
    world.sleep(10.0)  # nobody else is left: it keeps the time that the call has
    c.finish()
    world.run()
    assert a.end_of(call).attempts == 2
    assert nothing_left(a, b, c)


def test_the_read_part_ends_no_call_that_may_not_be_repeated() -> None:
    world, a, b = pair()
    world.node("c").offer()
    call = a.call(timeout=20.0, read=1.0)
    world.sleep(10.0)
    b.finish()
    world.run()
    assert (a.end_of(call).code, a.end_of(call).attempts) == (0, 1)


# Tasks


def test_a_submitted_task_runs_by_itself_and_its_end_is_kept() -> None:
    world, a, b = pair(protocol={"task_keep": 60.0})
    task = a.call(lasting=Lasting.TASK)
    view = a.caller.tasks.get(task)
    assert view is not None
    assert view.state is TaskState.WAITING
    world.sleep(100.0)
    b.finish()
    world.sleep(59.0)
    view = a.caller.tasks.get(task)
    assert view is not None
    assert view.ended == a.end_of(task)
    assert view.state is TaskState.DONE
    assert a.caller.tasks.result_bytes == len(b"answer")
    world.sleep(2.0)
    assert a.caller.tasks.get(task) is None
    assert (len(a.caller.tasks), a.caller.tasks.result_bytes) == (0, 0)
    assert a.timers.due_at(TasksDue()) is None
    assert a.counters.value("tasks.expired") == 1
    assert nothing_left(a, b)


def test_a_task_ends_at_its_own_deadline_or_that_of_its_capability() -> None:
    world, a, b = pair(task_timeout=50.0)
    first, second = a.call(lasting=Lasting.TASK), a.call(lasting=Lasting.TASK, timeout=5.0)
    world.sleep(5.1)
    views = {view.id: view.state for view in a.caller.tasks.all()}
    assert views == {first: TaskState.RUNNING, second: TaskState.FAILED}
    world.sleep(45.0)
    assert a.end_of(first).code == ErrorCode.DEADLINE_EXCEEDED
    assert b.running == {}


def test_a_cancelled_task_says_so_and_stops_its_handler() -> None:
    world, a, b = pair()
    task = a.call(lasting=Lasting.TASK)
    world.run()
    assert a.cancel(task)
    world.run()
    view = a.caller.tasks.get(task)
    assert view is not None
    assert view.state is TaskState.CANCELLED
    assert b.running == {}


def test_too_many_running_tasks_are_refused_and_a_call_at_its_limit_ends_instead() -> None:
    world, a, b = pair(protocol={"tasks_max": 1, "call_timeout": 1.0})
    task = a.call(lasting=Lasting.TASK)
    with pytest.raises(CallFailed) as caught:
        a.call(lasting=Lasting.TASK)
    assert caught.value.code is ErrorCode.REFUSED_FULL
    call = a.call(lasting=Lasting.OUTLAST)
    world.sleep(1.1)
    assert a.end_of(call).code == ErrorCode.DEADLINE_EXCEEDED
    assert "1 tasks" in a.end_of(call).detail
    assert a.counters.value("tasks.refused") == 2
    b.finish()
    world.run()
    assert a.end_of(task).code == 0
    assert nothing_left(a, b)


def test_kept_ends_make_room_for_newer_ones_by_number_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    world, a, b = pair(protocol={"tasks_max": 3})
    tasks = [a.call(lasting=Lasting.TASK) for _ in range(3)]
    world.run()
    for _ in tasks:
        b.finish()
    world.run()
    later = a.call(lasting=Lasting.TASK)
    assert [view.id for view in a.caller.tasks.all()] == [later, *tasks[1:]]
    monkeypatch.setattr(tasks_module, "RESULTS_BYTES_MAX", 1_000)
    world.run()
    b.finish(result=InvokeResult(payload=b"x" * 995))
    world.run()
    assert [view.id for view in a.caller.tasks.all()] == [later]
    assert a.counters.value("tasks.evicted") == 3
    assert a.caller.tasks.result_bytes == 995
