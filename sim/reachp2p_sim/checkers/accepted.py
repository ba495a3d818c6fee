"""Which datagrams a node must take for what they say, judged from outside."""

from __future__ import annotations

from reachp2p.core.wire.datagram import Datagram
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import Message
from reachp2p_sim.machines.host import Host

MESSAGES_MAX = 64
"""As many messages as a node accepts in one datagram."""


def overlook(reason: str) -> None:
    """A message that is not understood costs a node only this message (`on_rejected` of a codec)."""


def accepted(host: Host, data: bytes) -> tuple[Datagram, list[Message]] | None:
    """A datagram that reached a host, taken apart: whole, signed for it, from no life that it knows to be over."""
    world = host.world
    reader = world.codec.reader(world.cluster_id, host.node, world.signing.verifier.verify)
    try:
        datagram = reader.read(data)
        messages, _ = world.codec.unpack(
            datagram.body,
            bytes_max=len(datagram.body),
            messages_max=MESSAGES_MAX,
            datagram=True,
            on_rejected=overlook,
        )
    except WireError:
        return None
    held = host.view.members.get(datagram.node)
    if held is not None and datagram.life < held.life:
        return None
    return datagram, messages
