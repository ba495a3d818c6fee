"""What one member says of how complete another's records are."""

from __future__ import annotations

from reachp2p_sim.world.world import World

from reachp2p.core.commands import AgentSpec
from reachp2p.core.hearing import Source
from reachp2p.core.ids import COUNTER_MAX, LinkId
from reachp2p.core.links.outputs import LinkMessage
from reachp2p.core.wire.messages import DigestEntry, SyncDelta


def test_nobody_is_complete_beyond_what_the_owner_has_signed() -> None:
    """One delta of any member about another had all refuse the other's later records, for good."""
    world = World(seed=3)
    hosts = world.add_nodes(5)
    world.run(20)
    reader, victim, liar = hosts[0], hosts[1], hosts[2]
    life = victim.engine.life
    assert life is not None
    entry = DigestEntry(victim.node, life, False, 0, COUNTER_MAX, COUNTER_MAX)
    delta = SyncDelta(exchange=0, through=[entry], last=True)
    reader.engine._hearing.delta(delta, Source(liar.node, link=1), reader.now)
    world.run(60)
    victim.engine.register(AgentSpec(agent="a/late"), victim.now)
    world.run(120)
    for host in hosts:
        assert [view.agent for view in host.engine.agents() if view.node == victim.node] == ["a/late"]


def test_a_signed_record_is_not_refused_because_another_member_said_that_there_is_none() -> None:
    """The same within what the owner may have signed: a bound alone is no cure."""
    world = World(seed=3)
    hosts = world.add_nodes(5)
    world.run(20)
    reader, victim, liar = hosts[0], hosts[1], hosts[2]
    assert victim.engine.life is not None
    assert liar.engine.life is not None
    version = victim.engine._parts.own.version + 1  # that of the next record
    entry = DigestEntry(victim.node, victim.engine.life, False, 0, version, version)
    delta = SyncDelta(exchange=0, through=[entry], last=True)
    heard = LinkMessage(LinkId(-77), liar.node, liar.engine.life, delta)
    reader.engine._inbound.link_outputs([heard], reader.now)
    victim.engine.register(AgentSpec(agent="a/late"), victim.now)
    world.run(300)
    assert [view.agent for view in reader.engine.agents() if view.node == victim.node] == ["a/late"]
