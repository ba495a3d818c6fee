"""What stands in the way of some and not of others: address translators (NAT) and firewalls that let no dial through.

A machine behind a translator without a port mapping can begin a conversation and nobody can begin one with it: the
address that it tells others leads nowhere, or to the translator, which refuses. What it sends has the translator's
address; answers to that come in until the mapping has been idle for a while, from the machine that was written to and
from no other (RFC 4787: address-dependent filtering). Links that it has dialled work in both directions.

A firewall answers dials from some machines to others itself, by RST or not at all. Datagrams and links that are open
already pass, so the two machines are connected in one sense and not in another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from reachp2p.core.ids import Address

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.world.timeline import Timeline

Answer = Literal["refused", "silence"]
"""What a dial gets that does not get through: a reset at once, or nothing until it times out."""


@dataclass(slots=True)
class Translator:
    """The gateway of one machine: its own address, and until when it lets answers in, by the index of their sender."""

    outside: Address
    idle: float
    """Seconds without a datagram to the outside after which an answer is let in no more."""
    answer: Answer
    open_until: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Firewall:
    """Dials from the machines of one bit mask to those of another do not get through."""

    sources: int
    targets: int
    answer: Answer


class Gateways:
    """All translators and firewalls of the network."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._behind: dict[int, Translator] = {}
        self._addresses: dict[Address, Translator] = {}
        """Translators by their own address, and by the one that the machine behind tells others."""
        self._firewalls: list[Firewall] = []
        self.mask = 0
        """The machines behind translators: every path to or from them takes the long way."""
        self.kept_out = 0
        """Datagrams that no mapping let in."""
        self.dials_blocked = 0

    def is_behind(self, host: Host) -> bool:
        """Whether a machine is behind a translator."""
        return host.index in self._behind

    def put_behind(self, host: Host, outside: Address, idle: float, answer: Answer) -> None:
        """Put a machine behind a translator of its own, for good."""
        translator = self._behind[host.index] = Translator(outside, idle, answer)
        self._addresses[outside] = self._addresses[host.address] = translator
        self.mask |= 1 << host.index

    def moved(self, host: Host, former: Address) -> None:
        """A machine behind a translator tells others another address."""
        self._addresses[host.address] = self._addresses.pop(former)

    def block_dials(self, sources: int, targets: int, answer: Answer) -> None:
        """Let no dial through from some machines to others until `allow_dials`."""
        self._firewalls.append(Firewall(sources, targets, answer))

    def allow_dials(self) -> None:
        """All firewalls end. Translators stay."""
        self._firewalls.clear()

    def leaves(self, source: Host, target: Host) -> Address:
        """A datagram leaves a machine: the address that it comes from, for whoever receives it."""
        translator = self._behind.get(source.index)
        if translator is None:
            return source.address
        translator.open_until[target.index] = self._timeline.now + translator.idle
        return translator.outside

    def lets_in(self, source: Host, target: Host) -> bool:
        """Whether a datagram for a translator's address gets to the machine behind it."""
        translator = self._behind.get(target.index)
        if translator is None or translator.open_until.get(source.index, -1.0) >= self._timeline.now:
            return True
        self.kept_out += 1
        return False

    def answer_for(self, source: Host, target: Host | None, address: Address) -> Answer | None:
        """What a dial gets instead of an answer of its target (who has this address, if anybody); None: it passes."""
        translator = self._addresses.get(address)
        if translator is not None:
            self.dials_blocked += 1
            return translator.answer
        if target is not None:
            for firewall in self._firewalls:
                if firewall.sources >> source.index & 1 and firewall.targets >> target.index & 1:
                    self.dials_blocked += 1
                    return firewall.answer
        return None
