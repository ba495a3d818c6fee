"""An engine that does what a test tells it, and writes down what the driver tells it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from reachp2p.core.effects import Effect
from reachp2p.core.ids import NodeId


class FakeEngine:
    """Answers inputs by `on_input`, if given; effects wait until they are taken."""

    def __init__(self) -> None:
        self.inputs: list[tuple[str, tuple[Any, ...]]] = []
        self.times: list[float] = []
        self.effects: deque[Effect] = deque()
        self.taken: list[int] = []
        self.deadline: float | None = None
        self.on_input: Callable[[str, tuple[Any, ...]], None] | None = None
        self.node = NodeId(bytes(32))

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("handle_") and name not in ("start", "set_seeds", "leave"):
            raise AttributeError(name)

        def take(*arguments: Any) -> None:
            self.inputs.append((name, arguments[:-1]))
            self.times.append(arguments[-1])
            if self.on_input is not None:
                self.on_input(name, arguments[:-1])

        return take

    def names(self) -> list[str]:
        """The inputs so far, in order."""
        return [name for name, _ in self.inputs]

    def take_effects(self) -> list[Effect]:
        effects = list(self.effects)
        self.effects.clear()
        if effects:
            self.taken.append(len(effects))
        return effects

    def next_deadline(self) -> float | None:
        return self.deadline
