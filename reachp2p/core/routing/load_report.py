"""A load report: what a node says about how busy it is, and how it travels.

It rides as an optional extension on Acks and replies. A node that offers one agent tells totals. One that offers
several tells them too, and which agents have something to do: the busiest `AGENTS_TOLD`, each by a hash of its name,
for names are long and Acks are small. What ails it (`troubles`) follows, if anything does.
"""

from __future__ import annotations

from zlib import crc32

import msgspec

from reachp2p.core.ids import COUNTER_MAX
from reachp2p.core.routing.troubles import AgentTroubles, Troubles

AGENTS_TOLD = 4
"""Agents of one node whose part of the load is told, the busiest of those with any; as many whose troubles are."""
COUNT_MAX = 2**31
SECONDS_MAX = 86_400.0
HASH_MAX = 2**32 - 1
FIELDS = 5
"""Of a report about an only agent without troubles; agents, troubles, and what later versions tell may follow."""


def agent_hash(agent: str) -> int:
    """By which an agent is known in reports of its node (CRC-32, RFC 1952 §8): two of one node with the same hash
    would be told as one, which does no harm but to their numbers."""
    return crc32(agent.encode())


class AgentLoad(msgspec.Struct, frozen=True, gc=False):
    """What one agent of a node has to do. `agent` is a hash of its name."""

    agent: int
    in_flight: int
    queued: int

    @property
    def requests(self) -> int:
        """Those that run or wait there."""
        return self.in_flight + self.queued


class LoadReport(msgspec.Struct, frozen=True):
    """What a node says. `p95`: seconds that its handlers take; `cpu`: percent, None if it does not know."""

    sequence: int
    in_flight: int = 0
    queued: int = 0
    p95: float = 0.0
    cpu: int | None = None
    agents: tuple[AgentLoad, ...] = ()
    """The busiest first; none: it has one agent only, or nothing to do."""
    troubles: Troubles | None = None
    """None: nothing ails it."""

    def of(self, agent: str) -> AgentLoad:
        """The part of one of its agents. Of one that is not told among `AGENTS_TOLD` it is the most that it can be."""
        name = agent_hash(agent)
        if not self.agents:
            return AgentLoad(name, self.in_flight, self.queued)
        for part in self.agents:
            if part.agent == name:
                return part
        if len(self.agents) < AGENTS_TOLD:
            return AgentLoad(name, 0, 0)
        least = self.agents[-1].requests
        in_flight = self.in_flight - sum(part.in_flight for part in self.agents)
        queued = self.queued - sum(part.queued for part in self.agents)
        return AgentLoad(name, max(0, min(in_flight, least)), max(0, min(queued, least)))

    def write(self) -> list[object]:
        """As it travels: seconds are microseconds there."""
        told: list[object] = [self.sequence, self.in_flight, self.queued, round(self.p95 * 1e6), self.cpu]
        if self.agents or self.troubles is not None:
            told.append([[part.agent, part.in_flight, part.queued] for part in self.agents])
        if self.troubles is not None:
            agents = [[one.agent, one.failed, one.stopped] for one in self.troubles.agents]
            told.append([self.troubles.late, self.troubles.overdue, agents])
        return told


def read_report(value: object) -> LoadReport | None:
    """The report in an extension, or None: another node may send anything there."""
    if type(value) is not list or len(value) < FIELDS:
        return None
    sequence, in_flight, queued, p95, cpu = value[:FIELDS]
    if not (
        _is_number(sequence, COUNTER_MAX)
        and _is_number(in_flight, COUNT_MAX)
        and _is_number(queued, COUNT_MAX)
        and _is_number(p95, SECONDS_MAX * 1e6)
        and (cpu is None or _is_number(cpu, 100))
    ):
        return None
    agents = _read_triples(value[FIELDS]) if len(value) > FIELDS else []
    troubles = _read_troubles(value[FIELDS + 1]) if len(value) > FIELDS + 1 else Troubles()
    if agents is None or troubles is None:
        return None
    return LoadReport(
        sequence,
        in_flight,
        queued,
        p95 / 1e6,
        cpu,
        tuple(AgentLoad(*one) for one in agents),
        troubles if len(value) > FIELDS + 1 else None,
    )


def _read_troubles(value: object) -> Troubles | None:
    if type(value) is not list or len(value) < 3:
        return None
    late, overdue, agents = value[0], value[1], _read_triples(value[2])
    if agents is None or not (_is_number(late, COUNT_MAX) and _is_number(overdue, COUNT_MAX)):
        return None
    return Troubles(late, overdue, tuple(AgentTroubles(*one) for one in agents))


def _read_triples(value: object) -> list[tuple[int, int, int]] | None:
    """A few agents by their hashes, each with two numbers."""
    if type(value) is not list or len(value) > AGENTS_TOLD:
        return None
    triples: list[tuple[int, int, int]] = []
    for one in value:
        if type(one) is not list or len(one) != 3:
            return None
        agent, first, second = one
        if not (
            _is_number(agent, HASH_MAX) and _is_number(first, COUNT_MAX) and _is_number(second, COUNT_MAX)
        ):
            return None
        triples.append((agent, first, second))
    return triples


def _is_number(value: object, most: float) -> bool:
    return type(value) is int and 0 <= value <= most
