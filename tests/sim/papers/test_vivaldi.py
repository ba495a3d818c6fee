"""Matrices and coordinates: the networks are what they say, and Serf's tests are repeated."""

from __future__ import annotations

from math import sqrt
from random import Random

import pytest
from reachp2p_sim.papers import matrices
from reachp2p_sim.papers.base import Scale
from reachp2p_sim.papers.matrices import Matrix
from reachp2p_sim.papers.vivaldi import (
    LIMITS,
    MatrixCase,
    RegionCase,
    judge_regions,
    measure_matrix,
    measure_regions,
)


@pytest.mark.parametrize(
    "matrix",
    [
        matrices.line(5, 0.01),
        matrices.grid(9, 0.01),
        matrices.split(7, 0.001, 0.01),
        matrices.circle(9, 0.1),
        matrices.normal(6, 0.1, 0.01, Random(1)),
        matrices.square(0.5),
        matrices.regions(8, 0.002, 0.04, 0.12),
    ],
)
def test_a_matrix_is_symmetric_and_nobody_is_far_from_himself(matrix: Matrix) -> None:
    for i, row in enumerate(matrix):
        assert row[i] == 0
        assert all(row[j] == matrix[j][i] > 0 for j in range(len(matrix)) if j != i)


def test_matrices_have_the_distances_of_their_shapes() -> None:
    assert matrices.line(5, 0.01)[1][4] == pytest.approx(0.03)
    assert matrices.grid(9, 0.01)[0][8] == pytest.approx(0.02 * sqrt(2))
    assert matrices.split(7, 0.001, 0.01)[0][1:] == pytest.approx([0.001] * 3 + [0.011] * 3)
    around = matrices.circle(9, 0.1)
    assert around[0][1:] == [0.2] * 8
    assert max(around[1][1:]) < 0.2
    assert matrices.square(0.5)[0] == pytest.approx([0.0, 0.5, 0.5 * sqrt(2), 0.5])
    assert matrices.square(0.5)[1] == [0.5, 0.0, 0.5, 0.5]
    assert matrices.regions(8, 0.002, 0.04, 0.12)[2] == [0.12, 0.12, 0.0, 0.12, 0.12, 0.002, 0.12, 0.12]


def test_two_places_fit_serfs_limits() -> None:
    fit = measure_matrix(MatrixCase(seed=3, matrix="split"))
    average, worst = LIMITS["split"]
    assert fit.average <= average
    assert fit.worst <= worst


def test_a_case_is_its_seed() -> None:
    assert measure_matrix(MatrixCase(1, "line")) == measure_matrix(MatrixCase(1, "line"))
    assert measure_matrix(MatrixCase(1, "line")) != measure_matrix(MatrixCase(2, "line"))


def test_liars_shift_nobody_far() -> None:
    done = [(case, measure_regions(case)) for case in (RegionCase(1, "none"), RegionCase(1, "far"))]
    for _, looks in done:
        assert [look.periods for look in looks] == [5, 10, 20, 30, 40, 60]
        assert looks[0].all_pairs > looks[-1].all_pairs
    done.append((RegionCase(1, "near"), done[1][1]))
    rows = [row for row in judge_regions(Scale(True, 1), done).rows if row.must_hold and row.accepted]
    assert [row.verdict for row in rows] == ["holds"] * 3
