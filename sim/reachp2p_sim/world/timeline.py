"""Virtual time: a heap of (time, sequence, action, argument), taken in order.

The sequence number breaks ties in the order things were planned, so nothing depends on the addresses of objects. This
is the whole loop of the simulator: an action may plan others, and time stands still while it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[[Any], None]


class Timeline:
    """What is planned, and what time it is. `now` is in seconds from the start of the run.

    `is_running`: whether an action is being taken now, and so nobody else may `run` it.
    """

    __slots__ = ("_heap", "_sequence", "is_running", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.is_running = False
        self._heap: list[tuple[float, int, Action, Any]] = []
        self._sequence = 0

    def after(self, delay: float, action: Action, argument: Any = None) -> None:
        """Plan an action `delay` seconds from now."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (self.now + delay, sequence, action, argument))

    def at(self, when: float, action: Action, argument: Any = None) -> None:
        """Plan an action at a time, or now if that has passed."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (when if when > self.now else self.now, sequence, action, argument))

    def run(self, until: float) -> None:
        """Take everything that is due up to `until`, in order, and leave the time at `until`."""
        heap = self._heap
        self.is_running = True
        try:
            while heap and heap[0][0] <= until:
                self.now, _, action, argument = heappop(heap)
                action(argument)
        finally:
            self.is_running = False
        if until > self.now:
            self.now = until

    def __len__(self) -> int:
        return len(self._heap)
