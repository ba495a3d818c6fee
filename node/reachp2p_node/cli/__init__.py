"""The command `reachp2p`. Each part loads what it needs itself, so that `--help` costs what typer costs."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 misused, 3 forced to stop."""
    from reachp2p_node.cli.app import main as run

    return run(arguments)
