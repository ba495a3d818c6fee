"""What keeps a machine's process from its work: no processor at all, one that is slow, or messages that block.

Three hindrances, none of which loses a message that a kernel would not lose:

* *paused* (SIGSTOP, a frozen container): nothing runs, no timer, no input. Resumed, the late timer comes first, then
  all that waited, in order.
* *blocked* (Lifeguard, Dadgar et al. 2018, §V: an anomaly blocks a process right before it sends and right after it
  receives): nothing it receives is handled, timers run, until the process wants to send; there it stands. Unblocked,
  what it wanted to send leaves first, then it goes on as after a pause. A process that probes wants to send within a
  period, so of a long anomaly only the beginning differs from a pause.
* *slow*: every input, a due timer too, waits for its turn and takes `service_time` seconds of the one processor; what
  it causes happens at the end of that time. At most `backlog_max` inputs wait: beyond it datagrams are dropped and
  counted, as a full socket buffer drops them. Everything else waits, since its sender is slowed down by a stream's flow
  control or is the process itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

from reachp2p.core.effects import Dial, Effect, SendDatagram, SendFrame
from reachp2p_sim.world.timeline import Timeline

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.machines.process import Process

Input: TypeAlias = tuple[Callable[[Any], None], Any]
BACKLOG_MAX = 256
"""Datagrams that wait for a slow process: a Linux socket buffer of 212,992 bytes holds about as many of usual size."""


class Processor:
    """The state of all three at one machine, and what waits. Pauses end with the process; a slow machine stays slow."""

    def __init__(self, host: Host, timeline: Timeline) -> None:
        self._host = host
        self._timeline = timeline
        self.is_paused = False
        self.is_blocking = False
        """What is received waits, and the first send will stop the process."""
        self.is_blocked = False
        """It has stopped there."""
        self.service_time = 0.0
        self.backlog_max = BACKLOG_MAX
        self.dropped = 0
        """Datagrams that found the backlog full."""
        self.waiting_max = 0
        """The most that have waited at once."""
        self._waiting: deque[Input] = deque()
        self._unsent: list[Effect] = []
        """What a blocked process wanted to do when it stopped, the send first."""
        self._is_serving = False

    @property
    def is_stopped(self) -> bool:
        """Whether nothing at all runs."""
        return self.is_paused or self.is_blocked

    # What the world does

    def pause(self) -> None:
        """Take the processor away."""
        self._may_stop()
        self.is_paused = True
        self._note()
        self._host.world.process_changed(self._host, "paused")

    def block(self) -> None:
        """Handle nothing that is received, and stop at the next send."""
        self._may_stop()
        self.is_blocking = True
        self._note()
        self._host.world.process_changed(self._host, "paused")

    def resume(self) -> None:
        """Go on: what was about to be sent, the late timer, then all that waited, in order."""
        host = self._host
        self.is_paused = self.is_blocking = self.is_blocked = False
        self._note()
        host.world.process_changed(host, "resumed")
        unsent, self._unsent = self._unsent, []
        process = host.process
        if process is None:
            return
        for effect in unsent:
            process.perform(effect)
        process.wake()
        process.settle()  # what it was told to do meanwhile, if no timer was late
        if self.service_time:
            self._serve_next()
            return
        waiting, self._waiting = self._waiting, deque()
        for action, argument in waiting:
            action(argument)

    def slow_down(self, service_time: float, backlog_max: int = BACKLOG_MAX) -> None:
        """Let each input take this many seconds of the processor, one at a time; 0 ends that."""
        if not 0 <= service_time < inf or backlog_max < 1:
            raise ValueError(
                f"service time {service_time} s, backlog {backlog_max}: at least 0 s and 1 are wanted"
            )
        self.service_time, self.backlog_max = service_time, backlog_max
        self._note()
        while self._waiting and self._host.hindered is None:
            action, argument = self._waiting.popleft()
            action(argument)

    def forget(self) -> None:
        """The process has ended: nothing of it waits any more."""
        self.is_paused = self.is_blocking = self.is_blocked = False
        self._waiting.clear()
        self._unsent = []
        self._note()

    # What the host asks

    def add(self, action: Callable[[Any], None], argument: Any) -> None:
        """Let an input wait for its turn."""
        self._waiting.append((action, argument))
        self.waiting_max = max(self.waiting_max, len(self._waiting))
        self._serve_next()

    def add_datagram(self, action: Callable[[Any], None], argument: Any) -> None:
        """Let a datagram wait, if there is room; a process that is stopped and not slow loses none."""
        if self.service_time and len(self._waiting) >= self.backlog_max:
            self.dropped += 1
        else:
            self.add(action, argument)

    def settle(self, process: Process) -> bool:
        """Perform nothing while stopped; of a process that blocks, what comes before its first send. Whether it goes
        on."""
        if self.is_stopped:
            return False
        while self.is_blocking and (effects := process.engine.take_effects()):
            for index, effect in enumerate(effects):
                if isinstance(effect, SendDatagram | SendFrame | Dial):
                    self.is_blocked, self._unsent = True, effects[index:]
                    return False
                process.perform(effect)
        return True

    def _may_stop(self) -> None:
        assert self._host.is_running, f"{self._host.name} runs no process"
        assert not self._is_closed, f"{self._host.name} is paused already"

    def _note(self) -> None:
        is_hindered = self.is_paused or self.is_blocking or self.service_time > 0
        self._host.hindered = self if is_hindered else None

    def _serve_next(self) -> None:
        """Begin to serve the next input of a slow process, unless one is being served."""
        if self.service_time and self._waiting and not self._is_serving and not self._is_closed:
            self._is_serving = True
            self._timeline.after(self.service_time, self._on_served, self._host.process)

    def _on_served(self, process: Process | None) -> None:
        self._is_serving = False
        if process is self._host.process and self._waiting and not self._is_closed:
            action, argument = self._waiting.popleft()
            action(argument)
        self._serve_next()

    @property
    def _is_closed(self) -> bool:
        return self.is_paused or self.is_blocking
