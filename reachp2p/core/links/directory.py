"""Which node is at the other end of which links, and which of several links to one node is used.

Two nodes that dial each other at the same moment both end up with two links. Both sides prefer the one that the lower
NodeId has dialled; only the dialler of the other one closes it, because it alone knows for certain that the preferred
one is open at both ends or about to be.
"""

from __future__ import annotations

from collections.abc import Sequence

from reachp2p.core.ids import Life, LinkId, NodeId
from reachp2p.core.links.link import Link

ACCEPTED_PER_NODE_MAX = 3
"""A node needs one, a simultaneous dial makes it two, a broken one not yet noticed here three."""


def preferred(own: NodeId, node: NodeId, links: Sequence[Link]) -> Link | None:
    """The link to use among those to `node`, oldest first in `links`; None if none is usable.

    The highest life comes first, then the link dialled by the lower NodeId. Of several that we have dialled it is the
    oldest, of several that were accepted the newest: a dialler only dials again when its former link has failed.
    """
    best: Link | None = None
    for link in links:
        if link.is_usable and (best is None or _is_better(link, best, dialled_wins=own < node)):
            best = link
    return best


def _is_better(later: Link, best: Link, *, dialled_wins: bool) -> bool:
    assert later.life is not None
    assert best.life is not None
    if later.life != best.life:
        return later.life > best.life
    if later.dialled != best.dialled:
        return later.dialled is dialled_wins
    return not later.dialled


class Directory:
    """Proven links by node, and dials under way by the node they are meant for."""

    def __init__(self, own: NodeId) -> None:
        self._own = own
        self._links: dict[NodeId, list[Link]] = {}
        self._preferred: dict[NodeId, Link] = {}
        self._dials: dict[NodeId, dict[LinkId, None]] = {}

    def link_to(self, node: NodeId) -> Link | None:
        """The link to use for this node."""
        return self._preferred.get(node)

    def linked(self) -> list[NodeId]:
        """All nodes that there is a link to use for, the longest linked first."""
        return list(self._preferred)

    def links_to(self, node: NodeId) -> tuple[Link, ...]:
        """All proven links to this node that have not ended, oldest first."""
        return tuple(self._links.get(node, ()))

    def dial_to(self, node: NodeId) -> LinkId | None:
        """A dial under way that is meant to reach this node."""
        dials = self._dials.get(node)
        return next(iter(dials)) if dials else None

    def add_dial(self, node: NodeId, link: LinkId) -> None:
        """A dial has begun."""
        self._dials.setdefault(node, {})[link] = None

    def remove_dial(self, node: NodeId, link: LinkId) -> None:
        """A dial has ended, one way or the other."""
        dials = self._dials.get(node)
        if dials is not None and link in dials:
            del dials[link]
            if not dials:
                del self._dials[node]

    def add(self, node: NodeId, link: Link) -> None:
        """A link is proven."""
        self._links.setdefault(node, []).append(link)
        self.refresh(node)

    def remove(self, node: NodeId, link: Link) -> None:
        """A link has ended."""
        links = self._links.get(node)
        if links is not None and link in links:
            links.remove(link)
            if not links:
                del self._links[node]
            self.refresh(node)

    def refresh(self, node: NodeId) -> None:
        """A link to this node has changed its state."""
        link = preferred(self._own, node, self._links.get(node, ()))
        if link is None:
            self._preferred.pop(node, None)
        else:
            self._preferred[node] = link

    def outlived(self, node: NodeId, life: Life) -> list[Link]:
        """Links to lives of this node that are older than `life`."""
        return [link for link in self._links.get(node, ()) if link.life is not None and link.life < life]

    def redundant(self, node: NodeId) -> list[Link]:
        """Links to this node that we have dialled and should close in favour of the preferred one."""
        best = self._preferred.get(node)
        if best is None:
            return []
        links = self._links[node]
        return [
            link
            for link in links
            if link.dialled and link.is_usable and link is not best and link.life == best.life
        ]

    def surplus(self, node: NodeId) -> list[Link]:
        """The oldest accepted links beyond what one node may hold."""
        accepted = [link for link in self._links.get(node, ()) if not link.dialled]
        return accepted[:-ACCEPTED_PER_NODE_MAX]

    def __len__(self) -> int:
        return len(self._preferred)

    @property
    def dials(self) -> int:
        """Nodes that are being dialled."""
        return len(self._dials)
