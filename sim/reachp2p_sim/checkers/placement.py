"""Placement (I-AGREE, I-MOVE): a key has another owner in another view only because of members that differ.

One node after the other is asked for the owners of a few keys and for the instances that it places, and compared with
what others answered shortly before. Where two answers name different owners for a key, one of the two owners must be
missing from the other's instances, or weigh something else there. So equal views place all keys alike, whatever their
history; a change of members moves no key between two that it does not touch; and during churn two views disagree about
no more keys than belong to the members in which they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reachp2p.core.ring.placement import InstanceKey
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World

LOOK_INTERVAL = 5.0
KEYS = tuple(f"key {number}" for number in range(64))
"""Enough that a ring of ten which forgets one instance shows it in one look, nearly always (1 − 0.9⁶⁴)."""
COMPARED_MAX = 8
"""Answers that a new one is compared with, of each capability."""


@dataclass(slots=True)
class Answer:
    """What one node said."""

    host: Host
    at: float
    weights: Mapping[InstanceKey, int]
    owners: list[InstanceKey | None]


class Placement(Checker):
    """Asks one node every five seconds about one capability that somebody offers."""

    name = "placement"
    invariant = "I-MOVE"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._turn = 0
        self._answers: dict[str, list[Answer]] = {}
        world.every(LOOK_INTERVAL, self._look)

    def _look(self) -> None:
        running = self.world.running
        offered = {
            capability.name: None
            for host in running
            for offer in host.application.offers
            for capability in offer.spec.capabilities
        }
        if not offered:
            return
        self._turn += 1
        capabilities = sorted(offered)
        self.ask(
            running[self._turn % len(running)], capabilities[self._turn // len(running) % len(capabilities)]
        )

    def finish(self) -> None:
        """Ask everybody once more about what was asked before."""
        for capability in sorted(self._answers):
            for host in self.world.running:
                self.ask(host, capability)

    def ask(self, host: Host, capability: str) -> None:
        """Ask one node, and compare."""
        weights, owners = host.engine.owners(capability, KEYS)
        if not weights:
            return
        answer = Answer(host, self.world.now, weights, owners)
        answers = self._answers.setdefault(capability, [])
        for other in answers:
            self._compare(capability, other, answer)
        answers.append(answer)
        if len(answers) > COMPARED_MAX:
            del answers[0]

    def _compare(self, capability: str, before: Answer, after: Answer) -> None:
        for key, one, other in zip(KEYS, before.owners, after.owners, strict=True):
            if one == other or one is None or other is None:
                continue
            if after.weights.get(one) == before.weights.get(one) and (
                after.weights.get(other) == before.weights.get(other)
            ):
                self.fail(
                    f"{key!r} of {capability} belongs to {self._name(other)} here and belonged to {self._name(one)} "
                    f"at {before.host.name} {after.at - before.at:g} s before, and both place both alike",
                    after.host,
                )

    def _name(self, instance: InstanceKey) -> str:
        hosts = self.world.by_node.get(instance[0], ())
        return f"{instance[1]} on {hosts[0].name if hosts else instance[0].hex()[:8]}"
