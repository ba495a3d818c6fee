"""The example of a team works as its page says: one session, a stream, an event, and a trace of all of it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEAM = ROOT / "examples" / "team"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("REACHP2P_")}
    return {
        **kept,
        "TEAM_SEEDS": f"127.0.0.1:{port}",
        "REACHP2P_PORT": str(port),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TMPDIR": str(tmp_path),
    }


@pytest.fixture
def started(environment: dict[str, str]) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are gone afterwards."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        process.kill()
        process.communicate()


def begin(environment: dict[str, str], *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def done(environment: dict[str, str], *words: str, code: int = 0) -> str:
    ended = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == code, ended.stderr
    return ended.stdout


def test_a_team_writes_reports_in_a_session_that_can_be_traced(
    environment: dict[str, str], started: list[subprocess.Popen[str]]
) -> None:
    started.append(begin(environment, "-m", "reachp2p", "seed"))
    team_environment = {key: value for key, value in environment.items() if key != "REACHP2P_PORT"}
    team = begin(team_environment, "-u", str(TEAM / "agents.py"))
    started.append(team)
    told = done(team_environment, str(TEAM / "ask.py"), "gossip", "knitting", code=1)
    assert "3 passages, checked: True" in told
    assert "knitting: report.write" in told
    assert "nothing is known about 'knitting'" in told
    (session,) = re.findall(r"reachp2p trace ([0-9a-f]{32})", told)
    shown = done(environment, "-m", "reachp2p", "trace", session, "--node", "seed")
    for name in (
        "team/planner",
        "team/retriever",
        "team/summariser",
        "team/checker",
        "passages.find",
        "text.check",
    ):
        assert name in shown
    team.terminate()
    assert "a report about gossip was written from 3 passages" in team.communicate(timeout=30)[0]
