"""What hostile nodes may and may not bring about, with the core that ships."""

from __future__ import annotations

from collections import Counter

import pytest
from reachp2p_sim import attach_all
from reachp2p_sim.checkers import Checker
from reachp2p_sim.hostile import BEHAVIOURS
from reachp2p_sim.machines.host import Host
from reachp2p_sim.steps.hostility import TurnHostile
from reachp2p_sim.world.agreement import agreed, converged
from reachp2p_sim.world.world import World

from reachp2p.core.events import Event, MemberChanged, MemberState


class Town:
    """Ten nodes that know each other, all checkers on, and what honest ones have been told about each other."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed=seed)
        self.checkers: list[Checker] = attach_all(self.world)
        self.hosts = self.world.add_nodes(10, within=1.0)
        self.world.run(1)
        self.world.run_until(converged, limit=30)
        self.dead: list[str] = []
        self.world.on_event.append(self._on_event)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, MemberChanged) and event.new is MemberState.DEAD and not host.is_hostile:
            self.dead.append(event.name)

    def sum(self, counter: str) -> int:
        return sum(host.engine.diagnostics().get(counter, 0) for host in self.world.judged)

    def finish(self) -> None:
        for checker in self.checkers:
            checker.finish()


@pytest.mark.parametrize("behaviour", sorted(set(BEHAVIOURS) - {"flood", "sybils"}))
def test_two_of_ten_hostile_nodes_have_no_honest_one_buried(behaviour: str) -> None:
    town = Town(seed=7)
    world = town.world
    world.turn_hostile(*town.hosts[4:6], behaviour=behaviour, victims=town.hosts[:2])
    world.run(25)
    assert len(world.judged) == 8
    assert not world.is_calm
    assert [name for name in town.dead if world.by_name[name] in world.judged] == []
    world.turn_honest(*town.hosts[4:6])
    world.run_until(agreed, limit=60)
    assert len(world.judged) == 8, "what was done is not undone"
    world.restart(*town.hosts[4:6])
    world.run_until(agreed, limit=120)
    assert len(world.judged) == 10
    town.finish()


def test_a_flood_stays_within_all_bounds() -> None:
    town = Town(seed=7)
    town.world.turn_hostile(town.hosts[4], behaviour="flood", victims=town.hosts[:2])
    town.world.run(6)
    assert town.dead == []
    assert town.sum("dropped.ping_req.rate") > 100
    assert town.sum("dropped.head_request.rate") > 100, "a head is larger than the question for it"
    town.finish()


def test_members_that_were_made_up_are_buried_and_nobody_else() -> None:
    town = Town(seed=7)
    town.world.turn_hostile(town.hosts[4], behaviour="sybils")
    town.world.run(3)
    town.world.turn_honest(town.hosts[4])
    town.world.run(30)
    assert town.dead
    assert all(name.startswith("sybil") for name in town.dead)


def test_nothing_that_is_said_in_anothers_name_is_taken_for_true() -> None:
    town = Town(seed=2)
    world = town.world
    before = {host.name: host.life for host in world.running}
    world.turn_hostile(town.hosts[4], behaviour="forgery")
    world.run(10)
    for reason in ("head", "record", "accusation", "datagram"):
        assert town.sum(f"dropped.{reason}.bad_signature") > 0
    assert {host.name: host.life for host in world.running} == before
    assert not any("work/forged" in agent.agent for host in world.judged for agent in host.engine.agents())
    assert town.sum("refutations") == 0


@pytest.mark.parametrize("seed", range(5))
def test_all_hold_the_same_of_two_words_of_an_equivocator(seed: int) -> None:
    town = Town(seed)
    liar = town.hosts[4]
    town.world.turn_hostile(liar, behaviour="equivocation")
    town.world.run(10)
    town.world.turn_honest(liar)
    town.world.run(5)
    zones = Counter(
        m.zone for host in town.world.judged for m in host.engine.members() if m.node == liar.node
    )
    assert len(zones) == 1
    assert set(zones) <= {"east", "west"}
    assert town.sum("membership.equivocation") > 0


def test_who_forwards_nothing_still_looks_well() -> None:
    town = Town(seed=3)
    town.world.turn_hostile(*town.hosts[1:7], behaviour="forwards-nothing")
    town.world.run(20)
    assert town.dead == []
    behaviour = town.hosts[1].behaviour
    assert behaviour is not None
    assert behaviour.acts > 0


def test_an_unknown_behaviour_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="false-accusation"):
        TurnHostile(hosts="n01", behaviour="rude")
