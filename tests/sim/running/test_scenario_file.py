"""Scenario files: read, refused with a reason, told like a story, and written from the record of any run."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from reachp2p_sim.running.run import RunConfig, UsageError, check, record_of, run_scenario
from reachp2p_sim.running.scenario_file import ScenarioInvalid, steps_of
from reachp2p_sim.running.scenario_reading import parse_scenario
from reachp2p_sim.scenarios import SCENARIOS
from reachp2p_sim.steps.processes import AddNodes, Crash
from reachp2p_sim.world.world import World

HEAD = 'name = "mine"\nsummary = "a test"\nnodes = 4\n'


def read(text: str) -> object:
    return parse_scenario((HEAD + text).encode(), "mine.toml")


def step(*lines: str) -> str:
    """Steps after `grow`; one begins with each `do`."""
    return '[[steps]]\ndo = "grow"\n' + "".join(
        ("[[steps]]\n" if line.startswith("do") else "") + line + "\n" for line in lines
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[steps]]\ndo = "crsh"\nhosts = "n01"', "there is no step 'crsh'; there are: add-nodes"),
        ('[[steps]]\ndo = "crash"\nhots = "n01"', "unknown key 'hots' in crash; it takes: hosts, host_down"),
        ('[[steps]]\ndo = "crash"', "hosts is missing"),
        (
            '[[steps]]\ndo = "grow"\n[[steps]]\ndo = "crash"\nhosts = "n09"',
            "there is no machine 'n09'; there are n00 to n03",
        ),
        (
            '[[steps]]\ndo = "grow"\n[[steps]]\ndo = "partition"\nleft = ["n00", "nXX"]',
            "there is no machine 'nXX'",
        ),
        (
            '[[steps]]\ndo = "grow"\n[[steps]]\ndo = "pause"\nhosts = "random 9"',
            "9 machines are wanted and there are 4",
        ),
        ('[[steps]]\ndo = "run"\nseconds = -1', ">= 0"),
        ('[[steps]]\ndo = "run"\nseconds = "soon"', "there is no budget 'soon'; write seconds, or one of"),
        ('[[steps]]\ndo = "run"\nseconds = "$cut"', "no option 'cut'; there are: nodes"),
        ('[[steps]]\ndo = "heal"\nat = -2', "at = -2: a time in seconds"),
        (
            '[[steps]]\ndo = "expect"\ncondition = "happy"',
            "no condition 'happy'; there are: agreed, converged",
        ),
        ('[[steps]]\ndo = "weather"\nchanges = { loss = 1.5 }', "loss"),
        ('[[steps]]\ndo = "weather"\nchanges = { rain = 1 }', "weather has no 'rain'; it has: "),
        ('[[steps]]\ndo = "repeat"\ntimes = -1\nsteps = []', "times = -1: 0 to 10000 are possible"),
        ('[weather]\nloss = -0.1\n[[steps]]\ndo = "grow"', "[weather]: "),
        ('[protocol]\nsuspicion_gamma = 1\n[[steps]]\ndo = "grow"', "unknown constant 'suspicion_gamma'"),
        (
            '[protocol]\nprobe_timeout = 5\n[[steps]]\ndo = "grow"',
            "must not be longer than the probe interval",
        ),
        (
            '[options]\npath_loss = 0.9\n[[steps]]\ndo = "grow"',
            "[options]: 'path_loss' means the same in every run",
        ),
        ('[[steps]]\ndo = "run"\nseconds = 3', "no step adds a node"),
        ('[[steps]]\ndo = "grow"\n[[steps]]\ndo = "run"\nseconds = inf', "seconds = inf: a number within"),
        (
            '[[steps]]\ndo = "grow"\n[[steps]]\ndo = "step-clock"\nhosts = "n00"\nseconds = nan',
            "seconds = nan",
        ),
        ('[[steps]]\ndo = "grow"\n[[steps]]\ndo = "restart"\nhosts = "n00"\ndisk = "old"', "no image 'old'"),
        ('[protocol]\nsuspicion_alpha = nan\n[[steps]]\ndo = "grow"', "suspicion_alpha = nan"),
        ('[protocol]\nsuspicion_alpha = -3\n[[steps]]\ndo = "grow"', "suspicion_alpha = -3.0"),
        (
            step('do = "run"', "seconds = 30", 'do = "heal"', "at = 20"),
            "step 3, heal: at = 20 is in the past",
        ),
        (step('do = "heal"', "at = 20", 'do = "heal"', "at = 19"), "until 20 s at least"),
        (
            step('do = "partition"', 'left = "n01"', 'right = "n01"'),
            "n01 would be on both sides: left and right",
        ),
        (step('do = "hold"', 'left = "first 2"', 'right = "first half"'), "n00..n01 would be on both sides"),
        (step('do = "partition"', 'left = "all"'), "right selects no machine: both sides need one"),
        (step('do = "partition"', "left = []", 'right = "n01"'), "left selects no machine"),
        (step('do = "weather-between"', 'sources = "all"', "changes = {}"), "targets selects no machine"),
        (
            step('do = "partition-shape"', 'shape = "bridge"', 'hosts = "n01"'),
            "bridge of 1 machines cuts nobody off",
        ),
        (
            step('do = "heal"', 'name = "x"'),
            "step 2, heal name=x: there is no cut named 'x' to end (there are: none)",
        ),
        (
            step(
                'do = "partition"', 'left = "n01"', 'name = "a"', 'do = "heal"', 'do = "heal"', 'name = "a"'
            ),
            "no cut named 'a' to end (there are: none)",
        ),
        (step('do = "release"', 'name = "x"'), "no hold named 'x' to end"),
        (step('do = "end-weather"', 'name = "x"'), "no weather named 'x' to end"),
        (
            step('do = "set-name"', 'name = "sedes"'),
            "looks for its seeds under 'sedes'; they look under: seeds",
        ),
        (step('do = "add-nodes"', "count = 3", 'names = ["a", "b"]'), "count = 3 and 2 names"),
        (step('do = "add-nodes"', 'names = ["n01"]'), "there is a machine n01 already"),
        (
            step(
                'do = "save-disk"',
                'hosts = "n02"',
                'image = "i"',
                'do = "restart"',
                'hosts = "n01"',
                'disk = "i"',
            ),
            "the image 'i' is of n02 and not of n01",
        ),
        ("x = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("step = []", "unknown key 'step' in the file; it takes: name, summary, nodes"),
        ("steps = 3", "steps"),
        ("[[steps]]\ndo = ", "no TOML"),
        ("", "'steps' is missing"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_and_what_would_be_right(text: str, says: str) -> None:
    with pytest.raises(ScenarioInvalid, match=r"^mine\.toml") as refused:
        read(text)
    assert says in str(refused.value)


@pytest.mark.parametrize("inner", ['[{ do = "heal" }]', "[]"])
def test_too_many_steps_are_refused_before_any_is_written_out(
    inner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reachp2p_sim.running.scenario_reading.steps_of", None)
    for _ in range(3):
        inner = f'[{{ do = "repeat", times = 1000, steps = {inner} }}]'
    with pytest.raises(ScenarioInvalid, match="more than 20000 steps"):
        parse_scenario(f"steps = {inner}\n{HEAD}".encode(), "mine.toml")


def test_macros_options_and_groups_are_filled_in() -> None:
    scenario = parse_scenario(
        (
            HEAD
            + '[options]\nrounds = 2\n[groups]\nvictims = "last 2"\n'
            + '[[steps]]\ndo = "grow"\nwork = false\n'
            + '[[steps]]\ndo = "repeat"\ntimes = "$rounds"\n'
            + 'steps = [{ do = "crash", hosts = "victims" }, { do = "run", seconds = "$rounds" }]\n'
        ).encode(),
        "mine.toml",
    )
    told = [timed.step.text() for timed in steps_of(scenario, 4, {"rounds": 3})]
    assert told == [
        "add nodes count=4 within=1",
        "run seconds=1",
        "expect condition=converged limit=30 measure=all_see_all",
        *["crash victims", "run seconds=3"] * 3,
    ]


def test_a_file_is_run_by_its_path_and_a_missing_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        HEAD + '[[steps]]\ndo = "grow"\n[[steps]]\ndo = "crash"\nhosts = "n03"\nhost_down = true\n'
        '[[steps]]\ndo = "expect"\ncondition = "agreed"\nlimit = "completeness"\nmeasure = "buried_after"\n'
    )
    result = run_scenario(RunConfig(str(path), seed=3))
    assert result.verdict == "pass", result.violation
    assert 0 < result.timings["buried_after"] < 60
    with pytest.raises(UsageError, match="No such file"):
        run_scenario(RunConfig(str(tmp_path / "none.toml")))


def test_more_nodes_than_a_file_can_serve_are_refused_before_anything_runs(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + '[[steps]]\ndo = "grow"\n[[steps]]\ndo = "crash"\nhosts = "n03"\n')
    with pytest.raises(UsageError, match="there is no machine 'n03'"):
        run_scenario(RunConfig(str(path), nodes=3))


def test_what_depends_on_the_run_is_refused_when_the_step_comes(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + step('do = "run"', "seconds = 3", 'do = "partition"', 'left = "stopped"'))
    with pytest.raises(
        UsageError, match=r"mine\.toml: step 3, partition stopped rest, at \d.*: left selects"
    ):
        run_scenario(RunConfig(str(path)))


def test_a_story_fails_if_a_step_cannot_come_when_it_is_due(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        HEAD + step('do = "expect"', 'condition = "agreed"', "stays = 2", 'do = "weather"', "at = 1.5")
    )
    result = run_scenario(RunConfig(str(path)))
    assert result.verdict == "fail"
    assert result.violation is not None
    assert result.violation["checker"] == "scenario"
    assert result.violation["message"].startswith(
        f"{path}: step 3, weather: it is due at 1.5 s, and what the story waited for before it took until "
    )


def test_a_step_that_may_come_later_is_done_then_and_that_is_told(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        HEAD
        + step('do = "expect"', 'condition = "agreed"', "stays = 2", 'do = "weather"', "not_before = 1.5")
    )
    result = run_scenario(RunConfig(str(path)))
    assert result.verdict == "pass"
    (remark,) = result.remarks
    assert remark.startswith(f"{path}: step 3, weather: not before 1.5 s, and it came at ")


def test_a_step_that_may_come_later_waits_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + step('do = "weather"', "not_before = 9"))
    result = run_scenario(RunConfig(str(path)))
    assert (result.simulated_seconds, result.remarks) == (9.0, [])


CHECKER = """
from reachp2p_sim import Checker


class Mine(Checker):
    name = "mine"
    invariant = "MINE"
    limits = ("doubts",)
"""


def test_a_limit_is_one_that_a_checker_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    (tmp_path / "mine.py").write_text(CHECKER)
    for limits, says in (
        ("flap = 2", "no checker asks for 'flap'; they ask for: flaps, flaps_within"),
        ("flaps = -2", "flaps = -2.0: a finite number of at least 0 is wanted"),
        ("flaps = inf", "flaps = inf: a finite number of at least 0 is wanted"),
        ("doubts = 2", "no checker asks for 'doubts'"),
    ):
        path.write_text(HEAD + f"[limits]\n{limits}\n" + step())
        with pytest.raises(UsageError, match=r"mine\.toml: \[limits\]: ") as refused:
            check(RunConfig(str(path)))
        assert says in str(refused.value)
    path.write_text('checkers = ["mine.py"]\n' + HEAD + "[limits]\ndoubts = 2\n" + step())
    check(RunConfig(str(path)))


RECORDED = (
    "clone-beside",
    "crash-restart",
    "hanging-handlers",
    "late-names",
    "lossy",
    "random-faults",
    "slow-disk",
)
"""Between them they perform nearly every kind of step."""


@pytest.mark.parametrize("name", RECORDED)
def test_the_record_of_a_run_gives_the_same_trace_again(name: str, tmp_path: Path) -> None:
    config = RunConfig(name, seed=4, nodes=max(SCENARIOS[name].nodes_min, min(8, SCENARIOS[name].nodes)))
    worlds: list[World] = []
    first_log, second_log = StringIO(), StringIO()
    first = run_scenario(config, first_log, attach=worlds.append)
    path = tmp_path / "record.toml"
    path.write_text(record_of(worlds[0], config))
    second = run_scenario(RunConfig(str(path), seed=4), second_log)
    if second.trace_digest != first.trace_digest:
        lines = zip(first_log.getvalue().splitlines(), second_log.getvalue().splitlines(), strict=False)
        assert next((pair for pair in lines if pair[0] != pair[1]), "one is longer") == ()
    assert second.verdict == first.verdict


def test_a_step_without_some_machines() -> None:
    step = Crash(hosts=("n01", "n02"))
    assert step.without(["n02"]) == Crash(hosts=("n01",))
    assert step.without(["n01", "n02"]) is None
    assert AddNodes(names=("n00", "n01")).without(["n01"]) == AddNodes(names=("n00",))
