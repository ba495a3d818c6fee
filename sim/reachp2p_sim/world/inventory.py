"""The machines of a world, found by number, name or key, and what else has a name: groups, disk images, seed names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reachp2p.core.ids import Address, NodeId
from reachp2p_sim.machines.disk import Image
from reachp2p_sim.steps.selection import Selection, UnknownMachine

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host

PORT = 7946


class Inventory:
    """What there is in a world, and the names of what comes next."""

    def __init__(self) -> None:
        self.nodes: list[Host] = []
        """All machines, in order of their number."""
        self.by_name: dict[str, Host] = {}
        self.by_node: dict[NodeId, list[Host]] = {}
        """Hosts by key: more than one only after `clone`."""
        self.names: dict[str, list[Address]] = {}
        """The name service: what seed names lead to. Hosts ask again every 15 seconds."""
        self.groups: dict[str, Selection] = {}
        """Selections with a name of their own; one that is drawn is drawn once."""
        self.images: dict[tuple[str, str], Image] = {}
        """Saved disks by name and machine."""
        self._addresses = 0

    def host(self, name: str) -> Host:
        """The machine of this name. Raises `UnknownMachine`."""
        found = self.by_name.get(name)
        if found is None:
            raise UnknownMachine(f"there is no machine {name!r}")
        return found

    def image(self, name: str, host: Host) -> Image:
        """A saved image of this machine's disk, or of the one that it is a clone of. Raises `UnknownMachine`."""
        original = self.by_node[host.node][0]
        for owner in (host.name, original.name):
            if (name, owner) in self.images:
                return self.images[name, owner]
        raise UnknownMachine(f"no image {name!r} of the disk of {host.name} was saved")

    def include(self, host: Host) -> None:
        """Take a machine in. Raises `ValueError` if there is one of its name."""
        if host.name in self.by_name:
            raise ValueError(f"there is a machine {host.name} already")
        self.nodes.append(host)
        self.by_name[host.name] = host
        self.by_node.setdefault(host.node, []).append(host)

    # What comes next

    def next_names(self, count: int) -> list[str]:
        """The names of the next machines."""
        first = sum(1 for host in self.nodes if not host.is_clone)
        return [f"n{number:02d}" for number in range(first, first + count)]

    def next_clone(self, host: Host) -> str:
        """The name of the next machine with this one's key."""
        original = self.by_node[host.node][0]
        return f"{original.name}-clone{len(self.by_node[host.node])}"

    def new_address(self) -> Address:
        """An address that nobody has had."""
        self._addresses += 1
        number = self._addresses
        return Address(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", PORT)
