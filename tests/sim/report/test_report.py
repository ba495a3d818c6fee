"""The report and the store: one page that needs nothing else, numbers that agree, folders that survive trouble."""

from __future__ import annotations

import errno
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from reachp2p_sim.cli import main
from reachp2p_sim.recording import Recorder, lines, tables
from reachp2p_sim.recording.findings import Findings
from reachp2p_sim.report import curves, words
from reachp2p_sim.report.narrative import tell
from reachp2p_sim.results.store import HISTORY, Store, StoreError, read_summary
from reachp2p_sim.running.code_version import code
from reachp2p_sim.running.run import RunConfig, run_scenario

from tests.sim.report.browser import BROWSER, shown

CLONE = RunConfig("epoch-clone-across-split", seed=1, nodes=6, set={"cut": "15"})
BROKEN = RunConfig("steady", seed=3, nodes=8, mutant="table-without-limit")
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Page(HTMLParser):
    """Checks that what is opened is closed, and collects text by the id it is in and all addresses."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, str | None]] = []
        self.text: dict[str, str] = {}
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action") and value]
        if tag not in VOID:
            self.open.append((tag, found.get("id")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1][0] == tag, f"</{tag}> closes <{self.open[-1][0]}> at {self.getpos()}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for _, name in self.open:
            if name is not None:
                self.text[name] = self.text.get(name, "") + data


def store(config: RunConfig, folder: Path) -> Path:
    recorder = Recorder()
    result = run_scenario(config, attach=recorder.attach)
    recorder.finish(result)
    return Store(folder).write(config, result, recorder, 1.0)


def parsed(folder: Path) -> Page:
    page = Page()
    page.feed((folder / "report.html").read_text(encoding="utf-8"))
    page.close()
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store(CLONE, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store(BROKEN, tmp_path_factory.mktemp("store"))


def test_the_page_says_verdict_replay_and_who_won(clone: Path) -> None:
    page = parsed(clone)
    summary = read_summary(clone)
    assert "PASS" in page.text["verdict"]
    assert page.text["replay"] == summary["replay"]
    (conflict,) = summary["recording"]["conflicts"]
    assert f"Epoch {conflict['winner_epoch']} on {conflict['winner']} has won" in page.text["story"]
    assert words.seconds(conflict["time_to_agree"]) in page.text["epochs"]
    assert "The network heals" in page.text["story"]


def test_the_numbers_of_the_page_are_those_of_the_summary(clone: Path) -> None:
    page = parsed(clone)
    summary = read_summary(clone)
    for kind, budget in summary["recording"]["by_kind"].items():
        assert re.search(rf"{kind}\s*{words.count(budget['count'])}", page.text["budgets"]), kind
    for name, row in summary["recording"]["by_node"].items():
        assert re.search(rf"{name}\s*{words.count(row['datagrams'])}", page.text["budgets"]), name
    assert summary["trace_digest"] in page.text["run"]
    assert summary["environment"]["code"] in page.text["run"]


def test_the_page_of_a_broken_run_names_promise_message_and_replay_line(broken: Path) -> None:
    page = parsed(broken)
    summary = read_summary(broken)
    assert summary["verdict"] == "fail"
    assert "FAIL" in page.text["verdict"]
    assert summary["violation"]["message"] in page.text["verdict"]
    assert "bounded is broken" in page.text["story"]
    assert page.text["replay"].endswith(f"--mutant table-without-limit --code {code()}")


def test_the_page_loads_nothing_and_is_small(clone: Path, broken: Path) -> None:
    for folder in (clone, broken):
        text = (folder / "report.html").read_text(encoding="utf-8")
        assert len(text) < 1_000_000
        assert all(address.startswith(("#", "data:,")) for address in parsed(folder).addresses)
        assert not re.search(r"https?://|@import|url\(", text)


def test_whatever_a_node_says_is_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    recorder = Recorder()
    result = run_scenario(BROKEN, attach=recorder.attach)
    assert result.violation is not None
    result.violation["message"] = "<script>alert(1)</script><b>&"
    recorder.finish(result)
    folder = Store(tmp_path).write(BROKEN, result, recorder, 1.0)
    assert "<script>alert" not in (folder / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)</script><b>&" in parsed(folder).text["verdict"]


def test_history_is_json_in_order_of_time_and_the_log_has_a_column_for_each_node(clone: Path) -> None:
    entries = [
        json.loads(line) for line in gzip.decompress((clone / HISTORY).read_bytes()).decode().splitlines()
    ]
    times = [entry["at"] for entry in entries]
    assert times == sorted(times)
    assert {entry["what"] for entry in entries} == {
        "step",
        "process",
        "view",
        "said",
        "message",
        "settled",
        "sample",
    }
    log = (clone / "run.log").read_text(encoding="utf-8").splitlines()
    assert log[0] == lines.LEGEND
    columns = {len(line[27:].split("  ")[0]) for line in log[2:]}
    assert columns == {7}
    assert any("STEP" in line and "partition" in line for line in log)
    assert any("says Fenced" in line for line in log)


def test_tables_hold_the_same_as_the_summary(clone: Path) -> None:
    if not tables.is_available():
        pytest.skip("pyarrow is not installed")
    import pyarrow.parquet as pq

    budgets = pq.read_table(clone / "budgets.parquet").to_pydict()
    by_kind: dict[str, int] = {}
    for kind, number in zip(budgets["kind"], budgets["count"], strict=True):
        by_kind[kind] = by_kind.get(kind, 0) + number
    expected = {k: b["count"] for k, b in read_summary(clone)["recording"]["by_kind"].items()}
    assert by_kind == expected


def test_latest_leads_to_the_last_run_and_two_runs_of_one_second_have_two_folders(tmp_path: Path) -> None:
    first = store(BROKEN, tmp_path)
    second = store(BROKEN, tmp_path)
    assert first != second
    assert (tmp_path / "latest").resolve() == second.resolve()
    assert (tmp_path / "steady" / "latest").resolve() == second.resolve()
    assert not [path for path in (tmp_path / "steady").iterdir() if path.name.startswith(".")]


def test_a_store_that_cannot_be_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match="a file is in the way"):
            Store(folder).prepare()


def test_a_full_disk_leaves_no_half_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("reachp2p_sim.results.store.os.fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        store(BROKEN, tmp_path)
    assert list((tmp_path / "steady").iterdir()) == []


@pytest.mark.parametrize(
    ("words_", "code", "verdict"),
    [
        (("steady", "--nodes", "4", "--set", "seconds=5"), 2, "steady, 4 nodes, seed 0: PASS"),
        (("steady", "--nodes", "8", "--mutant", "table-without-limit"), 1, "steady, 8 nodes, seed 0: FAIL"),
    ],
)
def test_the_verdict_is_told_although_the_disk_is_full(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words_: tuple[str, ...],
    code: int,
    verdict: str,
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("reachp2p_sim.results.store.os.fsync", full)
    command = ["reachp2p-sim", "run", *words_, "--no-determinism", "--store", str(tmp_path)]
    monkeypatch.setattr("sys.argv", command)
    assert main() == code
    captured = capsys.readouterr()
    assert captured.out.startswith(verdict)
    assert f"{tmp_path / 'steady'}: the run could not be stored: No space left on device" in captured.err


def test_json_names_the_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = [
        "reachp2p-sim",
        "run",
        "steady",
        "--nodes",
        "4",
        "--set",
        "seconds=5",
        "--no-determinism",
        "--json",
    ]
    monkeypatch.setattr("sys.argv", [*command, "--store", str(tmp_path)])
    assert main() == 0
    result = json.loads(capsys.readouterr().out)
    assert read_summary(Path(result["store"]))["trace_digest"] == result["trace_digest"]
    monkeypatch.setattr("sys.argv", [*command, "--no-store"])
    assert main() == 0
    assert json.loads(capsys.readouterr().out)["store"] is None


def test_acts_that_nothing_came_of_are_told_together() -> None:
    recorder = Recorder()
    result = run_scenario(RunConfig("leave-rejoin", seed=1, nodes=5), attach=recorder.attach)
    recorder.finish(result)
    narrative = tell(Findings(recorder))
    assert sum(p.step.word() == "leave" for p in recorder.world.performed) == 20
    assert len(narrative.chapters) < 30
    assert any("times in turn" in chapter.title for chapter in narrative.chapters)


def test_the_story_tells_first_doubt_verdict_and_agreement_of_a_crash() -> None:
    recorder = Recorder()
    result = run_scenario(RunConfig("crash", seed=3, nodes=6), attach=recorder.attach)
    recorder.finish(result)
    findings = Findings(recorder)
    (detection,) = findings.detections
    kinds = [moment.kind for chapter in tell(findings).chapters for moment in chapter.moments]
    assert kinds.index("doubt") < kinds.index("verdict")
    assert kinds.count("equal") == 2
    assert findings.false_verdicts == 0
    text = " ".join(moment.text for chapter in tell(findings).chapters for moment in chapter.moments)
    assert f"{words.seconds(detection.first_suspect)} after its process was gone" in text
    assert "all 5 running views" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (0.0123, "12.3 ms"),
        (1.234, "1.23 s"),
        (12.34, "12.3 s"),
        (154.4, "154 s"),
        (1200, "20 min"),
    ],
)
def test_durations_are_short(value: float | None, text: str) -> None:
    assert words.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0%"), (1.0, "100%"), (0.5, "50%"), (0.9996, "99.96%"), (0.004, "0.4%"), (0.0001, "<0.1%")],
)
def test_shares_are_all_or_nothing_only_if_they_are(value: float, text: str) -> None:
    assert words.share(value) == text


def test_runs_of_names_are_put_together() -> None:
    assert words.names(["n00", "n01", "n02", "n05", "n07"]) == "n00–n02, n05 and n07"
    assert words.names([f"n{i:02d}" for i in range(0, 40, 2)]) == "n00, n02, n04, n06, n08 and 15 more"


def test_the_theories_start_and_end_where_they_should() -> None:
    assert curves.first_probe(0.0, 1.0) == 0.0
    assert curves.first_probe(1.0, 1.0) == pytest.approx(0.632, abs=0.001)
    points = curves.epidemic(32, 3, 0.2, 3.0)
    shares = [share for _, share in points]
    assert shares[0] == 1 / 32
    assert shares == sorted(shares)
    assert shares[-1] > 0.999


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_a_browser_draws_the_messages_without_an_error(clone: Path, tmp_path: Path) -> None:
    page = shown((clone / "report.html").resolve(), tmp_path)
    drawn = re.search(r'<div class="detail"[^>]*>(.*?)</div>', page)
    assert drawn is not None
    assert re.search(r"\d+ messages from", drawn[1])
    assert re.search(r'<button[^>]*aria-selected="true"', page)


def test_the_log_has_a_bound_and_counts_what_is_left_out(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (clone / "run.log").read_text(encoding="utf-8").splitlines()
    monkeypatch.setattr("reachp2p_sim.recording.lines.LOG_BYTES_MAX", 2_000_000)
    recorder = Recorder()
    recorder.finish(run_scenario(CLONE, attach=recorder.attach))
    assert list(lines.log(Findings(recorder))) == whole
    monkeypatch.setattr("reachp2p_sim.recording.lines.LOG_BYTES_MAX", 2_000)
    shorter = list(lines.log(Findings(recorder)))
    kept = len(shorter) - 1
    assert shorter[:-1] == whole[:kept]
    assert sum(len(line) + 1 for line in shorter[2:-1]) <= 2_000
    assert shorter[-1].startswith(f"# {len(whole) - kept} more lines are left out")
