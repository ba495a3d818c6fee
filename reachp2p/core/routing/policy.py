"""The protocol of policies: which of the candidates a call goes to. Small, so that more can be added (`policies`).

A policy decides in two steps. `choose` is a pure function of the choice and of what the policy has remembered;
`on_picked` remembers. So an explanation can ask `choose` what the next call would get and change nothing: even chance
is drawn ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

import msgspec

from reachp2p.core.commands import RouteQuery
from reachp2p.core.ids import NodeId, Rng
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.measures import Measures
from reachp2p.core.routing.pool import Candidates, Pool

NOTHING_MEASURED = Measures()


class Choice(msgspec.Struct, frozen=True):
    """What a policy sees: the query, its pool, who is left after all stages and earlier attempts (never empty), the
    time, and what this node has measured.
    """

    query: RouteQuery
    pool: Pool
    candidates: Candidates
    now: float = 0.0
    measures: Measures = NOTHING_MEASURED
    tried: Collection[NodeId] = ()
    """Nodes that were asked before."""


class Account(msgspec.Struct, frozen=True):
    """A policy's account of a choice: why this instance; each candidate's expected share; places in a preference list.

    `shares` runs in parallel to the candidates and sums to 1. `positions` counts from 1, over all that are placed.
    """

    because: str
    shares: list[float]
    positions: dict[InstanceKey, int] = {}


class Policy(Protocol):
    """Chooses one candidate. Built once for a router, with its random numbers; only `choose` must be written."""

    def missing(self, query: RouteQuery) -> str | None:
        """What a query lacks for this policy, in words, or None (1704 otherwise)."""
        return None

    def choose(self, choice: Choice) -> Instance | None:
        """One of the candidates, or None when none may take a call now (1305). Changes nothing."""

    def on_picked(self, choice: Choice, instance: Instance) -> None:
        """The call goes to `instance`: remember it, draw the next number."""

    def on_started(self, choice: Choice, instance: Instance) -> None:
        """The attempt that a pick has led to begins."""

    def on_ended(self, choice: Choice, instance: Instance) -> None:
        """It has ended, in whatever way; once for each `on_started`."""

    def account(self, choice: Choice, instance: Instance) -> Account:
        """Why `choose` gives `instance`. For people: may take its time."""
        count = len(choice.candidates)
        return Account(f"chosen from {count}", [1 / count] * count)


PolicyFactory: TypeAlias = Callable[[Rng], Policy]
