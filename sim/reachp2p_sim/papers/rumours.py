"""Epidemics as pure processes, in cycles: what Demers et al. 1987 simulated, with chance of ours.

In a cycle each site that takes part contacts one other site, chosen uniformly. All contacts of a cycle happen at once:
whether a contact was needless is judged by what its target knew when the cycle began, so two sites that infect a third
in one cycle both count it as a success. The tables of the paper come out only so (see `Rumour.at_once`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from reachp2p_sim.world.randomness import Randomness, fraction, mix, step

Draw = Callable[[], float]
"""A number in [0, 1)."""
Source = Literal["streams", "paths"]
"""`streams`: the named generators of a run. `paths`: SplitMix64 counters, as the network draws its weather."""


def draw_from(source: Source, seed: int, *name: str | int) -> Draw:
    """Chance of the kind that a run uses, named by what it is for."""
    randomness = Randomness(seed)
    if source == "streams":
        return randomness.stream(*name).random
    counter = randomness.number(*name)

    def draw() -> float:
        nonlocal counter
        counter = step(counter)
        return fraction(mix(counter))

    return draw


def push(sites: int, draw: Draw) -> list[int]:
    """Infected sites after each cycle, from 1 to all: everybody infected tells one other site a cycle."""
    knows = bytearray(sites)
    knows[0] = 1
    infected, history = [0], [1]
    others = sites - 1
    while len(infected) < sites:
        new = []
        for site in infected:
            target = int(draw() * others)
            target += target >= site
            if not knows[target]:
                knows[target] = 1
                new.append(target)
        infected += new
        history.append(len(infected))
    return history


def pull(sites: int, draw: Draw) -> list[int]:
    """Infected sites after each cycle: everybody not infected asks one other site a cycle."""
    knows = bytearray(sites)
    knows[0] = 1
    missing, history = list(range(1, sites)), [1]
    others = sites - 1
    while missing:
        still: list[int] = []
        new: list[int] = []
        for site in missing:
            target = int(draw() * others)
            target += target >= site
            (new if knows[target] else still).append(site)
        for site in new:
            knows[site] = 1
        missing = still
        history.append(sites - len(missing))
    return history


class Rumour(msgspec.Struct, frozen=True):
    """How a rumour dies (§1.4): a site loses interest after k needless contacts, or with chance 1/k at each.

    `feedback`: only a contact with a site that knew already counts, else each one (`blind`). A counter counts needless
    contacts in a row. With `at_once` a contact of a cycle counts for the next one of the same cycle, as in the
    paper's differential equations.
    """

    direction: Literal["push", "pull"]
    k: int
    counter: bool
    feedback: bool
    at_once: bool = False


class Ending(msgspec.Struct, frozen=True):
    """What is left when nobody is interested any more."""

    residue: float
    """Part of the sites that never heard it."""
    traffic: float
    """m: updates sent, a site."""
    last: int
    """The cycle in which the last site heard it."""


_UNKNOWN, _NEW, _KNOWN = 0, 1, 2


def spread_rumour(sites: int, rumour: Rumour, draw: Draw) -> Ending:
    """Run one rumour to its end. The table's variants are those with `feedback` equal to `counter`."""
    return _pushed(sites, rumour, draw) if rumour.direction == "push" else _pulled(sites, rumour, draw)


def _pushed(sites: int, rumour: Rumour, draw: Draw) -> Ending:
    k, counter, feedback, others = rumour.k, rumour.counter, rumour.feedback, sites - 1
    state, needless = bytearray(sites), [0] * sites
    state[0] = _KNOWN
    active = [0]
    sent = cycle = last = 0
    while active:
        cycle += 1
        interested, new = [], []
        for site in active:
            target = int(draw() * others)
            target += target >= site
            sent += 1
            is_useful = state[target] != _KNOWN
            if state[target] == _UNKNOWN:
                state[target] = _KNOWN if rumour.at_once else _NEW
                new.append(target)
                last = cycle
            if is_useful and feedback:
                needless[site] = 0
                interested.append(site)
            elif counter:
                needless[site] += 1
                if needless[site] < k:
                    interested.append(site)
            elif draw() * k >= 1.0:
                interested.append(site)
        for site in new:
            state[site] = _KNOWN
        active = interested + new
    return Ending(state.count(_UNKNOWN) / sites, sent / sites, last)


def _pulled(sites: int, rumour: Rumour, draw: Draw) -> Ending:
    """Everybody asks one site a cycle. A source that several ask in one cycle is needless only if none needed it."""
    assert rumour.counter, "the paper has no table of pulls with feedback that use coins"
    assert rumour.feedback, "the paper has no table of blind pulls"
    others = sites - 1
    knows = bytearray(sites)
    knows[0] = 1
    active = {0: 0}
    sent = cycle = last = 0
    while active:
        cycle += 1
        asked: dict[int, bool] = {}
        new = []
        for site in range(sites):
            target = int(draw() * others)
            target += target >= site
            if target in active:
                sent += 1
                is_useful = not knows[site]
                asked[target] = asked.get(target, False) or is_useful
                if is_useful:
                    new.append(site)
        for target, is_useful in asked.items():
            active[target] = 0 if is_useful else active[target] + 1
            if active[target] >= rumour.k:
                del active[target]
        for site in new:
            knows[site] = 1
            active[site] = 0
            last = cycle
    return Ending(1.0 - sum(knows) / sites, sent / sites, last)
