"""Streams between the nodes of `tests.unit.calls.world`; the test gives and takes the items."""

from __future__ import annotations

from msgspec.structs import replace

from reachp2p.core.commands import Flow, InvokeResult, RouteQuery, StreamKey, StreamKind
from reachp2p.core.events import StreamEnded
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.messages import StreamItem
from tests.unit.calls.world import CAPABILITY, Node, World

RESULTS, PARAMETERS = StreamKind.RESULTS, StreamKind.PARAMETERS
BOTH = RESULTS | PARAMETERS


def pair(
    kind: StreamKind = RESULTS, *, repeatable: bool = False, **protocol: float
) -> tuple[World, Node, Node]:
    """A caller and a node that offers a streaming capability."""
    world = World()
    settings = replace(Protocol(), **protocol)
    a, b = world.node("a", protocol=settings), world.node("b", protocol=settings)
    b.offer(stream=kind, repeatable=repeatable)
    return world, a, b


def begin(a: Node, b: Node, **changes: object) -> tuple[bytes, int]:
    """A stream whose handler runs: the call and the invocation."""
    call = a.call(b"", stream=True, query=RouteQuery(capability=CAPABILITY), **changes)
    a.world.run()
    return call, b.invoked[-1].invocation


def give(node: Node, key: StreamKey, payload: bytes) -> Flow:
    """An item from the application."""
    flow = node.streams.send(key, payload, "application/cbor", node.net.now)
    node.perform()
    return flow


def take(node: Node, key: StreamKey) -> bytes | Flow:
    """What the application gets."""
    item = node.streams.take(key, node.net.now)
    node.perform()
    return item.payload if isinstance(item, StreamItem) else item


def take_all(node: Node, key: StreamKey) -> list[bytes]:
    """All that is there."""
    items = []
    while isinstance(item := take(node, key), bytes):
        items.append(item)
    return items


def end_items(node: Node, call: bytes) -> None:
    """The application has no more parameters."""
    node.streams.finish_sending(call)
    node.perform()


def finish(node: Node, number: int, **result: object) -> None:
    """The handler ends."""
    node.finish(number, InvokeResult(**result))  # type: ignore[arg-type]


def ended(node: Node, call: bytes) -> StreamEnded:
    """The one end of the call."""
    event = node.end_of(call)
    assert isinstance(event, StreamEnded)
    return event


def rest(event: StreamEnded) -> list[bytes]:
    """The items that came with the end."""
    return [item.payload for item in event.rest]


def nothing_left(*nodes: Node) -> bool:
    """Whether every table is empty, and says so if not."""
    found = {node.name: node.leftovers for node in nodes}
    for leftovers in found.values():
        if len(nodes) < len(nodes[0].world.nodes):
            leftovers.pop("attempts", None)  # of all nodes of the world, also of those that are gone
    found = {name: leftovers for name, leftovers in found.items() if leftovers}
    assert found == {}, found
    return True
