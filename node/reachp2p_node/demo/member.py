"""One process of the demo: `python -m reachp2p_node.demo.member ROLE NAME FOLDER [SEED]`.

It runs a node with the agent of its role (or none, as a seed) and journals what it sees. It ends with SIGTERM, with a
goodbye, and when its standard input ends: the demo holds the other end, so that no process outlives it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

import trio

from reachp2p import Agent
from reachp2p.runtime.node import Node
from reachp2p_node.demo import agents
from reachp2p_node.demo.journal import Journal
from reachp2p_node.demo.recorder import Recorded, Recorder

ROLES: dict[str, Agent | None] = {
    "seed": None,
    "summarizer": agents.summarizer,
    "extractor": agents.extractor,
    "critic": agents.critic,
    "planner": agents.planner,
}
STATE = "state"
JOURNAL = "journal.jsonl"
STOP_TIMEOUT = 2.0


async def serve(role: str, name: str, folder: Path, seeds: list[str]) -> None:
    """Be one member until told to stop."""
    journal = Journal(folder / JOURNAL)
    agent = ROLES[role]
    offered = [] if agent is None else [Recorded(agent, journal)]
    async with (
        Node(*offered, name=name, seeds=seeds, state=folder / STATE, control=True) as node,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(Recorder(journal).run, node, os.getpid())
        nursery.start_soon(_stop_when_told, node)
        nursery.start_soon(_stop_when_orphaned, node)
        await node.wait_closed()
        nursery.cancel_scope.cancel()


async def _stop_when_told(node: Node) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            node.stop(STOP_TIMEOUT)


async def _stop_when_orphaned(node: Node) -> None:
    """The demo never writes: readable means that it has gone."""
    await trio.lowlevel.wait_readable(sys.stdin.fileno())
    node.stop(STOP_TIMEOUT)


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    trio.run(serve, sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
