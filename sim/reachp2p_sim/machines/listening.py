"""A close look at one host: what its process has just handled, and what it sends.

Looking into every datagram would cost more than the protocol itself, so a checker listens to a host only while there is
something to see: while it stands accused, while it doubts somebody, while it is this second's sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from reachp2p.core.ids import Address, LinkId

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host

Heard: TypeAlias = "Callable[[Host, bytes, LinkId | None], None]"
"""A datagram (link None) or frame was handled, and all that follows from it has been done."""
Sent: TypeAlias = "Callable[[Host, bytes, Address | LinkId], None]"
"""A datagram leaves for an address, or a frame on a link."""


class Listeners:
    """Who listens to one host."""

    __slots__ = ("heard", "sent")

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.sent: list[Sent] = []

    def has_handled(self, host: Host, data: bytes, link: LinkId | None) -> None:
        """Tell the listeners; one may stop listening meanwhile."""
        for listener in tuple(self.heard):
            listener(host, data, link)

    def sends(self, host: Host, data: bytes, to: Address | LinkId) -> None:
        """Tell the listeners; one may stop listening meanwhile."""
        for listener in tuple(self.sent):
            listener(host, data, to)


def listen(host: Host, *, heard: Heard | None = None, sent: Sent | None = None) -> Callable[[], None]:
    """Listen to a host from now on; call what is returned to stop."""
    listeners = host.listeners
    if listeners is None:
        listeners = host.listeners = Listeners()
    if heard is not None:
        listeners.heard.append(heard)
    if sent is not None:
        listeners.sent.append(sent)

    def stop() -> None:
        if heard is not None:
            listeners.heard.remove(heard)
        if sent is not None:
            listeners.sent.remove(sent)
        if not listeners.heard and not listeners.sent and host.listeners is listeners:
            host.listeners = None

    return stop
