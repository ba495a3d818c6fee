from __future__ import annotations

import pytest
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.scripted import Story
from reachp2p_sim.world.world import World

from reachp2p.core.effects import Persist, SendDatagram, Table
from reachp2p.core.events import MemberChanged, MemberState
from reachp2p.core.ids import Ticket


def send(story: Story, source: Host, target: Host, count: int = 1) -> None:
    for number in range(count):
        story.want(source, SendDatagram(target.address, bytes([number])))


def kinds(story: Story, host: Host) -> list[str]:
    return [what[0] for what in story.heard(host)]


# Blocked: Lifeguard's anomaly


def test_a_blocked_process_goes_on_until_it_sends_and_hears_nothing(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    b.processor.block()
    send(story, a, b)
    story.wake_at(b, b.now + 1)
    story.world.run(2)
    assert kinds(story, b) == ["timeout"], "its timer fires, what it receives waits"
    story.want(b, Persist(Ticket(1), Table.HEADS, b"k", b"v"), SendDatagram(a.address, b"blocked"))
    story.wake_at(b, b.now + 1)
    story.world.run(5)
    assert b.processor.is_blocked
    assert story.heard(b) == story.heard(a) == [], "it stands at its send: no timer fires any more"
    b.resume()
    story.world.run(1)
    assert story.heard(a) == [("datagram", b.address, b"blocked")]
    assert kinds(story, b) == ["timeout", "datagram", "persisted"]


def test_what_follows_a_blocked_send_waits_with_it_in_order(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    b.processor.block()
    story.want(b, *[SendDatagram(a.address, bytes([number])) for number in range(5)])
    story.want(b, SendDatagram(a.address, bytes([5])))
    story.world.run(3)
    assert story.world.network.sent == 0
    b.resume()
    story.world.run(1)
    assert [what[2][0] for what in story.heard(a)] == [0, 1, 2, 3, 4, 5]


def test_a_process_that_is_killed_while_blocked_has_sent_nothing(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    b.processor.block()
    send(story, b, a)
    story.world.crash(b)
    story.world.restart(b)
    story.world.run(1)
    assert story.world.network.sent == 0
    assert not b.is_paused


def test_nobody_is_blocked_twice(story: Story) -> None:
    (a,) = story.world.add_nodes(1)
    a.processor.block()
    with pytest.raises(AssertionError, match="paused already"):
        a.pause()


# Slow


def test_a_slow_process_serves_one_input_at_a_time_in_order(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    b.processor.slow_down(0.1)
    send(story, a, b, 5)
    story.world.run(2)
    assert [time - b.steady_offset for time in story.script(b).times] == pytest.approx(
        [0.11, 0.21, 0.31, 0.41, 0.51]
    )
    assert [what[2][0] for what in story.heard(b)] == [0, 1, 2, 3, 4]


def test_a_due_timer_waits_for_its_turn_once(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    b.processor.slow_down(0.1)
    send(story, a, b, 3)
    story.wake_at(b, b.now + 0.15)
    story.world.run(2)
    assert kinds(story, b) == ["datagram", "datagram", "datagram", "timeout"]


def test_a_full_backlog_drops_datagrams_and_counts_them(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    b.processor.slow_down(1.0, backlog_max=3)
    send(story, a, b, 10)
    story.world.run(20)
    assert len(story.heard(b)) == 3
    assert b.processor.dropped == 7
    assert b.processor.waiting_max == 3


def test_a_process_that_is_fast_again_catches_up_at_once(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    b.processor.slow_down(10.0)
    send(story, a, b, 5)
    story.world.run(1)
    b.processor.slow_down(0.0)
    assert len(story.heard(b)) == 5
    send(story, a, b)
    story.world.run(0.02)
    assert len(story.heard(b)) == 1


def test_a_slow_machine_stays_slow_over_a_restart_and_a_pause(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    b.processor.slow_down(0.1)
    send(story, a, b, 3)
    story.world.run(0.15)
    story.world.restart(b)
    story.world.run(5)
    assert story.heard(b) == [], "what waited was for the process that is gone"
    b.pause()
    send(story, a, b, 2)
    story.world.run(5)
    assert story.heard(b) == []
    b.resume()
    story.world.run(0.25)
    assert len(story.heard(b)) == 2


@pytest.mark.parametrize("wrong", [-1.0, float("inf"), float("nan")])
def test_an_impossible_service_time_is_refused(story: Story, wrong: float) -> None:
    (a,) = story.world.add_nodes(1)
    with pytest.raises(ValueError, match="service time"):
        a.processor.slow_down(wrong)


# With the core that ships


@pytest.mark.parametrize("how", ["pause", "block"])
def test_of_a_short_anomaly_nobody_is_declared_dead(how: str) -> None:
    world = World(seed=11)
    hosts = world.add_nodes(8)
    dead: list[str] = []
    world.on_event.append(
        lambda _, event: (
            dead.append(event.name)
            if isinstance(event, MemberChanged) and event.new is MemberState.DEAD
            else None
        )
    )
    world.run(10)
    for _ in range(3):
        for host in hosts[:3]:
            getattr(host.processor, how)()
        world.run(2.0)
        for host in hosts[:3]:
            host.resume()
        world.run(5)
    assert dead == []


def test_what_a_dead_process_planned_takes_no_time_of_a_slow_machine(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    story.world.slow_down(b, service_time=1.0)
    story.want(b, Persist(Ticket(1), Table.HEADS, b"k", b"v"))
    story.wake_at(b, b.now + 0.2)
    story.world.crash(b)
    story.world.run(0.5)
    story.world.start(b)
    story.want(a, SendDatagram(b.address, b"first"))
    story.world.run(1.2)
    assert story.heard(b) == [("datagram", a.address, b"first")]
