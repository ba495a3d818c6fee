"""`reachp2p run MODULE:AGENT`: what is found, and what is said when it is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from reachp2p_node.cli.load_agent import load_agent

from reachp2p.errors import ConfigurationInvalid

ONE = "from reachp2p import Agent\nagent = Agent('a/one')\n"
TWO = ONE + "other = Agent('a/two')\nnumber = 3\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with some modules, and an interpreter that forgets them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    for name, text in {
        "one_agent.py": ONE,
        "two_agents.py": TWO,
        "no_agent.py": "x = 1\n",
        "broken_agent.py": "x = 1\nraise ValueError('no')\n",
        "wrong_agent.py": "from reachp2p import Agent\nagent = Agent('Bad')\n",
        "needs_agent.py": "import no_such_module_here\n",
        "pack/__init__.py": "",
        "pack/inner.py": ONE,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("target", "agent"),
    [
        ("one_agent:agent", "a/one"),
        ("one_agent", "a/one"),
        ("one_agent.py:agent", "a/one"),
        ("./two_agents.py:other", "a/two"),
        ("pack.inner:agent", "a/one"),
        ("pack/inner.py", "a/one"),
    ],
)
def test_modules_and_files_are_found_from_the_working_directory(target: str, agent: str) -> None:
    assert load_agent(target).id == agent


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("two_agents", "name the agent too, as in two_agents:agent; agents in it: agent, other"),
        ("two_agents:othr", "did you mean 'other'?"),
        ("two_agents:number", "'number' is a int, not an Agent"),
        ("no_agent:agent", "has no 'agent'; there is no Agent in it"),
        ("no_agent", "there is no Agent in it"),
        ("one_agnt:agent", "there is no module 'one_agnt' here"),
        ("nowhere.py:agent", "there is no file nowhere.py"),
        ("pack/inner:agent", "there is no file pack/inner"),
        ("what ever:agent", "neither a module name nor a file"),
        ("broken_agent:agent", "ValueError: no ("),
        ("broken_agent.py:agent", "broken_agent.py:2)"),
        ("wrong_agent:agent", "wrong_agent.py:2)"),
        (
            "needs_agent:agent",
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_module_here'",
        ),
        ("pack.outer:agent", "there is no module 'pack.outer'"),
    ],
)
def test_what_is_not_found_is_explained(target: str, said: str) -> None:
    with pytest.raises(ConfigurationInvalid) as caught:
        load_agent(target)
    assert said in caught.value.message


def test_a_module_that_runs_its_agent_when_it_is_imported_is_told_how_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "eager.py").write_text("from reachp2p import Agent, run\nagent = Agent('a/b')\nrun(agent)\n")
    with pytest.raises(SystemExit) as ended:
        load_agent("eager.py")
    assert ended.value.code == 1
    assert 'eager.py calls run() while it is imported: put that below `if __name__ == "__main__":`' in (
        capsys.readouterr().err
    )
