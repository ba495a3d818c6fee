"""Kills and restarts on loopback: `python bench/restarts.py --kills 50` prints one JSON object.

The exit code is 0 if everything demanded was seen.

A few processes with one node each. Again and again one of them, the seed node included, is killed with SIGKILL and
started again on the same state folder. Half of the kills hit within 200 ms of a start, in turn

    exec      after the start of the process: mostly while it still imports
    node      after it has begun to open its node: lock, key, tables, epoch, questions to others, the first news
    epoch     at once, or a few milliseconds, after it has given its new epoch to the disk

and the others at a random moment after the node was back. What is demanded of every restart: no lock stops it, it is
ALIVE under its new life in the view of every other process within 3 s of the start of its process, no epoch is used
twice, nobody who runs is held DEAD. Each process notes each epoch, synced, before anything of that life can leave it.
Views are what each process says about its own, with the time at which it took the input that told it; nothing is asked
through the network.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from cluster import end_on_signal
from restarts_network import Network, Run
from restarts_verdict import Turn, verdict

EARLY = 0.18
"""Seconds after a start in which it is killed: with the time that this takes, still its first 200 ms."""
EPOCH_MOMENTS = (0.0, 0.0, 0.0005, 0.001, 0.002, 0.005, 0.01)
"""Seconds after an epoch was given to the disk; one of them, which disk ever it is, hits while it is written."""
LIMIT = 3.0
"""Seconds within which a restart is to be back in every view."""
CALM_MAX = 1.5
"""Seconds that a node runs, at most, after it was back in every view and before it is killed."""
DOWN_SHORT, DOWN_LONG = 0.2, 4.0
"""Seconds that a node is down, at most: the second in one of five turns, so that it may be DEAD already."""
TURN_SECONDS, RESERVE_SECONDS = 6.0, 60.0
"""What one kill and everything together may take at most; a usual run takes less than half of that."""
EARLY_KINDS = ("exec", "node", "epoch", "node", "epoch")


class Story:
    """The kills of one run, in order."""

    def __init__(self, network: Network, rng: random.Random, kills: int) -> None:
        self.turns: list[Turn] = []
        self._network = network
        self._rng = rng
        early = [EARLY_KINDS[number % len(EARLY_KINDS)] for number in range((kills + 1) // 2)]
        self._kinds = [*early, *["running"] * (kills - len(early))]
        rng.shuffle(self._kinds)

    async def run(self) -> None:
        """Start everybody, then kill; ends early if a node does not come back, since all that follows would be late."""
        network = self._network
        first = [await network.start(name) for name in network.names]
        for run in first:
            if not await network.back(run):
                progress(f"{run.name} has not found the others")
                return
        for number, kind in enumerate(self._kinds):
            progress(f"kill {number + 1} of {len(self._kinds)}: {kind}")
            turn = await self._turn(kind)
            self.turns.append(turn)
            if turn.restarted.exit_code is not None:
                return
        await trio.sleep(1.0)  # so that a wrong verdict about the last one is seen, too

    async def _turn(self, kind: str) -> Turn:
        """One kill, and the start after it, until it is back or has had its time."""
        network, rng = self._network, self._rng
        run = network.current[rng.choice(network.names)]
        await trio.sleep(rng.random() * CALM_MAX)
        before = "running"
        if kind != "running":
            before = rng.choice(("left", "killed"))
            await (network.leave(run) if before == "left" else network.kill(run))
            await self._down()
            run = await network.start(run.name)
            await self._early_moment(kind, run)
        await network.kill(run)
        await self._down()
        again = await network.start(run.name)
        turn = Turn(kind=kind, before=before, killed=run, restarted=again, others=list(network.others(again)))
        await network.back(again)
        return turn

    async def _down(self) -> None:
        longest = DOWN_LONG if self._rng.random() < 0.2 else DOWN_SHORT
        await trio.sleep(self._rng.random() * longest)

    async def _early_moment(self, kind: str, run: Run) -> None:
        said = {"exec": None, "node": "starting", "epoch": "writing"}[kind]
        if said is not None:
            await self._network.until(lambda: run.said(said) or not run.is_running)
        moment = self._rng.choice(EPOCH_MOMENTS) if kind == "epoch" else self._rng.random() * EARLY
        if moment:
            await trio.sleep(moment)


@asynccontextmanager
async def opened(folder: Path, nodes: int, rng: random.Random) -> AsyncIterator[Network]:
    """A network whose processes are gone afterwards, however the block ends."""
    async with trio.open_nursery() as nursery:
        network = Network(folder, nodes, rng, nursery)
        try:
            yield network
        finally:
            with trio.CancelScope(shield=True):
                await network.end()


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All kills, within their time, and the verdict."""
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="reachp2p-restarts-", dir=options.folder) as folder:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_on_signal)
            async with opened(Path(folder), options.nodes, rng) as network:
                story = Story(network, rng, options.kills)
                with trio.move_on_after(options.kills * TURN_SECONDS + RESERVE_SECONDS):
                    await story.run()
            nursery.cancel_scope.cancel()
        return verdict(story.turns, network.runs, network.epochs(), kills=options.kills, limit=options.limit)


def progress(text: str) -> None:
    print(f"restarts: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Measure, print, and tell by the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument(
        "--seed", type=int, default=None, help="of all choices; drawn and printed if not given"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=LIMIT,
        help=f"seconds until a restart must be in every view ({LIMIT:g})",
    )
    parser.add_argument("--folder", default=None, help="where the state folders are made, to choose the disk")
    options = parser.parse_args()
    if options.nodes < 3 or options.kills < 1:
        parser.error("--nodes is at least 3, --kills at least 1")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1_000_000)
    begun = time.monotonic()
    figures = trio.run(measure, options)
    figures = {
        "bench": "restarts",
        "ok": figures.pop("ok"),
        "nodes": options.nodes,
        "seed": options.seed,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **figures,
        "seconds": round(time.monotonic() - begun, 1),
    }
    print(json.dumps(figures))
    sys.exit(0 if figures["ok"] else 1)


if __name__ == "__main__":
    main()
