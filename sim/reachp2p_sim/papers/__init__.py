"""The published experiments that the simulator repeats, one module for each paper.

A module defines `PAPER`, a `base.Paper`. Its name goes into `PAPERS`; modules are imported when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reachp2p_sim.papers.base import Paper

PAPERS: tuple[str, ...] = (
    "swim",
    "lifeguard",
    "tuning",
    "rapid",
    "epidemic",
    "scuttlebutt",
    "ring",
    "vivaldi",
    "load",
)
"""In the order of docs/papers.md."""


def find_paper(name: str) -> Paper:
    """The paper of this name. Raises `KeyError`."""
    if name not in PAPERS:
        raise KeyError(name)
    paper: Paper = import_module(f"reachp2p_sim.papers.{name}").PAPER
    return paper
