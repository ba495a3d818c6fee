"""A failing run becomes a small scenario that fails in the same way, and only with the defect."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from reachp2p_sim.cli import main
from reachp2p_sim.running.run import RunConfig, UsageError, run_scenario
from reachp2p_sim.running.scenario_file import Timed
from reachp2p_sim.shrink.case import Case
from reachp2p_sim.shrink.delta import smallest
from reachp2p_sim.shrink.reduce import reduce, shorter
from reachp2p_sim.shrink.trial import Budget, Failure, StoryDemands, Trial
from reachp2p_sim.steps.paths import Heal, Partition
from reachp2p_sim.steps.processes import AddNodes, Clone, Crash, Pause, Restart, Start
from reachp2p_sim.steps.work import OfferAgent
from reachp2p_sim.world.world import Performed

NODES_MAX, FAULTS_MAX = 6, 5
"""What a person can read."""


# Delta debugging


@pytest.mark.parametrize("needed", [{0}, {99}, {3, 57}, {10, 11, 12}, set(range(0, 100, 9)), set()])
def test_what_is_left_is_what_does_it(needed: set[int]) -> None:
    asked = 0

    def does_it(items: list[int]) -> bool:
        nonlocal asked
        asked += 1
        return needed <= set(items)

    assert smallest(range(100), does_it) == sorted(needed)
    assert asked <= 20 + 25 * len(needed)


def test_leaving_out_one_more_would_not_do_it() -> None:
    def does_it(items: list[int]) -> bool:
        return sum(items) % 7 == 0 and len(items) >= 3

    kept = smallest(list(range(14)), does_it)
    assert does_it(kept)
    assert not any(does_it(kept[:i] + kept[i + 1 :]) for i in range(len(kept)))


# Cases


def case(*steps: tuple[float, Any]) -> Case:
    return Case(tuple(Timed(step, at) for at, step in steps), 60.0, seed=1)


STORY = case(
    (0.0, AddNodes(names=("n00", "n01", "n02", "n03"))),
    (10.0, Partition(left=("n00", "n01"), right=("n02", "n03"))),
    (20.0, Clone(hosts=("n03",))),
    (20.0, Start(hosts=("n03-clone1",))),
    (30.0, Heal()),
    (40.0, Crash(hosts=("n01",))),
)


def words(one: Case) -> list[str]:
    return [timed.step.text() for timed in one.steps]


def test_a_machine_goes_with_all_that_names_it() -> None:
    assert words(STORY.with_machines(["n00", "n03"])) == [
        "add nodes n00,n03",
        "partition n00 n03",
        "clone n03",
        "start n03-clone1",
        "heal",
    ]
    assert words(STORY.with_machines(["n00", "n01"])) == ["add nodes n00..n01", "heal", "crash n01"]


def test_a_clone_that_is_never_made_is_not_started() -> None:
    kept = [timed for timed in STORY.steps if not isinstance(timed.step, Clone)]
    assert "start n03-clone1" not in words(STORY.with_steps(kept))


def test_later_steps_move_with_an_earlier_one() -> None:
    sooner = STORY.shifted(1, 2.5)
    assert [timed.at for timed in sooner.steps] == [0.0, 2.5, 12.5, 12.5, 22.5, 32.5]
    assert sooner.ends_at == 52.5
    shorter = STORY.shifted(len(STORY.steps), 0.0)
    assert shorter.ends_at == 40.0
    assert shorter.steps == STORY.steps


def test_what_came_after_the_failure_is_cut_off() -> None:
    cut = STORY.until(29.3)
    assert words(cut) == words(STORY)[:4]
    assert cut.ends_at == 30.0


def test_steps_have_the_times_at_which_they_were_done() -> None:
    done = [Performed(0, 0.0, STORY.steps[0].step), Performed(1, 10.25, STORY.steps[1].step)]
    timed = STORY.as_performed(done)
    assert [one.at for one in timed.steps] == [0.0, 10.25, *(one.at for one in STORY.steps[2:])]
    assert [one.step for one in timed.steps] == [one.step for one in STORY.steps]


def test_a_step_is_made_simpler_one_thing_at_a_time() -> None:
    story = case(
        (0.0, AddNodes(names=("n00", "n01"), within=1.0)),
        (1.5, Restart(hosts=("n00", "n01"), disk="lost", moved=True)),
    )
    simpler = [words(one) for number in range(2) for one in story.simpler(number)]
    assert [one[0] for one in simpler[:1]] == ["add nodes n00..n01"]
    assert [one[1] for one in simpler[1:]] == [
        "restart n01 disk=lost moved=True",
        "restart n00 disk=lost moved=True",
        "restart n00..n01 moved=True",
        "restart n00..n01 disk=lost",
    ]


def test_a_value_that_everybody_would_say_is_not_made_rounder() -> None:
    """Else it would be taken back and forth for ever."""
    story = case((0.0, OfferAgent(hosts=("n00",))))
    assert list(story.simpler(0)) == []


def test_a_time_is_not_shortened_by_the_last_bit_of_a_float() -> None:
    at, ends_at = 1.0, 2.7
    assert ends_at - at > 1.7
    gaps = [one.gap(1) for one in shorter(Case((Timed(Heal(), at),), ends_at, seed=1), 1)]
    assert gaps == [0.0, 0.0, 1.0]


def test_helpers_are_no_faults() -> None:
    assert STORY.faults == 3
    assert STORY.counts == {"nodes": 4, "steps": 6, "faults": 3, "seconds": 60.0}
    assert case((0.0, Pause(hosts=("n00",)))).faults == 1


# Whole runs


def shrunk(config: RunConfig, runs: int = 120) -> Trial:
    trial = Trial(config, Budget(runs=runs))
    reduce(trial)
    return trial


@pytest.mark.parametrize(
    ("mutant", "scenario", "seed"), [("never-refutes", "pause", 1), ("epoch-reused", "crash-restart", 1)]
)
def test_a_broken_core_is_shown_by_a_few_nodes_and_faults(
    mutant: str, scenario: str, seed: int, tmp_path: Path
) -> None:
    trial = shrunk(RunConfig(scenario, seed, 8, mutant))
    assert len(trial.case.machines) <= NODES_MAX
    assert 1 <= trial.case.faults <= FAULTS_MAX
    path = tmp_path / "small.toml"
    path.write_text(trial.text(trial.case))
    broken = run_scenario(trial.run_config(str(path), trial.case))
    assert broken.violation is not None
    assert broken.violation["checker"] == trial.failure.what
    assert run_scenario(RunConfig(str(path), trial.case.seed)).verdict == "pass"


def test_a_budget_ends_it_with_what_has_been_reached() -> None:
    trial = shrunk(RunConfig("pause", 1, 8, "never-refutes"), runs=4)
    assert trial.budget.spent == 4
    assert len(trial.case.machines) < 8


def test_one_of_several_promises_may_stand_for_the_other() -> None:
    late, never = Failure("convergence", was_calm=True), Failure("completeness", was_calm=True)
    assert not never.is_like(late)
    assert never.is_like(late, ("completeness", "convergence"))
    assert not never.is_like(late, ("completeness", "accuracy"))
    assert not Failure("completeness", was_calm=False).is_like(late, ("completeness", "convergence"))


def test_what_did_not_fail_is_not_run_again() -> None:
    trial = Trial(RunConfig("pause", 1, 8, "never-refutes"), Budget(runs=20))
    calm = trial.case.with_steps(trial.case.steps[:1])
    spent = trial.budget.spent
    assert not trial.fails(calm, (7,))
    assert trial.budget.spent == spent + 2
    assert not trial.fails(calm, (7, calm.seed))
    assert trial.budget.spent == spent + 2


def test_an_interrupt_ends_it_with_what_has_been_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(RunConfig("pause", 1, 8, "never-refutes"), Budget(runs=50))
    fails, said = trial.fails, list[str]()

    def interrupted(case: Case, seeds: Sequence[int] = ()) -> bool:
        if trial.budget.spent >= 3:
            raise KeyboardInterrupt
        return fails(case, seeds)

    monkeypatch.setattr(trial, "fails", interrupted)
    smallest = reduce(trial, said.append)
    assert len(smallest.machines) < 8
    assert said[-1] == "interrupted after 3 runs: this is the smallest so far"


def test_a_run_that_passes_is_not_shrunk() -> None:
    with pytest.raises(UsageError, match="nothing to shrink: this run passes"):
        Trial(RunConfig("steady", 1, 3, set={"seconds": "1"}), Budget(runs=10))


def test_what_a_story_itself_demands_is_not_taken_apart() -> None:
    lossy = RunConfig("steady", 1, 3, set={"seconds": "2", "path_loss": "0.3"})
    with pytest.raises(
        StoryDemands, match="scenario fails, but not when the steps of the run are performed without"
    ):
        Trial(lossy, Budget(runs=10))


# The command

Command = Callable[..., int]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["reachp2p-sim", *words])
        return main()

    return run


def test_the_command_writes_a_file_and_the_line_that_runs_it(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    line = RunConfig("pause", 1, 8, "never-refutes").line()
    assert command("shrink", line, "--budget", "30", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["file"] == "pause-refutation.toml"
    assert told["before"]["nodes"] == 8
    assert told["after"]["nodes"] <= NODES_MAX
    assert command("replay", told["replay"], "--no-store") == 1
    assert "BROKEN         refutation" in capsys.readouterr().out


def test_a_story_that_demands_keeps_its_faults_and_loses_nodes(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    line = RunConfig("clone-beside", 1, 7, "asks-nobody").line()
    assert command("shrink", line, "--budget", "20", "--json") == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert told["after"]["nodes"] < 7
    assert "cannot be taken apart; only nodes are" in captured.err
    assert command("replay", told["replay"], "--no-store") == 1


@pytest.mark.parametrize("budget", ["0", "5", "soon", "-3", "3d", "0s"])
def test_a_budget_is_a_time_or_a_number_of_runs(
    command: Command, capsys: pytest.CaptureFixture[str], budget: str
) -> None:
    line = RunConfig("pause", 1, 8, "never-refutes").line()
    code = command("shrink", line, f"--budget={budget}", "--out", "x.toml")
    assert (code, Path("x.toml").exists()) == ((0, True) if budget == "5" else (2, False))
    if code:
        assert f"--budget {budget}: write a time such as 90s or 5m" in capsys.readouterr().err
