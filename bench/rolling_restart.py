"""Restarts of every instance under load: `python bench/rolling_restart.py` prints one JSON object.

Three instances of an agent whose handler is not repeatable, 200 calls a second in an open loop. Each instance in turn
leaves, ends, and is started again as soon as it is gone; the next one follows when it is back in the caller's view.
Demanded: no call fails, none is executed twice, and at most one in a hundred needs a second attempt. The exit code is 0
if that was seen.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import trio
from instances import Instance, Load, executions, instances, wait_placed

from reachp2p import Node

CALM = 2.0
"""Seconds of load before the first restart, between two, and after the last."""
SECOND_ATTEMPTS_MAX = 0.01


async def restart(instance: Instance, caller: Node) -> dict[str, float]:
    """One restart; how long it took to leave and to be back, in seconds."""
    begun = time.monotonic()
    await instance.leave()
    gone = time.monotonic()
    await instance.start()
    await wait_placed(caller, [instance.name])
    return {"leaving": round(gone - begun, 3), "back": round(time.monotonic() - gone, 3)}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All restarts under load, and what became of the calls."""
    with tempfile.TemporaryDirectory(prefix="reachp2p-rolling-") as folder:
        async with Node(name="caller") as caller, instances(Path(folder), caller, options.instances) as made:
            load = Load(caller, options.rate)
            restarts = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run)
                await trio.sleep(CALM)
                for _ in range(options.rounds):
                    for instance in made:
                        restarts.append(await restart(instance, caller))
                        await trio.sleep(CALM)
                load.end()
            ran = executions(made)
    done = load.done
    failed = [call for call in done if call.code]
    again = [call for call in done if call.attempts > 1]
    twice = [number for number, count in ran.items() if count > 1]
    took = sorted(call.ended - call.started for call in done if not call.code)
    return {
        "ok": bool(done) and not failed and not twice and len(again) <= SECOND_ATTEMPTS_MAX * len(done),
        "calls": len(done),
        "failed": len(failed),
        "failed_by_code": {
            str(code): sum(c.code == code for c in failed) for code in {c.code for c in failed}
        },
        "examples": [call.detail for call in failed[:5]],
        "executed_twice": len(twice),
        "second_attempts": len(again),
        "second_attempts_share": round(len(again) / max(1, len(done)), 5),
        "median_ms": round(statistics.median(took) * 1e3, 2) if took else None,
        "p99_ms": round(took[int(len(took) * 0.99)] * 1e3, 2) if took else None,
        "slowest_ms": round(took[-1] * 1e3, 2) if took else None,
        "restarts": restarts,
    }


def main() -> None:
    """Measure, print, and tell by the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--rate", type=float, default=200.0, help="calls a second")
    parser.add_argument("--rounds", type=int, default=2, help="restarts of each instance")
    options = parser.parse_args()
    if options.instances < 2 or options.rate <= 0 or options.rounds < 1:
        parser.error("--instances is at least 2, --rate above 0, --rounds at least 1")
    begun = time.monotonic()
    figures = trio.run(measure, options)
    print(
        json.dumps(
            {
                "bench": "rolling_restart",
                "ok": figures.pop("ok"),
                "instances": options.instances,
                "rate": options.rate,
                "cores": os.cpu_count(),
                "load": round(os.getloadavg()[0], 1),
                "python": platform.python_version(),
                **figures,
                "seconds": round(time.monotonic() - begun, 1),
            }
        )
    )
    sys.exit(0 if figures["failed"] == 0 and figures["executed_twice"] == 0 else 1)


if __name__ == "__main__":
    main()
