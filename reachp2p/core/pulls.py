"""What is known to be missing: gossip brought a newer head without its records, or a record without its head.

Most of them arrive by gossip a moment later; what is still missing then is asked for over a link (`upkeep`).
"""

from __future__ import annotations

import msgspec

from reachp2p.core.ids import NodeId
from reachp2p.core.membership.table import PRESENT
from reachp2p.core.parts import Parts

PULLS_MAX = 4_096
"""Nodes whose records are looked for at once; for a further one the periodic anti-entropy has to do."""
TRIES_MAX = 5
"""After so many pulls in vain the periodic anti-entropy has to find somebody who has the records."""


class Pull(msgspec.Struct, frozen=True):
    """Something of `node` is missing; `teller` has told us of a newer version of it."""

    node: NodeId
    teller: NodeId
    tries: int = 0


class Pulls:
    """What has to be asked for. Size: `PULLS_MAX`; more are counted."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.due: dict[NodeId, Pull] = {}
        """By node. Read only."""

    def follow(self, node: NodeId, teller: NodeId) -> None:
        """A head or a record of `node` was merged: if they do not tell the same version, the rest becomes due."""
        pull = Pull(node, teller)
        if not self._is_needed(pull):
            return
        if node not in self.due and len(self.due) >= PULLS_MAX:
            self._parts.counters.add("sync.pulls_full")
            return
        self.due[node] = pull

    def take(self, most: int) -> list[Pull]:
        """Pulls that are still needed, at most `most`; the others stay due."""
        taken: list[Pull] = []
        for node, pull in list(self.due.items()):
            is_needed = self._is_needed(pull)
            if not is_needed or len(taken) < most:
                del self.due[node]
            if is_needed and len(taken) < most:
                taken.append(pull)
        return taken

    def _is_needed(self, pull: Pull) -> bool:
        member = self._parts.table.get(pull.node)
        if member is None or member.state not in PRESENT or pull.tries >= TRIES_MAX:
            return False
        version, store = member.head.fact.version, self._parts.store
        return version > store.complete(pull.node) or version < store.newest(pull.node)

    def retry(self, pull: Pull) -> None:
        """Look again in a while whether `pull` has brought what it was for."""
        if pull.node not in self.due:
            self.due[pull.node] = Pull(pull.node, pull.teller, pull.tries + 1)

    def __len__(self) -> int:
        return len(self.due)
