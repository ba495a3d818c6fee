"""Records that are known to be missing: gossip brought a newer head, and its records have not followed.

Most of them arrive by gossip a moment later; what is still missing then is asked for over a link (`upkeep`).
"""

from __future__ import annotations

import msgspec

from reachp2p.core.ids import NodeId
from reachp2p.core.membership.detector import PRESENT
from reachp2p.core.membership.member import Member
from reachp2p.core.parts import Parts

PULLS_MAX = 4_096
"""Nodes whose records are looked for at once; for a further one the periodic anti-entropy has to do."""
TRIES_MAX = 5
"""After so many pulls in vain the periodic anti-entropy has to find somebody who has the records."""


class Pull(msgspec.Struct, frozen=True):
    """Records of `node` are missing; `teller` has told us of a newer version of it."""

    node: NodeId
    teller: NodeId
    tries: int = 0


class Pulls:
    """What has to be asked for. Size: `PULLS_MAX`; more are counted."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._due: dict[NodeId, Pull] = {}

    def follow(self, member: Member, teller: NodeId) -> None:
        """A head was merged: if its records are not all here, they become due."""
        if member.head.fact.version <= self._parts.store.complete(member.node):
            return
        if member.node not in self._due and len(self._due) >= PULLS_MAX:
            self._parts.counters.add("sync.pulls_full")
            return
        self._due[member.node] = Pull(member.node, teller)

    def take(self, most: int) -> list[Pull]:
        """Pulls that are still needed, at most `most`; the others stay due."""
        taken: list[Pull] = []
        for node, pull in list(self._due.items()):
            is_needed = self._is_needed(pull)
            if not is_needed or len(taken) < most:
                del self._due[node]
            if is_needed and len(taken) < most:
                taken.append(pull)
        return taken

    def _is_needed(self, pull: Pull) -> bool:
        member = self._parts.table.get(pull.node)
        return (
            member is not None
            and member.state in PRESENT
            and member.head.fact.version > self._parts.store.complete(pull.node)
            and pull.tries < TRIES_MAX
        )

    def retry(self, pull: Pull) -> None:
        """Look again in a while whether `pull` has brought what it was for."""
        if pull.node not in self._due:
            self._due[pull.node] = Pull(pull.node, pull.teller, pull.tries + 1)

    def __len__(self) -> int:
        return len(self._due)
