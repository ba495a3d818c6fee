"""What is named wrongly is said before anything runs, with what would be right, and never as a traceback."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from reachp2p_sim.cli import main
from reachp2p_sim.running.wrong_values import in_words, unknown
from reachp2p_sim.scenarios.base import Options

Command = Callable[..., int]
Capsys = pytest.CaptureFixture[str]

GROW = '[[steps]]\ndo = "grow"\n'
FILES = {
    "ok.toml": f'name = "a"\nsummary = "b"\nnodes = 3\n{GROW}',
    "key.toml": f'name = "a"\nsummary = "b"\nnodes = 3\nnode = 1\n{GROW}',
    "kind.toml": f'name = "a"\nsummary = "b"\nnodes = "three"\n{GROW}',
    "zero.toml": f'name = "a"\nsummary = "b"\nnodes = 0\n{GROW}',
    "steps.toml": 'name = "a"\nsummary = "b"\nnodes = 3\nsteps = ["grow"]\n',
    "rate.toml": f'name = "a"\nsummary = "b"\nnodes = 3\n[weather]\nrate = -5\n{GROW}',
    "stranger.toml": f'name = "a"\nsummary = "b"\nnodes = 3\n{GROW}[[steps]]\ndo = "partition"\nleft = "n77"\n',
    "seconds.toml": f'name = "a"\nsummary = "b"\nnodes = 3\n{GROW}[[steps]]\ndo = "pause"\nhosts = 3\n',
    "when.toml": f'name = "a"\nsummary = "b"\nnodes = 3\n{GROW}[[steps]]\ndo = "heal"\nat = 1\nnot_before = 1\n',
    "checkers.toml": f'name = "a"\nsummary = "b"\nnodes = 3\ncheckers = ["none.py"]\n{GROW}',
    "repeat.toml": f'name = "a"\nsummary = "b"\nnodes = 3\n{GROW}[[steps]]\ndo = "repeat"\nsteps = 3\n',
    "groups.toml": f'name = "a"\nsummary = "b"\nnodes = 3\ngroups = 3\n{GROW}',
    "bytes.toml": "name = \x80",
    "broken.py": "def story(:\n",
    "empty.py": "",
    "a-file": "",
}
WRONG: list[tuple[str, str]] = [
    ("run", "Missing argument 'SCENARIO'"),
    ("run none.toml", "none.toml: No such file or directory"),
    ("run folder.toml", "folder.toml: Is a directory"),
    ("run partition-halfs", "; did you mean partition-halves?"),
    ("run key.toml", "key.toml: unknown key 'node' in the file; it takes: name, summary, nodes"),
    ("run kind.toml", "kind.toml: nodes: a whole number is wanted, not a text"),
    ("run zero.toml", "zero.toml: nodes = 0, nodes_min = 1: at least 1 is wanted"),
    ("run steps.toml", "steps.toml: steps[0]: a table is wanted, not a text"),
    ("run rate.toml", "rate.toml: [weather]: conditions out of range: rate=-5.0"),
    (
        "run stranger.toml",
        "stranger.toml: step 2, partition n77 rest: there is no machine 'n77'; there are n00",
    ),
    ("run seconds.toml", "seconds.toml: step 2 (pause): hosts: "),
    ("run when.toml", "when.toml: step 2 (heal): at (then and not later) or not_before (then or later)"),
    ("run checkers.toml", "checkers.toml: checkers: none.py: No such file or directory"),
    ("run repeat.toml", "repeat.toml: step 2 (repeat): steps = 3: a list of steps is wanted"),
    ("run groups.toml", "groups.toml: groups: a table is wanted, not a whole number"),
    ("run bytes.toml", "bytes.toml: no TOML: "),
    ("run broken.py", "SyntaxError"),
    ("run empty.py", "empty.py: one function under @scenario is wanted; there are: none"),
    ("run steady --nodes 0", "steady needs 3 to 10000 nodes, not 0"),
    ("run steady --nodes 99999999", "steady needs 3 to 10000 nodes, not 99999999"),
    ("run steady --seed -1", "Invalid value for '--seed'"),
    ("run steady --set second=9", "; did you mean seconds?"),
    ("run steady --set seconds=-3", "seconds=-3: at least 0 is wanted, as in seconds="),
    ("run steady --set path_loss=2", "loss=2.0, a share of 0 to 1 is wanted"),
    ("run steady --set protocol.probe_intervall=1", "did you mean probe_interval?"),
    ("run steady --set seconds", "--set seconds: write KEY=VALUE"),
    ("run steady --mutant never-ded", "; did you mean never-dead?"),
    ("run ok.toml --store a-file", "a-file: a file is in the way"),
    ("run ok.toml --log folder", "folder: Is a directory"),
    ("run ok.toml --record none/a.toml", "none/a.toml: no file can be written there"),
    ("replay a-file", "'a-file' is no folder, and no line: the line that a failure prints"),
    ("replay 'reachp2p-sim run steady --seed -1'", "seed -1: at least 0 is wanted"),
    ("replay folder", "folder: there is no summary.json in it"),
    ("replay cut-off", "cut-off/summary.json: damaged: "),
    ("shrink cut-off", "cut-off/summary.json: damaged: "),
    ("diff cut-off folder", "cut-off/summary.json: damaged: "),
    ("diff a-file folder", "'a-file' is no folder, and no line"),
    ("shiviz cut-off", "cut-off/summary.json: damaged: "),
    ("shiviz folder", "folder: no stored run: "),
    (
        "shrink 'reachp2p-sim run ok.toml' --budget soon",
        "--budget soon: write a time such as 90s or 5m",
    ),
    ("campaign", "a campaign needs a scenario"),
    ("campaign all steady", "`all` is every scenario that ships: name no other with it"),
    ("campaign steady --out a-file", "a-file: a file is in the way"),
    ("campaign steady --store a-file", "a file is in the way"),
    ("campaign steady --grid nodes=0,4", "steady nodes=0: steady needs 3 to 10000 nodes, not 0"),
    ("campaign --resume --out a-file", "a-file holds no campaign: "),
    ("campaign --resume --out folder", "folder holds no campaign: there is no campaign.json in it"),
    ("campaign --resume --out cut-off", "cut-off/campaign.json: damaged: "),
    ("explore --for soon", "--for soon: write a time such as 90s, 10m or 8h"),
    ("explore --store a-file --runs 1", "a-file: a file is in the way"),
    ("explore --out folder --runs 1", "folder: no file can be written there"),
    ("mutants never-ded", "; did you mean never-dead?"),
    ("mutants never-dead --store a-file", "a-file/mutants: Not a directory"),
    ("paper swin", "; did you mean swim?"),
    ("paper ring --only R99", "--only R99: ring has R5.1"),
    ("report folder", "folder: no campaign that has ended: "),
    ("prune --store none", "none: No such file or directory"),
    ("prune --keep -1", "Invalid value for '--keep'"),
    ("runn", "No such command 'runn'"),
]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    for folder in ("folder", "folder.toml", "cut-off"):
        (tmp_path / folder).mkdir()
    for name in ("summary.json", "campaign.json"):
        (tmp_path / "cut-off" / name).write_text('{"scenario": "stea')

    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["reachp2p-sim", *words])
        return main()

    return run


@pytest.mark.parametrize(("line", "says"), WRONG, ids=[line for line, _ in WRONG])
def test_what_is_wrong_is_said_with_what_would_be_right(
    line: str, says: str, command: Command, capsys: Capsys
) -> None:
    assert command(*shlex.split(line)) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert "Traceback" not in told.err
    assert told.out == ""


def test_a_part_of_a_recording_that_is_not_there_is_said(command: Command, capsys: Capsys) -> None:
    assert command("run", "ok.toml", "--no-determinism", "--json") == 0
    folder = json.loads(capsys.readouterr().out)["store"]
    for words, says in (
        (("--from", "5", "--to", "1"), "--from 5 --to 1: nothing can be between them"),
        (("--from", "99"), "nothing was kept there"),
        (("--kinds", "Pong"), "--kinds Pong: no message with it was kept; there are: "),
        (("--nodes", "n99"), "--nodes n99: there is no such node; there are: n00, n01, n02"),
    ):
        assert command("shiviz", folder, *words) == 2
        told = capsys.readouterr()
        assert says in told.err
        assert told.out == ""


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Expected `int`, got `str` - at `$.nodes`", "nodes: a whole number is wanted, not a text"),
        ("Expected `float` >= 0.0 - at `$.rate`", "rate: a number >= 0.0 is wanted"),
        ("Expected `str | array`, got `int`", "a text or a list is wanted, not a whole number"),
        ("Object missing required field `left`", "left is missing"),
        ("Object missing required field `at` - at `$.steps[2]`", "steps[2].at is missing"),
        ("anything else", "anything else"),
    ],
)
def test_a_value_of_the_wrong_kind_is_said_in_words(said: str, words: str) -> None:
    assert in_words(ValueError(said)) == words


def test_only_a_name_that_is_close_is_offered() -> None:
    names = ["buddy", "touch"]
    assert (
        unknown("rule", "bud", names)
        == "there is no rule 'bud'; there are: buddy, touch; did you mean buddy?"
    )
    assert unknown("rule", "xyz", names) == "there is no rule 'xyz'; there are: buddy, touch"


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ('nodes="a"', "mine: nodes='a': a whole number of at least 1 is wanted"),
        ("nodes=0", "mine: nodes=0: a whole number"),
        ("nodes=3, list=[1]", "mine: list=[1]: a number or a text is wanted"),
    ],
)
def test_a_story_with_wrong_keywords_is_refused(
    keywords: str, says: str, command: Command, capsys: Capsys
) -> None:
    Path("mine.py").write_text(
        "from reachp2p_sim import scenario\n"
        f"@scenario('mine', 'x', {keywords})\n"
        "def mine(world, options): ...\n"
    )
    assert command("run", "mine.py") == 2
    assert says in capsys.readouterr().err


def test_an_option_that_a_story_asks_for_and_has_not_is_named() -> None:
    with pytest.raises(LookupError, match="there is no option 'cutt'; there are: cut; did you mean cut"):
        Options(3, {"cut": 1.0}).number("cutt")
