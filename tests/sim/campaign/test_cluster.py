"""A campaign on a Dask cluster of two worker processes on loopback: same results as in one process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from reachp2p_sim.campaign.cluster import Cluster, ClusterFailed
from reachp2p_sim.campaign.conduct import Means, conduct
from reachp2p_sim.campaign.folder import SUMMARY, Folder
from reachp2p_sim.campaign.plan import Plan
from reachp2p_sim.campaign.pool import Lost, run_here
from reachp2p_sim.running.run import RunResult, UsageError

LIMIT = 60.0
PLAN = Plan(("random-faults",), seeds=3, nodes=5, set={"seconds": "5"})
QUICK = Plan(("steady",), seeds=6, nodes=3, set={"seconds": "2"})
Program = Callable[..., subprocess.Popen[bytes]]


def told(summary: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in summary.items() if key not in ("effort", "folder")}


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Starts `dask …` programs, and ends them."""
    folder = tmp_path_factory.mktemp("dask")
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        with (folder / f"{len(started)}.log").open("wb") as log:
            command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder))
        return started[-1]

    yield start
    for process in reversed(started):
        process.terminate()
    for process in started:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass
class Running:
    """A scheduler with two workers of one thread each."""

    address: str
    workers: list[subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def cluster(dask: Program, tmp_path_factory: pytest.TempPathFactory) -> Running:
    file = tmp_path_factory.mktemp("scheduler") / "scheduler.json"
    dask("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
    until = monotonic() + LIMIT
    while not file.exists() or not file.read_text().endswith("}"):
        assert monotonic() < until, "the scheduler has not started"
        sleep(0.05)
    address = str(json.loads(file.read_text())["address"])
    words = ("worker", address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny")
    return Running(address, [dask(*words), dask(*words)])


def test_a_cluster_finds_what_one_process_finds(cluster: Running, tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "reachp2p_sim",
        "campaign",
        "random-faults",
        "--nodes",
        "5",
        "--seeds",
        "3",
    ]
    words += ["--set", "seconds=5", "--dask", cluster.address, "--out", str(tmp_path / "cluster")]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    with Folder.create(tmp_path / "here", PLAN) as folder:
        here = conduct(folder, Means(workers=1), io.StringIO())
    assert told(json.loads((tmp_path / "cluster" / SUMMARY).read_text())) == told(here)


def test_workers_with_other_code_are_refused(cluster: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachp2p_sim.running.code_version.code", lambda: "0123456789ab")
    with pytest.raises(UsageError, match=r"has the code \w+, and here it is 0123456789ab"):
        Cluster(cluster.address, LIMIT)


def test_a_worker_that_is_killed_loses_nothing(cluster: Running) -> None:
    expected = {task.number: digest(result) for task, result in run_here(QUICK.tasks())}
    found: dict[int, str] = {}
    with Cluster(cluster.address, LIMIT) as backend:
        for task, result in backend.outcomes(QUICK.tasks()):
            found[task.number] = digest(result)
            cluster.workers[0].kill()
    assert found == expected


def digest(result: RunResult | Lost) -> str:
    assert isinstance(result, RunResult), result
    return result.trace_digest


def test_without_workers_it_says_so_and_stops(cluster: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last test here: it ends the last worker."""
    with Cluster(cluster.address, 0.5) as backend:
        cluster.workers[0].kill()
        cluster.workers[1].kill()
        with pytest.raises(ClusterFailed, match="has given no result for 0 s"):
            list(backend.outcomes(QUICK.tasks()))
    monkeypatch.setattr("reachp2p_sim.campaign.cluster.CONNECT_SECONDS_MAX", 1.0)
    with pytest.raises(UsageError, match="no worker came within 1 s"):
        Cluster(cluster.address, LIMIT)


def test_an_address_without_a_scheduler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachp2p_sim.campaign.cluster.CONNECT_SECONDS_MAX", 0.5)
    with pytest.raises(UsageError, match=r"--dask tcp://127\.0\.0\.1:9: no scheduler answers there"):
        Cluster("tcp://127.0.0.1:9", LIMIT)
