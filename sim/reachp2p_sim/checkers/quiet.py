"""Quiet again (I-QUIET): long after the last disturbance a node sends as many bytes a second as it did before.

What nodes send is measured for a minute and a half whenever the world has stood still for a minute, and again when it
has stood still for twice the heal budget after a disturbance. If the same number of nodes run and nobody makes calls,
the two means differ by 5 % at most: nothing is left over from what has happened. Stories that stand still for long
enough, before and after, are judged; others are not.
"""

from __future__ import annotations

from collections.abc import Callable

from reachp2p.core.ids import Address, LinkId
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.listening import listen
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.world.world import World

LOOK_INTERVAL = 1.0
SETTLES = 60.0
"""Seconds after which newcomers compare views as seldom as everybody."""
WINDOW = 90.0
SHARE_MAX = 0.05


class Quiet(Checker):
    """Measures while the world stands still."""

    name = "quiet"
    invariant = "I-QUIET"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.before: tuple[int, float] | None = None
        """Nodes, and bytes a second of each, before the first disturbance that was long enough ago."""
        self._disturbed_at = -1.0
        self._bytes = 0
        self._began_at = 0.0
        self._calls = 0
        self._stops: list[Callable[[], None]] = []
        self._is_done = False
        world.every(LOOK_INTERVAL, self._look)

    def _look(self) -> None:
        world = self.world
        disturbed_at = world.history.last_change_at
        if disturbed_at != self._disturbed_at or not world.is_calm or world.network.paths.worst()[0]:
            self._disturbed_at, self._is_done = disturbed_at, False
            self._end()
        elif self._is_done:
            return
        elif self._stops:
            if world.now - self._began_at >= WINDOW:
                self._judge()
        elif world.now - disturbed_at > (
            SETTLES if self.before is None else 2 * healing(len(world.judged), world.protocol)
        ):
            self._begin()

    def _begin(self) -> None:
        self._bytes, self._began_at, self._calls = 0, self.world.now, self.world.ledger.started
        self._stops = [listen(host, sent=self._on_sent) for host in self.world.judged]

    def _end(self) -> None:
        for stop in self._stops:
            stop()
        self._stops = []

    def _on_sent(self, host: Host, data: bytes, to: Address | LinkId) -> None:
        self._bytes += len(data)

    def _judge(self) -> None:
        nodes = len(self._stops)
        self._end()
        self._is_done = True
        if self.world.ledger.started != self._calls or not nodes:
            return
        rate = self._bytes / (self.world.now - self._began_at) / nodes
        if self.before is None:
            self.before = (nodes, rate)
        elif self.before[0] == nodes and abs(rate / self.before[1] - 1) > SHARE_MAX:
            self.fail(
                f"{nodes} nodes send {rate:.1f} bytes a second each, {self.world.now - self._disturbed_at:.0f} s after "
                f"the last disturbance; before it they sent {self.before[1]:.1f}"
            )
