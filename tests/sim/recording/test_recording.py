"""The recorder: what it keeps is what happened, it disturbs nothing, and it stays within its bounds."""

from __future__ import annotations

from itertools import pairwise

import pytest
from reachp2p_sim.recording import Recorder, series, travel
from reachp2p_sim.recording.series import Samples, StateSeries
from reachp2p_sim.running.run import RunConfig, RunResult, run_scenario

CRASH = RunConfig("crash", seed=3, nodes=6)
CLONE = RunConfig("epoch-clone-across-split", seed=1, nodes=6, set={"cut": "15"})


def record(config: RunConfig) -> tuple[Recorder, RunResult]:
    recorder = Recorder()
    result = run_scenario(config, attach=recorder.attach)
    recorder.finish(result)
    return recorder, result


@pytest.fixture(scope="module")
def crash() -> tuple[Recorder, RunResult]:
    return record(CRASH)


@pytest.fixture(scope="module")
def clone() -> tuple[Recorder, RunResult]:
    return record(CLONE)


def test_a_recorded_run_has_the_digest_of_one_that_is_not(crash: tuple[Recorder, RunResult]) -> None:
    assert crash[1].trace_digest == run_scenario(CRASH).trace_digest


def test_every_datagram_and_frame_is_counted_once_and_every_byte_has_a_kind(
    crash: tuple[Recorder, RunResult],
) -> None:
    recorder, result = crash
    nodes = recorder.travel.by_node.values()
    assert sum(node.datagrams.count for node in nodes) == result.datagrams["sent"]
    assert sum(node.frames.count for node in nodes) == result.frames["sent"]
    sizes = sum(budget.size for budget in recorder.travel.by_kind.values())
    assert sizes == result.datagrams["bytes"] + result.frames["bytes"]
    assert "unreadable" not in recorder.travel.by_kind
    assert {"Hello", "Ping", "Ack", "HeadUpdate", "AccusationUpdate"} <= set(recorder.travel.by_kind)
    assert all(node.signature_checks > 0 for node in nodes)


def test_the_views_of_a_crashed_node_go_from_alive_to_dead(crash: tuple[Recorder, RunResult]) -> None:
    recorder, _ = crash
    (dead,) = [p for p in recorder.processes.spans if p.how == "crash"]
    assert dead.ended_at is not None
    verdicts = [c for c in recorder.beliefs.changes if c.new == "DEAD"]
    assert {c.subject for c in verdicts} == {dead.host}
    assert len(verdicts) == 5
    assert all(c.at > dead.ended_at for c in verdicts)
    assert recorder.beliefs.counts(dead.host) == (0, 0, 5, 0)
    assert recorder.agreement.samples.rows[-1][1:5] == (5, 1.0, 1.0, 1.0)


def test_messages_are_kept_around_the_moments_that_matter(crash: tuple[Recorder, RunResult]) -> None:
    windows = crash[0].travel.windows
    labels = [label for window in windows for label in window.labels]
    assert "starts" in labels
    assert any(label.startswith("power off ") for label in labels)
    assert any(label.endswith(" first DEAD") for label in labels)
    for window in windows:
        moments = [message.sent_at for message in window.messages]
        assert moments == sorted(moments)
        assert all(window.began_at <= at <= window.ends_at for at in moments)
    for before, after in pairwise(windows):
        assert before.ends_at <= after.began_at
    arrived = [m for w in windows for m in w.messages if m.fate == "arrived"]
    assert all(m.received_at is not None and m.received_at >= m.sent_at for m in arrived)
    assert any("AccusationUpdate" in text for m in arrived for text in m.about)


def test_a_conflict_of_epochs_has_its_rivals_its_winner_and_the_time_to_agree(
    clone: tuple[Recorder, RunResult],
) -> None:
    recorder, result = clone
    assert result.verdict == "pass"
    (conflict,) = recorder.lives.conflicts
    assert len(conflict.lives) == 2
    assert conflict.is_of_two
    assert conflict.winner is not None
    assert conflict.winner.life.epoch == max(span.life.epoch for span in conflict.lives)
    (loser,) = [span for span in conflict.lives if span is not conflict.winner]
    assert loser.how == "fenced"
    assert conflict.time_to_agree is not None
    assert 0 <= conflict.time_to_agree < 5
    assert any("stopped for good" in text for _, _, text in conflict.events)


def test_a_life_that_hears_of_its_own_past_is_no_conflict_of_two() -> None:
    recorder, result = record(RunConfig("amnesia", seed=1, nodes=5))
    assert result.verdict == "pass"
    assert recorder.lives.conflicts
    assert not any(conflict.is_of_two for conflict in recorder.lives.conflicts)
    assert all(conflict.winner is not None for conflict in recorder.lives.conflicts)


def test_full_windows_end_early_and_moments_without_a_window_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(travel, "WINDOW_MESSAGES_MAX", 50)
    monkeypatch.setattr(travel, "WINDOWS_MAX", 2)
    recorder, _ = record(CRASH)
    windows = recorder.travel.windows
    assert len(windows) == 3  # two and the end
    assert windows[0].is_full
    assert all(len(window.messages) <= 50 for window in windows)
    assert recorder.overflow["moments without a window of messages"] > 0


def test_a_series_of_states_keeps_the_worst_of_what_it_puts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "POINTS_MAX", 8)
    states = StateSeries()
    for step in range(100):
        states.note(step * 1.0, (9, 0, 0, 0) if step % 2 == 0 else (8, 1, 0, 0))
    assert len(states.points) <= 8
    assert states.points[0].at == 0.0
    assert all(point.worst == (8, 1, 0, 0) for point in states.points)
    assert states.points[-1].last == (8, 1, 0, 0)


def test_samples_are_thinned_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "POINTS_MAX", 10)
    samples = Samples(("x",))
    for step in range(100):
        samples.add(step * 0.5, float(step))
    times = [row[0] for row in samples.rows]
    gaps = {round(b - a, 6) for a, b in pairwise(times)}
    assert len(times) <= 10
    assert gaps == {samples.skip * 0.5}


def test_calls_that_are_refused_at_once_are_counted_like_all_others() -> None:
    recorder, result = record(RunConfig("isolate-one", seed=3, nodes=5))
    told = {int(code): count for code, count in result.calls["ended"].items()}
    assert any(told[code] for code in told if 1300 <= code < 1400)
    assert dict(recorder.calls_by_code) == told
