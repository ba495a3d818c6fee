"""`reachp2p rules` against two real nodes, one of them with a file of its own."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from reachp2p_node.cli import main

from tests.node.test_cli import Program, environment

Run = Callable[..., tuple[int, str, str]]
OWN = '[[rule]]\nname = "own"\nprefer = "zone"\n'
CARTS = '[[rule]]\nname = "carts"\nmatch = { agent = "shop/cart" }\nsticky = "session"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "tmp").mkdir()
    (folder / "own.toml").write_text(OWN)
    (folder / "carts.toml").write_text(CARTS)
    (folder / "wrong.toml").write_text("[[rule]]\npolcy = 3\nretry = 1\n")
    return folder


@pytest.fixture(scope="module")
def network(folder: Path) -> Iterator[None]:
    programs: list[Program] = []
    try:
        programs.append(Program(folder, "seed", "--port", "0", "--name", "one", "--rules", "own.toml"))
        address = programs[0].started["address"]
        programs.append(Program(folder, "seed", "--port", "0", "--name", "two", "--seed", address))
        yield
    finally:
        assert [program.end()[0] for program in programs] == [0] * len(programs)


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(folder)
    for name, value in environment(folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))

    def run_one(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(("rules", *arguments))
        return code, *capsys.readouterr()

    return run_one


def until(look: Callable[[], Any]) -> Any:
    """What `look` finds, at most five seconds later."""
    end = time.monotonic() + 5
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


@pytest.mark.usefixtures("network")
def test_rules_are_tried_applied_shown_compared_and_remembered(run: Run, folder: Path) -> None:
    code, out, err = run("show", "--node", "two")
    assert (code, out) == (0, "")
    assert "goes by no rules" in err
    code, out, err = run("history", "--node", "two")
    assert (code, out) == (0, "")

    applied = ("apply", "carts.toml", "--comment", "carts stay", "--node", "two")
    change = 'rule 1 (carts) is new: match = { agent = "shop/cart" }, sticky = "session"\n'
    code, out, err = run(*applied, "--dry-run")
    assert (code, out) == (0, change)
    assert "nothing was applied" in err
    assert json.loads(run("show", "--node", "two", "--json")[1])["cluster"] is None
    code, out, err = run(*applied)
    assert (code, out) == (0, change)
    assert "version 1 is signed by two" in err

    code, out, err = run(*applied)
    assert (code, out) == (0, "")
    assert "nothing was applied: the cluster's version 1 says the same" in err
    (folder / "cut.toml").write_text("")
    code, out, err = run("apply", "cut.toml", "--node", "two")
    assert (code, out) == (1, "")
    assert "to take all rules away, write rule = []" in err

    shown = until(lambda: json.loads(run("show", "--node", "one", "--json")[1])["cluster"])
    assert (shown["version"], shown["author_name"], shown["comment"]) == (1, "two", "carts stay")
    code, out, err = run("show", "--node", "one")
    assert code == 0
    assert f"# 1. the file of this node alone, {folder / 'own.toml'}" in out
    assert "# 2. the cluster's version 1, applied " in out
    assert tomllib.loads(out) == tomllib.loads(OWN + CARTS)
    assert "those of this node go first" in err

    (folder / "more.toml").write_text(CARTS + "[[rule]]\nretry = false\n")
    code, out, _ = run("diff", "more.toml", "--node", "one")
    assert (code, out) == (0, "rule 2 is new: retry = false\n")
    assert json.loads(run("apply", "more.toml", "--node", "one", "--json")[1])["version"] == 2
    code, out, _ = run("diff", "1", "--node", "one")
    assert (code, out) == (0, "rule 2 is new: retry = false\n")
    code, out, _ = run("diff", "2", "carts.toml", "--node", "one")
    assert (code, out) == (0, "rule 2 is gone: retry = false\n")
    code, out, err = run("diff", "2", "more.toml", "--node", "one", "--json")
    assert json.loads(out) == {"asked": "one", "changes": []}

    code, out, _ = run("show", "--version", "1", "--node", "one")
    assert (code, tomllib.loads(out)) == (0, tomllib.loads(CARTS))
    there = ("show", "--version", "2", "--node", "two", "--json")
    assert until(lambda: json.loads(run(*there)[1]).get("author_name") == "one")
    code, out, err = run("show", "--version", "9", "--node", "one")
    assert (code, out) == (1, "")
    assert "version 9 of the rules is not in the history; there are versions 1, 2" in err

    history = json.loads(run("history", "--node", "one", "--json")[1])["history"]
    assert [(one["version"], one["author_name"], one["in_force"]) for one in history] == [
        (2, "one", True), (1, "two", False),
    ]  # fmt: skip
    code, out, _ = run("history", "--node", "one")
    assert code == 0
    assert "in force" in out.splitlines()[2]
    assert "carts stay" in out.splitlines()[3]


@pytest.mark.usefixtures("network")
def test_what_is_wrong_is_told_and_changes_nothing(run: Run) -> None:
    before = run("show", "--node", "one", "--json")[1]
    code, out, err = run("apply", "wrong.toml", "--node", "one")
    assert (code, out) == (1, "")
    assert "wrong.toml: rule 1: polcy: unknown key; did you mean 'policy'?" in err
    assert "[1704]" in err
    assert json.loads(run("apply", "wrong.toml", "--node", "one", "--json")[1])["error"]["code"] == 1704
    assert run("show", "--node", "one", "--json")[1] == before
    code, _, err = run("diff", "77", "--node", "one")
    assert code == 1
    assert "version 77 of the rules is not in the history" in err
    code, _, err = run("apply", "nowhere.toml", "--node", "one")
    assert code == 1
    assert "nowhere.toml: cannot be read: No such file" in err
    assert run("diff", "1", "2", "3", "--node", "one")[0] == 2
    assert run("reload", "--node", "two")[0] == 1


@pytest.mark.usefixtures("network")
def test_a_file_of_a_node_is_read_on_command(run: Run, folder: Path) -> None:
    code, _, err = run("reload", "--node", "one")
    assert code == 0
    assert "it says what it said before" in err
    (folder / "own.toml").write_text('[[rule]]\nname = "own"\nretry = true\n')
    shown = until(lambda: "retry = true" in run("show", "--node", "one")[1])
    assert shown
    (folder / "own.toml").write_text(OWN)
    assert json.loads(run("reload", "--node", "one", "--json")[1])["asked"] == "one"


def test_a_file_is_checked_without_a_node_and_every_problem_is_told(run: Run) -> None:
    code, out, err = run("check", "carts.toml")
    assert (code, out, err) == (0, "", "carts.toml: 1 rule, nothing wrong\n")
    code, out, err = run("check", "wrong.toml", "--json")
    assert code == 1
    assert json.loads(out) == {
        "file": "wrong.toml",
        "rules": 0,
        "problems": [
            "rule 1: polcy: unknown key; did you mean 'policy'?",
            "rule 1: retry: write true or false, not 1",
        ],
    }
    assert err.count("wrong.toml: rule 1: ") == 2
