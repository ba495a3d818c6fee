"""How large the largest share of an ideal ring is: exactly, so that rings are judged by the truth and not by a sample.

With tokens at uniform points the arcs are exchangeable, so the shares of n instances with V tokens each are Dirichlet
(V, …, V): gamma variables of shape V divided by their sum, of which the shares are independent. Given that the sum is
its mean nV, no share exceeds x/n if no gamma variable exceeds xV:

    P(max/avg ≤ x) = g(nV) / f(nV)

with g the density of a sum of n gamma variables that are all cut off at xV, and f the one of gamma(nV). g is the
inverse Fourier transform of a power, which is an integral in one dimension.
"""

from __future__ import annotations

from cmath import exp as cexp
from functools import lru_cache
from math import exp, lgamma, log, pi, sqrt

DEVIATIONS = 12.0
"""Both integrals end where their integrands have fallen by a factor of e^-72."""
SHARES, FREQUENCIES = 400, 240
"""Steps of Simpson's rule. Twice as many change nothing before the sixth digit (V = 150, n up to 1,000)."""
BISECTIONS = 40


@lru_cache(maxsize=64)
def chance_of_largest(nodes: int, virtual_nodes: int, limit: float) -> float:
    """The chance that no share of an ideal ring is above `limit` times the mean.

    For 50 tokens each and 10 instances, or more: of fewer the cut leaves frequencies that the integral does not reach.
    """
    spread = sqrt(virtual_nodes)
    low = max(1e-9, virtual_nodes - DEVIATIONS * spread)
    step = (limit * virtual_nodes - low) / SHARES
    points = [low + place * step for place in range(SHARES + 1)]
    weights = [
        _simpson(place, SHARES) * step * exp(_log_density(virtual_nodes, point))
        for place, point in enumerate(points)
    ]
    pace = DEVIATIONS / (sqrt(nodes) * spread) / FREQUENCIES
    integral = 0.0
    for place in range(FREQUENCIES + 1):
        turn = 1j * place * pace
        cut_off = sum(
            weight * cexp(turn * (point - virtual_nodes))
            for weight, point in zip(weights, points, strict=True)
        )
        integral += _simpson(place, FREQUENCIES) * (cut_off**nodes).real
    total = nodes * virtual_nodes
    return integral * pace / pi / exp(_log_density(total, total))


@lru_cache(maxsize=64)
def largest_at(nodes: int, virtual_nodes: int, chance: float) -> float:
    """What the largest share of an ideal ring, in units of the mean, does not exceed with this chance."""
    low, high = 1.0, 1.0 + DEVIATIONS / sqrt(virtual_nodes)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if chance_of_largest(nodes, virtual_nodes, middle) < chance:
            low = middle
        else:
            high = middle
    return high


def fewest_hits(trials: int, chance: float, alarm: float) -> int:
    """The number of hits that so many trials reach or pass but for the chance `alarm` at most (binomial)."""
    below = 0.0
    for hits in range(trials + 1):
        below += exp(
            lgamma(trials + 1)
            - lgamma(hits + 1)
            - lgamma(trials - hits + 1)
            + hits * log(chance)
            + (trials - hits) * log(1.0 - chance)
        )
        if below > alarm:
            return hits
    return trials


def _log_density(shape: float, value: float) -> float:
    """Of the gamma distribution."""
    return (shape - 1.0) * log(value) - value - lgamma(shape)


def _simpson(place: int, steps: int) -> float:
    return (1.0 if place in (0, steps) else 4.0 if place % 2 else 2.0) / 3.0
