"""Scuttlebutt and precise reconciliation as pure processes (van Renesse et al. 2008, §3 and §4).

Every participant owns some keys and updates one of them at random, ρ times a second. Once a second each one exchanges
with a random other, both ways, at most `mtu` deltas each. Precise reconciliation knows both states and sends the oldest
or the newest differences first. Scuttlebutt knows only the highest version that the other holds of each
participant, so it sends what is above in the order of versions, and leaves out the rest of a participant once one is
left out: `depth` empties the participants with the most news one after the other, `breadth` takes from all in turn.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from reachp2p_sim.world.randomness import Randomness

Order = Literal["precise-newest", "precise-oldest", "scuttle-breadth", "scuttle-depth"]
ORDERS: tuple[Order, ...] = ("precise-newest", "scuttle-breadth", "precise-oldest", "scuttle-depth")
LIMITED_FROM, OVERLOAD_FROM, OVERLOAD_UNTIL, UPDATES_UNTIL, END = 15, 25, 75, 120, 150
"""Seconds: when the mtu begins, when ρ is doubled and halved again, when updates end, when we stop to look."""


class Look(msgspec.Struct, frozen=True):
    """The state of all participants at one second."""

    second: int
    stale: float
    """Obsolete mappings, a participant."""
    oldest: float
    """For how long the worst of them has been obsolete, in seconds: since the first update that it has missed."""
    age: float
    """The age of the oldest current mapping that somebody lacks, in seconds: since the last update it has missed."""


class Outcome(msgspec.Struct, frozen=True):
    """One run: a look each second, and how often invariant C was found broken."""

    looks: list[Look]
    violations: int


class Group:
    """All participants. An update's number is its version: they grow with time, over all participants."""

    def __init__(self, participants: int, keys: int, order: Order, seed: int) -> None:
        self.participants = participants
        self.keys = keys
        self.order = order
        chance = Randomness(seed)
        self.updates = chance.stream("updates")
        """What is updated when, and who meets whom: the same for every order."""
        self.partners = chance.stream("partners")
        self.ties = chance.stream("ties", order)
        size = participants * keys
        self.truth = [0] * size
        self.held = [[0] * size for _ in range(participants)]
        """For each participant the version of each mapping that it holds, by owner and key."""
        self.highest = [[0] * participants for _ in range(participants)]
        """For each participant the highest version that it holds of each owner."""
        self.made_at = [0.0]
        self.replaced_by = [0]
        """For each version when it was made, and the next one of the same key, or 0."""
        self.violations = 0

    def update(self, owner: int, now: float) -> None:
        """The owner changes one of its keys."""
        version = len(self.made_at)
        place = owner * self.keys + self.updates.randrange(self.keys)
        self.made_at.append(now)
        self.replaced_by.append(0)
        self.replaced_by[self.truth[place]] = version
        self.truth[place] = self.held[owner][place] = version
        self.highest[owner][owner] = version

    def exchange(self, one: int, other: int, mtu: int) -> None:
        """Both send from the state before the exchange."""
        there, back = self._news(one, other), self._news(other, one)
        self._apply(other, self._chosen(there, mtu))
        self._apply(one, self._chosen(back, mtu))

    def _news(self, source: int, target: int) -> list[list[tuple[int, int]]]:
        """What the source holds beyond the target: (version, place) by owner, in the order of versions."""
        ours, theirs = self.held[source], self.held[target]
        known = self.highest[target]
        is_scuttle = self.order.startswith("scuttle")
        news = []
        for owner in range(self.participants):
            if is_scuttle and self.highest[source][owner] <= known[owner]:
                continue
            start = owner * self.keys
            mine, yours = ours[start : start + self.keys], theirs[start : start + self.keys]
            if mine == yours:
                continue
            if is_scuttle:
                floor = known[owner]
                found = [(version, start + k) for k, version in enumerate(mine) if version > floor]
            else:
                pairs = zip(mine, yours, strict=True)
                found = [(m, start + k) for k, (m, y) in enumerate(pairs) if m > y]
            if found:
                found.sort()
                news.append(found)
        return news

    def _chosen(self, news: list[list[tuple[int, int]]], mtu: int) -> list[tuple[int, int]]:
        if self.order == "scuttle-depth":
            self.ties.shuffle(news)
            news.sort(key=len, reverse=True)
            return [delta for found in news for delta in found][:mtu]
        if self.order == "scuttle-breadth":
            self.ties.shuffle(news)
            longest = max(map(len, news), default=0)
            return [found[rank] for rank in range(longest) for found in news if rank < len(found)][:mtu]
        flat = sorted(delta for found in news for delta in found)
        return flat[:mtu] if self.order == "precise-oldest" else flat[-mtu:]

    def _apply(self, target: int, deltas: list[tuple[int, int]]) -> None:
        held, highest = self.held[target], self.highest[target]
        for version, place in deltas:
            held[place] = max(held[place], version)
            owner = place // self.keys
            highest[owner] = max(highest[owner], version)
        if deltas and self.order.startswith("scuttle"):
            self._check(target, {place // self.keys for _, place in deltas})

    def _check(self, target: int, owners: set[int]) -> None:
        """Invariant C(p, q): q has p's current mapping of a key, or its version is above the highest q has of p."""
        held = self.held[target]
        for owner in sorted(owners):
            highest = self.highest[target][owner]
            for place in range(owner * self.keys, (owner + 1) * self.keys):
                if held[place] != self.truth[place] <= highest:
                    self.violations += 1

    def look(self, second: int) -> Look:
        """What is stale now."""
        stale, missed, last = 0, float(second), float(second)
        for held in self.held:
            if held == self.truth:
                continue
            pairs = zip(held, self.truth, strict=True)
            lacking = [(has, current) for has, current in pairs if has != current]
            stale += len(lacking)
            missed = min(missed, self.made_at[min(self.replaced_by[has] for has, _ in lacking)])
            last = min(last, self.made_at[min(current for _, current in lacking)])
        return Look(second, stale / self.participants, second - missed, second - last)


def reconcile(participants: int, keys: int, order: Order, mtu: int, seed: int) -> Outcome:
    """The paper's set-up: ρ = 1, doubled from second 25 to 75."""
    group = Group(participants, keys, order, seed)
    for owner in range(participants):  # every mapping exists and is known to all
        for key in range(keys):
            place = owner * keys + key
            version = len(group.made_at)
            group.made_at.append(0.0)
            group.replaced_by.append(0)
            group.truth[place] = version
            for member in range(participants):
                group.held[member][place] = version
                group.highest[member][owner] = version
    looks = []
    for second in range(END):
        rate = 0 if second >= UPDATES_UNTIL else 2 if OVERLOAD_FROM <= second < OVERLOAD_UNTIL else 1
        moments = [(group.updates.random(), 0, owner) for owner in range(participants) for _ in range(rate)]
        moments += [(group.partners.random(), 1, member) for member in range(participants)]
        limit = mtu if second >= LIMITED_FROM else participants * keys
        for moment, kind, member in sorted(moments):
            if kind == 0:
                group.update(member, second + moment)
            else:
                other = group.partners.randrange(participants - 1)
                group.exchange(member, other + (other >= member), limit)
        looks.append(group.look(second + 1))
    return Outcome(looks, group.violations)
