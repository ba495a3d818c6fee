"""Translators and firewalls: who can begin a conversation with whom."""

from __future__ import annotations

from typing import Any

import pytest
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.scripted import Story
from reachp2p_sim.network.gateways import Answer

from reachp2p.core.effects import Dial, LinkEnd, SendDatagram, SendFrame
from reachp2p.core.ids import LinkId

UP, DOWN = LinkId(1), LinkId(-1)
ENDS: dict[Answer, LinkEnd] = {"refused": LinkEnd.REFUSED, "silence": LinkEnd.TIMEOUT}


def datagrams(story: Story, host: Host) -> list[tuple[Any, ...]]:
    return [what[1:] for what in story.heard(host) if what[0] == "datagram"]


def test_behind_a_translator_one_can_ask_and_be_answered_but_not_be_asked(story: Story) -> None:
    hidden, other, third = story.world.add_nodes(3)
    story.world.translate(hidden, idle=30)
    story.want(other, SendDatagram(hidden.address, b"hello"))
    story.world.run(1)
    assert datagrams(story, hidden) == []
    story.want(hidden, SendDatagram(other.address, b"question"))
    story.world.run(1)
    ((source, data),) = datagrams(story, other)
    assert data == b"question"
    assert source != hidden.address
    story.want(other, SendDatagram(source, b"answer"))
    story.want(third, SendDatagram(source, b"from somebody else"))
    story.world.run(1)
    assert datagrams(story, hidden) == [(other.address, b"answer")]
    story.world.run(30)
    story.want(other, SendDatagram(source, b"too late"))
    story.world.run(1)
    assert datagrams(story, hidden) == []
    assert story.world.network.gateways.kept_out == 2


def test_a_machine_added_later_does_not_get_through_either(story: Story) -> None:
    (hidden,) = story.world.add_nodes(1)
    story.world.translate(hidden)
    (later,) = story.world.add_nodes(1)
    outside = next(a for a, host in story.world.network.by_address.items() if host is hidden)
    story.want(later, SendDatagram(outside, b"hello"))
    story.world.run(1)
    assert datagrams(story, hidden) == []


@pytest.mark.parametrize("answer", ["refused", "silence"])
def test_a_link_from_behind_a_translator_carries_both_ways_and_none_can_be_dialled(
    story: Story, answer: Answer
) -> None:
    hidden, other = story.world.add_nodes(2)
    story.world.translate(hidden, answer=answer)
    story.want(other, Dial(UP, hidden.address, None, 5.0))
    story.world.run(6)
    assert story.heard(other) == [("closed", UP, ENDS[answer])]
    story.want(hidden, Dial(UP, other.address, None, 5.0))
    story.world.run(1)
    story.want(other, SendFrame(DOWN, b"to the hidden one"))
    story.want(hidden, SendFrame(UP, b"from it"))
    story.world.run(1)
    assert ("frame", UP, b"to the hidden one") in story.heard(hidden)
    assert ("frame", DOWN, b"from it") in story.heard(other)


def test_a_firewall_stops_dials_one_way_and_resets_links_if_told(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    story.want(a, Dial(UP, b.address, None, 5.0))
    story.world.run(1)
    story.world.block_dials([a], [b])
    story.want(a, Dial(LinkId(2), b.address, None, 5.0), SendFrame(UP, b"still here"))
    story.want(b, Dial(UP, a.address, None, 5.0))
    story.world.run(1)
    assert ("closed", LinkId(2), LinkEnd.REFUSED) in story.heard(a)
    assert {("frame", DOWN, b"still here"), ("opened", UP)} <= set(story.heard(b))
    story.world.block_dials([a], [b], reset=True)
    story.world.run(1)
    assert story.heard(a) == [("closed", UP, LinkEnd.LOST)]
    assert story.heard(b) == [("closed", DOWN, LinkEnd.LOST)]
    story.world.allow_dials()
    story.want(a, Dial(LinkId(3), b.address, None, 5.0))
    story.world.run(1)
    assert ("opened", LinkId(3)) in story.heard(a)
