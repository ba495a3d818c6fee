"""Hostile nodes: insiders with a key of their own, one file for each kind of harm.

Not here: lies about load (no message carries load yet).
"""

from __future__ import annotations

from reachp2p_sim.hostile.base import Behaviour
from reachp2p_sim.hostile.equivocation import Equivocation
from reachp2p_sim.hostile.false_accusation import FalseAccusation
from reachp2p_sim.hostile.flood import Flood, Sybils
from reachp2p_sim.hostile.forgery import Forgery
from reachp2p_sim.hostile.inflation import EpochInflation
from reachp2p_sim.hostile.repetition import Repetition
from reachp2p_sim.hostile.silence import ForwardsNothing, SilentToVictims

BEHAVIOURS: dict[str, type[Behaviour]] = {
    behaviour.name: behaviour
    for behaviour in (
        EpochInflation,
        Equivocation,
        FalseAccusation,
        Flood,
        Forgery,
        ForwardsNothing,
        Repetition,
        SilentToVictims,
        Sybils,
    )
}
"""All kinds of harm by name."""

__all__ = ["BEHAVIOURS", "Behaviour"]
