"""Epoch inflation: numbers as high as they go, and a new life every other moment."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from reachp2p.core.ids import COUNTER_MAX, EPOCH_MAX, Life
from reachp2p.core.wire.messages import HeadUpdate
from reachp2p_sim.hostile.base import Behaviour

EPOCH_STEP = 1 << 40


class EpochInflation(Behaviour):
    """Every period it says that it has begun another life, a trillion epochs later, with counters close to their
    end."""

    name: ClassVar[str] = "epoch-inflation"
    summary: ClassVar[str] = "signs heads of ever higher lives, up to the end of all counters"

    def act(self) -> None:
        """Heads of its own key are its own to sign: others must take them, at the cost of one row."""
        epoch = min(self.life.epoch + self.acts * EPOCH_STEP, EPOCH_MAX)
        head = msgspec.structs.replace(
            self.own_head(),
            life=Life(epoch, self.chance.randbytes(16)),
            incarnation=COUNTER_MAX,
            version=COUNTER_MAX,
        )
        word = HeadUpdate(head=self.sign(head))
        for other in self.some(3):
            self.send(other, word)
