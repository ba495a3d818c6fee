"""Fencing tokens (I-TOKEN): they tell the owners of an exclusive agent apart, and outside of partitions there is one.

A token has one holder: one process of one machine. Within a process tokens of an agent only grow, and a handler runs
under the token that its node has said it holds, at that time. So a database that refuses a token below one that it
has accepted takes no write of a former owner. And no two machines own one agent while views are equal and nothing is
wrong.
"""

from __future__ import annotations

from reachp2p.core.effects import Invoke
from reachp2p.core.events import ClaimChanged, Event
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World

LOOK_INTERVAL = 1.0
PERIODS = 3
"""Probe periods for which two owners may be seen in equal views: the loser's word that it stands by is on its way."""


class Tokens(Checker):
    """Follows claims and handlers; looks once a second for two owners."""

    name = "tokens"
    invariant = "I-TOKEN"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._holders: dict[tuple[str, int], tuple[int, int]] = {}
        """By agent and token: machine and process."""
        self._held: dict[str, dict[int, int]] = {}
        """By agent: the token of each machine that says it owns it."""
        self._latest: dict[tuple[int, int, str], int] = {}
        """By machine, process and agent: the highest token it has run under."""
        self._two_since: dict[str, float] = {}
        world.listen(self._on_claim, ClaimChanged)
        world.on_invoke.append(self._on_invoke)
        world.on_process.append(self._on_process)
        world.every(LOOK_INTERVAL, self._look)

    def _on_claim(self, host: Host, event: Event) -> None:
        assert isinstance(event, ClaimChanged), "no other kind was asked for"
        held = self._held.setdefault(event.agent, {})
        if event.token is None:
            held.pop(host.index, None)
            return
        held[host.index] = event.token
        self._note_holder(host, event.agent, event.token)

    def _on_invoke(self, host: Host, invoke: Invoke) -> None:
        token, agent = invoke.fencing_token, invoke.agent
        if token is None:
            return
        self._note_holder(host, agent, token)
        if self._held.get(agent, {}).get(host.index) != token:
            self.fail(f"runs a handler of {agent} under token {token}, which it does not hold", host)
        key = (host.index, host.process_number, agent)
        latest = self._latest.get(key, 0)
        if token < latest:
            self.fail(f"runs a handler of {agent} under token {token} after {latest}", host)
        self._latest[key] = token

    def _note_holder(self, host: Host, agent: str, token: int) -> None:
        if len(self.world.by_node[host.node]) > 1:
            return  # of copies of one key one is fenced, which is another promise
        holder = (host.index, host.process_number)
        known = self._holders.setdefault((agent, token), holder)
        if known != holder:
            other = self.world.nodes[known[0]].name
            self.fail(f"holds token {token} of {agent}, which {other} held in its process {known[1]}", host)

    def _on_process(self, host: Host, what: str) -> None:
        if what == "ended":
            for held in self._held.values():
                held.pop(host.index, None)

    def _look(self) -> None:
        world = self.world
        for agent, held in self._held.items():
            judged = [host for host in world.judged if host.index in held]
            if len(judged) < 2 or not world.is_calm or not converged(world):
                self._two_since.pop(agent, None)
                continue
            since = self._two_since.setdefault(agent, world.now)
            if world.now - since > PERIODS * world.protocol.probe_interval:
                names = " and ".join(host.name for host in judged)
                self.fail(f"{names} own {agent} for {world.now - since:.0f} s in equal views")
