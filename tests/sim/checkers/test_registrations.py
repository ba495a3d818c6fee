"""Registrations: what an owner has confirmed is known to all, once the world has been quiet."""

from __future__ import annotations

from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import healing

from reachp2p.core.events import RecordChanged
from reachp2p.core.views import AgentView
from tests.sim.watched import ALIVE, Watched, caught


def confirms(watched: Watched, host: Host, agent: str, version: int, *, present: bool = True) -> None:
    event = RecordChanged(at=0.0, node=host.node, agent=agent, version=version, present=present)
    watched.say(host, event)


def knows(watched: Watched, host: Host, owner: Host, **agents: int) -> None:
    watched.script(host).present_agents = [
        AgentView(
            agent=f"work/{agent}", node=owner.node, node_name=owner.name, state=ALIVE, version="0.0.0",
            registry_version=version, description="", owner="", capabilities=(), tags={}, weight=1.0,
        )
        for agent, version in agents.items()
    ]  # fmt: skip


def quiet(watched: Watched) -> None:
    watched.world.run(healing(len(watched.world.running), watched.world.protocol) + 5)


def test_a_registration_that_one_node_does_not_know(watched: Watched) -> None:
    a, _ = watched.hosts(2)
    confirms(watched, a, "work/doer", 1)
    knows(watched, a, a, doer=1)
    assert "of n00, which has confirmed work/doer in version 1" in caught(
        "registrations", lambda: quiet(watched)
    )


def test_a_registration_in_an_older_version_and_one_that_was_withdrawn(watched: Watched) -> None:
    a, b = watched.hosts(2)
    for host in (a, b):
        knows(watched, host, a, doer=1)
    confirms(watched, a, "work/doer", 1)
    quiet(watched)
    confirms(watched, a, "work/doer", 2)
    knows(watched, a, a, doer=2)
    assert "doer in version 1 of n00" in caught("registrations", lambda: quiet(watched))
    confirms(watched, a, "work/doer", 3, present=False)
    assert "which has confirmed none" in caught("registrations", lambda: quiet(watched))


def test_what_was_changed_lately_may_still_be_on_its_way(watched: Watched) -> None:
    a, _ = watched.hosts(2)
    for version in range(1, 30):
        confirms(watched, a, "work/doer", version)
        watched.world.run(20)


def test_outside_a_declared_core_nothing_is_judged(watched: Watched) -> None:
    a, b, c = watched.hosts(3)
    watched.world.declare_core([a, b])
    confirms(watched, c, "work/doer", 1)
    quiet(watched)


def test_at_the_end_of_a_run_whose_views_have_converged(watched: Watched) -> None:
    a, _ = watched.hosts(2)
    confirms(watched, a, "work/doer", 1)
    watched.checker.finish()
    watched.all_see_all()
    caught("registrations", watched.checker.finish)
