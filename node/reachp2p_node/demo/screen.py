"""What a person sees of the demo: a live table on a terminal, plain lines elsewhere, and a summary at the end."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reachp2p.runtime.text import plain
from reachp2p_node.cli.tables import STYLES
from reachp2p_node.demo.outcome import Outcome
from reachp2p_node.demo.watch import Watch

REFRESH_INTERVAL = 0.1
REMARKS_SHOWN = 8
SUMMARIES_SHOWN = 3
TEXT_SHOWN = 300


class LiveScreen:
    """Members, calls and the latest remarks, redrawn in place. A context manager."""

    def __init__(self, console: Console, cast: list[str]) -> None:
        self._cast = cast
        self._begun = time.monotonic()
        self._remarks: deque[str] = deque(maxlen=REMARKS_SHOWN)
        self._drawn_at = 0.0
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """Add a remark."""
        self._remarks.append(f"{time.monotonic() - self._begun:5.1f} s  {text}")
        self._drawn_at = 0.0

    def update(self, watch: Watch) -> None:
        """Draw, if the last drawing is old enough."""
        now = time.monotonic()
        if now - self._drawn_at >= REFRESH_INTERVAL:
            self._drawn_at = now
            remarks = Text("\n".join(self._remarks))
            self._live.update(
                Group(members_table(watch, self._cast), Text(), calls_table(watch), Text(), remarks),
                refresh=True,
            )


class LineScreen:
    """Remarks as lines, for logs and pipes. A context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()

    def __enter__(self) -> LineScreen:
        return self

    def __exit__(self, *_: object) -> None: ...

    def say(self, text: str) -> None:
        """Print a remark."""
        self._console.print(Text(f"{time.monotonic() - self._begun:5.1f} s  {text}"))

    def update(self, watch: Watch) -> None:
        """Nothing: a log is not redrawn."""


def members_table(watch: Watch, cast: list[str]) -> Table:
    """One row for each process: how the others see it, and what it is doing."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("member", "process", "seen by the others as", "epoch", "address", "in hand", "served"):
        table.add_column(
            column, justify="right" if column in ("process", "epoch", "in hand", "served") else "left"
        )
    for name in cast:
        process = watch.processes.get(name)
        if process is None:
            table.add_row(name, "", Text("starting", "dim"), "", "", "", "")
            continue
        table.add_row(
            name,
            Text("killed", "red") if process.is_killed else str(process.process),
            _states(watch.states_of(name)),
            str(process.epoch),
            process.address,
            str(len(process.serving)) if process.serving else "",
            str(process.served) if process.served else "",
        )
    return table


def calls_table(watch: Watch) -> Table:
    """One row for each agent that was called."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("agent", "calls", "retried", "failed"):
        table.add_column(column, justify="left" if column == "agent" else "right")
    for agent, tally in sorted(watch.tallies.items()):
        table.add_row(
            plain(agent),
            str(tally.done),
            Text(str(tally.retried), "yellow" if tally.retried else "dim"),
            Text(str(tally.failed), "red" if tally.failed else "dim"),
        )
    return table


def _states(counts: dict[str, int]) -> Text:
    """`6 ALIVE`, or `4 ALIVE, 2 SUSPECT` while views differ."""
    text = Text()
    for state in STYLES:
        if state in counts:
            text.append(", " if text else "").append(f"{counts[state]} {state}", STYLES[state])
    return text or Text("nobody yet", "dim")


def print_summary(
    console: Console, cast: list[str], watch: Watch, outcome: Outcome, review: dict[str, Any] | None
) -> None:
    """The end of a run, for people."""
    console.print(members_table(watch, cast), Text(), calls_table(watch), Text(), sep="\n")
    facts = Table.grid(padding=(0, 2))
    if review is not None:
        facts.add_row(Text("the text is about", "dim"), plain(", ".join(review["keywords"]), TEXT_SHOWN))
        for one in sorted(review["reviews"], key=lambda one: -one["score"])[:SUMMARIES_SHOWN]:
            facts.add_row(Text("well summarised", "dim"), plain(one["summary"], TEXT_SHOWN))
        facts.add_row("", "")
    for name, value in _figures(outcome):
        facts.add_row(Text(name, "dim"), value)
    console.print(facts)
    for problem in outcome.problems:
        console.print(Text(f"problem: {plain(problem, 500)}", "red"))
    console.print(Text("ok", "bold green") if outcome.ok else Text("not ok", "bold red"))


def _figures(outcome: Outcome) -> list[tuple[str, str]]:
    def seconds(value: float | None) -> str:
        return "never" if value is None else f"{value:.2f} s"

    epochs = outcome.epochs
    return [
        ("calls", f"{outcome.calls}, {outcome.calls_failed} failed, {outcome.retried} retried"),
        ("in the killed instance's hands", f"{outcome.in_flight_at_kill} calls"),
        ("out of every routing table after", seconds(outcome.seconds_until_out_of_every_table)),
        ("first called SUSPECT after", seconds(outcome.seconds_until_suspect_anywhere)),
        ("DEAD in every view after", seconds(outcome.seconds_until_dead_everywhere)),
        ("epoch before and after", f"{epochs['before']}, {epochs['after']}"),
        ("started again, in every table after", seconds(outcome.seconds_until_back_in_every_table)),
        ("started again, first call after", seconds(outcome.seconds_until_new_life_routed_to)),
        ("members doubted that were not killed", str(outcome.false_alarms)),
    ]
