"""A node that is stopped, or whose loop is held, keeps no command waiting for long (and is no mystery)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

AGENT = """
import trio
from reachp2p import Agent

agent = Agent("demo/waiter")

@agent.capability("wait.long", timeout=600)
async def wait() -> None:
    print("waiting", flush=True)
    await trio.sleep(600)

@agent.capability("wait.fail")
async def fail(text: str) -> None:
    raise ValueError(f"cannot wait for {text}")
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts commands in an environment of their own; none outlives the test."""
    (tmp_path / "waiter.py").write_text(AGENT)
    (tmp_path / "tmp").mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith("REACHP2P_")}
    environment = {
        **kept,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TMPDIR": str(tmp_path / "tmp"),
        "COLUMNS": "150",
    }
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "reachp2p", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def waiter(start: Start) -> subprocess.Popen[str]:
    """A running node that offers the agent above."""
    process = start("run", "waiter:agent", "--seed", "127.0.0.1:9", "--json")
    told = says(process)
    assert told["event"] == "started"
    return process


def says(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


@pytest.mark.parametrize("command", [["members"], ["call", "wait.long"], ["leave"]])
def test_a_stopped_node_is_said_to_be_stopped(
    start: Start, waiter: subprocess.Popen[str], command: list[str]
) -> None:
    waiter.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    out, err = start(*command, "--node", "waiter").communicate(timeout=30)
    assert time.monotonic() - begun < 15
    assert out == ""
    assert f"node waiter (process {waiter.pid}) does not answer: it may be stopped" in err
    assert f"kill -CONT {waiter.pid}" in err
    assert err.count("[1411]") == 1


def test_a_node_that_stops_in_the_middle_of_a_call_is_given_up(
    start: Start, waiter: subprocess.Popen[str]
) -> None:
    caller = start("call", "wait.long", "--json")
    assert waiter.stdout is not None
    assert waiter.stdout.readline() == "waiting\n"
    time.sleep(5)  # longer than between two questions
    assert caller.poll() is None, "a node that answers is waited for"
    waiter.send_signal(signal.SIGSTOP)
    out, err = caller.communicate(timeout=40)
    assert caller.returncode == 1
    error = json.loads(out)["error"]
    assert (error["name"], error["retryable"]) == ("OUTCOME_UNKNOWN", False), "it may have called"
    assert "does not answer: it may be stopped" in err


def test_a_node_that_is_killed_in_the_middle_of_a_call_leaves_it_open(
    start: Start, waiter: subprocess.Popen[str]
) -> None:
    caller = start("call", "wait.long", "--json")
    assert waiter.stdout is not None
    assert waiter.stdout.readline() == "waiting\n"
    waiter.kill()
    out, _ = caller.communicate(timeout=20)
    error = json.loads(out)["error"]
    assert (error["name"], error["retryable"]) == ("OUTCOME_UNKNOWN", False)


def test_a_call_has_its_own_time_out_besides(start: Start, waiter: subprocess.Popen[str]) -> None:
    out, err = start("call", "wait.long", "--timeout", "0.5").communicate(timeout=20)
    assert (out, "[1401]" in err) == ("", True)


def test_what_a_handler_raises_is_on_stderr_of_its_node(start: Start, waiter: subprocess.Popen[str]) -> None:
    caller = start("call", "wait.fail", '{"text": "Godot"}')
    out, err = caller.communicate(timeout=20)
    assert (caller.returncode, out) == (1, "")
    assert "ValueError: cannot wait for Godot [1403]" in err
    waiter.send_signal(signal.SIGTERM)
    out, err = waiter.communicate(timeout=20)
    assert json.loads(out)["event"] == "stopped"
    assert 'waiter.py", line 14, in fail' in err
    assert err.count("Traceback") == 1
