"""SIGKILL of one instance under load: `python bench/kill.py` prints one JSON object.

Three instances of an agent whose handler is not repeatable, 200 calls a second in an open loop; one of them is killed
and started again, several times. Only calls that were under way when it was killed, or started before its process was
gone, may fail, and only as *outcome unknown* (1409); everything else has to succeed, and nothing may run twice. The
exit code is 0 if that was seen.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import trio
from instances import Load, executions, instances, wait_placed

from reachp2p import Node
from reachp2p.errors import ErrorCode

CALM = 3.0
"""Seconds of load before the first kill and after each."""


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All kills under load, and what became of the calls."""
    kills: list[tuple[float, set[int]]] = []
    with tempfile.TemporaryDirectory(prefix="reachp2p-kill-") as folder:
        async with Node(name="caller") as caller, instances(Path(folder), caller, options.instances) as made:
            load = Load(caller, options.rate)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run)
                await trio.sleep(CALM)
                for number in range(options.kills):
                    victim = made[number % len(made)]
                    under_way, before = set(load.under_way), load.started
                    await victim.kill()
                    kills.append((time.monotonic(), under_way.union(range(before + 1, load.started + 1))))
                    await trio.sleep(CALM)
                    await victim.start()
                    await wait_placed(caller, [victim.name])
                load.end()
            ran = executions(made)
    failed = [call for call in load.done if call.code]
    excused = set().union(*(under_way for _, under_way in kills))
    later = [call for call in failed if call.number not in excused]
    otherwise = [c for c in failed if c.number in excused and c.code != ErrorCode.OUTCOME_UNKNOWN]
    twice = [number for number, count in ran.items() if count > 1]
    return {
        "ok": bool(load.done) and not later and not otherwise and not twice,
        "calls": len(load.done),
        "kills": len(kills),
        "under_way_at_kills": len(excused),
        "failed_under_way": len(failed) - len(later),
        "failed_under_way_otherwise": [f"{call.code}: {call.detail}" for call in otherwise[:5]],
        "failed_later": len(later),
        "failed_later_after_ms": [
            round((call.started - max(at for at, _ in kills if at <= call.started)) * 1e3, 2)
            for call in later[:10]
            if any(at <= call.started for at, _ in kills)
        ],
        "examples": [f"{call.code}: {call.detail}" for call in later[:5]],
        "second_attempts": sum(call.attempts > 1 for call in load.done),
        "executed_twice": len(twice),
    }


def main() -> None:
    """Measure, print, and tell by the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--rate", type=float, default=200.0, help="calls a second")
    parser.add_argument("--kills", type=int, default=4)
    options = parser.parse_args()
    if options.instances < 2 or options.rate <= 0 or options.kills < 1:
        parser.error("--instances is at least 2, --rate above 0, --kills at least 1")
    begun = time.monotonic()
    figures = trio.run(measure, options)
    print(
        json.dumps(
            {
                "bench": "kill",
                "ok": figures["ok"],
                "instances": options.instances,
                "rate": options.rate,
                "cores": os.cpu_count(),
                "load": round(os.getloadavg()[0], 1),
                "python": platform.python_version(),
                **{key: value for key, value in figures.items() if key != "ok"},
                "seconds": round(time.monotonic() - begun, 1),
            }
        )
    )
    sys.exit(0 if figures["ok"] else 1)


if __name__ == "__main__":
    main()
