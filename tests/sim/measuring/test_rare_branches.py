"""Rare branches are counted over all processes of a run, and a campaign that never sees one fails."""

from __future__ import annotations

from typing import Any

from reachp2p_sim.campaign.plan import Plan
from reachp2p_sim.campaign.summary import COVERAGE_RUNS_MIN, coverage
from reachp2p_sim.measuring.rare_branches import BRANCHES, Coverage
from reachp2p_sim.running.run import RunConfig, run_scenario
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World, halves


def test_what_ended_processes_have_seen_counts_too() -> None:
    world = World(seed=1)
    seen = Coverage(world)
    hosts = world.add_nodes(6)
    world.run_until(converged, limit=30)
    assert set(seen.branches()) == set(BRANCHES)
    assert not any(seen.branches().values())
    world.partition(*halves(hosts))
    world.run(60)
    world.heal()
    world.run_until(converged, limit=150)
    before = seen.branches()
    assert before["refutation"] > 0
    world.crash(*hosts)
    assert seen.branches() == before
    world.restart(*hosts)
    assert seen.branches() == before


def test_a_result_says_what_it_has_seen_and_what_was_done() -> None:
    result = run_scenario(RunConfig("crash-restart", seed=2, nodes=5))
    assert set(result.branches) == set(BRANCHES)
    assert result.branches["refusal"] > 0
    assert result.steps["crash"] > 0


def rows(count: int, hits: int, scenario: str = "random-faults") -> list[dict[str, Any]]:
    """Runs of which so many have seen each branch."""
    return [
        {"of": scenario, "branches": dict.fromkeys(BRANCHES, int(number < hits))} for number in range(count)
    ]


def too_rare(found: list[dict[str, Any]]) -> set[str]:
    return {entry["branch"] for entry in found if not entry["is_enough"]}


def test_a_branch_that_a_scenario_reaches_must_be_seen_in_one_run_of_a_hundred() -> None:
    plan = Plan(("random-faults", "steady"), seeds=200)
    enough = rows(200, 2) + rows(200, 0, "steady")
    assert too_rare(coverage(plan, enough)) == set()
    scarce = rows(200, 1) + rows(200, 0, "steady")
    assert too_rare(coverage(plan, scarce)) == set(BRANCHES)


def test_a_few_runs_or_a_broken_core_are_not_asked_for_it() -> None:
    few = rows(COVERAGE_RUNS_MIN - 1, 0)
    assert too_rare(coverage(Plan(("random-faults",), seeds=len(few)), few)) == set()
    broken = Plan(("random-faults",), seeds=200, mutant="never-refutes")
    assert too_rare(coverage(broken, rows(200, 0))) == set()
