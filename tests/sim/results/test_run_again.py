"""A run is repeated from the line that its failure printed, or from what it left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from reachp2p_sim.cli import main
from reachp2p_sim.results.run_again import Past, past_run
from reachp2p_sim.running.code_version import code
from reachp2p_sim.running.run import RunConfig, UsageError

Command = Callable[..., int]
Capsys = pytest.CaptureFixture[str]
CONFIG = RunConfig("steady", 7, 4, "news-never-old", {"seconds": "5", "path_loss": "0.1"})


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["reachp2p-sim", *words])
        return main()

    return run


def test_a_line_is_understood_whole() -> None:
    assert past_run(CONFIG.line()) == Past(CONFIG, code())
    assert past_run(f"replay: {CONFIG.line()}\n") == Past(CONFIG, code())
    assert past_run("reachp2p-sim run steady") == Past(RunConfig("steady"))
    assert past_run("python -m reachp2p_sim run steady --seed=3 --json --log x.txt") == Past(
        RunConfig("steady", 3)
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("steady", "is no folder, and no line"),
        ("reachp2p-sim run", "one scenario is wanted; there are: none"),
        ("reachp2p-sim run steady crash", "one scenario is wanted; there are: steady, crash"),
        ("reachp2p-sim run steady --seed soon", "--seed soon: a whole number is wanted"),
        ("reachp2p-sim run steady --speed 3", "--speed: no option of a run"),
        ("reachp2p-sim run 'steady", "No closing quotation"),
    ],
)
def test_what_is_no_line_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        past_run(text)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no summary\.json in it"):
        past_run(str(tmp_path))
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(UsageError, match="it says of no run"):
        past_run(str(tmp_path))
    (tmp_path / "summary.json").write_text('{"cells": [], "failures": []}')
    with pytest.raises(UsageError, match="no run of this campaign failed"):
        past_run(str(tmp_path))


def test_a_line_gives_the_same_run_and_the_same_exit_code(command: Command, capsys: Capsys) -> None:
    assert (
        command("run", "steady", "--nodes", "4", "--seed", "3", "--no-determinism", "--json", "--no-store")
        == 0
    )
    first = json.loads(capsys.readouterr().out)
    assert command("replay", first["replay"], "--json", "--no-store") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["trace_digest"] == first["trace_digest"]
    assert captured.err == ""
    assert command("replay", CONFIG.line(), "--no-store") == 1
    assert capsys.readouterr().err == f"replay: {CONFIG.line()}\n"


def test_another_code_is_told(command: Command, capsys: Capsys) -> None:
    words = ("replay", "reachp2p-sim run steady --nodes 3 --set seconds=1 --code 0123456789ab", "--no-store")
    assert command(*words) == 0
    assert "that run was made by the code 0123456789ab and this is" in capsys.readouterr().err


def test_a_stored_run_is_repeated_and_compared(command: Command, capsys: Capsys, tmp_path: Path) -> None:
    assert command("run", "steady", "--nodes", "3", "--set", "seconds=1", "--no-determinism", "--json") == 0
    folder = tmp_path / json.loads(capsys.readouterr().out)["store"]
    capsys.readouterr()
    assert command("replay", str(folder), "--no-store") == 0
    assert capsys.readouterr().err == "the same trace as before\n"
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps({**summary, "trace_digest": "0" * 64}))
    assert command("replay", str(folder), "--no-store") == 1
    assert f"another trace: {'0' * 64} was stored" in capsys.readouterr().err


def test_a_run_of_a_file_is_stored_under_its_name(command: Command, capsys: Capsys, tmp_path: Path) -> None:
    mine = tmp_path / "elsewhere" / "mine.toml"
    mine.parent.mkdir()
    mine.write_text('name = "mine"\nsummary = "s"\nnodes = 3\n[[steps]]\ndo = "grow"\n')
    assert command("run", str(mine), "--no-determinism", "--json") == 0
    assert json.loads(capsys.readouterr().out)["store"].startswith("store/mine/")


def test_a_campaign_gives_its_first_failure(command: Command, capsys: Capsys) -> None:
    words = ("campaign", "steady", "--nodes", "4", "--seeds", "2", "--workers", "1", "--out", "c")
    assert command(*words, "--mutant", "news-never-old") == 1
    capsys.readouterr()
    assert command("replay", "c", "--no-store", "--json") == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["seed"] == 0
    assert "the same trace as before" in captured.err


STORY = """
from reachp2p_sim import Options, World, grow, scenario


@scenario("mine", "some nodes meet", nodes=4, seconds=2.0)
def mine(world: World, options: Options) -> None:
    grow(world, options, work=False)
    world.run(options.number("seconds"))
"""
FILE = """
name = "mine"
summary = "some nodes meet"
nodes = 4

[[steps]]
do = "grow"
work = false

[[steps]]
do = "run"
seconds = 2
"""


@pytest.mark.parametrize(("name", "text"), [("mine.py", STORY), ("mine.toml", FILE)])
def test_a_run_of_a_file_is_repeated_from_another_folder_until_the_file_is_another(
    command: Command, capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    Path(name).write_text(text)
    assert command("run", name, "--no-determinism", "--json") == 0
    first = json.loads(capsys.readouterr().out)
    stored = str(tmp_path / first["store"])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert command("replay", stored, "--no-store") == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{name}, 4 nodes, seed 0: PASS")
    assert captured.err == "the same trace as before\n"
    assert command("replay", first["replay"], "--no-store") == 0
    assert capsys.readouterr().err == ""
    assert command("diff", stored, first["replay"]) == 0
    capsys.readouterr()

    (tmp_path / name).write_text(text.replace("=2.0", "=3.0").replace("= 2\n", "= 3\n"))
    assert command("replay", stored, "--no-store") == 1
    said = capsys.readouterr().err
    assert f"{tmp_path / name} has changed since, or a file that it names: the run may differ" in said
    assert "another trace" in said
    (tmp_path / name).unlink()
    assert command("replay", stored, "--no-store") == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / name} cannot be used any more: the run may differ" in said
    assert f"{tmp_path / name}: No such file or directory" in said


def test_a_changed_checker_of_a_scenario_file_is_told(command: Command, capsys: Capsys) -> None:
    checker = 'from reachp2p_sim import Checker\n\n\nclass Mine(Checker):\n    name = "mine"\n    invariant = "MINE"\n'
    Path("mine.py").write_text(checker)
    Path("mine.toml").write_text('checkers = ["mine.py"]\n' + FILE)
    line = RunConfig("mine.toml").line()
    assert command("replay", line, "--no-store") == 0
    assert capsys.readouterr().err == ""
    Path("mine.py").write_text(checker + "\n# changed\n")
    assert command("replay", line, "--no-store") == 0
    assert "mine.toml has changed since, or a file that it names" in capsys.readouterr().err
