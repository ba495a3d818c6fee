"""Least loaded: of two candidates drawn by chance, the one with less to do (Mitzenmacher 2001; Azar et al. 1999).

Never the least of all: with numbers that are a few service times old, everybody would send to the same one. Own
attempts in flight come first, since nobody knows them better; then what the node reports to be busy with, and what we
have sent it since. A report older than `STALE_AFTER` service times of its instance says less than our own
measurements: then the product of the peak latency and of one more than what is in flight decides (Finagle's peak
EWMA). Broken instances are the breaker's matter: a fast failure must not look like a short queue.
"""

from __future__ import annotations

from reachp2p.core.ids import Rng
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.load import NodeLoad
from reachp2p.core.routing.measures import Measures
from reachp2p.core.routing.policy import Account, Choice, Policy
from reachp2p.core.routing.traffic import Traffic

STALE_AFTER = 8.0
"""Mean service times; two choices by reports lose to chance from about nine on, at half load."""
_PAIRS_MAX = 64
"""Candidates up to which an account works out who would win against whom."""


class LeastLoaded(Policy):
    """The less loaded of two. Weights do not count: who is slower has more in flight."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._first, self._second = rng.random(), rng.random()

    def choose(self, choice: Choice) -> Instance:
        """The better one of the two on which the numbers fall."""
        one, other = self._two(choice)
        return one if one is other or not is_better(other, one, choice.measures, choice.now) else other

    def on_picked(self, choice: Choice, instance: Instance) -> None:
        """Draw the next two numbers."""
        self._first, self._second = self._rng.random(), self._rng.random()

    def _two(self, choice: Choice) -> tuple[Instance, Instance]:
        items = choice.candidates.items
        return two_of(items, self._first, self._second)

    def account(self, choice: Choice, instance: Instance) -> Account:
        """The two, with their numbers; shares by who would win against whom, equal ones among many."""
        items, measures, now = choice.candidates.items, choice.measures, choice.now
        count = len(items)
        if count == 1:
            return Account("the only candidate", [1.0])
        one, other = self._two(choice)
        loser = other if instance is one else one
        name = loser.node_name or loser.node[:4].hex()
        because = f"{words(instance, measures, now)}; the other one drawn, {name}, has {words(loser, measures, now)}"
        if count > _PAIRS_MAX:
            return Account(because, [1 / count] * count)
        shares = [0.0] * count
        for place, left in enumerate(items):
            for further in range(place + 1, count):
                right = items[further]
                if is_better(right, left, measures, now):
                    shares[further] += 1.0
                elif is_better(left, right, measures, now):
                    shares[place] += 1.0
                else:
                    shares[place] += 0.5
                    shares[further] += 0.5
        return Account(because, [wins * 2 / (count * (count - 1)) for wins in shares])


def two_of(items: list[Instance], first: float, second: float) -> tuple[Instance, Instance]:
    """Two different ones of a list, or its only one twice; `first` and `second` are from [0, 1)."""
    count = len(items)
    if count == 1:
        return items[0], items[0]
    one, other = int(first * count), int(second * (count - 1))
    return items[one], items[other + (other >= one)]


def is_better(left: Instance, right: Instance, measures: Measures, now: float) -> bool:
    """Whether `left` has less to do than `right`."""
    sent_left, sent_right = measures.traffic_of(left), measures.traffic_of(right)
    busy_left = 0 if sent_left is None else sent_left.in_flight
    busy_right = 0 if sent_right is None else sent_right.in_flight
    told_left, told_right = measures.load_of(left), measures.load_of(right)
    if (
        told_left is not None
        and told_right is not None
        and _is_fresh(told_left, sent_left, now)
        and _is_fresh(told_right, sent_right, now)
    ):
        if busy_left != busy_right:
            return busy_left < busy_right
        return told_left.requests_at(left.key[1]) < told_right.requests_at(right.key[1])
    peak_left = None if sent_left is None else sent_left.peak
    peak_right = None if sent_right is None else sent_right.peak
    if (
        peak_left is None or peak_right is None
    ):  # whoever was never measured is taken to be as quick as the other
        return busy_left < busy_right
    return peak_left * (busy_left + 1) < peak_right * (busy_right + 1)


def _is_fresh(told: NodeLoad, sent: Traffic | None, now: float) -> bool:
    service_time = told.report.p95 if sent is None or sent.latency is None else sent.latency
    return now - told.heard_at <= STALE_AFTER * service_time


def words(instance: Instance, measures: Measures, now: float) -> str:
    """What is known of the load of an instance, for people."""
    sent, told = measures.traffic_of(instance), measures.load_of(instance)
    parts = [f"{0 if sent is None else sent.in_flight} in flight"]
    if told is not None:
        age = now - told.heard_at
        agent = instance.key[1]
        sent_since = told.sent.get(agent, 0)
        since = f" and {sent_since} sent since" if sent_since else ""
        stale = "" if _is_fresh(told, sent, now) else ", too old to count"
        parts.append(f"{told.report.of(agent).requests} reported {age:.1f} s ago{since}{stale}")
    if sent is not None and sent.peak is not None:
        parts.append(f"peak {sent.peak * 1000:.3g} ms")
    return ", ".join(parts)
