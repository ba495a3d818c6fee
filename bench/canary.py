"""A canary changed while calls run: `python bench/canary.py` prints one JSON object.

Two stable instances and a release candidate, a process each. The candidate announces that it should get 0, then 10,
then 100 % of the calls, without a restart; as soon as the caller's node knows, 10,000 calls without a key and 10,000
with a key each are made, and counted by who has answered. Demanded: each share within two points of what was announced,
no key that comes back from the candidate while its share grows, and an explanation why a key has moved. The exit code
is 0 if that was seen.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import pairwise
from typing import Any

import trio
from processes import PATIENCE, child

from reachp2p import Agent, Node

AGENT, CAPABILITY = "bench/canary", "bench.who"
PERCENTS = (0, 10, 100)
OFF_BY_MAX = 2.0
"""Points between the share that was announced and the one measured."""
AT_ONCE = 16


def agent_of(name: str, percent: int | None) -> Agent:
    """An agent that says who it is; a release candidate if it has a percentage."""
    tags = {} if percent is None else {"release": "candidate"}
    agent = Agent(AGENT, tags=tags, candidate_percent=percent)

    @agent.capability(CAPABILITY, repeatable=True)
    async def who() -> str:
        """The name of the instance."""
        return name

    return agent


async def instance(name: str, seed: str, percent: int | None) -> None:
    """One process: each line of its standard input is a new percentage; it leaves when there are no more."""
    async with Node(agent_of(name, percent), name=name, seeds=[seed]) as node:
        while line := await trio.to_thread.run_sync(sys.stdin.readline):
            await node.register(agent_of(name, int(line)))


def running(
    name: str, seed: str, percent: int | None
) -> AbstractAsyncContextManager[tuple[trio.Process, str]]:
    """The process of an instance."""
    return child(__file__, "--as-instance", json.dumps([name, seed, percent]), speaks=False)


async def until(condition: Callable[[], bool], what: str) -> float:
    """Wait for something; how long it took, in seconds."""
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < PATIENCE:
        if condition():
            return waited
        await trio.sleep(0.005)
    raise RuntimeError(f"{what}: not within {PATIENCE:g} s")


async def ask(node: Node, keys: list[str | None]) -> list[str]:
    """One call for each key, `AT_ONCE` at once; who has answered each."""
    answers = [""] * len(keys)
    waiting = iter(range(len(keys)))

    async def one_after_the_other() -> None:
        for number in waiting:
            answers[number] = await node.call(CAPABILITY, key=keys[number], timeout=10)

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(one_after_the_other)
    return answers


def explained(node: Node, key: str) -> dict[str, Any]:
    """What `route explain` says of a key."""
    found = node.explain(CAPABILITY, key=key)
    views = {view.node: view for view in found.candidates}
    return {
        "picked": None if found.picked is None else views[found.picked].node_name,
        "release": found.release,
        "reason": found.reason,
    }


async def measure(calls: int) -> dict[str, Any]:
    """All percentages, one after the other."""
    keys: list[str | None] = [f"customer-{number}" for number in range(calls)]
    steps: list[dict[str, Any]] = []
    by_key: list[list[str]] = []
    said: list[dict[str, dict[str, Any]]] = []
    async with Node(name="caller") as node, AsyncExitStack() as stack:
        seed = str(node.address)
        for name in ("stable-1", "stable-2"):
            await stack.enter_async_context(running(name, seed, None))
        canary, _ = await stack.enter_async_context(running("canary", seed, PERCENTS[0]))
        await until(lambda: sum(view.agent == AGENT for view in node.agents()) == 3, "all are known")
        assert canary.stdin is not None
        for percent in PERCENTS:
            if percent != PERCENTS[0]:
                await canary.stdin.send_all(b"%d\n" % percent)
            heard = await until(
                lambda wanted=percent: any(view.candidate_percent == wanted for view in node.agents()),
                f"{percent} % is known",
            )
            drawn = await ask(node, [None] * calls)
            by_key.append(await ask(node, keys))
            said.append({key: explained(node, key) for key in keys[:1_000] if key is not None})
            shares = [100 * answers.count("canary") / calls for answers in (drawn, by_key[-1])]
            steps.append(
                {
                    "announced_percent": percent,
                    "known_after_ms": round(heard * 1e3, 1),
                    "without_key_percent": round(shares[0], 2),
                    "by_key_percent": round(shares[1], 2),
                    "is_followed": all(abs(share - percent) <= OFF_BY_MAX for share in shares),
                }
            )
        failed = {
            name: count for name, count in node.diagnostics().items() if name.startswith("calls.failed")
        }
    back = sum(
        before[number] == "canary" and after[number] != "canary"
        for before, after in pairwise(by_key)
        for number in range(calls)
    )
    moved = next((key for key in said[1] if said[1][key]["picked"] == "canary"), None)
    told = None if moved is None else {"key": moved, "before": said[0][moved], "after": said[1][moved]}
    return {
        "ok": all(step["is_followed"] for step in steps) and not back and told is not None and not failed,
        "calls_a_step": 2 * calls,
        "steps": steps,
        "keys_that_came_back": back,
        "moved": told,
        "failed": failed,
    }


def main() -> None:
    """Measure, print, and tell by the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--calls",
        type=int,
        default=10_000,
        help="of each kind at each percentage; below 5,000 chance decides",
    )
    parser.add_argument("--as-instance", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_instance is not None:
        trio.run(instance, *json.loads(options.as_instance))
        return
    if options.calls < 1_000:
        parser.error("--calls is at least 1000")
    begun = time.monotonic()
    figures = trio.run(measure, options.calls)
    print(
        json.dumps(
            {
                "bench": "canary",
                **figures,
                "cores": os.cpu_count(),
                "load": round(os.getloadavg()[0], 1),
                "python": platform.python_version(),
                "seconds": round(time.monotonic() - begun, 1),
            }
        )
    )
    sys.exit(0 if figures["ok"] else 1)


if __name__ == "__main__":
    main()
