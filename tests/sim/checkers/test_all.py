"""What holds for every checker."""

from __future__ import annotations

from reachp2p_sim.checkers import CHECKERS


def test_every_checker_has_a_name_of_its_own() -> None:
    assert len({checker.name for checker in CHECKERS}) == len(CHECKERS)
