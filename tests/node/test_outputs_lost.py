"""Stdout and stderr that are full, closed, or read by nobody: one line and an exit code, and no running node ends."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from reachp2p_node.cli import main, output
from reachp2p_node.cli.nodes import Running

from tests.node.processes import Processes

FULL = "/dev/full"
SCRIPT = """
import sys
from reachp2p import Agent, run

agent = Agent("demo/one")
agent.capability("one.one")(lambda: 1)
run(agent, state=sys.argv[1])
"""
STARTS = [
    ["-m", "reachp2p", "seed", "--port", "0", "--state", "state"],
    ["-m", "reachp2p", "seed", "--port", "0", "--state", "state", "--json"],
    ["-c", SCRIPT, "state"],
]
needs_full = pytest.mark.skipif(not Path(FULL).exists(), reason="only Linux has a device that is always full")


def redirected(processes: Processes, command: list[str], redirection: str) -> subprocess.Popen[str]:
    """A program as a shell starts it with this redirection."""
    words = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, *command]
    return subprocess.Popen(
        words,
        cwd=processes.folder,
        env={**processes.environment, "PYTHONUNBUFFERED": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@needs_full
@pytest.mark.parametrize(
    ("redirection", "said"),
    [
        (f">{FULL}", "stdout cannot be written: No space left"),
        (">&-", "stdout cannot be written: it is closed"),
    ],
)
@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["text", "json"])
def test_data_that_cannot_be_written_are_one_line_and_a_failure(
    processes: Processes, redirection: str, said: str, as_json: list[str]
) -> None:
    member = processes.start("one")
    assert member.started
    for command in (["members", "--state", str(member.state)], ["version"]):
        program = redirected(processes, ["-m", "reachp2p", *command, *as_json], redirection)
        out, err = program.communicate(timeout=20)
        assert (program.returncode, out) == (1, "")
        assert err.startswith(f"reachp2p: {said}")
        assert err.count("\n") == 1


@pytest.mark.parametrize("redirection", ["2>&-", pytest.param(f"2>{FULL}", marks=needs_full)])
@pytest.mark.parametrize(("command", "code"), [(["members", "--state", "nowhere"], 1), (["wat"], 2)])
def test_a_message_never_becomes_data(
    processes: Processes, redirection: str, command: list[str], code: int
) -> None:
    """Without a stderr, what is meant for it is not written to stdout, and the exit code is the same."""
    program = redirected(processes, ["-m", "reachp2p", *command], redirection)
    assert (program.communicate(timeout=20), program.returncode) == (("", ""), code)


def test_the_demo_does_not_play_to_a_closed_stdout(processes: Processes) -> None:
    program = redirected(processes, ["-m", "reachp2p", "demo"], ">&-")
    err = program.communicate(timeout=20)[1]
    assert (program.returncode, err) == (1, "reachp2p: stdout cannot be written: it is closed\n")


def test_a_console_without_a_stderr_is_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    output.console(stderr=True).print("a message")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("start", STARTS, ids=["seed", "seed --json", "run()"])
@pytest.mark.parametrize("redirection", [">&- 2>&-", pytest.param(f">{FULL} 2>&1", marks=needs_full)])
def test_a_node_runs_and_ends_cleanly_whatever_becomes_of_its_messages(
    processes: Processes, start: list[str], redirection: str
) -> None:
    program = redirected(processes, start, redirection)
    runs_until_told(processes, program)


@pytest.mark.parametrize("start", STARTS, ids=["seed", "seed --json", "run()"])
def test_a_node_runs_and_ends_cleanly_when_nobody_reads_its_messages(
    processes: Processes, start: list[str]
) -> None:
    """As in `reachp2p seed 2>&1 | true`."""
    program = redirected(processes, start, "")
    runs_until_told(processes, program)


def runs_until_told(processes: Processes, program: subprocess.Popen[str]) -> None:
    """It answers once it has started; then it ends with 0 when it is told to. Nobody reads its pipes."""
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.close()
    program.stderr.close()
    try:
        while processes.run("members", "--state", "state")[0] != 0:
            assert program.poll() is None, "it has ended by itself"
        program.send_signal(signal.SIGTERM)
        assert program.wait(timeout=20) == 0
    finally:
        program.kill()
        program.wait()


@pytest.mark.parametrize(
    ("command", "item"),
    [
        (["stream", "demo.count"], {"item": 1}),
        (["stream", "demo.count", "--json"], {"item": 1}),
        (["subscribe", "demo.>", "--json"], {"topic": "demo.one", "data": 1}),
    ],
)
@pytest.mark.parametrize(
    "lost", [BrokenPipeError(), OSError(28, "No space left on device")], ids=["reader", "disk"]
)
def test_what_goes_on_for_ever_ends_when_its_output_is_lost(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    item: dict[str, Any],
    lost: OSError,
) -> None:
    """As in `reachp2p stream demo.count | head -1`: items were pulled to the last, and each had its message."""
    given = 0

    async def endless(*_: object) -> AsyncIterator[dict[str, Any]]:
        nonlocal given
        while True:
            await trio.lowlevel.checkpoint()
            given += 1
            yield item

    async def choose(*_: object) -> Running:
        return Running(Path("here"), 1, {"name": "one"})

    class Lost(io.StringIO):
        def write(self, text: str) -> int:
            raise lost

    for module in ("streams", "events"):
        monkeypatch.setattr(f"reachp2p_node.cli.{module}.stream", endless)
        monkeypatch.setattr(f"reachp2p_node.cli.{module}.choose", choose)
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", Lost())
        assert main(command) == 1
    assert given == 1
    assert capsys.readouterr().err.count("\n") <= 1


def test_the_standard_descriptors_are_given_to_no_file(processes: Processes) -> None:
    look = (
        "import os; from reachp2p_node.cli import main; main(['version']); print(os.open('/', os.O_RDONLY))"
    )
    program = redirected(processes, ["-c", look], "<&- 2>&-")
    out = program.communicate(timeout=20)[0]
    assert int(out.split()[-1]) > 2


def test_parameters_from_a_stdin_that_is_closed_are_a_misuse(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(["call", "text.shout", "-"]) == 2
    assert "stdin is closed" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "is_json"), [(["--json", "x"], True), (["--", "--json"], False)])
def test_json_after_two_dashes_is_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], is_json: bool,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path))
    assert main(["run", *arguments]) == 1
    out, err = capsys.readouterr()
    assert bool(out) is is_json
    assert "[17" in err
