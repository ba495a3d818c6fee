"""Campaigns: what they run, that they lose nothing, and that nobody can tell afterwards how they were run."""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow.parquet
import pytest
from reachp2p_sim.campaign.conduct import Means, conduct
from reachp2p_sim.campaign.folder import RUNS, SUMMARY, TABLE, Folder, Unfinished, read_about
from reachp2p_sim.campaign.plan import Plan, grid
from reachp2p_sim.campaign.pool import Lost, Pool, run_here
from reachp2p_sim.campaign.progress import Progress
from reachp2p_sim.cli import main
from reachp2p_sim.measuring.confidence import share
from reachp2p_sim.running.run import RunConfig, RunResult, UsageError

TINY = Plan(("steady", "lossy"), seeds=3, nodes=3, set={"seconds": "2"}, grid={"path_loss": ("0", "0.3")})
TWO_WORKERS = Means(workers=2)
LIMIT = 60.0
"""Seconds for what takes one or two."""


def conducted(path: Path, plan: Plan = TINY, means: Means = TWO_WORKERS) -> dict[str, Any]:
    with Folder.create(path, plan) as folder:
        return conduct(folder, means, io.StringIO())


def resumed(path: Path, means: Means = TWO_WORKERS) -> dict[str, Any]:
    with Folder.reopen(path, None) as folder:
        return conduct(folder, means, io.StringIO())


def told(summary: dict[str, Any]) -> dict[str, Any]:
    """All that may not depend on how it was run."""
    return {key: value for key, value in summary.items() if key not in ("effort", "folder")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny campaign, run in one process from beginning to end."""
    path = tmp_path_factory.mktemp("campaign") / "whole"
    conducted(path, means=Means(workers=1))
    return path


@pytest.fixture(scope="module")
def whole(folder: Path) -> dict[str, Any]:
    """What it found."""
    return told(json.loads((folder / SUMMARY).read_text()))


# What is run


def test_a_campaign_is_scenarios_times_points_times_seeds() -> None:
    tasks = list(TINY.tasks())
    assert [cell.name for cell in TINY.cells] == [
        "steady path_loss=0",
        "steady path_loss=0.3",
        "lossy path_loss=0",
        "lossy path_loss=0.3",
    ]
    assert len(tasks) == TINY.runs == 12
    assert sorted(task.number for task in tasks) == list(range(12))
    assert [task.config.seed for task in tasks[:5]] == [0, 0, 0, 0, 1]
    assert tasks[1].config.command() == (
        "reachp2p-sim run steady --nodes 3 --seed 0 --set path_loss=0.3 --set seconds=2"
    )


def test_nodes_can_be_varied() -> None:
    plan = Plan(("steady",), seeds=1, grid=grid(["nodes=4,8"]))
    plan.check()
    assert [task.config.nodes for task in plan.tasks()] == [4, 8]


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (Plan((), 1), "a campaign needs a scenario"),
        (Plan(("steady", "steady"), 1), "named twice"),
        (Plan(("steady",), 0), "1 to 1000000 runs, not 0"),
        (Plan(("steady",), 1, grid={"nodes": ("many",)}), "a whole number of nodes is wanted"),
        (
            Plan(("steady",), 1, grid={"nodes": ("1000000000",)}),
            "nodes=1000000000: a whole number of nodes is wanted, 10000 at most",
        ),
        (Plan(("steady",), 1, nodes=4, grid={"nodes": ("4",)}), "--nodes and varied by --grid"),
        (
            Plan(("steady",), 1, set={"delay": "1"}, grid={"delay": ("1",)}),
            "delay is given by --set and varied",
        ),
        (
            Plan(("steady", "crash"), 1, grid={"cut": ("1",)}),
            "steady cut=1: there is no option 'cut'; there are",
        ),
        (
            Plan(("steady",), 1, grid={"nodes": ("2",)}),
            "steady nodes=2: steady needs 3 to 10000 nodes, not 2",
        ),
    ],
)
def test_a_campaign_that_cannot_be_run_is_refused_before_anything_runs(plan: Plan, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan.check()


@pytest.mark.parametrize("axis", ["loss", "=1,2", "loss=", "loss=0,,1", "loss=0,0"])
def test_an_axis_of_a_grid_is_a_key_and_different_values(axis: str) -> None:
    with pytest.raises(UsageError, match=r"KEY=VALUE,VALUE|there twice"):
        grid([axis])
    with pytest.raises(UsageError, match="names path_loss twice"):
        grid(["loss=1", "path_loss=2"])


# What is found


def test_results_do_not_depend_on_who_ran_them(whole: dict[str, Any], tmp_path: Path) -> None:
    assert told(conducted(tmp_path / "pool")) == whole


def test_the_summary_has_a_rate_with_its_interval_and_names_seeds(whole: dict[str, Any]) -> None:
    assert (whole["runs"], whole["planned"], whole["lost"]) == (12, 12, 0)
    lossy = whole["cells"][1]
    failed = lossy["failed_by"]["scenario"]  # so much loss costs more than two datagrams a period
    assert lossy["failed"] == failed == len(lossy["failed_seeds"]) > 0
    rate = share(failed, 3)
    assert lossy["failure_rate"] == pytest.approx(
        {"value": failed / 3, "low": rate.low, "high": rate.high}, abs=1e-6
    )
    spread = whole["cells"][2]["timings"]["all_see_all"]
    assert spread["samples"] == 3
    assert spread["median"] <= spread["p99"] <= spread["max"]
    assert len(spread["slowest_seeds"]) == 3
    assert whole["failures"][0]["replay"].startswith("reachp2p-sim run steady --nodes 3 --seed ")


def test_the_summary_says_what_a_run_of_each_cell_costs(folder: Path) -> None:
    summary = json.loads((folder / SUMMARY).read_text())
    costs = summary["effort"]["cpu_seconds_a_run"]
    assert list(costs) == [cell["name"] for cell in summary["cells"]]
    assert 3 * sum(costs.values()) == pytest.approx(summary["effort"]["cpu_seconds"], abs=0.01)


def test_the_table_has_a_row_a_run_by_cell_and_seed(folder: Path, whole: dict[str, Any]) -> None:
    table = pyarrow.parquet.read_table(folder / TABLE).to_pydict()
    assert table["grid.path_loss"] == ([0.0] * 3 + [0.3] * 3) * 2
    assert table["seed"] == [0, 1, 2] * 4
    assert table["verdict"].count("fail") == whole["failed"] > 0
    assert set(table["violation.checker"]) == {None, "scenario"}
    assert all(count > 0 for count in table["datagrams.sent"])


# What is kept


def lines(path: Path) -> list[bytes]:
    return (path / RUNS).read_bytes().splitlines(keepends=True)


def test_a_campaign_goes_on_after_a_kill_and_runs_nothing_twice(
    whole: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "c"
    conducted(path)
    kept = lines(path)
    (path / RUNS).write_bytes(b"".join(kept[:5]) + kept[5][:40])  # a kill in the middle of a line
    again = resumed(path)
    assert told(again) == whole
    assert again["effort"]["runs"] == 7
    assert lines(path)[:5] == kept[:5]
    assert resumed(path)["effort"]["runs"] == 0


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"a":1}\n', b'{"number":1,"verdict":3}\n', b"[1]\n"])
def test_a_damaged_line_is_told_with_its_place(folder: Path, tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "c"
    shutil.copytree(folder, path)
    (path / RUNS).write_bytes(line + b"".join(lines(path)))
    with pytest.raises(UsageError, match=r"runs.jsonl, line 1 is damaged"):
        resumed(path)


def without(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != key}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (lambda _: {"number": 999999, "verdict": "pass"}, "missing required field `cell`"),
        (lambda row: row | {"number": 12}, "there is no run 12: the plan has 0 to 11"),
        (lambda row: row | {"number": -1}, "there is no run -1"),
        (lambda row: row | {"cell": 3}, "run 0 of the plan has cell 0, and this one has 3"),
        (lambda row: row | {"seed": 7}, "run 0 of the plan has seed 0, and this one has 7"),
        (lambda row: row | {"nodes": 9}, "run 0 of the plan has nodes 3, and this one has 9"),
        (lambda row: row | {"scenario": "crash"}, 'has scenario "steady", and this one has "crash"'),
        (lambda row: row | {"of": "crash"}, 'has of "steady", and this one has "crash"'),
        (lambda row: row | {"mutant": "never-dead"}, 'has mutant null, and this one has "never-dead"'),
        (lambda row: without(row, "trace_digest"), "missing required field `trace_digest`"),
        (lambda row: row | {"events": "many"}, "Expected `int`"),
        (lambda row: row | {"verdict": "fail", "violation": None}, "does not say of what"),
        (lambda row: row | {"verdict": "fail", "violation": {"a": 1}}, "no checker or no message"),
        (lambda row: row | {"branches": {}}, "its branches have no "),
    ],
)
def test_a_line_that_is_no_run_of_the_plan_is_told_with_its_place(
    folder: Path, tmp_path: Path, changed: Callable[[dict[str, Any]], dict[str, Any]], says: str
) -> None:
    path = tmp_path / "c"
    shutil.copytree(folder, path)
    first = next(row for row in map(json.loads, lines(path)) if row["number"] == 0)
    with (path / RUNS).open("a") as file:
        file.write(json.dumps(changed(first)) + "\n")
    with pytest.raises(UsageError, match=rf"{RUNS}, line 13 is damaged: .*{re.escape(says)}"):
        resumed(path)


def test_another_configuration_or_other_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"
    Folder.create(path, TINY).__exit__()
    with pytest.raises(UsageError, match="seeds is 3 there and 5 here"):
        Folder.reopen(path, Plan(TINY.scenarios, 5, nodes=3, set=TINY.set, grid=TINY.grid))
    with pytest.raises(UsageError, match="holds a campaign already"):
        Folder.create(path, TINY)
    with pytest.raises(UsageError, match="holds no campaign"):
        Folder.reopen(tmp_path, TINY)
    monkeypatch.setattr("reachp2p_sim.running.code_version.code", lambda: "0123456789ab")
    with pytest.raises(UsageError, match=r"was begun by the code \w+ .* this is 0123456789ab"):
        Folder.reopen(path, TINY)


def test_a_folder_is_run_by_one_process_at_a_time(tmp_path: Path) -> None:
    with Folder.create(tmp_path / "c", TINY), pytest.raises(UsageError, match="another process"):
        Folder.reopen(tmp_path / "c", TINY)


def test_of_two_that_begin_at_once_one_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "c", Plan(("crash",), seeds=1)
    monkeypatch.setattr(Path, "exists", lambda _: False)  # each has looked before the other wrote
    with Folder.create(path, TINY), pytest.raises(UsageError, match="another process"):
        Folder.create(path, other)
    assert read_about(path).plan == TINY


def test_who_gets_the_lock_after_another_has_begun_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "c", Plan(("crash",), seeds=1)
    locked = fcntl.flock

    def after_another(file: int, operation: int) -> None:
        monkeypatch.undo()
        with Folder.create(path, TINY):
            pass
        locked(file, operation)

    monkeypatch.setattr(fcntl, "flock", after_another)
    with pytest.raises(UsageError, match="holds a campaign already"):
        Folder.create(path, other)
    assert read_about(path).plan == TINY
    with Folder.reopen(path, TINY):
        pass  # the refused one has given the lock back


OWN = """
name = "mine"
summary = "nothing happens"
nodes = 3
[[steps]]
do = "grow"
"""


def test_a_scenario_file_must_not_change_between_two_parts(tmp_path: Path) -> None:
    mine, path = tmp_path / "mine.toml", tmp_path / "c"
    mine.write_text(OWN)
    plan = Plan((str(mine),), seeds=2)
    assert conducted(path, plan, Means(workers=1))["passed"] == 2
    assert resumed(path)["passed"] == 2
    mine.write_text(OWN.replace("nothing", "something"))
    with pytest.raises(UsageError, match=r"mine\.toml has changed since this campaign was begun"):
        resumed(path)


def test_a_campaign_over_a_file_goes_on_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    (tmp_path / "elsewhere").mkdir()
    path = str(tmp_path / "c")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "sys.argv", ["", "campaign", "mine.toml", "--seeds", "2", "--workers", "1", "--out", path]
    )
    assert main() == 0
    assert capsys.readouterr().out.startswith("mine.toml: 2 of 2 pass")
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr("sys.argv", ["", "campaign", "--resume", "--workers", "1", "--out", path])
    assert main() == 0


def test_runs_can_be_made_twice_under_two_hash_seeds(tmp_path: Path) -> None:
    # Four nodes in one second draw so seldom that two orders of the hash agree now and then (5 of 276 pairs).
    plan = Plan(
        ("steady",), seeds=1, nodes=8, set={"seconds": "5"}, mutant="choice-by-hash", determinism=True
    )
    broken = conducted(tmp_path / "c", plan)
    assert broken["cells"][0]["failed_by"] == {"determinism": 1}


# What goes wrong


def command(path: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "reachp2p_sim", "campaign", *words, "--out", str(path), "--workers", "2"]


WORDS = ("steady", "lossy", "--seeds", "3", "--nodes", "3", "--set", "seconds=2", "--grid", "loss=0,0.3")


def test_a_full_disk_keeps_what_is_finished(whole: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "c"
    enough_for_some = 6_000

    def shrink() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (enough_for_some, enough_for_some))

    done = subprocess.run(
        command(path, *WORDS), capture_output=True, text=True, preexec_fn=shrink, check=False
    )
    assert done.returncode == 3, done.stderr
    assert "File too large; the runs before it are kept: make room and go on with --resume" in done.stderr
    kept = lines(path)
    assert 1 <= len(kept) < 12
    assert kept[-1].endswith(b"}\n")
    summary = resumed(path)
    assert told(summary) == whole
    assert summary["effort"]["runs"] == 12 - len(kept)


def test_a_killed_campaign_goes_on_from_the_runs_it_had_finished(
    whole: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "c"
    process = subprocess.Popen(command(path, *WORDS), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for_lines(path, 2)
    process.kill()
    process.communicate()
    kept = len(lines(path))
    summary = resumed(path)
    assert told(summary) == whole
    assert summary["effort"]["runs"] in (12 - kept, 13 - kept)  # the last line may have been cut off


def wait_for_lines(path: Path, count: int) -> None:
    until = monotonic() + LIMIT
    while monotonic() < until:
        if (path / RUNS).exists() and len(lines(path)) >= count:
            return
        sleep(0.01)
    pytest.fail(f"no {count} runs within {LIMIT} s")


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    plan = Plan(("steady",), seeds=12, nodes=4, set={"seconds": "2"})
    expected = {task.number: digest(result) for task, result in run_here(plan.tasks())}
    found: dict[int, str] = {}
    with Pool(2, LIMIT) as pool:
        for task, result in pool.outcomes(plan.tasks()):
            assert task.number not in found
            found[task.number] = digest(result)
            if len(found) == 2:  # a second one could meet the same run again, which is then given up
                os.kill(pool.processes[0], signal.SIGKILL)
    assert found == expected


def digest(result: RunResult | Lost) -> str:
    assert isinstance(result, RunResult), result
    return result.trace_digest


def masked(config: RunConfig) -> RunResult | Lost:
    """Which signals the worker's process was begun without, as far as it can tell."""
    return Lost(str(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])))


def test_a_worker_that_is_still_being_loaded_does_not_see_ctrl_c_and_we_do() -> None:
    with Pool(1, LIMIT, target=masked) as pool:
        assert [ended for _, ended in pool.outcomes(Plan(("steady",), seeds=1).tasks())] == [Lost("True")]
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def kills_its_worker(config: RunConfig) -> RunResult | Lost:
    """A run that the kernel ends for want of memory."""
    if config.seed != 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return Lost("seed 1 lives")


def test_a_run_that_kills_its_worker_twice_is_lost_and_said_so() -> None:
    with Pool(2, LIMIT, target=kills_its_worker) as pool:
        tasks = Plan(("steady",), seeds=3, nodes=4).tasks()
        found = {task.number: result for task, result in pool.outcomes(tasks)}
    lost = Lost("its worker ended each time, the last time by SIGKILL")
    assert found == {0: lost, 1: Lost("seed 1 lives"), 2: lost}


def test_a_run_that_takes_too_long_is_given_up() -> None:
    plan = Plan(("steady",), seeds=1, nodes=24)
    with Pool(1, 0.3) as pool:
        assert [result for _, result in pool.outcomes(plan.tasks())] == [Lost("no result in 0 s")]


def test_lost_runs_are_counted_named_and_run_again_when_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "c"
    plan = Plan(("steady",), seeds=2, nodes=8, set={"seconds": "1"})
    summary = conducted(path, plan, Means(workers=2, run_seconds_max=0.02))
    assert (summary["runs"], summary["lost"], summary["failed"]) == (0, 2, 0)
    assert summary["cells"][0]["failure_rate"] is None
    assert [run["seed"] for run in summary["lost_runs"]] == [0, 1]
    assert resumed(path)["lost"] == 0


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c"
    ended: list[bool] = []

    def third_one_interrupts(self: Progress, is_failure: bool) -> None:
        ended.append(is_failure)
        if len(ended) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "finished", third_one_interrupts)
    with pytest.raises(
        Unfinished, match=r"interrupted; finished runs are kept; go on with: .* --resume --out"
    ):
        conducted(path, means=Means(workers=1))
    assert len(lines(path)) == 3
    assert json.loads((path / SUMMARY).read_text())["runs"] == 3


# What is shown


def test_without_a_terminal_a_line_now_and_then_says_how_far_it_is() -> None:
    stream, clock = io.StringIO(), iter([0.0, 2.0, 12.0, 14.0])
    with Progress(100, 20, stream, now=lambda: next(clock)) as progress:
        for is_failure in (False, True, False):
            progress.finished(is_failure)
    assert stream.getvalue() == "22/100 runs, 1 failed, 0.2 runs/s, 7 min 48 s left\n"
