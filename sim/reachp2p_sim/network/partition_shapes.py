"""Shapes of partitions, and patterns of them in time: pure functions over a list of anything.

A shape is a list of directed cuts, each a pair (sources, targets) of which nothing gets from the first to the second.
`SHAPES` has them all by name; those that choose somebody draw from the chance they are given. A pattern is a list of
(seconds from its start, what to do, to whom).

The shapes are those of Jepsen's partition nemeses; swizzling is FoundationDB's swizzle-clogging.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Literal, TypeAlias, TypeVar

T = TypeVar("T")
Cut: TypeAlias = tuple[list[T], list[T]]
Shape: TypeAlias = list[Cut[T]]
Turn: TypeAlias = tuple[float, Literal["cut", "mend"], T]
"""When, what, whom."""

RING_MIN = 4
"""With three, who sees a majority and not all is no ring."""


# Groups


def halves(hosts: Sequence[T]) -> tuple[list[T], list[T]]:
    """The first half and the second."""
    middle = len(hosts) // 2
    return list(hosts[:middle]), list(hosts[middle:])


def majority_and_minority(hosts: Sequence[T], chance: Random) -> tuple[list[T], list[T]]:
    """A drawn smallest majority, and the rest; each in the order of `hosts`."""
    return _drawn(hosts, len(hosts) // 2 + 1, chance)


def third_and_rest(hosts: Sequence[T], chance: Random) -> tuple[list[T], list[T]]:
    """A drawn third (at least one), and the rest."""
    return _drawn(hosts, max(1, len(hosts) // 3), chance)


def one_and_rest(hosts: Sequence[T], chance: Random) -> tuple[list[T], list[T]]:
    """One that is drawn, and the rest."""
    return _drawn(hosts, 1, chance)


def random_groups(hosts: Sequence[T], count: int, chance: Random) -> list[list[T]]:
    """`count` groups that are not empty, each host in one of them; sizes and members are drawn."""
    if not 1 <= count <= len(hosts):
        raise ValueError(f"{count} groups of {len(hosts)} hosts: 1 to {len(hosts)} are possible")
    shuffled = list(range(len(hosts)))
    chance.shuffle(shuffled)
    groups: list[list[int]] = [[index] for index in shuffled[:count]]
    for index in shuffled[count:]:
        groups[chance.randrange(count)].append(index)
    return [[hosts[index] for index in sorted(group)] for group in groups]


# Shapes


def apart(*groups: Sequence[T]) -> Shape[T]:
    """Nothing between any two of these groups, both ways."""
    return [
        (list(source), list(target))
        for i, source in enumerate(groups)
        for j, target in enumerate(groups)
        if i != j
    ]


def deaf(hosts: Sequence[T], others: Sequence[T]) -> Shape[T]:
    """These hosts hear none of the others, who hear them: what comes in is lost (ingress)."""
    return [(list(others), list(hosts))]


def mute(hosts: Sequence[T], others: Sequence[T]) -> Shape[T]:
    """These hosts hear the others, who do not hear them: what goes out is lost (egress)."""
    return [(list(hosts), list(others))]


def bridge(hosts: Sequence[T]) -> Shape[T]:
    """Two halves that do not reach each other, and the host in the middle, which reaches all."""
    left, (_, *right) = halves(hosts)
    return apart(left, right)


def majorities_ring(hosts: Sequence[T]) -> Shape[T]:
    """Each host reaches a majority and no two reach the same one: its nearest neighbours on a circle.

    Needs at least four hosts, else `ValueError`.
    """
    count = len(hosts)
    if count < RING_MIN:
        raise ValueError(
            f"a ring of {count} hosts: at least {RING_MIN} are needed, of which each reaches a majority"
        )
    reach = (count // 2 + 1) // 2
    return [
        ([host], [hosts[(index + step) % count] for step in range(reach + 1, count - reach)])
        for index, host in enumerate(hosts)
    ]


def non_transitive(hosts: Sequence[T], chance: Random) -> Shape[T]:
    """Two that are drawn do not reach each other, though all others reach both."""
    left, right = chance.sample(range(len(hosts)), 2)
    return apart([hosts[left]], [hosts[right]])


SHAPES: dict[str, Callable[[Sequence[Any], Random], Shape[Any]]] = {
    "halves": lambda hosts, _: apart(*halves(hosts)),
    "majority-minority": lambda hosts, chance: apart(*majority_and_minority(hosts, chance)),
    "minority-third": lambda hosts, chance: apart(*third_and_rest(hosts, chance)),
    "isolate-one": lambda hosts, chance: apart(*one_and_rest(hosts, chance)),
    "deaf-one": lambda hosts, chance: deaf(*one_and_rest(hosts, chance)),
    "mute-one": lambda hosts, chance: mute(*one_and_rest(hosts, chance)),
    "bridge": lambda hosts, _: bridge(hosts),
    "majorities-ring": lambda hosts, _: majorities_ring(hosts),
    "non-transitive": non_transitive,
    "random-groups": lambda hosts, chance: apart(
        *random_groups(hosts, chance.randrange(2, max(3, len(hosts) // 2 + 1)), chance)
    ),
}
"""All shapes by name, for hosts of which there are at least four."""


# Patterns in time


def swizzle(
    hosts: Sequence[T], chance: Random, *, share: float = 0.25, seconds: float = 5.0
) -> list[Turn[T]]:
    """Cut a drawn share of the hosts off, one by one over `seconds`, then mend them one by one in another order."""
    count = max(1, round(len(hosts) * share))
    chosen = sorted(chance.sample(range(len(hosts)), min(count, len(hosts))))
    turns: list[Turn[T]] = []
    act: Literal["cut", "mend"]
    for began_at, act in ((0.0, "cut"), (seconds, "mend")):
        chance.shuffle(chosen)
        moments = sorted(began_at + chance.random() * seconds for _ in chosen)
        turns += [(moment, act, hosts[index]) for moment, index in zip(moments, chosen, strict=True)]
    return turns


def flapping(host: T, *, on: float, off: float, seconds: float) -> list[Turn[T]]:
    """Cut for `on` seconds, mended for `off`, again and again, and mended at the end."""
    if on <= 0 or off <= 0:
        raise ValueError(f"flapping {on} s on and {off} s off: both must be more than 0")
    turns: list[Turn[T]] = []
    at = 0.0
    while at < seconds:
        turns += [(at, "cut", host), (min(at + on, seconds), "mend", host)]
        at += on + off
    return turns


def _drawn(hosts: Sequence[T], count: int, chance: Random) -> tuple[list[T], list[T]]:
    chosen = set(chance.sample(range(len(hosts)), count))
    return (
        [host for index, host in enumerate(hosts) if index in chosen],
        [host for index, host in enumerate(hosts) if index not in chosen],
    )
