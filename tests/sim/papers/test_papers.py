"""The frame of repeated papers: verdicts, the pool, the command, the page. Each paper has a file of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from math import inf, isqrt
from pathlib import Path
from xml.etree import ElementTree

import pytest
from reachp2p_sim.cli import main
from reachp2p_sim.measuring.confidence import Estimate, exact
from reachp2p_sim.papers import PAPERS, find_paper
from reachp2p_sim.papers.base import (
    Experiment,
    Figure,
    Findings,
    Paper,
    Row,
    Scale,
    around,
    at_least,
    at_most,
)
from reachp2p_sim.papers.execute import CaseFailed, Report, execute
from reachp2p_sim.papers.figure import BOTTOM, HEIGHT, LEFT, Axis, Series, chart
from reachp2p_sim.papers.page import PICTURES, PageError, write
from reachp2p_sim.papers.show import markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "papers.md"
Command = Callable[..., int]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["reachp2p-sim", *words])
        return main()

    return run


def numbers(scale: Scale) -> list[int]:
    return scale.pick([4, 9, 16], [4, -7, 16])


def judge(_: Scale, done: Sequence[tuple[int, int]]) -> Findings:
    row = Row("R0.1", "sum | of roots", exact(sum(result for _, result in done)), 9.0, accepted=(9.0, 9.0))
    return Findings([row], [Figure("sum", "a caption", "<svg/>")], ["a remark"])


def toy(ids: tuple[str, ...] = ("R0.1",)) -> Paper:
    return Paper("toy", "Toy", "Nobody (1999)", (Experiment("roots", ids, "Roots.", numbers, isqrt, judge),))


@pytest.mark.parametrize(
    ("estimate", "accepted", "verdict", "distance"),
    [
        (Estimate(1.0, 0.5, 1.5, 9), (1.0, 2.0), "holds", 0.0),
        (Estimate(0.9, 0.5, 1.5, 9), (1.0, 2.0), "open", 0.1),
        (Estimate(2.5, 2.2, 2.8, 9), (1.0, 2.0), "fails", 0.5),
        (Estimate(2.5, 2.2, 2.8, 9), at_least(2.5), "holds", 0.0),
        (Estimate(2.5, 2.2, 2.8, 9), at_most(2.0), "fails", 0.5),
        (Estimate(2.5, 2.2, 2.8, 9), None, "reported", 0.0),
        (Estimate(1.04, 1.0, 1.1, 9), around(1.0, relative=0.05), "holds", 0.0),
    ],
)
def test_a_row_is_judged_by_its_limits(
    estimate: Estimate, accepted: tuple[float, float] | None, verdict: str, distance: float
) -> None:
    row = Row("R0.1", "x", estimate, accepted=accepted)
    assert row.verdict == verdict
    assert row.distance == pytest.approx(distance)


def test_what_is_open_breaks_a_full_run_only_and_what_need_not_hold_breaks_none() -> None:
    open_row = Row("R0.1", "x", Estimate(0.9, 0.5, 1.5, 9), accepted=(1.0, 2.0))
    assert not open_row.is_broken(quick=True)
    assert open_row.is_broken(quick=False)
    failed = Row("R0.1", "x", exact(3.0), accepted=(1.0, 2.0))
    assert failed.is_broken(quick=True)
    assert not Row("R0.1", "x", exact(3.0), accepted=(1.0, 2.0), must_hold=False).is_broken(quick=False)


def test_json_has_no_endless_numbers() -> None:
    row = Row("R0.1", "x", Estimate(1.0, -inf, inf, 1), accepted=at_least(0.0)).to_json()
    assert (row["interval"], row["accepted"]) == ([None, None], [0.0, None])
    json.dumps(row, allow_nan=False)


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers_finds_the_same(workers: int) -> None:
    done: list[tuple[int, int]] = []
    report = execute(toy(), Scale(True, 1), workers, lambda finished, total: done.append((finished, total)))
    assert report.outcomes[0].findings.rows[0].measured.value == 9
    assert done == [(1, 3), (2, 3), (3, 3)]
    assert report.broken == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_case_that_raises_is_named(workers: int) -> None:
    with pytest.raises(CaseFailed, match="experiment roots could not run -7") as failed:
        execute(toy(), Scale(False, 1), workers)
    assert isinstance(failed.value.__cause__, ValueError)


def test_only_the_experiments_with_a_row_asked_for_are_chosen() -> None:
    paper = find_paper("ring")
    assert [experiment.name for experiment in paper.choose(["R5.2"]).experiments] == ["movement"]
    assert paper.choose([]) is paper
    with pytest.raises(KeyError, match=r"R9\.9"):
        paper.choose(["R5.2", "R9.9"])


def test_an_experiment_announces_its_rows() -> None:
    with pytest.raises(AssertionError, match="does not announce"):
        execute(toy(ids=("R0.2",)), Scale(True, 1))


# The page


def report() -> Report:
    return execute(toy(), Scale(True, 1))


def test_the_page_gets_table_remarks_figures_and_origin_and_keeps_the_rest(tmp_path: Path) -> None:
    page = tmp_path / "papers.md"
    page.write_text("# By hand\n<!-- paper:toy -->\nout of date\n<!-- /paper:toy -->\nmore by hand\n")
    for _ in range(2):
        write(page, report(), "reachp2p-sim paper toy", "2026-01-01", "0.1.0")
    text = page.read_text()
    assert text.startswith(
        "# By hand\n<!-- paper:toy -->\n`reachp2p-sim paper toy`, 2026-01-01, version 0.1.0"
    )
    assert text.endswith("<!-- /paper:toy -->\nmore by hand\n")
    assert "out of date" not in text
    assert text.count("| R0.1 | sum \\| of roots | 9 | = 9 | 9 |  | 1 | holds |") == 1
    assert "a remark" in text
    assert (tmp_path / PICTURES / "toy-sum.svg").read_text() == "<svg/>"
    assert f"![a caption]({PICTURES}/toy-sum.svg)" in text


def test_a_page_without_a_place_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "papers.md"
    page.write_text("<!-- paper:toy -->\nno end\n")
    with pytest.raises(PageError, match="needs the lines <!-- paper:toy --> and <!-- /paper:toy -->"):
        write(page, report(), "c", "d", "v")
    assert page.read_text() == "<!-- paper:toy -->\nno end\n"
    assert not (tmp_path / PICTURES).exists()


def test_the_shipped_page_has_a_section_for_each_paper_in_order_and_its_figures_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"<!-- paper:(\w+) -->", text) == list(PAPERS)
    assert re.findall(r"<!-- /paper:(\w+) -->", text) == list(PAPERS)
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (PAGE.parent / picture).is_file(), picture


@pytest.mark.parametrize("name", PAPERS)
def test_each_paper_announces_itself(name: str) -> None:
    paper = find_paper(name)
    assert paper.name == name
    assert re.search(rf"^## {re.escape(paper.title)}$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert paper.experiments
    for quick in (True, False):
        for experiment in paper.experiments:
            assert experiment.cases(Scale(quick, 1)), experiment.name
            assert experiment.set_up.endswith(".")


def test_a_table_shows_what_was_read_off_a_figure() -> None:
    def judge_read(_: Scale, done: Sequence[tuple[int, int]]) -> Findings:
        return Findings(
            [Row("R0.1", "x", Estimate(1.23456, 1.0, 1.5, 9), 1.5, "figure", (1.0, 2.0), unit="s")]
        )

    paper = Paper(
        "toy", "Toy", "N", (Experiment("e", ("R0.1",), "Set up.", lambda _: [1], isqrt, judge_read),)
    )
    line = "| R0.1 | x (s) | ~1.5 | 1 … 2 | 1.235 | [1, 1.5] | 9 | holds |"
    assert line in markdown(execute(paper, Scale(True, 1)), "p").splitlines()


# Figures


def test_a_chart_is_well_formed_and_shows_every_series() -> None:
    svg = chart(
        "A < B",
        Axis("n", is_log=True),
        Axis("seconds"),
        [
            Series("ours", [(8, 1.0), (64, 2.0), (1_000, 3.5)], band=[(8, 0.5, 1.5), (1_000, 3.0, 4.0)]),
            Series("published", [(8, 1.1)], is_published=True),
        ],
    )
    texts = [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert {"A < B", "n", "seconds", "ours", "published", "10", "100", "1000", "0", "4"} <= set(texts)


def test_a_chart_of_equal_values_has_a_scale() -> None:
    root = ElementTree.fromstring(
        chart("flat", Axis("x"), Axis("y"), [Series("s", [(1.0, 2.0), (1.0, 2.0)])])
    )
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"1", "1.2", "2", "2.2", "3"} <= texts  # one above the value, in round steps
    points = [(dot.get("cx"), dot.get("cy")) for dot in root.iter("{http://www.w3.org/2000/svg}circle")]
    assert (
        points == [(f"{LEFT:.1f}", f"{HEIGHT - BOTTOM:.1f}")] * 2
    )  # the value is the lower end of both axes


# The command


def test_the_command_prints_published_measured_and_verdict(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("paper", "ring", "--quick", "--only", "R5.2", "--workers", "1", "--json") == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert captured.err == ""
    assert (printed["paper"], printed["quick"], printed["seed"], printed["verdict"]) == (
        "ring",
        True,
        1,
        "pass",
    )
    for row in printed["rows"]:
        assert {"id", "published", "measured", "interval", "verdict"} <= set(row)
        assert row["id"] == "R5.2"


def test_a_row_that_does_not_hold_exits_with_1(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Scale, done: Sequence[tuple[int, int]]) -> Findings:
        return Findings([Row("R0.1", "x", exact(3.0), 5.0, accepted=(5.0, 5.0), note="why")])

    paper = Paper("toy", "Toy", "N", (Experiment("e", ("R0.1",), "Set up.", numbers, isqrt, broken),))
    monkeypatch.setattr("reachp2p_sim.papers.find_paper", lambda name: paper)
    assert command("paper", "ring", "--quick", "--workers", "1") == 1
    captured = capsys.readouterr()
    assert "fails" in captured.out
    assert "R0.1, x: why" in captured.out
    assert captured.err == "does not hold: R0.1\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("paper", "paxos"), "there is no paper 'paxos'; there are: "),
        (("paper", "ring", "--only", "R9.9"), "--only R9.9: ring has R5.1, R5.2, B5.3"),
        (("paper", "ring", "--write", "nowhere.md"), "--write nowhere.md: there is no such page"),
        (("paper", "ring", "--write", "x", "--only", "R5.1"), "run it without --only"),
    ],
)
def test_what_cannot_be_run_exits_with_2(
    command: Command, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    assert command(*words) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.out == ""
