"""Round trips between nodes, in seconds: the networks in which coordinates are tried."""

from __future__ import annotations

from math import cos, hypot, isqrt, pi, sin, sqrt
from random import Random

Matrix = list[list[float]]
"""`matrix[i][j]`: the round trip between two nodes; symmetric, 0 on the diagonal."""


def line(nodes: int, spacing: float) -> Matrix:
    """All on a straight line."""
    return [[abs(i - j) * spacing for j in range(nodes)] for i in range(nodes)]


def grid(nodes: int, spacing: float) -> Matrix:
    """A square grid in a plane."""
    side = isqrt(nodes)
    places = [(i % side * spacing, i // side * spacing) for i in range(nodes)]
    return [[hypot(x - a, y - b) for a, b in places] for x, y in places]


def split(nodes: int, lan: float, wan: float) -> Matrix:
    """Two places: `lan` within one, `wan` more between them. The first has one node more than half."""
    half = nodes // 2
    return [
        [0.0 if i == j else lan + (wan if (i <= half) != (j <= half) else 0.0) for j in range(nodes)]
        for i in range(nodes)
    ]


def circle(nodes: int, radius: float) -> Matrix:
    """Node 0 is two radii away from all; the others are on a circle, so it must be above their plane."""
    places = [(cos(2 * pi * i / nodes) * radius, sin(2 * pi * i / nodes) * radius) for i in range(nodes)]
    matrix = [[hypot(x - a, y - b) for a, b in places] for x, y in places]
    for i in range(1, nodes):
        matrix[0][i] = matrix[i][0] = 2 * radius
    return matrix


def normal(nodes: int, mean: float, deviation: float, chance: Random) -> Matrix:
    """Independent round trips: no space fits them."""
    matrix = [[0.0] * nodes for _ in range(nodes)]
    for i in range(nodes):
        for j in range(i + 1, nodes):
            matrix[i][j] = matrix[j][i] = max(1e-4, chance.gauss(mean, deviation))
    return matrix


def square(side: float) -> Matrix:
    """Four nodes at the corners of a square, one diagonal of which is as short as a side."""
    matrix = [[0.0 if i == j else side for j in range(4)] for i in range(4)]
    matrix[0][2] = matrix[2][0] = side * sqrt(2)
    return matrix


def regions(nodes: int, within: float, near: float, far: float) -> Matrix:
    """Three regions in turn: the first two `near` each other, the third `far` from both."""

    def round_trip(i: int, j: int) -> float:
        if i % 3 == j % 3:
            return 0.0 if i == j else within
        return far if 2 in (i % 3, j % 3) else near

    return [[round_trip(i, j) for j in range(nodes)] for i in range(nodes)]
