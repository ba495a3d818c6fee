"""Which code a run was made by: what decides a trace, as one short digest.

A seed repeats a run only under the same code, so a campaign and the line that repeats a run carry this beside the seed.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import reachp2p_sim
from reachp2p.core import ids

PACKAGE = "reachp2p"
_APART = {"campaign", "cli", "commands", "papers", "recording", "report", "results", "shrink"}
"""Parts of the simulator that look at runs and change none."""


def release() -> str:
    """The version of the distribution, as `reachp2p-sim --version` prints it."""
    return version(PACKAGE)


@cache
def code() -> str:
    """Twelve hex digits over every source file that a run depends on, by path and content."""
    digest = sha256()
    for path, name in _sources():
        digest.update(f"{name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _sources() -> list[tuple[Path, str]]:
    core = Path(ids.__file__).parent
    simulator = Path(reachp2p_sim.__file__).parent
    found = [(path, f"core/{path.relative_to(core).as_posix()}") for path in core.rglob("*.py")]
    found += [
        (path, f"sim/{path.relative_to(simulator).as_posix()}")
        for path in simulator.rglob("*.py")
        if Path(path.relative_to(simulator).parts[0]).stem not in _APART
    ]
    return sorted(found, key=lambda pair: pair[1])
