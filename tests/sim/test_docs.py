"""What docs/simulator.md shows works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from reachp2p_sim import RunConfig, run_scenario
from reachp2p_sim.steps import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")
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


def test_every_kind_of_step_is_on_its_page_with_its_keys() -> None:
    page = (Path(__file__).parents[2] / "docs" / "steps.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*?) \| ", page, re.MULTILINE))
    fields = {word: msgspec.structs.fields(kind) for word, kind in KINDS.items()}
    keys = {
        word: ", ".join(f"`{f.name}`{'' if f.required else '?'}" for f in of_kind)
        for word, of_kind in fields.items()
    }
    assert rows.pop("do") == "keys"
    assert rows == keys
