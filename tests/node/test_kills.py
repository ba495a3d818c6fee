"""`bench/restarts.py` for real, with a few kills, and its judgement of what processes have written."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
KILLS = 6
NODE, LIFE, NEXT_LIFE = "ab" * 32, "01" * 16, "02" * 16
LIMIT = 3.0
PATIENCE = 20.0


def load_verdict() -> ModuleType:
    """`bench` is a folder of programs, not a package."""
    spec = importlib.util.spec_from_file_location("restarts_verdict", BENCH / "restarts_verdict.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


verdict = load_verdict()


def test_killed_at_random_moments_and_in_its_first_ones_a_node_is_back_everywhere(tmp_path: Path) -> None:
    """Show 5 in small: no stale lock, no epoch used twice, every restart back in every view, nobody falsely DEAD.

    That it takes three seconds at most is measured by `bench/restarts.py`: here other tests keep the machine busy.
    """
    options = ["--kills", str(KILLS), "--nodes", "4", "--seed", "5", "--limit", str(PATIENCE)]
    options += ["--folder", str(tmp_path)]
    run = subprocess.run(
        [sys.executable, str(BENCH / "restarts.py"), *options],
        capture_output=True,
        text=True,
        timeout=120,
    )
    figures = json.loads(run.stdout)
    assert (run.returncode, figures["ok"], figures["problems"]) == (0, True, []), run.stderr
    early = figures["kills_by_kind"]
    assert (figures["kills"], early.pop("running"), sum(early.values())) == (KILLS, KILLS // 2, KILLS // 2)
    assert figures["back_in_every_view"]["count"] == KILLS
    assert figures["back_in_every_view"]["max"] <= PATIENCE
    assert (figures["lock_failures"], figures["failed_starts"], figures["false_deaths"]) == (0, 0, 0)
    assert figures["epochs_used"] >= KILLS + 4
    assert [turn["views"] for turn in figures["turns"]] == [3] * KILLS
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


# The judgement


def member(at: float, state: str, life: str = NEXT_LIFE, epoch: int = 2) -> dict[str, Any]:
    return {
        "is": "member",
        "at": at,
        "node": NODE,
        "epoch": epoch,
        "life": life,
        "state": state,
        "reason": "",
    }


def killed() -> Any:
    return verdict.Process(
        name="node-0",
        number=10,
        spawned_at=0.0,
        killed_at=5.0,
        ended_at=5.0,
        exit_code=-9,
        lines=[
            {"is": "starting", "at": 0.4},
            {"is": "writing", "at": 0.5, "epoch": 1},
            {"is": "started", "at": 0.6, "node": NODE, "epoch": 1, "life": LIFE},
        ],
    )


def restarted() -> Any:
    return verdict.Process(
        name="node-0",
        number=11,
        spawned_at=6.0,
        lines=[
            {"is": "starting", "at": 6.4},
            {"is": "writing", "at": 6.5, "epoch": 2},
            {"is": "started", "at": 6.6, "node": NODE, "epoch": 2, "life": NEXT_LIFE},
        ],
    )


def observer(name: str, *lines: Mapping[str, Any]) -> Any:
    return verdict.Process(name=name, number=20, spawned_at=0.0, lines=list(lines))


def notes() -> dict[str, list[dict[str, Any]]]:
    return {
        "node-0": [
            {"epoch": 1, "life": LIFE, "process": 10},
            {"epoch": 2, "life": NEXT_LIFE, "process": 11},
        ]
    }


class Case:
    """A run with one kill in which all was well; each test spoils it."""

    def __init__(self) -> None:
        self.killed, self.restarted = killed(), restarted()
        seen = [member(1.0, "ALIVE", LIFE, 1), member(5.5, "SUSPECT", LIFE, 1), member(5.8, "DEAD", LIFE, 1)]
        self.first = observer("node-1", *seen, member(6.7, "ALIVE"))
        self.second = observer("node-2", *seen, member(7.2, "ALIVE"))
        self.notes = notes()
        self.kills = 1

    def judge(self) -> dict[str, Any]:
        turn = verdict.Turn(
            kind="running",
            before="running",
            killed=self.killed,
            restarted=self.restarted,
            others=[self.first, self.second],
        )
        processes = [self.killed, self.restarted, self.first, self.second]
        found: dict[str, Any] = verdict.verdict([turn], processes, self.notes, kills=self.kills, limit=LIMIT)
        return found


def test_a_run_in_which_all_was_well_is_ok() -> None:
    figures = Case().judge()
    assert (figures["ok"], figures["problems"]) == (True, [])
    assert figures["back_in_every_view"]["max"] == 1.2, "from the start of the process to the last view"
    assert figures["of_this_until_the_node_is_opened"]["max"] == 0.4
    assert figures["kills_within_200_ms_of_a_start"] == 0, "this one came 4.6 s after it"
    assert (figures["epochs_used"], figures["highest_epochs"]) == (2, {"node-0": 2})
    assert (figures["false_deaths"], figures["false_suspicions"]) == (0, 0)


def never_seen(case: Case) -> None:
    case.second.lines = case.second.lines[:3]


def seen_late(case: Case) -> None:
    case.second.lines[-1] = member(9.1, "ALIVE")


def not_started(case: Case) -> None:
    case.restarted.lines = case.restarted.lines[:2]


def epoch_again(case: Case) -> None:
    case.notes["node-0"][1]["epoch"] = 1
    for one in (case.first, case.second):
        one.lines[-1]["epoch"] = 1


def epoch_lower(case: Case) -> None:
    case.notes["node-0"].append({"epoch": 1, "life": "03" * 16, "process": 11})


def unnoted_life(case: Case) -> None:
    case.first.lines.append(member(7.5, "ALIVE", "04" * 16, 3))


def locked(case: Case) -> None:
    case.restarted.lines.append({"is": "ended", "at": 6.9, "code": 1703, "reason": "in use"})
    case.restarted.exit_code = 1


def failed(case: Case) -> None:
    case.restarted.lines.append({"is": "ended", "at": 6.9, "code": 1706, "reason": "damaged"})
    case.restarted.exit_code = 1


def went_away(case: Case) -> None:
    case.first.exit_code = 0


def buried_alive(case: Case) -> None:
    case.first.lines.insert(1, member(4.9, "DEAD", LIFE, 1))


def buried_after_its_return(case: Case) -> None:
    case.second.lines.append(member(8.0, "DEAD"))


def kill_left_out(case: Case) -> None:
    case.kills = 2


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (never_seen, "1 restarts were not back in every view within 3 s"),
        (seen_late, "1 restarts were not back in every view within 3 s"),
        (not_started, "1 restarts were not back in every view within 3 s"),
        (epoch_again, "node-0: epoch 1 after 1 (process 11)"),
        (epoch_lower, "node-0: epoch 1 after 2 (process 11)"),
        (unnoted_life, "a life that nobody noted: abababab: epoch 3"),
        (locked, "node-0: in use"),
        (failed, "node-0: exit code 1, damaged"),
        (went_away, "node-1 has left by itself"),
        (buried_alive, "node-1 held node-0 DEAD at 4.900"),
        (buried_after_its_return, "node-2 held node-0 DEAD at 8.000"),
        (kill_left_out, "1 of 2 kills were done"),
    ],
)
def test_whatever_was_not_well_is_found(spoil: Callable[[Case], None], said: str) -> None:
    case = Case()
    spoil(case)
    figures = case.judge()
    assert not figures["ok"]
    assert len(figures["problems"]) == 1
    assert said in figures["problems"][0]


def test_how_far_a_killed_process_had_come_is_told() -> None:
    def cut_after(lines: int, *notes: Mapping[str, Any]) -> str:
        process = killed()
        process.lines = process.lines[:lines]
        found: str = verdict.hit(process, notes)
        return found

    assert cut_after(0) == "importing"
    assert cut_after(1) == "opening its node"
    assert cut_after(2) == "writing its epoch"
    assert cut_after(2, {"epoch": 1, "life": LIFE, "process": 10}) == "asking others"
    assert cut_after(3) == "running"
