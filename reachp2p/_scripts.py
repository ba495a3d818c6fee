"""The console scripts `reachp2p` and `reachp2p-sim`: they start the programs, or name the extra that is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

INTERRUPTED = 130
"""128 and the number of SIGINT, as shells count."""


def node_main() -> None:
    """`reachp2p`: the node program."""
    _need("node", "reachp2p")
    with _interruptible("reachp2p"):
        from reachp2p_node.cli import main

        sys.exit(main())


def sim_main() -> None:
    """`reachp2p-sim`: the simulator."""
    _need("sim", "reachp2p-sim")
    with _interruptible("reachp2p-sim"):
        from reachp2p_sim.cli import main

        sys.exit(main())


@contextmanager
def _interruptible(command: str) -> Iterator[None]:
    """Ctrl-C while a program is still being loaded is a line and an exit code, as it is later, and no traceback."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"{command}: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _need(extra: str, command: str) -> None:
    """Exit with 1 and the command to type unless the programs' libraries are installed."""
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        print(
            f"{command}: {' and '.join(missing)} not installed; type: pip install 'reachp2p[{extra}]'",
            file=sys.stderr,
        )
        sys.exit(1)
