"""The one exception of a run that goes wrong: a promise was broken, and by whom."""

from __future__ import annotations


class Violation(Exception):
    """A checker saw a promise broken. The run stops at the event that broke it."""

    def __init__(self, checker: str, message: str, at: float, node: str | None = None) -> None:
        super().__init__(checker, message, at, node)
        self.checker = checker
        self.message = message
        self.at = at
        self.node = node

    def __str__(self) -> str:
        where = f" at {self.node}" if self.node is not None else ""
        return f"{self.checker}: {self.message} (t = {self.at:.3f} s{where})"
