"""Deliberately broken cores, chosen by name: each breaks one promise, and a checker must say so.

A checker that no mutant trips is not a checker. A mutant replaces one function or constant of the core for the time of
one run, in the simulator's process only; what ships has no switch for it.
"""

from __future__ import annotations

from reachp2p_sim.mutants import calls, lives, membership, others
from reachp2p_sim.mutants.base import MUTANTS, Mutant

__all__ = ["MUTANTS", "Mutant", "calls", "lives", "membership", "others"]
