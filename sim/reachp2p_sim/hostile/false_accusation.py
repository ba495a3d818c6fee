"""False accusation: doubts about members that are well, of every grade, as old as an accusation may claim to be."""

from __future__ import annotations

from typing import ClassVar

from reachp2p.core.wire.facts import Accusation
from reachp2p.core.wire.messages import AccusationUpdate
from reachp2p_sim.hostile.base import Behaviour

AGE_MS_MAX = 86_400_000
"""A day: what the wire allows. A receiver must not let it end a timer before the accused can refute."""


class FalseAccusation(Behaviour):
    """Every period it accuses each victim of silence, of refusing dials and of being DEAD, to everybody but the
    victim."""

    name: ClassVar[str] = "false-accusation"
    summary: ClassVar[str] = "accuses members that are well, in every grade, every period"

    def act(self) -> None:
        """The numbers are those that its own engine holds, so that the accusation is about the present."""
        for victim in self.victims:
            view = self.member(victim)
            if view is None:
                continue
            accusations = [
                AccusationUpdate(
                    accusation=self.sign(
                        Accusation(
                            accuser=self.host.node,
                            subject=victim.node,
                            life=view.life,
                            incarnation=view.incarnation,
                            grade=grade,
                            age_ms=AGE_MS_MAX,
                            issued_at=int(self.host.wall),
                        )
                    )
                )
                for grade in (0, 1, 2)
            ]
            for other in self.others:
                if other is not victim:
                    self.send(other, *accusations)
