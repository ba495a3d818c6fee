"""Where a run was made: versions and machine, so that two runs can be compared months later."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from reachp2p_sim.running.code_version import release

LIBRARIES = ("msgspec", "cbor2", "cryptography")


def describe(code: str) -> dict[str, Any]:
    """What made a run: `code`, versions of this release, Python and the libraries below the core, and the machine."""
    return {
        "reachp2p": release(),
        "code": code,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(terse=True),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "hash_seed": os.environ.get("PYTHONHASHSEED", "random"),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "optimized": bool(sys.flags.optimize),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
