"""Delta debugging (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002, §3): `ddmin`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def smallest(items: Sequence[Item], does_it: Callable[[list[Item]], bool]) -> list[Item]:
    """A part of `items`, in their order, that does it and no longer does if any one item is left out.

    `items` does it. Asks about complements only: whether a small part alone does it is seldom true here, where a fault
    needs something that it breaks. Asks at most about n² times, and about log n times if one item is to blame.
    """
    kept = list(items)
    parts = 2
    while kept:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if does_it(rest):
                kept = rest
                parts = max(parts - 1, 2)
                break
        else:
            if size == 1:
                return kept
            parts = min(len(kept), parts * 2)
    return kept
