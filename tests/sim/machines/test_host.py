from __future__ import annotations

import pytest
from reachp2p_sim.machines.process import RESOLVE_INTERVAL, WALL_CLOCK_INTERVAL
from reachp2p_sim.machines.scripted import Story
from reachp2p_sim.machines.workload import Handler, Offer
from reachp2p_sim.world.acts import SEEDS
from reachp2p_sim.world.world import WALL_START

from reachp2p.core.effects import Fetch, Invoke, Notify, Persist, SendDatagram, Table
from reachp2p.core.events import DrainFinished, Fenced
from reachp2p.core.ids import Life, NodeId, Ticket


def test_an_engine_is_woken_at_its_deadline_never_before(story: Story) -> None:
    (a,) = story.world.add_nodes(1)
    for number in range(200):
        deadline = a.now + 0.1 + number / 7
        story.wake_at(a, deadline)
        story.world.run(number / 7 + 0.2)
        assert story.script(a).times[0] >= deadline
        assert story.script(a).times[0] == pytest.approx(deadline)
        assert story.heard(a) == [("timeout",)]


def test_a_deadline_that_moves_wakes_once_at_its_last_place(story: Story) -> None:
    (a,) = story.world.add_nodes(1)
    began = a.now
    story.wake_at(a, began + 5)
    story.wake_at(a, began + 1)
    story.wake_at(a, began + 3)
    story.world.run(10)
    assert story.script(a).times == [pytest.approx(began + 3)]


def test_a_pause_loses_nothing_and_comes_back_late(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    began = b.now
    story.wake_at(b, began + 1)
    story.world.pause(b)
    story.want(a, SendDatagram(b.address, b"1"), SendDatagram(b.address, b"2"))
    story.world.run(8)
    assert story.heard(b) == []
    story.world.resume(b)
    assert story.script(b).times == [b.now] * 3
    assert story.heard(b) == [("timeout",), ("datagram", a.address, b"1"), ("datagram", a.address, b"2")]


def test_a_process_hears_nothing_of_its_predecessor(story: Story) -> None:
    (a,) = story.world.add_nodes(1)
    story.wake_at(a, a.now + 1)
    story.want(a, Persist(Ticket(1), Table.HEADS, b"k", b"v"))
    story.world.restart(a)
    story.world.run(5)
    assert story.heard(a) == []


def test_writes_are_answered_when_durable_and_survive_a_restart(story: Story) -> None:
    (a,) = story.world.add_nodes(1)
    story.want(a, Persist(Ticket(1), Table.HEADS, b"k", b"v"))
    assert story.heard(a) == []
    story.world.run(1)
    assert story.heard(a) == [("persisted", 1)]
    story.world.restart(a)
    story.want(a, Fetch(1, Table.HEADS, b"", None, 10))
    story.world.run(1)
    assert story.heard(a) == [("fetched", 1, [(b"k", b"v")])]


def test_a_lost_disk_is_empty_and_an_older_image_is_older(story: Story) -> None:
    (a,) = story.world.add_nodes(1)
    story.want(a, Persist(Ticket(1), Table.HEADS, b"k", b"old"))
    story.world.run(1)
    story.world.save_disk(a, image="old")
    story.want(a, Persist(Ticket(2), Table.HEADS, b"k", b"new"))
    story.world.run(1)
    story.world.restart(a, disk="old")
    assert a.disk.rows == {Table.HEADS: {b"k": b"old"}}
    story.world.restart(a, disk="lost")
    assert a.disk.rows == {}


def test_a_failing_disk_tells_the_engine(story: Story) -> None:
    (a,) = story.world.add_nodes(1)
    a.disk.conditions.failure = "no space left on device"
    story.want(a, Persist(Ticket(1), Table.HEADS, b"k", b"v"))
    story.world.run(1)
    assert story.heard(a) == [("persist_failed", 1, "no space left on device")]


def test_a_process_that_drains_or_is_fenced_ends_with_its_writes_done(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    story.want(a, Persist(Ticket(1), Table.HEADS, b"k", b"v"), Notify(DrainFinished(at=0.0, unfinished=0)))
    assert not a.is_running
    assert a.disk.rows == {Table.HEADS: {b"k": b"v"}}
    story.want(b, Notify(Fenced(at=0.0, other=Life(2, bytes(16)))), SendDatagram(a.address, b"goodbye"))
    assert isinstance(b.ended_by, Fenced)
    assert story.world.network.sent == 1


def test_a_clone_has_the_key_and_the_disk_but_not_the_address(story: Story) -> None:
    (a,) = story.world.add_nodes(1)
    story.want(a, Persist(Ticket(1), Table.HEADS, b"k", b"v"))
    story.world.run(1)
    twin = story.world.clone(a)
    assert twin.node == a.node
    assert twin.address != a.address
    assert twin.disk.rows == a.disk.rows
    story.world.start(twin)
    assert story.script(twin).rng.random() != story.script(a).rng.random()


def test_the_wall_clock_is_reported_and_can_be_stepped(story: Story) -> None:
    (a,) = story.world.add_nodes(1)
    assert story.script(a).wall == WALL_START
    story.world.step_clock(a, -86_400)
    story.world.run(WALL_CLOCK_INTERVAL)
    assert story.script(a).wall == WALL_START + WALL_CLOCK_INTERVAL - 86_400


def test_seed_names_are_asked_for_again(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    assert story.script(b).seeds == [a.address]
    story.world.set_name(SEEDS, [b])
    story.world.run(RESOLVE_INTERVAL)
    assert story.script(b).seeds == [b.address]


def invoke(number: int) -> Invoke:
    return Invoke(
        invocation=number, agent="work/doer", capability="work.do", content_type="application/cbor", payload=b"",
        caller=NodeId(bytes(32)), message_id=bytes(16), deadline=1e9, attempt=1, session_id=None, idempotency_key=None,
        traceparent=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("handler", "codes"),
    [
        (Handler(), {0}),
        (Handler(fails=1.0), {1403}),
        (Handler(hangs=1.0), set()),
        (Handler(fails=0.5), {0, 1403}),
    ],
)
def test_handlers_end_as_they_are_told_to(story: Story, handler: Handler, codes: set[int]) -> None:
    (a,) = story.world.add_nodes(1)
    a.application.offer(Offer.simple("work/doer", "work.do", handler))
    story.heard(a)
    story.want(a, *[invoke(number) for number in range(30)])
    story.world.run(5)
    assert {what[2] for what in story.heard(a)} == codes


def test_an_agent_is_offered_again_after_a_restart(story: Story) -> None:
    (a,) = story.world.add_nodes(1)
    a.application.offer(Offer.simple("work/doer", "work.do", Handler()))
    story.world.restart(a)
    assert ("register", "work/doer") in story.heard(a)
