"""From a topic to whoever wants it: a trie over tokens, kept incrementally (docs/protocol/events.md).

A pattern is a path; `*` is a branch of its own, `>` is noted at the node that it leaves. Matching walks the branches
that a topic takes, at most two at each token, and never more nodes than there are: patterns that do not match cost
nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar, final

V = TypeVar("V", bound=Hashable)

ANY = "*"
REST = ">"
REMEMBERED_MAX = 1_024
"""Topics whose answer is remembered until something changes. Programs publish to few topics, again and again."""


@final
class _Branch(Generic[V]):
    """One token of some patterns."""

    __slots__ = ("branches", "here", "rest")

    def __init__(self) -> None:
        self.branches: dict[str, _Branch[V]] = {}
        self.here: dict[V, None] = {}
        """Whose pattern ends here."""
        self.rest: dict[V, None] = {}
        """Whose pattern goes on with `>`."""

    @property
    def is_empty(self) -> bool:
        return not (self.branches or self.here or self.rest)


class Matching(Generic[V]):
    """Values by pattern. Size: one branch for each token of each pattern, at most, and `REMEMBERED_MAX` answers."""

    def __init__(self) -> None:
        self._root: _Branch[V] = _Branch()
        self._remembered: dict[str, tuple[V, ...]] = {}
        self.size = 0
        """Pairs of pattern and value. Read only."""

    def add(self, pattern: str, value: V) -> bool:
        """Let `value` match `pattern`; false if it did so before."""
        branch = self._root
        tokens = pattern.split(".")
        for token in tokens if tokens[-1] != REST else tokens[:-1]:
            following = branch.branches.get(token)
            if following is None:
                following = branch.branches[token] = _Branch()
            branch = following
        values = branch.rest if tokens[-1] == REST else branch.here
        if value in values:
            return False
        values[value] = None
        self.size += 1
        self._remembered.clear()
        return True

    def remove(self, pattern: str, value: V) -> bool:
        """The opposite; false if it did not match."""
        tokens = pattern.split(".")
        path = [self._root]
        for token in tokens if tokens[-1] != REST else tokens[:-1]:
            following = path[-1].branches.get(token)
            if following is None:
                return False
            path.append(following)
        values = path[-1].rest if tokens[-1] == REST else path[-1].here
        if value not in values:
            return False
        del values[value]
        self.size -= 1
        self._remembered.clear()
        for depth in range(len(path) - 1, 0, -1):
            if not path[depth].is_empty:
                break
            del path[depth - 1].branches[tokens[depth - 1]]
        return True

    def match(self, topic: str) -> tuple[V, ...]:
        """Every value with a pattern that `topic` matches, each once, in an order that follows from the changes so
        far."""
        known = self._remembered.get(topic)
        if known is not None:
            return known
        found: dict[V, None] = {}
        frontier = [self._root]
        for token in topic.split("."):
            following: list[_Branch[V]] = []
            for branch in frontier:
                found.update(branch.rest)
                for name in (token, ANY):
                    if (next_branch := branch.branches.get(name)) is not None:
                        following.append(next_branch)
            frontier = following
        for branch in frontier:
            found.update(branch.here)
        if len(self._remembered) >= REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[topic] = answer = tuple(found)
        return answer
