"""`python -m reachp2p_sim` is `reachp2p-sim`."""

from __future__ import annotations

import sys

try:
    from reachp2p_sim.cli import main

    code = main()
except KeyboardInterrupt:  # while the program was still being loaded
    print("reachp2p-sim: interrupted", file=sys.stderr)
    code = 130
sys.exit(code)
