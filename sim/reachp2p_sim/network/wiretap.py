"""Datagrams kept by somebody who listens on every wire, to be sent again later: the oldest attack there is.

Recorded is what nodes send, also what is lost or cut off. A replay arrives from the source address it came from, at
the host it was meant for or at any other, such as a newcomer. It takes no path: whoever replays stands next to the
receiver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from reachp2p.core.ids import Address

if TYPE_CHECKING:
    from random import Random

    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.network.network import Network

RECORDED_MAX = 200_000
"""Datagrams kept, about 100 MB; the oldest make room."""


class Recorded(NamedTuple):
    """One datagram as it was sent."""

    at: float
    address: Address
    target: int
    """Index of the host it was sent to."""
    data: bytes
    number: int


class Wiretap:
    """What was sent since the recording began. `dropped` counts what made room for later ones."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._kept: deque[Recorded] = deque(maxlen=RECORDED_MAX)
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._kept)

    def record(self, at: float, address: Address, target: int, data: bytes, number: int) -> None:
        """Keep one more."""
        if len(self._kept) == RECORDED_MAX:
            self.dropped += 1
        self._kept.append(Recorded(at, address, target, data, number))

    def select(self, chance: Random, limit: int) -> list[Recorded]:
        """At most `limit` of what is kept, oldest first, every one as likely as another."""
        if len(self._kept) <= limit:
            return list(self._kept)
        chosen = sorted(chance.sample(range(len(self._kept)), limit))
        kept = list(self._kept)
        return [kept[index] for index in chosen]

    def replay(
        self,
        chance: Random,
        *,
        to: Sequence[Host] | None = None,
        limit: int = 1_000,
        within: float = 1.0,
    ) -> int:
        """Let recorded datagrams arrive again, at moments of the next `within` seconds; returns how many arrive.

        Each arrives where it was sent to, or at every host of `to`. At most `limit` are drawn from all that is kept.
        """
        network = self._network
        count = 0
        for recorded in self.select(chance, limit):
            for host in [network.hosts[recorded.target]] if to is None else to:
                network.inject(
                    host, recorded.data, recorded.address, recorded.number, chance.random() * within
                )
                count += 1
        network.tally.replayed += count
        return count
