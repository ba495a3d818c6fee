"""What docs/simulator.md shows works as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import typer
from reachp2p_sim import RunConfig, run_scenario
from reachp2p_sim.campaign.plan import Plan, grid
from reachp2p_sim.cli import app
from reachp2p_sim.commands.shared import pairs
from reachp2p_sim.hostile import BEHAVIOURS
from reachp2p_sim.network.partition_shapes import SHAPES
from reachp2p_sim.running.run import check
from reachp2p_sim.steps import KINDS
from reachp2p_sim.world.acts import Acts

from reachp2p.core.rules import Rules

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "simulator.md").read_text(encoding="utf-8")
LINES = [
    line.partition("#")[0]
    for page in ("simulator.md", "papers.md")
    for line in re.findall(
        r"^    (?:\$ |replay: |\.venv/bin/)?reachp2p-sim (.*)",
        (DOCS / page).read_text(encoding="utf-8"),
        re.MULTILINE,
    )
]
BLOCKS = re.findall(r"^```(python|toml)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def block(language: str, having: str) -> str:
    (found,) = [text for kind, text in BLOCKS if kind == language and having in text]
    return found


def test_the_script_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", block("python", "world = World(seed=7)")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "healed after" in done.stdout


@pytest.mark.parametrize(("cut", "verdict"), [("5", "pass"), ("60", "fail")])
def test_the_study_passes_and_its_checker_bites(cut: str, verdict: str, tmp_path: Path) -> None:
    path = tmp_path / "my_study.py"
    path.write_text(block("python", '@scenario("my-study"'))
    result = run_scenario(RunConfig(str(path), seed=3, set={"cut": cut}))
    assert (result.verdict, result.checkers["nobody-is-buried"]) == (verdict, verdict), result.violation


def test_the_file_runs_with_and_without_the_checker(tmp_path: Path) -> None:
    (tmp_path / "my_study.py").write_text(block("python", '@scenario("my-study"'))
    text = block("toml", 'name = "my-split"')
    plain, checked = tmp_path / "my-split.toml", tmp_path / "checked.toml"
    plain.write_text(text)
    checked.write_text(text.replace("[options]", 'checkers = ["my_study.py"]\n[options]'))
    assert run_scenario(RunConfig(str(plain), seed=3)).verdict == "pass"
    assert run_scenario(RunConfig(str(checked), seed=3)).checkers["nobody-is-buried"] == "fail"


def part(begins: str, ends: str) -> str:
    return PAGE[PAGE.index(begins) : PAGE.index(ends)]


def test_every_act_of_a_world_is_in_its_table() -> None:
    table = part("What can be done to a world", "Behaviours of hostile nodes")
    acts = {name for name in vars(Acts) if not name.startswith("_")} - {"perform"}
    assert {name for name in acts if f"`{name}(" not in table} == set()


def test_every_behaviour_shape_and_rule_is_named() -> None:
    behaviours = part("Behaviours of hostile nodes", "Each of these is a *step*")
    shapes = part("| `partition_shape(", "| `swizzle(")
    rules = part("## Parts of the protocol switched off", "## A scenario of your own")
    assert [name for name in BEHAVIOURS if f"`{name}`" not in behaviours] == []
    assert [name for name in SHAPES if f"`{name}`" not in shapes and f'"{name}"' not in shapes] == []
    assert [field.name for field in msgspec.structs.fields(Rules) if f"`{field.name}`" not in rules] == []


def test_every_kind_of_step_is_on_its_page_with_its_keys() -> None:
    page = (DOCS / "steps.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*?) \| ", page, re.MULTILINE))
    fields = {word: msgspec.structs.fields(kind) for word, kind in KINDS.items()}
    keys = {
        word: ", ".join(f"`{f.name}`{'' if f.required else '?'}" for f in of_kind)
        for word, of_kind in fields.items()
    }
    assert rows.pop("do") == "keys"
    assert rows == keys


@pytest.mark.parametrize("line", LINES)
def test_every_command_that_a_page_shows_can_be_given(line: str) -> None:
    name, *words = shlex.split(line.partition(">")[0])
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]  # it is a group
    given = command.make_context(name, words).params  # an unknown option, or a value that is none, raises
    settings = pairs(given.get("settings"))
    if name == "run" and "." not in given["name"]:
        check(RunConfig(given["name"], given["seed"], given["nodes"], given["mutant"], settings))
    if name == "campaign" and given["names"] and given["names"] != ["all"] and "." not in given["names"][0]:
        varied = grid(given["grid"] or ())
        Plan(
            tuple(given["names"]), given["seeds"], 0, given["nodes"], given["mutant"], settings, varied
        ).check()


def test_there_are_commands_to_try() -> None:
    assert len(LINES) > 25
