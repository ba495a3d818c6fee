"""What happens in the demo, in order: start, work, kill, carry on, notice, return."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import trio

from reachp2p.errors import CallFailed, ReachError
from reachp2p.runtime.control_client import request
from reachp2p_node.demo.journal import Line
from reachp2p_node.demo.outcome import Act, Outcome, judge
from reachp2p_node.demo.stage import Stage
from reachp2p_node.demo.watch import Watch

CAST = {
    "seed": "seed",
    "summarizer-1": "summarizer",
    "summarizer-2": "summarizer",
    "extractor-1": "extractor",
    "extractor-2": "extractor",
    "critic": "critic",
    "planner": "planner",
}
INSTANCES = {"text.summarize": 2, "text.keywords": 2, "text.quality": 1, "text.review": 1}
VICTIM = "summarizer-1"
CAPABILITY = "text.summarize"
TIME_MAX = 44.0
"""Seconds for the whole play; with stopping everything it ends within 50."""
REVIEW_TIMEOUT = 40.0
CALLS_BEFORE_KILL = 60
GOOD_MOMENT_PATIENCE = 1.0
"""Seconds to wait for a moment at which the victim has two calls in its hands, one just begun; then any will do."""
JUST_BEGUN = 0.01
LOOK_INTERVAL = 0.01


class Screen(Protocol):
    """Who is shown what happens."""

    def say(self, text: str) -> None:
        """Something worth a line of its own."""

    def update(self, watch: Watch) -> None:
        """The state has changed; called often."""


class Story:
    """One run of the demo."""

    def __init__(self, stage: Stage, screen: Screen, text: str) -> None:
        self.watch = Watch()
        self.review: dict[str, Any] | None = None
        """What the planner made of the text."""
        self._stage = stage
        self._screen = screen
        self._text = text
        self._killed_at: float | None = None
        self._restarted_at: float | None = None
        self._problems: list[str] = []
        self._marks: dict[str, None] = {}
        self._lines: dict[str, list[Line]] = {name: [] for name in CAST}

    async def run(self) -> Outcome:
        """Play, within the time there is; then judge by what the processes wrote."""
        try:
            with trio.move_on_after(TIME_MAX) as scope:
                await self._play()
            if scope.cancelled_caught:
                self._problems.append(f"not finished after {TIME_MAX:g} s")
        except* ReachError as group:
            self._problems.extend(str(error) for error in group.exceptions)
        self._look()
        act = Act(
            victim=VICTIM, capability=CAPABILITY, killed_at=self._killed_at, restarted_at=self._restarted_at
        )
        return judge(self._lines, act, self._problems)

    async def _play(self) -> None:
        names, survivors = list(CAST), [name for name in CAST if name != VICTIM]
        self._screen.say("starting a seed node and six agents, each in a process of its own")
        self._stage.start("seed", CAST["seed"])
        await self._until(lambda: self.watch.has_started("seed"))
        for name in names[1:]:
            self._stage.start(name, CAST[name])
        await self._until(lambda: self.watch.sees_all(names) and self.watch.routes_are(names, INSTANCES))
        self._screen.say("all see all; the planner has the text read in passages")
        async with trio.open_nursery() as nursery:
            first = trio.Event()
            nursery.start_soon(self._review, self._text, 3, first)
            await self._kill()
            await self._until(lambda: self._is_gone(survivors))
            self._screen.say(f"{VICTIM} is DEAD in every view")
            await self._until(first.is_set)
        if self.review is None:
            return
        self._screen.say(f"the text is read: {self.watch.calls} calls; {VICTIM} is started again")
        self._restarted_at = time.monotonic()
        self._stage.start(VICTIM, CAST[VICTIM])
        while not self._is_back(survivors):
            await self._read_summaries()
        await self._until(lambda: self.watch.sees_all(names))
        self._screen.say(f"{VICTIM} works again, in epoch {self.watch.processes[VICTIM].epoch}")

    async def _kill(self) -> None:
        """SIGKILL in mid-work."""
        await self._until(lambda: self.watch.calls >= CALLS_BEFORE_KILL)
        await self._until(lambda: self.watch.in_flight(VICTIM) >= 1)
        patience = time.monotonic() + GOOD_MOMENT_PATIENCE
        await self._until(lambda: self._is_good_moment(patience), interval=0.001)
        self._killed_at = time.monotonic()
        self._stage.kill(VICTIM)
        self._screen.say(
            f"{VICTIM} is killed with {self.watch.in_flight(VICTIM)} calls in its hands (SIGKILL)"
        )

    def _is_good_moment(self, patience: float) -> bool:
        """Whether the victim is in mid-work now, and will be still when the signal reaches it."""
        now, in_flight = time.monotonic(), self.watch.in_flight(VICTIM)
        if now > patience:
            return in_flight >= 1
        return in_flight >= 2 and now - self.watch.newest_call(VICTIM) < JUST_BEGUN

    async def _read_summaries(self) -> None:
        """Have the summaries of the first reading read in turn, so that calls are under way while somebody returns."""
        assert self.review is not None, "the first reading is over"
        summaries = " ".join(one["summary"] for one in self.review["reviews"])
        done = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._review, summaries, 1, done)
            await self._until(done.is_set)

    async def _review(self, text: str, lengths: int, done: trio.Event) -> None:
        """One call to the planner, as anybody could make it."""
        params = {"text": text, "lengths": lengths}
        args = {"capability": "text.review", "params": params, "timeout": REVIEW_TIMEOUT}
        try:
            answer = await request(self._stage.state("seed"), "call", args, REVIEW_TIMEOUT + 1)
            self.review = self.review or answer["value"]
        except CallFailed as error:
            self._problems.append(f"text.review: {error}")
        finally:
            done.set()

    async def _until(self, is_so: Callable[[], bool], interval: float = LOOK_INTERVAL) -> None:
        self._look()
        while not is_so():
            await trio.sleep(interval)
            self._look()

    def _look(self) -> None:
        for name, line in self._stage.read():
            self._lines[name].append(line)
            self.watch.take(name, line)
        self._remark()
        self._screen.update(self.watch)

    def _remark(self) -> None:
        """Say what a watcher would want to know the moment it happens, once."""
        if self._killed_at is None or self._restarted_at is not None:
            return
        survivors = [name for name in CAST if name != VICTIM]
        states = self.watch.states_of(VICTIM)
        for mark, is_so in (
            (f"{VICTIM} is out of every routing table", self._is_out(survivors)),
            (f"{VICTIM} is SUSPECT", "SUSPECT" in states),
            (f"{VICTIM} is DEAD in a first view", "DEAD" in states),
        ):
            if is_so and mark not in self._marks:
                self._marks[mark] = None
                self._screen.say(f"{mark}, {time.monotonic() - self._killed_at:.1f} s after the kill")

    def _is_out(self, survivors: list[str]) -> bool:
        return not any(self.watch.offers(name, CAPABILITY, VICTIM) for name in survivors)

    def _is_gone(self, survivors: list[str]) -> bool:
        return self._is_out(survivors) and self.watch.states_of(VICTIM) == {"DEAD": len(survivors)}

    def _is_back(self, survivors: list[str]) -> bool:
        returned = self.watch.processes[VICTIM]
        return (
            returned.lives == 2
            and returned.served_in_life > 0
            and all(self.watch.offers(name, CAPABILITY, VICTIM) for name in survivors)
        )
