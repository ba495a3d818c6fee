"""The live view: what it shows, and that a run does not notice it."""

from __future__ import annotations

import io

import pytest
from reachp2p_sim.cli import main
from reachp2p_sim.report import live_view
from reachp2p_sim.report.live_view import Watch
from reachp2p_sim.running.run import RunConfig, run_scenario
from reachp2p_sim.world.world import World
from rich.console import Console

CRASH = RunConfig("crash", seed=3, nodes=12)


def screen(width: int = 80, height: int = 30) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)


def drawn(view: Watch, console: Console) -> list[str]:
    with console.capture() as captured:
        console.print(view.picture())
    return captured.get().splitlines()


def test_a_watched_run_has_the_digest_of_one_that_is_not_and_its_last_picture_fits() -> None:
    console = screen()
    view = Watch("crash --nodes 12", console=console)
    with view:
        result = run_scenario(CRASH, attach=view.attach)
    assert result.trace_digest == run_scenario(CRASH).trace_digest
    lines = drawn(view, console)
    assert max(len(line) for line in lines) <= 80
    assert len(lines) <= 30
    text = "\n".join(lines)
    assert text.count("✕") == 1 + 1  # the node, and the legend
    assert text.count("●") == 11 + 1
    assert "11 of 11 views right" in text
    assert any("power off" in line for line in lines)
    assert any("DEAD: its timer and our own probe have ended" in line for line in lines)


def test_few_nodes_are_shown_by_name_and_many_by_number() -> None:
    for nodes, name, rows in ((5, "n04", 2), (100, "99", 12)):
        console = screen()
        view = Watch("large", console=console)
        world = World(seed=1)
        view.attach(world)
        world.add_nodes(nodes)  # all at once, and not a moment later
        lines = drawn(view, console)
        assert lines[0].strip("╭╮─ ") == "large"
        top = lines[1 : 1 + rows]
        assert name in top[-2]
        assert "·" in top[-1] or "●" in top[-1]
        assert max(len(line) for line in lines) <= 80


def test_a_pace_makes_the_run_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(live_view.time, "sleep", waits.append)
    view = Watch("steady", pace=0.5, console=screen())
    result = run_scenario(RunConfig("steady", nodes=4, set={"seconds": "1"}), attach=view.attach)
    assert waits
    assert max(waits) <= 1.0
    assert result.verdict in ("pass", "fail")


def test_without_a_terminal_it_is_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "run",
        "steady",
        "--nodes",
        "4",
        "--set",
        "seconds=10",
        "--no-determinism",
        "--no-store",
        "--watch",
    )
    monkeypatch.setattr("sys.argv", ["reachp2p-sim", *words])
    assert main() == 0
    captured = capsys.readouterr()
    assert "--watch is off: this is no terminal" in captured.err
    assert captured.out.startswith("steady, 4 nodes, seed 0: PASS")
