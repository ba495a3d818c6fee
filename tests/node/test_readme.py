"""What README and getting started tell a newcomer to type works as it stands.

Their Python is run as programs, their commands in the order of the page. Only the port is another one than 7946: in the
programs it is replaced, the commands are told by environment variables.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/getting_started.md"]
PORT = "7946"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RULES = re.compile(r"^```toml\n(\[\[rule\]\].*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^ {4}((?:reachp2p|python shout\.py).*?)(?: {2,}#.*)?$", re.MULTILINE)
GO_ON = ("reachp2p seed", "reachp2p run", "python shout.py")
"""Commands that have a terminal of their own."""


class Terminals:
    """Somebody who follows a page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        (folder / "tmp").mkdir()
        kept = {key: value for key, value in os.environ.items() if not key.startswith("REACHP2P_")}
        self.environment = {
            **kept,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "XDG_STATE_HOME": str(folder / "state"),
            "TMPDIR": str(folder / "tmp"),
        }
        self._going_on: list[subprocess.Popen[str]] = []

    def type(self, command: str) -> str:
        """Type a command; returns what it prints, unless it goes on: then it is waited for until it has started."""
        words = shlex.split(command)
        if words[0] == "reachp2p":  # as the console script does, whatever is on the path
            words[:1] = [sys.executable, "-m", "reachp2p"]
        if not command.startswith(GO_ON):
            done = subprocess.run(
                words,
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=30,
            )
            assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
            assert "Traceback" not in done.stderr
            return done.stdout
        setting = {"REACHP2P_PORT" if "seed" in command else "REACHP2P_SEEDS": self._setting(command)}
        process = subprocess.Popen(
            words, cwd=self.folder, env={**self.environment, **setting}, stderr=subprocess.PIPE, text=True
        )
        self._going_on.append(process)
        assert process.stderr is not None
        said = ""
        while " at 127.0.0.1:" not in (line := process.stderr.readline()):  # a busy machine is a warning
            said += line
            assert line, f"{command}: {said}"
        return line

    def _setting(self, command: str) -> str:
        return self.port if "seed" in command else f"127.0.0.1:{self.port}"

    def await_ends(self, count: int) -> None:
        """Wait until so many of them have ended: a signal that meets an interpreter on its way out is its exit code."""
        for _ in range(200):
            if sum(process.poll() is not None for process in self._going_on) >= count:
                return
            time.sleep(0.1)
        raise AssertionError(f"fewer than {count} have ended")

    def end(self) -> dict[str, int]:
        """Ctrl-C in all of them that still run; the exit codes."""
        for process in self._going_on:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        codes: dict[str, int] = {}
        for process in self._going_on:
            try:
                process.communicate(timeout=20)
            finally:
                process.kill()
            codes[" ".join(map(str, process.args))] = process.returncode  # type: ignore[arg-type]
        return codes


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    terminals = Terminals(tmp_path)
    yield terminals
    terminals.end()


@pytest.mark.parametrize("page", PAGES)
def test_a_newcomer_can_follow_the_page(terminals: Terminals, page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    agent, client, *_ = PYTHON.findall(text)  # further ones are pieces
    assert "run(agent" in agent
    assert "trio.run(main)" in client
    for name, program in (("shout.py", agent), ("client.py", client)):
        assert program.count(PORT) == 1
        (terminals.folder / name).write_text(program.replace(PORT, terminals.port))
    for rules in RULES.findall(text):
        (terminals.folder / "rules.toml").write_text(rules)

    commands = [command for command in COMMAND.findall(text) if "leave" not in command]
    assert [command.split()[1] for command in commands[:3]][::2] == ["seed", "call"]
    assert any(command.startswith("reachp2p route explain") for command in commands)
    printed: dict[str, str] = {}
    for command in commands:
        if "call" in command:
            until_known(terminals)
        printed[command] = terminals.type(command)
    call = next(command for command in printed if "call" in command)
    assert json.loads(printed[call]) == {"text": "HELLO!"}
    assert "demo/shouter" in printed["reachp2p agents"]
    assert "2 members: 2 ALIVE" in printed["reachp2p members"]

    assert "python client.py" not in text, "the page does not name the file"
    assert terminals.type(f"{shlex.quote(sys.executable)} client.py") == "{'text': 'HELLO!'}\n"

    leaves = [command for command in COMMAND.findall(text) if "leave" in command]
    for command in leaves:
        terminals.type(command)
    terminals.await_ends(len(leaves))
    assert set(terminals.end().values()) == {0}


def test_a_second_terminal_with_the_same_agent_and_a_kill(terminals: Terminals) -> None:
    """The last step of the README: the two have two names, and nobody warns of anything."""
    agent = PYTHON.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    (terminals.folder / "shout.py").write_text(agent.replace(PORT, terminals.port))
    terminals.type("reachp2p seed")
    first, second = terminals.type("python shout.py"), terminals.type("python shout.py")
    names = [line.split()[1] for line in (first, second)]
    assert names[0] != names[1]
    assert all(re.fullmatch(r"shouter-[0-9a-f]{6}", name) for name in names)
    until_known(terminals, 2)
    killed = terminals._going_on[-1]
    killed.kill()
    said = [killed.communicate()[1]]
    for _ in range(5):
        assert json.loads(terminals.type("""reachp2p call text.shout '{"text": "hello"}'"""))
    for process in terminals._going_on[:-1]:
        process.send_signal(signal.SIGINT)
        said.append(process.communicate(timeout=20)[1])
    assert not any("call themselves" in text or "ERROR" in text for text in said)


def until_known(terminals: Terminals, instances: int = 1) -> None:
    """A person needs a moment to get from one terminal to the next."""
    for _ in range(50):
        told = json.loads(terminals.type("reachp2p agents --json"))
        if len(told["agents"]) == instances:
            return
        time.sleep(0.1)
    raise AssertionError("the agent was never heard of")
