"""Two nodes that dial each other give one link up: no call, no handler and no cancel is lost on the way over."""

from __future__ import annotations

from collections import deque

import pytest

from reachp2p.core.commands import RouteQuery, StreamKind
from reachp2p.core.effects import LinkEnd
from reachp2p.core.wire.messages import StreamItem
from reachp2p.errors import ErrorCode
from tests.unit.calls.world import CAPABILITY, Node, World
from tests.unit.links.pair import End, Wire


def served() -> tuple[World, Node, Node, bytes, Wire]:
    """a serves a call of b over the link that b has dialled."""
    world = World()
    a, b = world.node("a"), world.node("b")
    a.offer()
    call = b.call(timeout=20)
    world.run()
    assert len(a.running) == 1
    (old,) = world.wires
    return world, a, b, call, old


def dialled_back(world: World, a: Node, b: Node, old: Wire) -> Wire:
    """a dials b, too: the link of the lower NodeId is to stay."""
    a.dial(b, b.node)
    (new,) = [wire for wire in world.wires if wire is not old]
    return new


def go_on(world: World, wire: Wire) -> None:
    """Everything on one wire happens, and nothing else."""
    while possible := [step for step in world.steps() if step[0] is wire]:
        world.step(*possible[0])


def finished(world: World, a: Node, b: Node, call: bytes) -> int:
    """How the call ends when its handler returns, if it still runs."""
    world.run()
    if a.running:
        a.finish()
    world.sleep(30)
    return b.end_of(call).code


def test_a_handler_goes_on_when_its_link_ends_before_the_other_is_proven_here() -> None:
    world, a, b, call, old = served()
    new = dialled_back(world, a, b, old)

    def is_late(end: End) -> bool:
        """b's proof to a, the last frame that opens the new link."""
        link = a.links._book.get(new.dialler.link)
        has_heard_hello = (
            link is not None and link.handshake is not None and link.handshake.remote is not None
        )
        return end is new.dialler and end.is_told and bool(end.inbox) and has_heard_hello

    while possible := [step for step in world.steps() if step[0] is new and not is_late(step[1])]:
        world.step(*possible[0])
    go_on(world, old)
    assert finished(world, a, b, call) == 0
    assert a.links.link_to(b.node) is not None


def test_a_handler_goes_on_when_the_transport_of_its_link_ends_as_a_reset_after_the_goodbye() -> None:
    world, a, b, call, old = served()
    go_on(world, dialled_back(world, a, b, old))
    while possible := [step for step in world.steps() if step[0] is old]:
        end = possible[0][1]
        if end.side is a and end.inbox and end.inbox[0] is LinkEnd.GOODBYE:
            end.inbox = deque([LinkEnd.LOST])
        world.step(*possible[0])
    assert [(down.clean, down.heard_all) for down in a.downs] == [(False, True)]
    assert finished(world, a, b, call) == 0


def test_a_cancel_reaches_the_handler_while_its_link_gives_way_to_another() -> None:
    world, a, b, call, old = served()
    go_on(world, dialled_back(world, a, b, old))
    assert b.cancel(call)
    world.sleep(15)
    assert b.end_of(call).code == ErrorCode.CANCELLED
    assert not a.running


@pytest.mark.parametrize("kind", [StreamKind.NONE, StreamKind.RESULTS])
def test_a_cancel_does_not_overtake_its_request_on_a_newer_link(kind: StreamKind) -> None:
    world = World()
    a, b = world.node("a"), world.node("b")
    a.offer(stream=kind)
    b.dial(a, a.node)
    world.run()
    (old,) = world.wires
    new = dialled_back(world, a, b, old)
    call = b.call(
        b"", stream=bool(kind), timeout=3_600, query=RouteQuery(capability=CAPABILITY)
    )  # on its way
    go_on(world, new)
    assert b.cancel(call)
    go_on(world, new)
    world.sleep(120)
    assert b.end_of(call).code == ErrorCode.CANCELLED
    assert not a.running


@pytest.mark.parametrize("timeout", [60.0, 3_600.0])
def test_a_cancel_that_its_full_link_does_not_take_leaves_when_there_is_room(timeout: float) -> None:
    world = World()
    a, b = world.node("a"), world.node("b")
    b.offer(concurrency=512)
    call = a.call(timeout=timeout)
    world.run()
    world.gated.add("a")
    link = a.links.link_to(b.node)
    assert link is not None
    for size in (900_000, 90_000, 9_000, 900, 1):
        while a.links.send(link, StreamItem(message_id=bytes(16), offset=0, payload=bytes(size))):
            a.perform()
    assert a.cancel(call)
    world.run()
    assert b.running
    world.gated.clear()
    world.writable(a, link)
    world.sleep(31)
    assert a.end_of(call).code == ErrorCode.CANCELLED
    assert not b.running
    assert len(a.caller.waiting_cancels) == 0
