"""Two runs compared, a run found again, and a run as a log for ShiViz."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from reachp2p_sim.cli import main
from reachp2p_sim.recording import Recorder
from reachp2p_sim.results import shiviz
from reachp2p_sim.results.difference import compare, first_difference
from reachp2p_sim.results.lookup import StoredRun, find
from reachp2p_sim.results.store import HISTORY, SUMMARY, Store, StoreError
from reachp2p_sim.running.configuration import RunConfig, UsageError
from reachp2p_sim.running.run import run_scenario

CRASH = RunConfig("crash", seed=2, nodes=5)
FASTER = RunConfig("crash", seed=2, nodes=5, set={"protocol.suspicion_alpha": "2"})


@pytest.fixture(scope="module")
def crash() -> StoredRun:
    return find(CRASH.command())


@pytest.fixture(scope="module")
def faster() -> StoredRun:
    return find(FASTER.command())


def test_the_same_run_has_no_difference(crash: StoredRun) -> None:
    found = compare(crash, find(CRASH.command()))
    assert found.same
    assert found.settings == found.verdicts == found.timings == found.budgets == {}
    assert found.history is found.trace is found.trace_unknown is None


def test_two_runs_differ_where_the_changed_option_first_matters(crash: StoredRun, faster: StoredRun) -> None:
    found = compare(crash, faster)
    assert not found.same
    assert found.settings == {"protocol.suspicion_alpha": (None, "2")}
    assert found.timings["dead_first"] == (
        crash.summary["timings"]["dead_first"],
        faster.summary["timings"]["dead_first"],
    )
    assert found.history is not None
    assert "SUSPECT" in found.history.before[-1]
    assert "DEAD" in found.history.left[0]
    assert "DEAD" in found.history.right[0]
    assert found.trace is not None
    assert found.trace.left[0] != found.trace.right[0]
    assert len(found.trace.before) == 4
    parted_at = float(found.trace.left[0].split()[0])
    assert crash.summary["recording"]["detections"][0]["at"] < parted_at


def test_the_place_is_the_first_that_differs(tmp_path: Path) -> None:
    traces = []
    for config in (CRASH, FASTER):
        path = tmp_path / "trace"
        with path.open("w") as log:
            run_scenario(config, log)
        traces.append(path.read_text().splitlines())
    expected = next(i for i, (a, b) in enumerate(zip(*traces, strict=False)) if a != b)
    parting = first_difference(CRASH, FASTER)
    assert parting is not None
    assert parting.index == expected
    assert parting.before == traces[0][expected - 4 : expected]
    assert parting.left == traces[0][expected : expected + 5]
    assert parting.right == traces[1][expected : expected + 5]


def test_a_run_made_by_other_code_is_compared_by_its_history_alone(
    crash: StoredRun, faster: StoredRun
) -> None:
    old = StoredRun(
        "old", {**faster.summary, "environment": {"code": "0", "python": "3"}}, faster.history, None
    )
    found = compare(crash, old)
    assert found.history is not None
    assert found.trace is None
    assert found.trace_unknown == "made by other code than this: old"


def test_a_stored_run_is_found_by_its_folder_its_report_and_its_scenario(tmp_path: Path) -> None:
    recorder = Recorder()
    result = run_scenario(CRASH, attach=recorder.attach)
    recorder.finish(result)
    folder = Store(tmp_path).write(CRASH, result, recorder, 1.0)
    for name in (folder, folder / "report.html", tmp_path / "crash", tmp_path):
        found = find(str(name))
        assert found.config == CRASH
        assert found.summary["trace_digest"] == result.trace_digest
        assert found.history


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recorder = Recorder()
    result = run_scenario(CRASH, attach=recorder.attach)
    recorder.finish(result)
    return Store(tmp_path_factory.mktemp("store")).write(CRASH, result, recorder, 1.0)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        (HISTORY, b"{", "line 1: damaged: Not a gzipped file"),
        (HISTORY, gzip.compress(b"{}" * 99, mtime=0)[:-9], "line 1: damaged: "),
        (HISTORY, gzip.compress(b"{}\n", mtime=0), "line 1: damaged: Object missing required field `what`"),
        (
            HISTORY,
            gzip.compress(b'{"at":1.0,"what":"settled"}\n{"at":2.0,"what":"message"}\n', mtime=0),
            "line 2: damaged: ",
        ),
        (
            HISTORY,
            gzip.compress(b'{"at":"soon","what":"step","text":""}\n', mtime=0),
            "line 1: damaged: Expected `float`",
        ),
        (SUMMARY, b'{"trace_digest": "0"}', "damaged: Object missing required field"),
        (SUMMARY, b"[]", "not the summary of a run"),
        (SUMMARY, b"\xff", "damaged: "),
    ],
)
@pytest.mark.parametrize("command", ["shiviz", "diff"])
def test_damage_is_told_with_its_place_and_is_no_traceback(
    stored: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    name: str,
    data: bytes,
    says: str,
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(stored, folder)
    (folder / name).write_bytes(data)
    monkeypatch.setattr("sys.argv", ["", command, str(folder), *([str(stored)] if command == "diff" else [])])
    assert main() == 2
    said = capsys.readouterr().err
    assert said.startswith(f"reachp2p-sim: {folder / name}")
    assert says in said


def test_determinism_is_compared_only_where_both_were_judged(crash: StoredRun) -> None:
    judged = {**crash.summary, "checkers": {**crash.summary["checkers"], "determinism": "pass"}}
    failed = {**crash.summary, "checkers": {**crash.summary["checkers"], "determinism": "fail"}}

    def verdicts(left: dict[str, Any], right: dict[str, Any]) -> object:
        runs = [StoredRun("", summary, crash.history, None) for summary in (left, right)]
        return compare(runs[0], runs[1]).verdicts

    assert verdicts(judged, crash.summary) == {}
    assert verdicts(crash.summary, judged) == {}
    assert verdicts(judged, failed) == {"checker determinism": ("pass", "fail")}


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no stored run"):
        find(str(tmp_path))
    with pytest.raises(UsageError, match="there is no such folder"):
        find(str(tmp_path / "missing"))


def test_the_log_for_shiviz_has_valid_vector_clocks(crash: StoredRun) -> None:
    log = shiviz.export(crash.history)
    assert log.lines[:2] == [shiviz.REGEX, ""]
    python = shiviz.REGEX.replace("(?<", "(?P<")
    events = list(re.finditer(python, "\n".join(log.lines[2:])))
    assert len(events) == log.events == (len(log.lines) - 2) / 2
    own: dict[str, int] = {}
    for event in events:
        clock = json.loads(event["clock"])
        own[event["host"]] = own.get(event["host"], 0) + 1
        assert clock[event["host"]] == own[event["host"]]
        assert all(count <= own.get(host, 0) for host, count in clock.items())  # no event that is not there
    assert set(own) == {"n00", "n01", "n02", "n03", "n04"}
    received = [e for e in events if re.match(r"receives Ping from (?!" + e["host"] + r")", e["event"])]
    assert received
    assert all(len(json.loads(event["clock"])) > 1 for event in received)


def test_a_part_of_a_run_goes_to_shiviz(crash: StoredRun) -> None:
    at = crash.summary["recording"]["detections"][0]["at"]
    part = shiviz.export(crash.history, began_at=at, nodes=["n00", "n01"], kinds=["Ping"], events_max=10)
    assert part.events == 10
    assert part.left_out > 0
    assert {line.split(" ")[0] for line in part.lines[3::2]} <= {"n00", "n01"}
    assert all("Ping" in line or " sends " not in line for line in part.lines[2::2])
