"""Equivocation: two signed heads with the same numbers and different bodies, told to two halves of the group."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from reachp2p.core.wire.messages import HeadUpdate
from reachp2p_sim.hostile.base import Behaviour


class Equivocation(Behaviour):
    """Every ten periods it takes its next version, and says it in two ways: to each half of the others one."""

    name: ClassVar[str] = "equivocation"
    summary: ClassVar[str] = "signs two different heads with the same numbers and tells each half another one"
    every: ClassVar[float] = 10.0

    def act(self) -> None:
        """The two differ in the zone."""
        head = self.own_head()
        version = head.version + 1 + self.acts
        words = [
            HeadUpdate(head=self.sign(msgspec.structs.replace(head, version=version, zone=zone)))
            for zone in ("east", "west")
        ]
        for number, other in enumerate(self.others):
            self.send(other, words[number % 2])
