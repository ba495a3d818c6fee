"""Who is told of what happens in a world. Checkers, records and live views hook themselves in here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reachp2p.core.commands import RouteQuery
from reachp2p.core.effects import Invoke
from reachp2p.core.events import Event

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host


class Reports:
    """What machines report, handed to all who listen, in the order in which they came to listen."""

    def __init__(self) -> None:
        self.on_event: list[Callable[[Host, Event], None]] = []
        """Called with what each node tells its application."""
        self.on_invoke: list[Callable[[Host, Invoke], None]] = []
        """Called with each handler that a node runs."""
        self.on_work: list[Callable[[Host, float], None]] = []
        """Called with the seconds of work that each of these handlers finds to do; those of streams are not told."""
        self.on_call: list[Callable[[Host, RouteQuery, bytes, int], None]] = []
        """Called with each call that a program makes: its query and its id, or the error that it met at once."""
        self.on_process: list[Callable[[Host, str], None]] = []
        """Called when a process has `started`, `ended` (for whatever reason), been `paused` or `resumed`."""
        self._by_kind: dict[type[Event], list[Callable[[Host, Event], None]]] = {}

    def listen(self, listener: Callable[[Host, Event], None], *kinds: type[Event]) -> None:
        """Call a listener with every event of these kinds. `on_event` has it called with all, which are many."""
        for kind in kinds:
            self._by_kind.setdefault(kind, []).append(listener)

    # What machines call

    def notified(self, host: Host, event: Event) -> None:
        """A node told its application something."""
        for listener in self.on_event:
            listener(host, event)
        for listener in self._by_kind.get(type(event), ()):
            listener(host, event)

    def invoked(self, host: Host, invoke: Invoke) -> None:
        """A node ran a handler."""
        for listener in self.on_invoke:
            listener(host, invoke)

    def found_work(self, host: Host, seconds: float) -> None:
        """A handler knows how long it will work."""
        for listener in self.on_work:
            listener(host, seconds)

    def called(self, host: Host, query: RouteQuery, call: bytes, code: int) -> None:
        """A program made a call."""
        for listener in self.on_call:
            listener(host, query, call, code)

    def process_changed(self, host: Host, what: str) -> None:
        """A process has started, ended, been paused or resumed."""
        for listener in self.on_process:
            listener(host, what)
