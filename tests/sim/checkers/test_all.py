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


def test_the_page_names_every_checker_with_its_invariant_and_every_mutant_that_it_catches() -> None:
    rows = re.findall(r"^\| (\w+) \| ([^|]*) \| [^|]* \| ([a-z, -]+) \|$", PAGE.read_text(), re.MULTILINE)
    table = {
        name: (invariants, mutants.split(", ")) for name, invariants, mutants in rows if name != "checker"
    }
    assert table.keys() == {checker.name for checker in CHECKERS} | {DETERMINISM}
    for checker in CHECKERS:
        assert checker.invariant in table[checker.name][0].replace(",", "").split(), checker.name
    for name, (_, mutants) in table.items():
        assert mutants == sorted(m.name for m in MUTANTS.values() if name in m.caught_by), name


def test_no_mutant_is_named_like_another_but_for_a_letter() -> None:
    names = [name.replace("-", "").replace("s", "") for name in MUTANTS]
    assert sorted(names) == sorted(set(names))
