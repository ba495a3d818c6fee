"""What a run leaves behind for a person: state of every node as the others see it, messages, lives, budgets, agreement.

`Recorder` watches a world; `results.store` writes what it has kept into a folder, `report` draws it.
"""

from __future__ import annotations

from reachp2p_sim.recording.recorder import Recorder

__all__ = ["Recorder"]
