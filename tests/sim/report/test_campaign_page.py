"""The page of a campaign: every run is on it, its numbers are those of the summary, its links lead somewhere."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from reachp2p_sim.campaign.conduct import Means, conduct
from reachp2p_sim.campaign.folder import Folder
from reachp2p_sim.campaign.plan import Plan, grid
from reachp2p_sim.cli import main
from reachp2p_sim.report import campaign_page, words


def campaign(folder: Path, plan: Plan) -> Path:
    plan.check()
    with Folder.create(folder, plan) as opened:
        conduct(opened, Means(1), io.StringIO())
    return folder


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = Plan(("steady",), 3, 0, 4, None, {}, grid(["seconds=5,6"]))
    return campaign(tmp_path_factory.mktemp("campaign") / "good", plan)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = Plan(("crash-restart",), 2, 0, 5, "epoch-reused", {}, grid([]))
    return campaign(tmp_path_factory.mktemp("campaign") / "bad", plan)


def test_every_run_has_a_square_and_every_row_its_rate(good: Path) -> None:
    text = campaign_page.write(good).read_text(encoding="utf-8")
    summary = json.loads((good / "summary.json").read_text(encoding="utf-8"))
    assert len(re.findall(r'<i class="sq [a-z]+" title="seed \d: pass', text)) == summary["runs"] == 6
    assert "Every promise was kept in 6 runs." in text
    for cell in summary["cells"]:
        assert cell["name"] in text
        assert f"{words.share(cell['failure_rate']['high'])})" in text
        for spread in cell["timings"].values():
            assert f"<b>{words.seconds(spread['median'])}</b> median" in text
    assert not re.search(r"https?://|@import|url\(", text)


def test_failures_have_their_line_and_the_worst_seeds_a_report(
    bad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["reachp2p-sim", "report", str(bad), "--reports", "1", "--json"])
    assert main() == 0
    made = json.loads(capsys.readouterr().out)
    text = Path(made["page"]).read_text(encoding="utf-8")
    summary = json.loads((bad / "summary.json").read_text(encoding="utf-8"))
    assert len(summary["failures"]) == 2
    assert text.count('class="sq failed"') == 2
    assert all(failure["replay"] in text for failure in summary["failures"])
    (link,) = set(re.findall(r'href="(runs/[^"]+)"', text))
    assert "FAIL" in (bad / link).read_text(encoding="utf-8")
    assert made["reports"] == {summary["failures"][0]["replay"]: str(bad / link)}


def test_what_is_no_campaign_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "summary.json").write_text("{}")
    for folder, says in ((tmp_path / "missing", "No such file"), (tmp_path, "that of a single run")):
        monkeypatch.setattr("sys.argv", ["reachp2p-sim", "report", str(folder)])
        assert main() == 2
        assert says in capsys.readouterr().err
