"""Whole runs: every scenario keeps every promise, every broken core is caught, and one seed has one trace."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from weakref import ReferenceType, ref

import pytest
from reachp2p_sim.mutants import MUTANTS
from reachp2p_sim.running.run import RunConfig, run_scenario
from reachp2p_sim.scenarios import SCENARIOS
from reachp2p_sim.world.world import World

SLOW = {
    "partition-long": 6,
    "partition-majority": 4,
    "isolate-one": 6,
    "short-lives": 3,
    "churn-continuous": 5,
    "sleep": 4,
    "held-back": 5,
    "flapping-bystander": 5,
}
"""Scenarios of many simulated minutes run with few nodes here; campaigns run them larger."""


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_scenario_keeps_every_promise(name: str) -> None:
    result = run_scenario(RunConfig(name, seed=5, nodes=SLOW.get(name, 8)))
    assert result.verdict == "pass", (result.violation, result.error, result.replay)
    assert all(verdict == "pass" for verdict in result.checkers.values()), result.checkers


def test_a_small_world_of_faults_keeps_enough_machines_for_a_core() -> None:
    """Two of four machines had clones in the end, and of whom there are two nothing can be said."""
    settings = {"path_loss": "0.05", "rate": "1", "spread": "0.02", "protocol.recontact_interval": "60"}
    result = run_scenario(RunConfig("random-faults", 1593091070, 4, set=settings))
    assert result.verdict == "pass", (result.violation, result.error, result.replay)


@pytest.mark.parametrize("seed", [1002, 1004, 1056])
def test_chance_does_not_bury_whom_one_member_still_reaches(seed: int) -> None:
    """With helpers drawn anew each time the only one between the two halves was missed until somebody was buried."""
    result = run_scenario(RunConfig("bridge", seed=seed, nodes=8))
    assert result.verdict == "pass", (result.violation, result.error, result.replay)


@pytest.mark.parametrize("name", [m for m in sorted(MUTANTS) if "determinism" not in MUTANTS[m].caught_by])
def test_a_broken_core_is_caught_by_the_checker_that_owns_the_promise(name: str) -> None:
    mutant = MUTANTS[name]
    for seed in range(1, 13):
        result = run_scenario(RunConfig(mutant.scenario, seed, mutant.nodes, name, mutant.set))
        if result.verdict != "pass":
            break
    assert result.verdict == "fail", (result.verdict, result.error)
    assert result.violation is not None
    assert result.violation["checker"] in mutant.caught_by, result.violation


def _digest(hash_seed: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [
        sys.executable,
        "-m",
        "reachp2p_sim",
        "run",
        *arguments,
        "--json",
        "--no-determinism",
        "--no-store",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return str(json.loads(done.stdout)["trace_digest"])


def test_one_seed_has_one_trace_in_every_process() -> None:
    """Case B68: 32 nodes and all kinds of faults; that one process agrees with itself is a checker of every run."""
    run = ("random-faults", "--nodes", "32", "--seed", "2", "--set", "seconds=20", "--set", "rate=1")
    assert _digest("1", *run) == _digest("2", *run)


def test_nothing_is_left_of_a_world_after_its_run() -> None:
    """Or a campaign needs more memory with every run."""
    worlds: list[ReferenceType[World]] = []
    run_scenario(RunConfig("crash", seed=2, nodes=4), attach=lambda world: worlds.append(ref(world)))
    gc.collect()
    assert worlds[0]() is None


def test_another_seed_or_another_delay_has_another_trace() -> None:
    run = ("steady", "--nodes", "8", "--seed")
    digests = {
        _digest("1", *run, "3"),
        _digest("1", *run, "4"),
        _digest("1", *run, "3", "--set", "delay=0.0006"),
    }
    assert len(digests) == 3


def test_a_choice_by_hash_is_seen_by_its_digest() -> None:
    run = ("partition-halves", "--nodes", "12", "--seed", "3", "--mutant", "choice-by-hash")
    assert _digest("1", *run) != _digest("2", *run)


def test_the_signatures_that_ship_work_in_the_simulator_too() -> None:
    keyed = run_scenario(RunConfig("crash-restart", seed=2, nodes=5))
    real = run_scenario(RunConfig("crash-restart", seed=2, nodes=5, set={"signing": "ed25519"}))
    assert (keyed.verdict, real.verdict) == ("pass", "pass")
    assert keyed.trace_digest != real.trace_digest
