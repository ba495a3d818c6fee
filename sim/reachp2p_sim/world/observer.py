"""Who wants to see every datagram and frame of a run: the recorder of a report, a live view.

The network and the links call the observer of their world, if there is one, beside the trace. An observer only looks:
it plans nothing, sends nothing and draws nothing, so a run that is watched has the same trace digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.network.links import End


class Observer(Protocol):
    """Sees what travels. Called in the order in which things happen; the time is the world's."""

    def datagram_sent(self, source: Host, target: Host | None, data: bytes, number: int) -> None:
        """A datagram has left; `target` is None if nobody has its address. `number` names it in this run."""

    def datagram_gone(self, number: int, why: str) -> None:
        """It will not arrive: `lost`, `cut off` or `to nobody`."""

    def datagram_received(self, host: Host, number: int) -> None:
        """A process has been handed the datagram of this number. Never called for one that meets no process."""

    def frame_sent(self, end: End, data: bytes) -> None:
        """A frame has left on this end of a link."""

    def frame_received(self, end: End, data: bytes) -> None:
        """The process at this end has been handed a frame: the very object that was sent, in the order sent."""
