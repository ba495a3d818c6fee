"""What holds for every checker."""

from __future__ import annotations

import re
from pathlib import Path

from reachp2p_sim.checkers import CHECKERS
from reachp2p_sim.checkers.determinism import NAME as DETERMINISM
from reachp2p_sim.mutants import MUTANTS

PAGE = Path(__file__).parents[3] / "docs" / "simulator.md"


def test_every_checker_has_a_name_of_its_own() -> None:
    assert len({checker.name for checker in CHECKERS}) == len(CHECKERS)


def test_every_checker_is_tripped_by_a_mutant() -> None:
    tripped = {name for mutant in MUTANTS.values() for name in mutant.caught_by}
    assert {checker.name for checker in CHECKERS} - tripped == set()


def test_the_page_names_every_checker_and_mutants_that_it_catches() -> None:
    rows = re.findall(r"^\| (\w+) \| [^|]*\| [^|]* \| ([a-z, -]+) \|$", PAGE.read_text(), re.MULTILINE)
    rows = [row for row in rows if row[0] != "checker"]
    assert {name for name, _ in rows} == {checker.name for checker in CHECKERS} | {DETERMINISM}
    for name, mutants in rows:
        for mutant in mutants.split(", "):
            assert name in MUTANTS[mutant].caught_by, (name, mutant)
