"""The log of who is routable: it asks again only when the routing table has changed."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from reachp2p.core.ids import NodeId
from reachp2p.runtime.routable import SAMPLE_INTERVAL, RoutableLog

pytestmark = pytest.mark.trio

ANN, BOB = NodeId(b"a" * 32), NodeId(b"b" * 32)


class Table:
    """The part of an engine that the log asks."""

    def __init__(self) -> None:
        self.nodes = [ANN, BOB]
        self.routing_version = 1
        self.asked = 0

    def routable(self, capability: str) -> list[NodeId]:
        self.asked += 1
        return self.nodes


async def test_a_quiet_table_is_not_searched_and_a_change_is_noticed(autojump_clock: MockClock) -> None:
    table, log = Table(), RoutableLog()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run, table)
        watch = log.look(table, "text.do")  # type: ignore[arg-type]
        await trio.sleep(100 * SAMPLE_INTERVAL)
        assert (table.asked, list(watch.since)) == (1, [ANN, BOB])
        table.nodes, table.routing_version = [BOB], 2
        await trio.sleep(10 * SAMPLE_INTERVAL)
        assert (table.asked, list(watch.since), list(watch.lost)) == (2, [BOB], [ANN])
        table.nodes, table.routing_version = [ANN, BOB], 3
        await trio.sleep(2 * SAMPLE_INTERVAL)
        assert (list(watch.since), list(watch.lost)) == ([BOB, ANN], [])
        nursery.cancel_scope.cancel()
