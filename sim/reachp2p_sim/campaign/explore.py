"""Runs that nobody has thought of: size, weather, constants, intensity and faults all drawn, for as long as one likes.

Every run is one of `random-faults` with everything drawn written into its options, so its line repeats it without the
exploration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from time import monotonic
from typing import Any

from reachp2p_sim.campaign.plan import Task
from reachp2p_sim.campaign.pool import Lost, Outcome
from reachp2p_sim.running.run import RunConfig, RunResult
from reachp2p_sim.world.randomness import Randomness

SCENARIO = "random-faults"
NODES_MIN, NODES_MAX = 4, 24
FAILURES_KEPT = 1_000


def drawn(seed: int, number: int, mutant: str | None = None) -> RunConfig:
    """The run of this number of the exploration of this seed."""
    chance = Randomness(seed).stream("explore", number)
    nodes = min(NODES_MAX, NODES_MIN + int(chance.expovariate(1 / 6)))
    settings: dict[str, float] = {
        "seconds": chance.choice((30.0, 60.0, 120.0, 240.0)),
        "rate": chance.choice((0.05, 0.2, 0.5, 1.0, 2.0)),
        "spread": chance.choice((0.0, 0.0045, 0.02)),
        "path_loss": chance.choice((0.0, 0.0, 0.0, 0.01, 0.05)),
        **_constants(chance),
    }
    return RunConfig(
        SCENARIO,
        chance.randrange(2**31),
        nodes,
        mutant,
        {key: f"{value:g}" for key, value in settings.items()},
    )


def _constants(chance: Random) -> dict[str, float]:
    """A few constants of the protocol, as a deployment might have them. What the others must survive is not drawn."""
    ranges: dict[str, tuple[float, ...]] = {
        "probe_timeout": (0.2, 0.5, 0.8),
        "indirect_probes": (1, 2, 3, 5),
        "suspicion_alpha": (2.0, 3.0, 4.0, 6.0),
        "suspicion_beta": (1.0, 3.0, 6.0),
        "retransmit_multiplier": (2, 3, 4),
        "gossip_interval": (0.1, 0.2, 0.5),
        "gossip_fanout": (2, 3, 4),
        "push_pull_interval": (10.0, 30.0, 60.0),
        "recontact_interval": (20.0, 60.0),
    }
    chosen = chance.sample(list(ranges), chance.randrange(0, 4))
    return {f"protocol.{name}": chance.choice(ranges[name]) for name in chosen}


@dataclass(slots=True)
class Bounds:
    """When an exploration ends: after some seconds of real time, or some runs. What has begun is ended."""

    seconds: float | None = None
    runs: int | None = None

    def tasks(self, seed: int, mutant: str | None, now: Callable[[], float] = monotonic) -> Iterator[Task]:
        """Runs to do, until it ends."""
        began_at = now()
        for number in count():
            if self.runs is not None and number >= self.runs:
                return
            if self.seconds is not None and now() - began_at >= self.seconds:
                return
            yield Task(number, 0, drawn(seed, number, mutant))


@dataclass(slots=True)
class Found:
    """What an exploration has seen so far."""

    seed: int
    runs: int = 0
    failed: int = 0
    lost: int = 0
    simulated_seconds: float = 0.0
    cpu_seconds: float = 0.0
    failures: list[dict[str, Any]] = field(default_factory=list)
    """The first `FAILURES_KEPT`, in the order in which they ended."""
    failed_by: Counter[str] = field(default_factory=Counter)
    branches: Counter[str] = field(default_factory=Counter)
    """In how many runs each rare branch was taken."""
    steps: Counter[str] = field(default_factory=Counter)

    def take(self, outcome: Outcome) -> dict[str, Any] | None:
        """Count a run; returns what there is to say of it if it failed or is lost."""
        task, result = outcome
        if isinstance(result, Lost):
            self.lost += 1
            return self._keep("lost", result.reason, task.config.line())
        self.runs += 1
        self.simulated_seconds += result.simulated_seconds
        self.cpu_seconds += result.cpu_seconds
        self.branches.update(branch for branch, taken in result.branches.items() if taken)
        self.steps.update(result.steps)
        if result.verdict == "pass":
            return None
        self.failed += 1
        what, message = _ended(result)
        self.failed_by[what] += 1
        return self._keep(what, message, result.replay)

    def _keep(self, what: str, message: str, replay: str) -> dict[str, Any]:
        failure = {"what": what, "message": message, "replay": replay}
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(failure)
        return failure

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "seed": self.seed,
            "runs": self.runs,
            "failed": self.failed,
            "lost": self.lost,
            "simulated_seconds": round(self.simulated_seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
            "failures": self.failures,
            "failed_by": dict(sorted(self.failed_by.items())),
            "branches": dict(sorted(self.branches.items())),
            "steps": dict(sorted(self.steps.items())),
        }


def _ended(result: RunResult) -> tuple[str, str]:
    if result.violation is not None:
        return str(result.violation["checker"]), str(result.violation["message"])
    return "error", (result.error or "").strip().splitlines()[-1]
