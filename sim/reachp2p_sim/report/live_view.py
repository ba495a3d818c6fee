"""A run in the terminal while it goes on: a column for each node, and what happens scrolling below.

Draws with rich on the terminal's alternate screen, at most `FRAMES_PER_SECOND` times a second however fast the run is.
It looks at the world between events and changes nothing; with a pace it only makes the run wait.
"""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from reachp2p.core.events import CloneSeen, Event, Fenced, MemberChanged, Paused, Resumed, StartRefused
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.view import fingerprint
from reachp2p_sim.world.world import World

FRAMES_PER_SECOND = 10.0
LOOK_INTERVAL = 0.05
"""Seconds of run time between two looks: enough for a picture of a run that goes as fast as it can."""
LINES_KEPT = 200
CELL_MIN = 4
"""Characters that one node needs: its number and a space."""
GLYPHS = {
    "alive": ("●", "green"),
    "doubted": ("◐", "yellow"),
    "buried": ("✕", "bold red"),
    "paused": ("‖", "cyan"),
    "down": ("○", "dim"),
    "forgotten": ("·", "dim"),
}
NOTABLE = (CloneSeen, Fenced, Paused, Resumed, StartRefused)


class Watch:
    """The live view of one run. A context manager around it; `attach` it to the world."""

    def __init__(self, title: str, pace: float | None = None, console: Console | None = None) -> None:
        """`pace`: seconds of run time for each second on the clock; None: as fast as it goes."""
        self._title = title
        self._pace = pace
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._world: World | None = None
        self._views: dict[int, dict[bytes, str]] = {}
        self._lines: deque[Text] = deque(maxlen=LINES_KEPT)
        self._changes: dict[tuple[str, str], int] = {}
        self._shown_at = 0.0
        self._began_at = time.monotonic()

    def __enter__(self) -> Watch:
        self._live.start()
        self._began_at = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def attach(self, world: World) -> None:
        """Look at this world from now on."""
        self._world = world
        world.on_fault.append(self._on_fault)
        world.on_event.append(self._on_event)
        world.every(LOOK_INTERVAL, self._look)

    # What happens

    def _on_fault(self, text: str) -> None:
        if not text.startswith(("start ", "offer agent", "call loop", "run ", "expect ")):
            self._say(text.replace("..", "–"), "bold magenta")

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, MemberChanged):
            if event.new is not None and event.new.value in ("SUSPECT", "DEAD"):
                key = (event.name, event.new.value)
                self._changes[key] = self._changes.get(key, 0) + 1
                if self._changes[key] == 1:
                    state = "doubted" if event.new.value == "SUSPECT" else "buried"
                    self._say(
                        f"{host.name} holds {event.name} {event.new.value}: {event.reason}", GLYPHS[state][1]
                    )
            elif event.new is not None and event.new.value == "ALIVE" and event.old is not None:
                for state in ("SUSPECT", "DEAD"):
                    if self._changes.pop((event.name, state), None) is not None:
                        self._say(f"{event.name} is ALIVE again, says {host.name}", "green")
        elif isinstance(event, NOTABLE):
            self._say(f"{host.name} says {type(event).__name__}", "bold cyan")

    def _say(self, text: str, style: str) -> None:
        assert self._world is not None, "nothing happens before the watch is attached"
        self._lines.append(
            Text(f"{self._world.now:9.3f}  {text}", style=style, no_wrap=True, overflow="ellipsis")
        )

    # What is drawn

    def _look(self) -> None:
        assert self._world is not None, "the look is planned when the watch is attached"
        now = time.monotonic()
        if self._pace is not None:
            ahead = self._world.now / self._pace - (now - self._began_at)
            if ahead > 0:
                time.sleep(min(ahead, 1.0))
                now = time.monotonic()
        if now - self._shown_at >= 1.0 / FRAMES_PER_SECOND:
            self._shown_at = now
            self._live.update(self.picture(), refresh=True)

    def picture(self) -> Group:
        """One frame, for the size that the terminal has."""
        world = self._world
        assert world is not None, "there is nothing to see before the watch is attached"
        width, height = self._console.size
        states = self._states(world)
        cells = self._cells(states, width - 4)
        counts = {state: sum(s == state for s in states.values()) for state in GLYPHS}
        right = sum(self._is_right(host) for host in world.running)
        legend = Text("  ").join(
            Text.assemble((glyph, style), f" {state} {counts[state]}")
            for state, (glyph, style) in GLYPHS.items()
        )
        status = Text(
            f"t = {world.now:8.2f} s   {right} of {len(world.running)} views right   "
            f"{world.messages} messages   {'calm' if world.is_calm else 'DISTURBED'}",
            style="bold" if world.is_calm else "bold yellow",
        )
        room = max(3, height - cells.row_count - 6)
        lines = list(self._lines)[-room:]
        return Group(
            Panel(cells, title=self._title, border_style="dim"),
            status,
            legend,
            Text("─" * width, style="dim"),
            *lines,
        )

    @staticmethod
    def _cell_width(states: dict[str, str], width: int) -> int:
        """Characters for a node: its whole name if all fit in two rows of names, else the number alone."""
        longest = max((len(name) for name in states), default=2) + 1
        fits = len(states) * longest <= 2 * width
        return longest if fits else max(CELL_MIN, max((len(_number(name)) for name in states), default=2) + 1)

    def _cells(self, states: dict[str, str], width: int) -> Table:
        """Names over glyphs, in as many pairs of rows as the nodes need."""
        cell = self._cell_width(states, width)
        per_row = max(1, width // cell)
        names = list(states)
        is_short = cell < max((len(name) for name in names), default=0) + 1
        table = Table.grid(padding=0)
        for _ in range(min(per_row, max(len(names), 1))):
            table.add_column(width=cell)
        for first in range(0, len(names), per_row):
            group = names[first : first + per_row]
            table.add_row(*(Text(_number(n) if is_short else n, style="dim") for n in group))
            table.add_row(*(Text(GLYPHS[states[n]][0], style=GLYPHS[states[n]][1]) for n in group))
        return table

    def _states(self, world: World) -> dict[str, str]:
        """For each machine how most of the others see it, the worst first."""
        tallies: dict[bytes, list[int]] = {}
        for host in world.running:
            for node, held in host.view.members.items():
                tally = tallies.setdefault(node, [0, 0, 0])
                if held.state.value in ("ALIVE", "SUSPECT", "DEAD"):
                    tally[("ALIVE", "SUSPECT", "DEAD").index(held.state.value)] += 1
        states: dict[str, str] = {}
        for host in world.nodes:
            alive, suspect, dead = tallies.get(host.node, [0, 0, 0])
            if host.is_paused:
                state = "paused"
            elif not host.is_running:
                state = "buried" if dead and dead >= alive + suspect else "doubted" if suspect else "down"
                if not alive and not suspect and not dead:
                    state = "forgotten"
            else:
                state = "buried" if dead else "doubted" if suspect else "alive"
            states[host.name] = state
        return states

    def _is_right(self, host: Host) -> bool:
        assert self._world is not None, "looked at while it runs"
        truth, life = self._world.alive_fingerprint(), host.life
        return truth is not None and life is not None and host.view.alive ^ fingerprint(life) == truth


def _number(name: str) -> str:
    return name.removeprefix("n").replace("-clone", "c")
