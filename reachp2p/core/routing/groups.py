"""Groups: what the instances that carry certain tags offer, kept while the table changes.

A call that names neither a capability nor an agent means the one capability that such a group offers. Everything that
is placed counts, whatever a moment's doubt says of it (SUSPECT, an open breaker, load): otherwise the same call would
mean another capability from one moment to the next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from reachp2p.core.counters import Counters
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.instance import CapabilityInfo, Instance
from reachp2p.core.routing.stages import Selector, Stage, Verdict, judge

GROUPS_MAX = 64
"""Sets of tags in use at one node. Each change of an instance is judged once by each, 1 to 2 µs."""

Offers = Mapping[str, Mapping[bytes | None, int]]
"""By capability: the hashes of its parameter schemas (None: it has none), and how many instances declare each."""


class Group:
    """The placed instances of a selector that names no one.

    `calls` has the capabilities for one answer to one question, `streams` those of which something streams.
    `revision` grows when either has other keys.
    """

    __slots__ = ("_members", "_stages", "calls", "revision", "selector", "streams")

    def __init__(self, selector: Selector, stages: tuple[Stage, ...], instances: Iterable[Instance]) -> None:
        self.selector = selector
        self.calls: dict[str, dict[bytes | None, int]] = {}
        self.streams: dict[str, dict[bytes | None, int]] = {}
        self.revision = 0
        self._stages = stages
        self._members: dict[InstanceKey, Mapping[str, CapabilityInfo]] = {}
        for instance in instances:
            self.update(instance.key, instance)

    def offers(self, *, streams: bool) -> Offers:
        """What can be called in one of the two ways."""
        return self.streams if streams else self.calls

    def update(self, key: InstanceKey, instance: Instance | None) -> None:
        """`instance` is what `key` names now; None: it is gone."""
        is_placed = (
            instance is not None and judge(self._stages, self.selector, instance)[0] is not Verdict.REMOVE
        )
        old = self._members.get(key)
        new = instance.info.capabilities if instance is not None and is_placed else None
        if old is new or old == new:
            return
        if new is None:
            del self._members[key]
        else:
            self._members[key] = new
        for name, info in (new or {}).items():
            self._count(name, info, 1)
        for name, info in (old or {}).items():
            self._count(name, info, -1)

    def _count(self, name: str, info: CapabilityInfo, step: int) -> None:
        kind = self.streams if info.stream else self.calls
        schemas = kind.get(name)
        if schemas is None:
            schemas = kind[name] = {}
        count = schemas.get(info.parameters, 0)
        if count + step:
            schemas[info.parameters] = count + step
            self.revision += not count
            return
        del schemas[info.parameters]
        self.revision += 1
        if not schemas:
            del kind[name]

    def __len__(self) -> int:
        """Instances."""
        return len(self._members)


class Groups:
    """The groups in use. At most `GROUPS_MAX`; the least recently used goes (`routing.groups.evicted`) and is made anew
    when it is asked for, which looks at every instance once."""

    def __init__(self, stages: tuple[Stage, ...], counters: Counters) -> None:
        self._stages = stages
        self._counters = counters
        self._held: OrderedDict[Selector, Group] = OrderedDict()

    def get(self, selector: Selector) -> Group | None:
        """A group that is in use."""
        group = self._held.get(selector)
        if group is not None:
            self._held.move_to_end(selector)
        return group

    def peek(self, selector: Selector) -> Group | None:
        """The same, without renewing it."""
        return self._held.get(selector)

    def add(self, selector: Selector, instances: Iterable[Instance]) -> Group:
        """A new one, of all instances that there are."""
        group = self._held[selector] = Group(selector, self._stages, instances)
        if len(self._held) > GROUPS_MAX:
            self._held.popitem(last=False)
            self._counters.add("routing.groups.evicted")
        return group

    def update(self, key: InstanceKey, instance: Instance | None) -> None:
        """Tell all what `key` names now."""
        for group in self._held.values():
            group.update(key, instance)

    def __len__(self) -> int:
        return len(self._held)
