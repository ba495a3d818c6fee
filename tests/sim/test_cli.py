"""The command line: what it prints, and what its exit codes say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from reachp2p_sim.cli import main
from reachp2p_sim.commands.run import print_result
from reachp2p_sim.mutants import MUTANTS
from reachp2p_sim.running.code_version import code
from reachp2p_sim.running.run import RunConfig, run_scenario
from reachp2p_sim.scenarios import GROUPS, SCENARIOS
from reachp2p_sim.world.timeline import Timeline

Command = Callable[..., int]
Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.setenv("REACHP2P_SIM_STORE", str(tmp_path / "store"))

    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["reachp2p-sim", *words])
        return main()

    return run


SHORT = ("run", "steady", "--nodes", "4", "--set", "seconds=10", "--no-determinism")


def test_list_names_every_scenario_and_every_mutant(command: Command, capsys: Capsys) -> None:
    assert command("list") == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in (*SCENARIOS, *MUTANTS))
    assert command("list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert {s["name"] for s in listed["scenarios"]} == set(SCENARIOS)
    assert {s["group"] for s in listed["scenarios"]} <= GROUPS.keys() - {"others"}
    assert {m["name"] for m in listed["mutants"]} == set(MUTANTS)


def test_a_run_that_passes_prints_its_verdict_and_exits_with_0(command: Command, capsys: Capsys) -> None:
    assert command(*SHORT) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("steady, 4 nodes, seed 0: PASS")
    assert captured.err == ""


def test_the_json_has_what_scripts_need(command: Command, capsys: Capsys) -> None:
    assert command(*SHORT, "--seed", "7", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["scenario"] == "steady"
    assert (result["seed"], result["nodes"], result["verdict"]) == (7, 4, "pass")
    assert len(result["trace_digest"]) == 64
    assert result["replay"] == f"reachp2p-sim run steady --nodes 4 --seed 7 --set seconds=10 --code {code()}"
    assert set(result["checkers"].values()) == {"pass"}
    assert result["simulated_seconds"] > 40
    assert result["messages"] > 0
    assert "all_see_all" in result["timings"]


def test_a_second_process_has_the_same_digest(command: Command, capsys: Capsys) -> None:
    assert command(*SHORT[:-1], "--json") == 0
    assert json.loads(capsys.readouterr().out)["checkers"]["determinism"] == "pass"


def test_a_broken_promise_exits_with_1_and_one_line_that_repeats_it(command: Command, capsys: Capsys) -> None:
    words = ("run", "steady", "--nodes", "8", "--seed", "3", "--mutant", "table-without-limit")
    assert command(*words, "--no-determinism") == 1
    captured = capsys.readouterr()
    assert "BROKEN         bounded" in captured.out
    assert captured.err.strip() == f"replay: reachp2p-sim {' '.join(words)} --code {code()}"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "partitoin"), "there is no scenario 'partitoin'; there are: "),
        (("run", "steady", "--mutant", "nobody"), "there is no mutant 'nobody'; there are: "),
        (("run", "steady", "--set", "secnds=3"), "there is no option 'secnds'; there are: "),
        (("run", "steady", "--set", "seconds=soon"), "seconds=soon: a number is wanted, as in seconds=60.0"),
        (("run", "steady", "--set", "seconds"), "write KEY=VALUE"),
        (("run", "steady", "--set", "delay=-1"), "delay=-1: at least 0 is wanted, as in delay=0.0005"),
        (("run", "steady", "--set", "path_loss=2"), "conditions out of range"),
        (("run", "steady", "--set", "signing=rot13"), "it must be keyed or ed25519"),
        (
            ("run", "steady", "--set", "protocol.alpha=3"),
            "there is no protocol constant 'alpha'; there are: ",
        ),
        (("run", "steady", "--set", "protocol.probe_interval=-1"), "probe_interval = -1.0: a finite number"),
        (("run", "steady", "--nodes", "1"), "steady needs 3 to 10000 nodes, not 1"),
        (("campaign", "nothing"), "there is no scenario 'nothing'; there are: "),
    ],
)
def test_what_cannot_be_run_exits_with_2_and_says_what_can(
    command: Command, capsys: Capsys, words: tuple[str, ...], says: str
) -> None:
    assert command(*words) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.out == ""


def test_an_unknown_command_exits_with_2(command: Command) -> None:
    assert command("simulate") == 2


def test_a_log_that_cannot_be_written_exits_with_2(command: Command, capsys: Capsys, tmp_path: Path) -> None:
    assert command(*SHORT, "--log", str(tmp_path / "missing" / "log.txt")) == 2
    assert "log.txt" in capsys.readouterr().err


def test_the_log_has_a_line_an_event_and_is_the_same_each_time(
    command: Command, tmp_path: Path, capsys: Capsys
) -> None:
    for name in ("one", "two"):
        assert command(*SHORT, "--json", "--log", str(tmp_path / name)) == 0
    events = json.loads(capsys.readouterr().out.split("\n}\n")[0] + "\n}")["events"]
    one = (tmp_path / "one").read_bytes()
    assert one == (tmp_path / "two").read_bytes()
    assert one.count(b"\n") == events


def test_protocol_constants_can_be_set(command: Command, capsys: Capsys) -> None:
    digests = set()
    for constant in ("protocol.gossip_fanout=3", "protocol.gossip_fanout=2"):
        assert command(*SHORT, "--set", constant, "--json") == 0
        digests.add(json.loads(capsys.readouterr().out)["trace_digest"])
    assert len(digests) == 2


def test_a_campaign_counts_and_names_the_first_seeds_that_fail(
    command: Command, capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("campaign", "steady", "--nodes", "4", "--set", "seconds=5", "--seeds", "3", "--workers", "1")
    assert command(*words, "--json") == 0
    passed = json.loads(capsys.readouterr().out)
    assert (passed["runs"], passed["passed"], passed["failed"]) == (3, 3, 0)
    assert Path(passed["folder"]).resolve() == Path("store/campaigns/latest").resolve()
    assert command(*words, "--json", "--mutant", "news-never-old", "--out", "broken") == 1
    captured = capsys.readouterr()
    failed = json.loads(captured.out)
    assert failed["failed"] == 3
    assert [failure["seed"] for failure in failed["failures"]] == [0, 1, 2]
    assert captured.err.strip() == f"replay: {failed['failures'][0]['replay']}"
    assert command("campaign", "--resume", "--out", "broken") == 1
    assert "steady: 0 of 3 pass" in capsys.readouterr().out


def test_the_page_of_the_latest_campaign_is_that_of_the_store_that_is_set(
    command: Command, capsys: Capsys, tmp_path: Path
) -> None:
    words = ("campaign", "steady", "--seeds", "1", "--nodes", "3", "--set", "seconds=1", "--workers", "1")
    assert command(*words) == command(*words) == 0
    capsys.readouterr()
    assert command("report", "--reports", "0") == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "store/campaigns/latest/campaign.html")
    assert len(list((tmp_path / "store/campaigns").iterdir())) == 3, "two campaigns and a link to the latest"


def test_a_campaign_over_a_file_is_kept_under_its_name(
    command: Command, capsys: Capsys, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('name = "mine"\nsummary = "s"\nnodes = 3\n[[steps]]\ndo = "grow"\n')
    assert command("campaign", str(mine), "--seeds", "1", "--workers", "1", "--json") == 0
    folder = Path(json.loads(capsys.readouterr().out)["folder"])
    assert folder.parent == tmp_path / "store" / "campaigns"
    assert folder.name.endswith("-mine")
    assert command("campaign", "--resume") == 0


def test_a_campaign_goes_on_only_as_what_it_was(command: Command, capsys: Capsys, tmp_path: Path) -> None:
    words = (
        "campaign",
        "steady",
        "--nodes",
        "4",
        "--set",
        "seconds=5",
        "--workers",
        "1",
        "--out",
        str(tmp_path),
    )
    assert command(*words, "--seeds", "1") == 0
    assert command(*words, "--seeds", "1") == 2
    assert command(*words, "--seeds", "2", "--resume") == 2
    assert "holds another campaign: seeds is 1 there and 2 here" in capsys.readouterr().err


def test_ctrl_c_is_a_line_and_an_exit_code(
    command: Command, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("reachp2p_sim.running.run.run_scenario", interrupted)
    assert command(*SHORT) == 130
    assert capsys.readouterr().err == "reachp2p-sim: interrupted\n"


def test_an_interrupted_run_keeps_the_part_that_there_is(
    command: Command, capsys: Capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = Timeline.run

    def five_seconds(self: Timeline, until: float) -> None:
        run(self, min(until, 5.0))
        if until > 5.0:
            raise KeyboardInterrupt

    monkeypatch.setattr(Timeline, "run", five_seconds)
    assert command("run", "steady", "--nodes", "4", "--json") == 130
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert captured.err == "reachp2p-sim: interrupted\n"
    assert (told["verdict"], told["simulated_seconds"]) == ("interrupted", 5.0)
    assert set(told["checkers"].values()) == {"open"}
    page = (tmp_path / told["store"] / "report.html").read_text()
    assert "Stopped before its end." in page
    capsys.readouterr()
    assert command("replay", told["store"], "--no-store") == 130
    assert capsys.readouterr().err == "reachp2p-sim: interrupted\n"


IMPATIENT = """
import runpy, sys

class Impatient:
    def find_spec(self, name, *_):
        if name == "reachp2p_sim.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Impatient())
"""


@pytest.mark.parametrize(
    "start", ["from reachp2p._scripts import sim_main; sim_main()", "runpy.run_module('reachp2p_sim')"]
)
def test_ctrl_c_while_the_program_is_loaded_is_no_traceback(start: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPATIENT + start], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "reachp2p-sim: interrupted\n")


def test_how_calls_ended_is_said_in_words(capsys: Capsys) -> None:
    result = run_scenario(RunConfig("steady", nodes=4, set={"seconds": "1"}))
    result.calls = {"started": 3, "ended": {"0": 1, "1303": 2}}
    print_result(result)
    said = "calls          3 started; ended: 1 with a result, 2 with 1303 no healthy instance\n"
    assert said in capsys.readouterr().out
