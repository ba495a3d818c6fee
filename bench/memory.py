"""What sessions and pending calls hold: `python bench/memory.py` prints one JSON object.

A caller and a callee, a process each. 10,000 sessions of one call each, all over (what is kept of them are the hops on
both sides), then 1,000 calls whose handlers do not end. Bytes are those that Python has allocated (tracemalloc, after a
collection of garbage), per item; trio's tasks and what the calling program itself holds are among them.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import sys
import time
import tracemalloc
from typing import Any

import trio
from processes import PATIENCE, child

from reachp2p import Agent, Node

PAYLOAD = bytes(300)
AT_ONCE = 64


def allocated() -> int:
    """Bytes that Python has allocated and still needs."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def callee() -> None:
    """The other process: says where it listens, serves until its standard input ends."""
    tracemalloc.start()
    agent = Agent("bench/memory")

    @agent.capability("bench.echo", concurrency=AT_ONCE)
    async def echo(payload: bytes) -> bytes:
        """Echo of bytes."""
        return payload

    @agent.capability("bench.hang", concurrency=10_000)
    async def hang(payload: bytes) -> bytes:
        """Never ends."""
        await trio.sleep_forever()
        return payload

    @agent.capability("bench.allocated")
    async def ask() -> int:
        """What this process has allocated."""
        return allocated()

    async with Node(agent) as node:
        print(node.address, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)


async def measure(sessions: int, pending: int) -> dict[str, Any]:
    """Both kinds, one after the other."""
    tracemalloc.start()
    async with child(__file__, "--as-callee") as (_, seed), Node(seeds=[seed]) as node:
        await node.wait_for("bench.echo")

        async def both() -> tuple[int, int]:
            await node.call("bench.allocated")  # whatever the first one loads
            return allocated(), await node.call("bench.allocated")

        async def in_a_session() -> None:
            with node.session():
                await node.call("bench.echo", PAYLOAD, timeout=30)

        async def many(count: int) -> None:
            waiting = iter(range(count))

            async def one_after_the_other() -> None:
                for _ in waiting:
                    await in_a_session()

            async with trio.open_nursery() as nursery:
                for _ in range(AT_ONCE):
                    nursery.start_soon(one_after_the_other)

        await many(200)
        empty = await both()
        await many(sessions)
        idle = await both()
        async with trio.open_nursery() as nursery:
            for _ in range(pending):
                nursery.start_soon(node.call, "bench.hang", PAYLOAD)
            with trio.fail_after(PATIENCE):
                while node.diagnostics()["size.pending_calls"] < pending:  # noqa: ASYNC110 (a counter)
                    await trio.sleep(0.01)
            await trio.sleep(0.5)
            busy = await both()
            nursery.cancel_scope.cancel()
        after = await both()

    def each(now: tuple[int, int], before: tuple[int, int], count: int) -> dict[str, int]:
        return {
            side: round((now[n] - before[n]) / count)
            for n, side in enumerate(("caller_bytes", "callee_bytes"))
        }

    return {
        "idle_session": each(idle, empty, sessions),
        "pending_call": each(busy, idle, pending),
        "left_of_a_pending_call": each(after, idle, pending),
        "allocated_mb": {side: round(after[n] / 1e6, 1) for n, side in enumerate(("caller", "callee"))},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--pending", type=int, default=1_000)
    parser.add_argument("--as-callee", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_callee:
        trio.run(callee)
        return
    if options.sessions < 1 or options.pending < 1:
        parser.error("--sessions and --pending are at least 1")
    begun = time.monotonic()
    figures = trio.run(measure, options.sessions, options.pending)
    print(
        json.dumps(
            {
                "bench": "memory",
                "sessions": options.sessions,
                "pending": options.pending,
                **figures,
                "python": platform.python_version(),
                "seconds": round(time.monotonic() - begun, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
