"""A node that starts asks several contacts what they hold for its id; one of them cannot answer for the others."""

from __future__ import annotations

from reachp2p_sim.world.world import World

from reachp2p.core.ids import LinkId
from reachp2p.core.links.outputs import LinkMessage
from reachp2p.core.membership.life import Phase
from reachp2p.core.wire.messages import ContactAnswer


def test_answers_that_nobody_has_asked_for_do_not_end_the_asking() -> None:
    world = World(seed=3)
    hosts = world.add_nodes(6)
    world.run(30)
    late = hosts[4]
    world.crash(late)
    world.run(1)
    world.start(late)
    cycle = late.engine._parts.life
    for _ in range(20_000):
        if cycle.phase is Phase.ASKING and cycle._waiting > 1:
            break
        world.run(0.0005)
    waiting = cycle._waiting
    assert cycle.phase is Phase.ASKING
    assert waiting > 1
    peer = hosts[1]
    assert peer.engine.life is not None
    answer = LinkMessage(
        LinkId(-77), peer.node, peer.engine.life, ContactAnswer()
    )  # on a link where nobody was asked
    for _ in range(waiting):
        late.engine._inbound.link_outputs([answer], late.now)
    assert cycle.phase is Phase.ASKING
    assert late.engine.diagnostics()["contacts.answer_unasked"] == waiting
    world.run(5)
    assert cycle.phase is Phase.RUNNING
