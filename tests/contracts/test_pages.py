"""Pages that must agree with the code: the error codes, the cases, and the names of change fragments."""

from __future__ import annotations

import re
from pathlib import Path

from reachp2p_sim.scenarios import SCENARIOS

from reachp2p.errors import RETRY_SAFE, ErrorCode

DOCS = Path(__file__).resolve().parents[2] / "docs"
FAULTS = {"caller", "callee", "operator", "remote", "network"}
FRAGMENT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.(feature|fix|breaking|doc)\.md")


def error_rows() -> list[list[str]]:
    """The cells of each row of the error tables: code, name, meaning, fault, retry safe."""
    lines = (DOCS / "errors.md").read_text().splitlines()
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| \d", line)
    ]


def test_the_page_has_every_code_once_in_order_and_no_other() -> None:
    written = [(int(row[0]), row[1]) for row in error_rows()]
    assert written == [(int(code), f"`{code.name}`") for code in sorted(ErrorCode)]


def test_the_page_says_of_each_code_what_it_means_and_whose_fault_it_is() -> None:
    for code, _, meaning, fault, _ in error_rows():
        assert meaning.endswith("."), code
        assert fault in FAULTS, code


def test_the_page_and_the_code_agree_on_what_may_be_retried() -> None:
    written = {int(row[0]): row[4] for row in error_rows()}
    assert written == {int(code): "yes" if code in RETRY_SAFE else "no" for code in ErrorCode}


def test_each_change_fragment_is_named_after_what_it_is() -> None:
    names = [path.name for path in (DOCS / "changes").iterdir() if path.name != "README.md"]
    assert [name for name in names if not FRAGMENT.fullmatch(name)] == []


def case_rows() -> dict[str, str]:
    """The last cell of each row of the page of cases, by number."""
    lines = (DOCS / "cases.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| B")]
    return {row[0]: row[-1] for row in rows}


def test_every_case_that_code_or_test_names_is_on_the_page_of_cases() -> None:
    named = {
        case
        for folder in ("reachp2p", "node", "sim", "tests", "bench")
        for path in (DOCS.parent / folder).rglob("*.py")
        if "paper"
        not in path.as_posix().removeprefix(DOCS.parent.as_posix())  # whose rows have ids of their own
        for case in re.findall(r"\bB\d\d\b|\bB3\.\d+\b", path.read_text())
    }
    assert len(named) > 30
    assert sorted(named - case_rows().keys()) == []


def test_the_page_of_cases_names_files_and_scenarios_that_exist() -> None:
    for case, cell in case_rows().items():
        for name in re.findall(r"`([^`]+)`", cell):
            files = (DOCS.parent / "tests" / name, DOCS.parent / "sim" / "reachp2p_sim" / name)
            assert name in SCENARIOS or any(path.exists() for path in files), (case, name)
