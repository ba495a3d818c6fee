"""The items of a stream for the command line: one line each, as they come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio

from reachp2p.errors import LocalProtocolError

if TYPE_CHECKING:
    from reachp2p.runtime.node import Node


async def send_items(node: Node, write: Callable[[Any], Awaitable[None]], **options: Any) -> dict[str, Any]:
    """Call a capability whose results are a stream, and `write` each of them; who has answered, and how many.

    `options` are those of `Node.stream`. If its parameters are a stream, too, that has no items.
    """
    begun = trio.current_time()
    async with node.stream(**options) as items:
        with suppress(LocalProtocolError):  # it takes none
            await items.end()
        async for item in items:
            await write({"item": item.hex() if isinstance(item, bytes) else item})
    ended = items.ended
    assert ended is not None, "it was read to its end"
    return {
        "items": items.items,
        "node": None if ended.node is None else ended.node.hex(),
        "agent": ended.agent,
        "attempts": ended.attempts,
        "session": ended.call.hex(),
        "seconds": round(trio.current_time() - begun, 6),
    }
