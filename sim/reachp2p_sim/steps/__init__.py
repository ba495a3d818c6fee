"""The steps that stories consist of, by the word that `do` says in a scenario file.

A kind of step is a subclass of `Step`; it is known as soon as its module is imported here.
"""

from __future__ import annotations

from reachp2p_sim.steps import eavesdropping, hostility, machines, paths, processes, story, work
from reachp2p_sim.steps.base import Step

KINDS: dict[str, type[Step]] = {}
"""Every kind of step by its word, e.g. `add-nodes`."""

for _module in (processes, paths, machines, hostility, eavesdropping, work, story):
    for _kind in vars(_module).values():
        if isinstance(_kind, type) and issubclass(_kind, Step) and _kind is not Step:
            KINDS[_kind.word()] = _kind

__all__ = ["KINDS", "Step"]
