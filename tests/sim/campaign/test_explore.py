"""Explorations: everything is drawn, every failure can be repeated, and there is an end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from reachp2p_sim.campaign.explore import NODES_MAX, NODES_MIN, Bounds, Found, drawn
from reachp2p_sim.campaign.plan import Task
from reachp2p_sim.campaign.pool import Lost, Outcome, Pool
from reachp2p_sim.cli import main
from reachp2p_sim.results.run_again import past_run
from reachp2p_sim.running.run import RunConfig, check, run_scenario
from reachp2p_sim.scenarios.fault_mix import FAULTS, RELIEFS, FaultMix
from reachp2p_sim.world.world import World

Command = Callable[..., int]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["reachp2p-sim", *words])
        return main()

    return run


def test_every_drawn_run_can_be_run_and_its_line_repeats_it() -> None:
    runs = [drawn(7, number) for number in range(200)]
    for config in runs:
        check(config)
        assert past_run(config.line()).config == config
    nodes = [config.nodes or 0 for config in runs]
    assert (min(nodes), max(nodes)) == (NODES_MIN, NODES_MAX)
    assert len({config.seed for config in runs}) == 200
    assert runs[:3] == [drawn(7, number) for number in range(3)]
    assert drawn(8, 0) != drawn(7, 0)
    assert len({key for config in runs for key in config.set}) > 10


def test_it_ends_after_a_time_or_a_number_of_runs() -> None:
    clock = iter([0.0, 1.0, 9.9, 10.0])
    timed = Bounds(seconds=10.0).tasks(1, None, now=lambda: next(clock))
    assert [task.number for task in timed] == [0, 1]
    assert [task.config for task in Bounds(runs=3).tasks(1, None)] == [
        drawn(1, number) for number in range(3)
    ]


def test_every_kind_of_fault_is_drawn_sooner_or_later() -> None:
    performed: set[str] = set()
    kinds: set[str] = set()
    for seed in range(7):
        world = World(seed=seed)
        hosts = world.add_nodes(6)
        world.run(3)
        mix = FaultMix(world, hosts, world.randomness.stream("faults"))
        kinds |= set(mix.weights)
        for _ in range(40):
            mix.act()
            world.run(0.2)
        performed |= {step.step.word() for step in world.performed}
        assert len(world.running) >= 1
    assert kinds == {*FAULTS, *RELIEFS}
    assert len(performed) > 25, sorted(performed)


def test_failures_are_counted_by_what_they_broke() -> None:
    found = Found(seed=1)
    config = RunConfig("pause", 1, 8, "never-refutes")
    failure = found.take((Task(0, 0, config), run_scenario(config)))
    assert failure is not None
    assert failure["what"] == "refutation"
    assert failure["replay"] == config.line()
    assert found.take((Task(1, 0, RunConfig("steady")), Lost("no result"))) is not None
    passing = RunConfig("steady", 1, 3, set={"seconds": "1"})
    assert found.take((Task(2, 0, passing), run_scenario(passing))) is None
    told = found.to_json()
    assert (told["runs"], told["failed"], told["lost"]) == (2, 1, 1)
    assert told["failed_by"] == {"refutation": 1}
    assert told["steps"]["pause"] > 0


def test_the_command_prints_and_keeps_what_fails(
    command: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = (
        "explore",
        "--runs",
        "2",
        "--seed",
        "5",
        "--workers",
        "1",
        "--mutant",
        "call-ends-twice",
        "--keep",
        "1",
        "--out",
        str(tmp_path / "found.json"),
        "--json",
    )
    assert command(*words) == 1
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert (told["seed"], told["runs"], told["failed"]) == (5, 2, 2)
    for failure in told["failures"]:
        assert f"replay: {failure['replay']}" in captured.err
    assert json.loads((tmp_path / "found.json").read_text()) == told
    older, newer = (tmp_path / failure["store"] for failure in told["failures"])
    assert (newer / "report.html").exists()
    assert not older.exists(), "of the failures as many are kept as were asked for"


def test_a_time_that_is_none_is_refused(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("explore", "--for", "soon") == 2
    assert "--for soon: write a time such as 90s, 10m or 8h" in capsys.readouterr().err


def test_an_exploration_that_is_interrupted_before_any_run_has_ended_is_no_success(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("reachp2p_sim.campaign.pool.Pool.outcomes", interrupted)
    assert command("explore", "--runs", "1", "--seed", "3", "--workers", "1") == 3
    captured = capsys.readouterr()
    assert captured.out == "0 runs from seed 3: 0 failed, 0 lost; 0 s simulated in 0 s of CPU\n"
    assert captured.err.splitlines()[1:] == [
        "reachp2p-sim: interrupted",
        "reachp2p-sim: no run has ended, so nothing is known",
    ]


def test_an_exploration_that_is_interrupted_says_so_once(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_one(pool: Pool, tasks: Iterator[Task]) -> Iterator[Outcome]:
        yield next(all_of_them(pool, tasks))
        raise KeyboardInterrupt

    all_of_them = Pool.outcomes
    monkeypatch.setattr(Pool, "outcomes", first_one)
    assert command("explore", "--runs", "2", "--seed", "3", "--workers", "1") == 130
    captured = capsys.readouterr()
    assert captured.out.startswith("1 runs from seed 3: ")
    assert captured.err.splitlines().count("reachp2p-sim: interrupted") == 1


def test_an_exploration_that_is_told_to_end_sums_up_what_it_has_seen(tmp_path: Path) -> None:
    words = ("explore", "--for", "10m", "--seed", "5", "--workers", "1", "--mutant", "call-ends-twice")
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "reachp2p_sim",
            *words,
            "--store",
            str(tmp_path),
            "--out",
            str(tmp_path / "found.json"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as exploring:
        assert exploring.stdout is not None
        assert exploring.stdout.readline().startswith("FAIL single_outcome: ")
        exploring.send_signal(signal.SIGTERM)
        out, err = exploring.communicate(timeout=60)
    assert exploring.returncode == 1
    assert " runs from seed 5: " in out
    assert err.endswith("reachp2p-sim: interrupted\n")
    assert json.loads((tmp_path / "found.json").read_text())["failed"] >= 1
