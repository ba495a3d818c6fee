"""The store keeps the latest runs of each scenario, and never more than it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from reachp2p_sim.cli import main
from reachp2p_sim.results.store import SUMMARY, Store


def run_of(scenario: Path, name: str, verdict: str = "pass") -> Path:
    folder = scenario / name
    folder.mkdir(parents=True)
    (folder / SUMMARY).write_text(json.dumps({"trace_digest": "0", "verdict": verdict}))
    return folder


def left(scenario: Path) -> list[str]:
    return sorted(path.name for path in scenario.iterdir())


def test_the_latest_stay_and_failures_do_not_make_room_for_what_passed(tmp_path: Path) -> None:
    scenario = tmp_path / "crash"
    for second in range(5):
        run_of(scenario, f"20260101T00000{second}-7")
    failed = run_of(scenario, "20250101T000000-1", "fail")
    run_of(scenario, "20260101T000004-7-2", "pass")  # the second of that second
    (scenario / "latest").symlink_to("20260101T000004-7-2")
    removed = Store(tmp_path).prune(scenario, 2)
    assert [path.name for path in removed] == [f"20260101T00000{second}-7" for second in range(4)]
    assert left(scenario) == [failed.name, "20260101T000004-7", "20260101T000004-7-2", "latest"]
    assert Store(tmp_path).prune(scenario, 0) == []


def test_what_somebody_has_named_or_nobody_can_read_stays(tmp_path: Path) -> None:
    scenario = tmp_path / "crash"
    for name in ("20260101T000000-7", "20260101T000001-7", "the-day-it-broke", "20260101T000002-7.partial"):
        run_of(scenario, name)
    (run_of(scenario, "20240101T000000-7") / SUMMARY).write_text("{")
    Store(tmp_path).prune(scenario, 1)
    assert left(scenario) == [
        "20240101T000000-7",
        "20260101T000001-7",
        "20260101T000002-7.partial",
        "the-day-it-broke",
    ]


def test_a_run_makes_room_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REACHP2P_SIM_KEEP", "1")
    old = run_of(tmp_path / "steady", "20260101T000000-7")
    command = [
        "",
        "run",
        "steady",
        "--nodes",
        "3",
        "--set",
        "seconds=1",
        "--no-determinism",
        "--store",
        str(tmp_path),
    ]
    monkeypatch.setattr("sys.argv", command)
    assert main() == 0
    assert capsys.readouterr().err.startswith(f"reachp2p-sim: {old} made room")
    assert not old.exists()
    assert len(left(tmp_path / "steady")) == 2  # the run, and `latest`


def test_prune_goes_through_all_scenarios_and_leaves_campaigns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        run_of(tmp_path / name, f"2026010{day}T000000-7")
        for name in ("a", "b", "campaigns")
        for day in (1, 2)
    ]
    monkeypatch.setattr("sys.argv", ["", "prune", "--store", str(tmp_path), "--keep", "1"])
    assert main() == 0
    assert capsys.readouterr().out.split() == [str(runs[0]), str(runs[2])]
    assert [path.exists() for path in runs] == [False, True, False, True, True, True]
    monkeypatch.setattr("sys.argv", ["", "prune", "--store", str(tmp_path / "none")])
    assert main() == 2
    assert capsys.readouterr().err == f"reachp2p-sim: {tmp_path / 'none'}: No such file or directory\n"
