"""What is known before anybody has spoken: from our own disk, or from whoever starts us."""

from __future__ import annotations

from collections.abc import Sequence

from reachp2p.core.hearing import Hearing, Source
from reachp2p.core.ids import NodeId
from reachp2p.core.parts import Parts
from reachp2p.core.trust.facts import Checked, FactRejected
from reachp2p.core.wire.facts import Head


class Recall:
    """Merges what was known as if it were heard, from nobody."""

    def __init__(self, parts: Parts, hearing: Hearing) -> None:
        self._parts = parts
        self._hearing = hearing

    def load(self, now: float) -> None:
        """Heads and records from our own disk: verified like any others; expired heads are addresses only."""
        parts = self._parts
        heads, records = parts.snapshot.take_loaded()
        disk = Source(parts.own.node)
        for data in heads:
            if self._hearing.head(data, disk, now) is None:
                try:
                    fact = parts.checker.open(Head, data).fact
                except FactRejected:
                    continue  # counted as dropped.head.<reason> when it was heard
                if fact.node != parts.own.node and not fact.left:
                    parts.contacts.remember(NodeId(fact.node), tuple(fact.addresses))
        for data in records:
            self._hearing.record(data, disk, now)

    def learn(self, heads: Sequence[Checked[Head]], now: float) -> None:
        """Heads from elsewhere: merged, and nothing else."""
        parts = self._parts
        disk = Source(parts.own.node)
        for checked in heads:
            parts.checker.remember(checked)
            if self._hearing.head(checked.data, disk, now) is not None:
                parts.snapshot.hold(NodeId(checked.fact.node), checked.data)
