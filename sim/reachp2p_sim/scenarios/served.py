"""What became of the calls of a story: who was asked for them, how they ended, how long they took."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from reachp2p.core.commands import RouteQuery
from reachp2p.core.events import CallEnded, Event
from reachp2p.core.wire.messages import Request
from reachp2p_sim.checkers.asked import Asked
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World


@dataclass(slots=True, frozen=True)
class Sent:
    """One attempt: when it left, from whom, to whom, and whether another had left for the same call."""

    at: float
    caller: Host
    target: Host
    is_second: bool


@dataclass(slots=True, frozen=True)
class End:
    """How one call ended, and where; `code` 0 is well. `target` is None if nobody was asked."""

    at: float
    took: float
    caller: Host
    target: Host | None
    code: int
    attempts: int


class Served:
    """Takes down all calls that begin from now on. A node that calls an agent of its own leaves no `sent`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._began: dict[tuple[int, bytes], float] = {}
        self._seen: dict[tuple[int, bytes], None] = {}
        self.sent: list[Sent] = []
        self.ends: list[End] = []
        self.started = 0
        """Calls that did not fail at once."""
        self.works: list[float] = []
        """Seconds of work of each handler that was run, in the order in which they were."""
        world.on_work.append(self._on_work)
        Asked.of(world).on_request.append(self._on_request)
        world.on_call.append(self._on_call)
        world.listen(self._on_event, CallEnded)

    def _on_call(self, host: Host, query: RouteQuery, call: bytes, code: int) -> None:
        now = self._world.now
        if code:
            self.ends.append(End(now, 0.0, host, None, code, 0))
        else:
            self.started += 1
            self._began[host.index, call] = now

    def _on_work(self, _: Host, seconds: float) -> None:
        self.works.append(seconds)

    def _on_request(self, host: Host, target: Host, request: Request) -> None:
        key = (host.index, request.message_id)
        if key in self._began:
            self.sent.append(Sent(self._world.now, host, target, key in self._seen))
            self._seen[key] = None

    def _on_event(self, host: Host, event: Event) -> None:
        if not isinstance(event, CallEnded):
            return
        key = (host.index, event.call)
        began_at = self._began.pop(key, None)
        self._seen.pop(key, None)
        if began_at is None:
            return
        now = self._world.now
        target = self._world.by_node[event.node][0] if event.node is not None else None
        self.ends.append(End(now, now - began_at, host, target, event.code, event.attempts))

    # Questions

    def codes(self, since: float = 0.0) -> dict[int, int]:
        """How often each code was the end of a call, from a moment on."""
        return dict(sorted(Counter(end.code for end in self.ends if end.at >= since).items()))

    def well(self, since: float = 0.0) -> float:
        """The share of calls that ended well, of those that ended from a moment on; 1 if there were none."""
        codes = self.codes(since)
        return codes.get(0, 0) / sum(codes.values()) if codes else 1.0

    def answered_by(self, hosts: list[Host], since: float = 0.0) -> list[int]:
        """How many calls ended at each of these machines, from a moment on."""
        counts = Counter(end.target.index for end in self.ends if end.target is not None and end.at >= since)
        return [counts[host.index] for host in hosts]

    def arrivals(self) -> list[float]:
        """When the calls were made that have ended, in order."""
        return sorted(end.at - end.took for end in self.ends)

    def times(self, since: float = 0.0) -> list[float]:
        """Seconds that the calls took which ended well, shortest first."""
        return sorted(end.took for end in self.ends if end.code == 0 and end.at >= since)

    @property
    def again(self) -> int:
        """Second attempts."""
        return sum(sent.is_second for sent in self.sent)
