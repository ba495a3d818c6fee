"""How far a campaign is: a bar on a terminal, a line now and then elsewhere. All of it on stderr."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import TaskID

LINE_INTERVAL = 10.0
"""Seconds between two lines where there is no terminal."""


class Progress:
    """Counts finished runs. Use it as a context."""

    def __init__(self, total: int, done: int, stream: TextIO, now: Callable[[], float] = monotonic) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._total = total
        self._begun_with = done
        self._done = done
        self._failed = 0
        self._stream = stream
        self._now = now
        self._began_at = self._said_at = now()
        console = Console(file=stream)
        self._is_terminal = console.is_terminal
        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            TextColumn("left"),
        )
        self._bar = Bar(*columns, console=console, transient=True, disable=not self._is_terminal)
        self._task: TaskID = self._bar.add_task("", total=total, completed=done)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def finished(self, is_failure: bool) -> None:
        """One more run has ended."""
        self._done += 1
        self._failed += is_failure
        now = self._now()
        rate = (self._done - self._begun_with) / max(now - self._began_at, 1e-9)
        if self._is_terminal:
            text = f"{self._failed} failed, {rate:.1f} runs/s,"
            self._bar.update(self._task, completed=self._done, description=text)
        elif now - self._said_at >= LINE_INTERVAL and self._done < self._total:
            self._said_at = now
            so_far = f"{self._done}/{self._total} runs, {self._failed} failed, {rate:.1f} runs/s"
            self._stream.write(f"{so_far}, {_span((self._total - self._done) / rate)} left\n")
            self._stream.flush()


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    )
