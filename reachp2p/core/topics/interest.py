"""Which node wants events of which topics, from the records that are held (docs/protocol/events.md)."""

from __future__ import annotations

from collections.abc import Iterable

from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId, is_pattern
from reachp2p.core.topics.matching import Matching

PATTERNS_PER_NODE_MAX = 1_024
"""Of one node, over all its records: four times what it may say itself for its subscriptions, or 16 full agents."""


class Interest:
    """Patterns by node. Size: `PATTERNS_PER_NODE_MAX` for each node of the registry."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._matching: Matching[NodeId] = Matching()
        self._records: dict[tuple[NodeId, str], tuple[str, ...]] = {}
        """The patterns of each record that has any."""
        self._patterns: dict[NodeId, dict[str, int]] = {}
        """How many records of a node name a pattern."""

    def put(self, node: NodeId, agent: str, patterns: Iterable[str]) -> None:
        """A record of a node says this now; nothing if it is gone. What is not well formed is counted."""
        key = (node, agent)
        before = self._records.pop(key, ())
        after: dict[str, None] = {}
        for pattern in patterns:
            if is_pattern(pattern):
                after[pattern] = None
            else:
                self._counters.add("dropped.record.bad_pattern")
        taken = [pattern for pattern in after if self._add(node, pattern)]
        for pattern in before:
            self._remove(node, pattern)
        if taken:
            self._records[key] = tuple(taken)

    def _add(self, node: NodeId, pattern: str) -> bool:
        counts = self._patterns.setdefault(node, {})
        if pattern not in counts and len(counts) >= PATTERNS_PER_NODE_MAX:
            self._counters.add("topics.patterns_refused")
            return False
        counts[pattern] = counts.get(pattern, 0) + 1
        if counts[pattern] == 1:
            self._matching.add(pattern, node)
        return True

    def _remove(self, node: NodeId, pattern: str) -> None:
        counts = self._patterns[node]
        counts[pattern] -= 1
        if not counts[pattern]:
            del counts[pattern]
            self._matching.remove(pattern, node)
            if not counts:
                del self._patterns[node]

    def has(self, node: NodeId, agent: str) -> bool:
        """Whether a record of a node names any pattern."""
        return (node, agent) in self._records

    def targets(self, topic: str) -> tuple[NodeId, ...]:
        """The nodes that want events of a topic, whatever their state."""
        return self._matching.match(topic)

    @property
    def size(self) -> int:
        """Pairs of node and pattern."""
        return self._matching.size
