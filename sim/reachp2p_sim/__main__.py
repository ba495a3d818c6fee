"""`python -m reachp2p_sim` is `reachp2p-sim`."""

from __future__ import annotations

import sys

from reachp2p_sim.cli import main

sys.exit(main())
