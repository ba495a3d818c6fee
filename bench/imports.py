"""CPU time to get going: `python bench/imports.py [--runs 15]` prints one JSON object.

Each figure is the user and system CPU time of a whole fresh process, interpreter included, as the kernel counted it
for the child. Byte code is compiled in a run before, into a folder of its own, as it is after an installation. The
limits are those of the requirements. Naming `Node` loads no event loop: what a program pays that runs a node is the
last figure, and `import trio` the largest part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

START_AND_STOP = """
import trio
from reachp2p import Node

async def main():
    async with Node():
        pass

trio.run(main)
"""

COMMANDS: dict[str, tuple[list[str], float | None]] = {
    "bare interpreter": (["-c", "pass"], None),
    "from reachp2p import Node, run; Node": (["-c", "from reachp2p import Node, run; Node"], 0.250),
    "from reachp2p import Agent; Agent": (["-c", "from reachp2p import Agent; Agent"], None),
    "import reachp2p.core.engine": (["-c", "import reachp2p.core.engine"], None),
    "reachp2p --help": (["-m", "reachp2p", "--help"], 0.200),
    "reachp2p members --help": (["-m", "reachp2p", "members", "--help"], None),
    "import trio": (["-c", "import trio"], None),
    "start and stop of a node": (["-c", START_AND_STOP], None),
}


def cpu_seconds(arguments: list[str], cache: str) -> float:
    """User and system CPU time of one run. Raises if it fails: a broken command is not a fast one."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as cache:
        figures = measure(runs, cache)
    print(
        json.dumps({"bench": "imports", "runs": runs, "python": sys.version.split()[0], "figures": figures})
    )


def measure(runs: int, cache: str) -> dict[str, dict[str, object]]:
    """All commands, one after the other."""
    figures: dict[str, dict[str, object]] = {}
    for name, (arguments, limit) in COMMANDS.items():
        cpu_seconds(arguments, cache)
        samples = [cpu_seconds(arguments, cache) for _ in range(runs)]
        median = statistics.median(samples)
        figures[name] = {
            "cpu_ms_median": round(median * 1e3, 1),
            "cpu_ms_min": round(min(samples) * 1e3, 1),
            "limit_ms": None if limit is None else limit * 1e3,
            "ok": limit is None or median < limit,
        }
    return figures


if __name__ == "__main__":
    main()
