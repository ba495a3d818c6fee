"""Each broken core is found, repeated and shrunk, and the page says so of all that ship."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from reachp2p_sim.campaign.hunt import FAULTS_MAX, NODES_MAX, Found, Small, Terms, hunt
from reachp2p_sim.campaign.hunt_page import BEGIN, END, PageError, put
from reachp2p_sim.cli import main
from reachp2p_sim.mutants import MUTANTS
from reachp2p_sim.results.run_again import past_run
from reachp2p_sim.running.run import UsageError, run_scenario

PAGE = Path(__file__).parents[3] / "docs" / "mutants.md"
QUICK = Terms(seeds=3, nodes=4, budget=30)


def test_a_mutant_is_found_repeated_and_shrunk_and_what_is_left_fails(tmp_path: Path) -> None:
    (found,) = hunt(["never-refutes"], QUICK, tmp_path)
    assert (found.seed, found.checker, found.repeated, found.is_caught) == (0, "refutation", True, True)
    assert found.small is not None
    assert found.small.nodes <= 3
    again = run_scenario(past_run(found.small.replay).config)
    assert again.violation is not None
    assert again.violation["checker"] == "refutation"


def test_what_was_found_is_not_looked_for_again_on_the_same_terms(tmp_path: Path) -> None:
    said: list[str] = []
    first = list(hunt(["news-never-old"], QUICK, tmp_path, said.append))
    assert said[0] == "news-never-old"
    said.clear()
    assert list(hunt(["news-never-old"], QUICK, tmp_path, said.append)) == first
    assert said == []
    list(hunt(["news-never-old"], Terms(seeds=2, nodes=4, budget=30), tmp_path, said.append))
    assert said[0] == "news-never-old"


def test_a_mutant_that_no_seed_shows_is_told(tmp_path: Path) -> None:
    (found,) = hunt(["lower-life-wins"], Terms(seeds=1, nodes=3, budget=1), tmp_path)
    assert (found.seed, found.small, found.is_caught) == (None, None, False)


def test_what_is_left_must_be_readable() -> None:
    def small(nodes: int, faults: int) -> Small:
        return Small(None, "", "", "", nodes, faults, 1, 1.0, 1, (), passes_mended=True)

    found = Found("m", "code", QUICK, "steady", 8, 0, repeated=True, small=small(6, 5))
    assert found.is_caught
    fails_mended = msgspec.structs.replace(small(6, 5), passes_mended=False)
    assert not msgspec.structs.replace(found, small=fails_mended).is_caught
    assert not small(7, 0).is_readable
    assert not small(1, 6).is_readable


def test_a_name_that_is_none_or_a_damaged_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no mutant 'nobody'; there are: all-"):
        list(hunt(["nobody"], QUICK, tmp_path))
    (tmp_path / "never-refutes.json").write_text("{}")
    with pytest.raises(UsageError, match=r"never-refutes.json: .*; remove it"):
        list(hunt(["never-refutes"], QUICK, tmp_path))


def test_the_command_prints_what_it_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["reachp2p-sim", *words])
        return main()

    words = ("mutants", "news-never-old", "--nodes", "3", "--seeds", "2", "--budget", "20")
    assert command(*words, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["caught"], told["missed"]) == (1, [])
    assert told["mutants"][0]["small"]["file"] == "store/mutants/news-never-old.toml"
    assert command(*words) == 0
    assert "1 of 1 found, repeated and shrunk" in capsys.readouterr().out
    assert command("mutants", "nobody") == 2
    assert command(*words, "--write", "page.md") == 2
    assert command("mutants", "lower-life-wins", "--nodes", "3", "--seeds", "1") == 1
    assert "missed: lower-life-wins" in capsys.readouterr().err


# The page


def test_the_page_shows_every_mutant_as_something_that_a_person_can_read() -> None:
    row = r"^\| ([a-z-]+) \| [a-z-]+ \| \d+ \| (\d+) \| (\w+) \| (\d+) \| (\d+) \|"
    rows = re.findall(row, PAGE.read_text(), re.MULTILINE)
    assert [name for name, *_ in rows] == sorted(MUTANTS)
    for name, seed, checker, nodes, faults in rows:
        assert int(seed) < Terms().seeds
        assert checker in MUTANTS[name].caught_by
        assert int(nodes) <= NODES_MAX
        assert int(faults) <= FAULTS_MAX


def test_a_page_keeps_what_is_written_by_hand(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("no place")
    small = Small(
        None, "line", "refutation", "says so", 2, 1, 1, 3.0, 9, ("t = 0        add nodes n00..n01",)
    )
    row = Found("never-refutes", "code", QUICK, "pause", 8, 4, 0, "refutation", small=small)
    with pytest.raises(PageError, match="it needs the lines"):
        put(page, [row])
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    put(page, [row])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| never-refutes | pause | 8 | 4 | refutation | 2 | 1 | 3 |" in text
    assert "    t = 0        add nodes n00..n01" in text
