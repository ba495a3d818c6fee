"""When instances entered and left this node's own routing table: for those who measure how fast a loss is noticed.

A capability is sampled while somebody asks for it. Times are Unix seconds, so that processes of one machine can be
compared.
"""

from __future__ import annotations

import time
from collections import OrderedDict

import msgspec
import trio

from reachp2p.core.engine import Engine
from reachp2p.core.ids import NodeId

SAMPLE_INTERVAL = 0.02
WATCHED_MAX = 16
"""Capabilities watched at once; the one that was asked for longest ago gives way."""
UNASKED_MAX = 60.0
"""Seconds after which nobody is interested any more."""
LOST_MAX = 256
"""Losses remembered for one capability, the latest."""


class Watch(msgspec.Struct):
    """One capability: since when its nodes are routable, and when others ceased to be."""

    asked_at: float
    version: int = -1
    """Of the routing table when it was last looked at: nothing has changed while that stands still."""
    since: dict[NodeId, float] = {}
    lost: OrderedDict[NodeId, float] = msgspec.field(default_factory=OrderedDict)


class RoutableLog:
    """Samples the routing table of one engine."""

    def __init__(self) -> None:
        self._watches: OrderedDict[str, Watch] = OrderedDict()
        self._asked = trio.Event()

    def look(self, engine: Engine, capability: str) -> Watch:
        """What is known about a capability now; it is watched from now on."""
        watch = self._watches.get(capability)
        if watch is None:
            if len(self._watches) >= WATCHED_MAX:
                self._watches.popitem(last=False)
            watch = self._watches[capability] = Watch(trio.current_time())
        watch.asked_at = trio.current_time()
        self._watches.move_to_end(capability)
        self._sample(engine, capability, watch)
        self._asked.set()
        return watch

    async def run(self, engine: Engine) -> None:
        """Sample what is watched, for ever."""
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            while self._watches:
                await trio.sleep(SAMPLE_INTERVAL)
                now = trio.current_time()
                for capability, watch in list(self._watches.items()):
                    if now - watch.asked_at > UNASKED_MAX:
                        del self._watches[capability]
                    else:
                        self._sample(engine, capability, watch)

    def _sample(self, engine: Engine, capability: str, watch: Watch) -> None:
        version = engine.routing_version
        if version == watch.version:
            return
        watch.version = version
        nodes, at = dict.fromkeys(engine.routable(capability)), time.time()
        for node in nodes:
            if node not in watch.since:
                watch.since[node] = at
                watch.lost.pop(node, None)
        if len(nodes) == len(watch.since):
            return
        for node in [node for node in watch.since if node not in nodes]:
            del watch.since[node]
            watch.lost[node] = at
            if len(watch.lost) > LOST_MAX:
                watch.lost.popitem(last=False)
