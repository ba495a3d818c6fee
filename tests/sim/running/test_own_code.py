"""Scenarios and checkers of a user's own: found, attached, refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
import reachp2p_sim
from reachp2p_sim import RunConfig, UsageError, run_scenario
from reachp2p_sim.scenarios import SCENARIOS

CHECKER = """
from reachp2p_sim import Checker, Host
from reachp2p.core.events import Event, MemberChanged, MemberState

class NobodyIsBuried(Checker):
    name = "nobody-is-buried"
    invariant = "OWN-1"

    def __init__(self, world):
        super().__init__(world)
        world.on_event.append(self.look)

    def look(self, host: Host, event: Event) -> None:
        if isinstance(event, MemberChanged) and event.new is MemberState.DEAD:
            self.fail(f"{host.name} buries {event.name}", host)
"""
SPLIT = """
name = "my-split"
summary = "one third alone"
nodes = 6
checkers = ["mine.py"]
[options]
cut = 2
[[steps]]
do = "grow"
[[steps]]
do = "partition"
left = "first 2"
[[steps]]
do = "run"
seconds = "$cut"
[[steps]]
do = "heal"
[[steps]]
do = "expect"
condition = "converged"
"""
STORY = """
from reachp2p_sim import World, Options, grow, halves, scenario, settle

@scenario("steady-halves", "two halves", nodes=4, cut=3.0)
def story(world: World, options: Options) -> None:
    left, right = halves(grow(world, options))
    world.partition(left, right)
    world.run(options.number("cut"))
    world.heal()
    settle(world, limit=60)
"""


def test_a_scenario_file_brings_its_own_checker(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CHECKER)
    path = tmp_path / "split.toml"
    path.write_text(SPLIT)
    short = run_scenario(RunConfig(str(path), seed=1))
    assert (short.verdict, short.checkers["nobody-is-buried"]) == ("pass", "pass")
    long = run_scenario(RunConfig(str(path), seed=1, set={"cut": "60"}))
    assert long.violation is not None
    assert (long.verdict, long.violation["checker"]) == ("fail", "nobody-is-buried")
    assert "buries n0" in long.violation["message"]


def test_a_python_file_is_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "study.py"
    path.write_text(STORY + CHECKER)
    result = run_scenario(RunConfig(str(path), seed=2))
    assert (result.verdict, result.checkers["nobody-is-buried"]) == ("pass", "pass")
    assert "steady-halves" not in SCENARIOS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("def (", "SyntaxError"),
        ("", "one function under @scenario is wanted; there are: none"),
        (STORY + STORY.replace("steady-", "other-"), "there are: steady-halves, other-halves"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        (STORY + CHECKER.replace("nobody-is-buried", "accuracy"), "there is a checker 'accuracy' already"),
        (CHECKER.replace("name =", "title ="), "checker NobodyIsBuried needs a class attribute `name`"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "study.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"study\.py: ") as refused:
        run_scenario(RunConfig(str(path)))
    assert says in str(refused.value)


def test_a_checker_file_without_a_checker_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "split.toml"
    path.write_text(SPLIT)
    with pytest.raises(UsageError, match=r"mine\.py: No such file"):
        run_scenario(RunConfig(str(path)))
    (tmp_path / "mine.py").write_text("x = 1")
    with pytest.raises(UsageError, match="it defines no checker"):
        run_scenario(RunConfig(str(path)))


def test_a_file_that_has_changed_is_loaded_anew(tmp_path: Path) -> None:
    path = tmp_path / "study.py"
    path.write_text(STORY)
    assert run_scenario(RunConfig(str(path), seed=2)).verdict == "pass"
    path.write_text(STORY + "    raise RuntimeError('seen')")
    assert "seen" in str(run_scenario(RunConfig(str(path), seed=2)).error)


def test_a_story_that_ends_the_program_has_not_passed(tmp_path: Path) -> None:
    path = tmp_path / "study.py"
    path.write_text(STORY + "    raise SystemExit(0)")
    result = run_scenario(RunConfig(str(path), seed=2))
    assert (result.verdict, "SystemExit" in str(result.error)) == ("error", True)


def test_a_checker_that_cannot_be_built_is_told_like_a_story_that_raises(tmp_path: Path) -> None:
    path = tmp_path / "study.py"
    path.write_text(STORY + CHECKER.replace("self, world", "self"))
    result = run_scenario(RunConfig(str(path), seed=2))
    assert (result.verdict, "TypeError" in str(result.error)) == ("error", True)


def test_every_public_name_is_there() -> None:
    assert all(getattr(reachp2p_sim, name) is not None for name in reachp2p_sim.__all__)


@pytest.mark.parametrize("value", ["'soon'", "float('nan')", "None"])
def test_a_measure_that_is_no_number_is_told_and_is_no_traceback(tmp_path: Path, value: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from reachp2p_sim import scenario\n\n"
        "@scenario('mine', 'measures something odd', nodes=3)\n"
        "def mine(world, options):\n"
        f"    world.timings['first'] = {value}\n"
        "    world.timings['second'] = 2\n"
    )
    result = run_scenario(RunConfig(str(path)))
    assert (result.verdict, result.error, result.timings) == ("fail", None, {"second": 2})
    assert result.violation is not None
    assert result.violation["message"].startswith("world.timings['first'] is ")
    assert result.violation["message"].endswith(": a finite number is wanted")
