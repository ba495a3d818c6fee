"""One process of `cluster.py`: runs nodes, notes when each of them saw what, and answers its parent line by line.

Every line of standard input is a JSON request with an `id`, every line of standard output the answer to one. The end
of standard input is the end of the process. All times are CLOCK_MONOTONIC, which processes of one machine share; they
are those at which the node itself took the input that told it, not those at which somebody asked.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import trio

from reachp2p import Agent, Node
from reachp2p.core.engine import Engine
from reachp2p.core.events import Event, MemberChanged, MemberState, RecordChanged, Started
from reachp2p.core.ids import NodeId

CAPABILITY = "bench.echo"
ECHO = "bench/echo-"
RECHECK = 0.5
"""Seconds between looks at routing tables for what no event tells: rare, because a look costs as much as a datagram."""


def echo_agent(name: str, capability: str) -> Agent:
    """An agent that gives back what it gets."""
    agent = Agent(name, version="1.0.0", tags={"env": "bench"})

    @agent.capability(capability, repeatable=True)
    async def echo(text: str) -> str:
        """Echo of a text."""
        return text

    return agent


class Watch:
    """A node under observation."""

    def __init__(self, nodes_total: int, on_change: Callable[[], None]) -> None:
        self.node: Node
        self.started_at = 0.0
        self.complete_at: float | None = None
        """Since when it sees all nodes ALIVE and all their agents in its routing table."""
        self.lost_at: dict[NodeId, float] = {}
        self.dead_at: dict[NodeId, float] = {}
        self.routed_at: dict[NodeId, tuple[int, float]] = {}
        """Nodes in the routing table: epoch, and since when."""
        self.agents_at: dict[str, float] = {}
        self._engine: Engine
        self._alive: set[NodeId] = set()
        self._offered: set[NodeId] = set()
        self._is_settled = False
        """It has been complete once, or was started again: every change is followed."""
        self._epochs: dict[NodeId, int] = {}
        self._total = nodes_total
        self._on_change = on_change
        self._offset = time.monotonic() - trio.current_time()

    def build_engine(self, *arguments: Any, **options: Any) -> Engine:
        """The engine of this node, kept for questions that `Node` does not answer."""
        self._engine = Engine(*arguments, **options)
        return self._engine

    async def run(self, events: AsyncIterator[Event]) -> None:
        """Take events until the node ends."""
        async for event in events:
            self._take(event, event.at + self._offset)

    def _take(self, event: Event, at: float) -> None:
        match event:
            case Started(life=life):
                self.started_at = at
                self._epochs[self.node.id] = life.epoch
                self._is_settled = life.epoch > 1
            case MemberChanged(node=node, new=new, life=life):
                self._epochs[node] = life.epoch
                include(self._alive, node, new is MemberState.ALIVE)
                if new is MemberState.DEAD:
                    self.dead_at[node] = at
                else:
                    self.dead_at.pop(node, None)
                self._follow(at)
            case RecordChanged(node=node, agent=agent, present=present):
                if agent.startswith(ECHO):
                    include(self._offered, node, present)
                    self._follow(at)
                elif present:
                    self.agents_at[agent] = at
            case _:
                return
        self._on_change()

    def _follow(self, at: float) -> None:
        is_all_here = len(self._alive) == self._total - 1 and len(self._offered) == self._total
        if is_all_here or self._is_settled:
            self._is_settled = True
            self.look(at)

    def look(self, at: float) -> None:
        """Note what has entered and left the routing table."""
        routable = dict.fromkeys(self._engine.routable(CAPABILITY))
        for node in [node for node in self.routed_at if node not in routable]:
            del self.routed_at[node]
            self.lost_at[node] = at
        for node in routable:
            epoch = self._epochs.get(node, 0)
            if self.routed_at.get(node, (-1,))[0] != epoch:
                self.routed_at[node] = (epoch, at)
                self.lost_at.pop(node, None)
        is_complete = len(self._alive) == self._total - 1 and len(routable) == self._total
        if not is_complete:
            self.complete_at = None
        elif self.complete_at is None:
            self.complete_at = at


def include(nodes: set[NodeId], node: NodeId, is_in: bool) -> None:
    """Put a node into a set or take it out."""
    if is_in:
        nodes.add(node)
    else:
        nodes.discard(node)


class Worker:
    """The nodes of this process."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._watches: list[Watch] = []
        self._changed = trio.Event()

    async def answer(self, request: dict[str, Any]) -> None:
        """Carry out one request and print its answer."""
        do = getattr(self, f"do_{request['do']}")
        try:
            answer = {"result": await do(**request["with"])}
        except Exception as error:  # noqa: BLE001 (the parent ends the run and prints it)
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": request["id"], **answer}), flush=True)

    async def do_join(
        self, number: int, total: int, cluster: str, seeds: list[str], state: str | None
    ) -> dict[str, Any]:
        """Start a node; the answer comes when it has its life and announces itself."""
        watch = Watch(total, self._pulse)
        watch.node = node = Node(
            echo_agent(f"{ECHO}{number}", CAPABILITY),
            name=f"node-{number}",
            seeds=seeds,
            cluster=cluster,
            state=state,
            engine_factory=watch.build_engine,
        )
        self._nursery.start_soon(watch.run, node.events())
        ready = trio.Event()
        self._nursery.start_soon(self._carry, node, ready)
        await ready.wait()
        while not watch.started_at:
            await self._changed.wait()
        self._watches.append(watch)
        assert node.life is not None, "it has started"
        return {
            "node": node.id.hex(),
            "epoch": node.life.epoch,
            "address": str(node.address),
            "started_at": watch.started_at,
        }

    async def _carry(self, node: Node, ready: trio.Event) -> None:
        async with node:
            ready.set()
            await node.wait_closed()

    def _pulse(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _until(self, is_done: Callable[[Watch], bool], timeout: float) -> None:  # noqa: ASYNC109
        """Wait until something is true of all our nodes, or the time is over."""
        with trio.move_on_after(timeout):
            while not all(is_done(watch) for watch in self._watches):
                with trio.move_on_after(RECHECK) as scope:
                    await self._changed.wait()
                if scope.cancelled_caught:
                    for watch in self._watches:
                        if not is_done(watch):
                            watch.look(time.monotonic())

    async def do_complete(self, timeout: float) -> list[float | None]:  # noqa: ASYNC109
        """Since when each of our nodes sees everybody."""
        await self._until(lambda watch: watch.complete_at is not None, timeout)
        return [watch.complete_at for watch in self._watches]

    async def do_gone(self, node: str, timeout: float) -> list[tuple[float | None, float | None]]:  # noqa: ASYNC109
        """When each of our nodes took `node` out of its routing table, and when it held it DEAD."""
        key = NodeId(bytes.fromhex(node))
        await self._until(lambda watch: key in watch.lost_at and key in watch.dead_at, timeout)
        return [(watch.lost_at.get(key), watch.dead_at.get(key)) for watch in self._watches]

    async def do_routed(self, node: str, epoch: int, timeout: float) -> list[float | None]:  # noqa: ASYNC109
        """Since when this life of `node` is in the routing table of each of our nodes."""
        key = NodeId(bytes.fromhex(node))
        await self._until(lambda watch: watch.routed_at.get(key, (-1,))[0] == epoch, timeout)
        found = [watch.routed_at.get(key, (-1, 0.0)) for watch in self._watches]
        return [at if seen == epoch else None for seen, at in found]

    async def do_register(self, index: int, name: str) -> float:
        """Offer one more agent at one of our nodes; when it was told."""
        at = time.monotonic()
        await self._watches[index].node.register(echo_agent(f"bench/{name}", f"bench.{name}"))
        return at

    async def do_seen(self, name: str, timeout: float) -> list[float | None]:  # noqa: ASYNC109
        """When each of our nodes heard of that agent."""
        agent = f"bench/{name}"
        await self._until(lambda watch: agent in watch.agents_at, timeout)
        return [watch.agents_at.get(agent) for watch in self._watches]

    async def do_stats(self) -> dict[str, Any]:
        """Counters of our nodes, added up, and the CPU time and memory of this process."""
        counters: dict[str, int] = {}
        for watch in self._watches:
            for name, value in watch.node.diagnostics().items():
                counters[name] = counters.get(name, 0) + value
        usage = resource.getrusage(resource.RUSAGE_SELF)
        await trio.lowlevel.checkpoint()
        return {"cpu": usage.ru_utime + usage.ru_stime, "rss_kb": usage.ru_maxrss, "counters": counters}

    async def do_close(self) -> None:
        """End all our nodes, with goodbyes."""
        watches, self._watches = self._watches, []
        async with trio.open_nursery() as nursery:
            for watch in watches:
                nursery.start_soon(watch.node.aclose)


async def main() -> None:
    """Serve requests until standard input ends."""
    # Many nodes in one process are late more often than one; `lag.noticed` counts it.
    logging.getLogger("reachp2p").setLevel(logging.ERROR)
    stream = trio.lowlevel.FdStream(os.dup(sys.stdin.fileno()))
    buffered = b""
    async with stream, trio.open_nursery() as nursery:
        worker = Worker(nursery)
        async for data in stream:
            *lines, buffered = (buffered + data).split(b"\n")
            for line in lines:
                nursery.start_soon(worker.answer, json.loads(line))
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
