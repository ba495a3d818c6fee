"""The study of time-outs: every configuration meets the same runs, and the choice follows from what was counted."""

from __future__ import annotations

from reachp2p_sim.papers.anomalies import Configuration, Detection, Disturbance, ThresholdCase
from reachp2p_sim.papers.base import Scale
from reachp2p_sim.papers.tuning import (
    BASELINE,
    LossCase,
    Measured,
    TuningCase,
    cases,
    configurations,
    judge,
    measure,
)

QUICK = Scale(quick=True, seed=1)


def test_every_configuration_meets_the_same_cases() -> None:
    for scale in (QUICK, Scale(quick=False, seed=1)):
        seen: dict[Configuration, list[str]] = {}
        for case in cases(scale):
            others = {
                name: getattr(case, name) for name in case.__dataclass_fields__ if name != "configuration"
            }
            seen.setdefault(case.configuration, []).append(f"{type(case).__name__}{others}")
        assert len(seen) == len(configurations(scale))
        assert len({tuple(found) for found in seen.values()}) == 1


def test_the_shortest_that_is_no_worse_is_chosen() -> None:
    hasty, right, slow = (Configuration("reachp2p", alpha, 6.0) for alpha in (1.0, 2.0, 4.0))
    measured = {BASELINE: (10.0, 2), hasty: (4.0, 3), right: (6.0, 2), slow: (11.0, 0)}

    def result(case: TuningCase) -> Measured:
        seconds, count = measured[case.configuration]
        if isinstance(case, ThresholdCase):
            return [Detection(seconds, seconds)]
        return Disturbance(count, 0, 1, 1)

    done = [(case, result(case)) for case in cases(QUICK) if case.configuration in measured]
    findings = judge(QUICK, done)
    (chosen,) = [row for row in findings.rows if row.id == "T3"]
    assert chosen.what.startswith(right.label)
    assert chosen.verdict == "holds"


def test_loss_alone_makes_suspects_and_no_dead() -> None:
    found = measure(LossCase(Configuration("reachp2p", 1.0, 1.0), 8, 0.2, False, 20.0, 1))
    assert isinstance(found, Disturbance)
    assert found.false_positives == 0
    assert found.messages > 8 * 20
