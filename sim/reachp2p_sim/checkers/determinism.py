"""Determinism (I-DET): one run seed, one trace digest, in any process, under any `PYTHONHASHSEED`.

The only checker that needs a second run: the same configuration in a fresh interpreter with another hash seed, beside
the first (`SecondRun`), whose digest must be equal.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from reachp2p_sim.running.run import RunConfig, RunResult, check

NAME = "determinism"
_PROGRAM = """
import json, sys
from reachp2p_sim.running.run import RunConfig, run_scenario
config = RunConfig(**json.loads(sys.argv[1]))
print(run_scenario(config).trace_digest)
"""


class SecondRun:
    """The same run in another process, started at once; `digest` waits for it."""

    def __init__(self, config: RunConfig, hash_seed: int) -> None:
        arguments = {
            "scenario": config.scenario,
            "seed": config.seed,
            "nodes": config.nodes,
            "mutant": config.mutant,
            "set": dict(config.set),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(arguments)],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def digest(self) -> str:
        """The trace digest; raises `RuntimeError` with what the process said if it failed."""
        output, errors = self._process.communicate()
        if self._process.returncode != 0:
            raise RuntimeError(f"the second run failed: {errors.strip()[-2000:]}")
        return output.strip()

    def give_up(self) -> None:
        """End the process; nobody wants its digest any more."""
        self._process.kill()
        self._process.communicate()


def second_run(config: RunConfig) -> SecondRun:
    """Start the second run under a `PYTHONHASHSEED` that is not this process's. Raises `UsageError` as a run would."""
    check(config)
    return SecondRun(config, 4_712 if os.environ.get("PYTHONHASHSEED") == "4711" else 4_711)


def judge(result: RunResult, second: SecondRun) -> None:
    """Write into a result whether the second run had the same digest."""
    digest = second.digest()
    if digest == result.trace_digest:
        result.checkers[NAME] = "pass"
        return
    result.checkers[NAME] = "fail"
    if result.verdict == "pass":
        result.verdict = "fail"
        message = f"another process with another PYTHONHASHSEED has the digest {digest}"
        result.violation = {"checker": NAME, "message": message, "at": result.simulated_seconds, "node": None}
