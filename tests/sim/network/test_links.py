from __future__ import annotations

import pytest
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.scripted import Story
from reachp2p_sim.network.links import QUEUE_BYTES
from reachp2p_sim.world.world import LINK_SILENCE

from reachp2p.core.effects import CloseLink, Dial, LinkEnd, SendFrame
from reachp2p.core.ids import Address, LinkId

UP, DOWN = LinkId(1), LinkId(-1)


def connect(story: Story, a: Host, b: Host) -> None:
    story.want(a, Dial(UP, b.address, None, 5.0))
    story.world.run(1)
    assert story.heard(a) == [("opened", UP)]
    assert story.heard(b) == [("opened", DOWN)]


def frames(story: Story, host: Host) -> list[bytes]:
    return [what[2] for what in story.heard(host) if what[0] == "frame"]


def ends(story: Story, host: Host) -> list[LinkEnd]:
    return [what[2] for what in story.heard(host) if what[0] == "closed"]


def test_a_dial_takes_two_round_trips(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    story.want(a, Dial(UP, b.address, None, 5.0))
    story.world.run(0.031)
    assert story.heard(b) == [("opened", DOWN)]
    assert story.heard(a) == []
    story.world.run(0.01)
    assert story.heard(a) == [("opened", UP)]


def test_frames_arrive_in_order_in_any_weather(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    connect(story, a, b)
    story.world.set_weather(delay=0.001, spread=0.05, loss=0.3)
    sent = [number.to_bytes(2, "big") for number in range(300)]
    story.want(a, *[SendFrame(UP, data) for data in sent])
    story.world.run(120)
    assert frames(story, b) == sent


def test_the_sender_is_told_how_much_room_there_is(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    connect(story, a, b)
    story.want(a, SendFrame(UP, bytes(1_000)))
    story.world.run(1)
    assert story.heard(a) == []
    story.want(a, *[SendFrame(UP, bytes(100_000)) for _ in range(3)])
    story.world.run(1)
    assert story.heard(a) == [("writable", UP, QUEUE_BYTES)]


def test_a_link_that_is_overfilled_breaks(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    connect(story, a, b)
    story.world.hold([a], [b])
    story.want(a, *[SendFrame(UP, bytes(1 << 20)) for _ in range(9)])
    story.world.run(0)
    assert ends(story, a) == [LinkEnd.LOST]


def test_a_clean_close_comes_after_what_was_sent(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    connect(story, a, b)
    story.want(a, SendFrame(UP, b"last words"), CloseLink(UP))
    story.world.run(1)
    assert story.heard(b) == [("frame", DOWN, b"last words"), ("closed", DOWN, LinkEnd.GOODBYE)]
    assert story.heard(a) == []


def test_an_abort_is_a_loss_for_the_other_side(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    connect(story, a, b)
    story.want(b, CloseLink(DOWN, abort=True))
    story.world.run(1)
    assert ends(story, a) == [LinkEnd.LOST]
    assert story.heard(b) == []


def test_a_process_that_ends_resets_its_links_at_once(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    connect(story, a, b)
    story.world.crash(b)
    story.world.run(0.011)
    assert ends(story, a) == [LinkEnd.LOST]


def test_a_dial_to_a_host_without_a_process_is_refused_within_a_round_trip(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    story.world.crash(b)
    story.want(a, Dial(UP, b.address, None, 5.0))
    story.world.run(0.021)
    assert ends(story, a) == [LinkEnd.REFUSED]


@pytest.mark.parametrize("trouble", ["host down", "partition", "nobody there"])
def test_a_dial_into_silence_times_out(story: Story, trouble: str) -> None:
    a, b = story.world.add_nodes(2)
    address = b.address
    if trouble == "host down":
        story.world.crash(b, host_down=True)
    elif trouble == "partition":
        story.world.partition([a], [b])
    else:
        address = Address("192.0.2.1", 1)
    story.want(a, Dial(UP, address, None, 5.0))
    story.world.run(4.9)
    assert story.heard(a) == []
    story.world.run(0.2)
    assert ends(story, a) == [LinkEnd.TIMEOUT]


def test_a_dial_that_began_in_a_partition_succeeds_if_it_heals_in_time(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    story.world.partition([a], [b])
    story.want(a, Dial(UP, b.address, None, 5.0))
    story.world.run(2)
    story.world.heal()
    story.world.run(2)
    assert story.heard(a) == [("opened", UP)]


def test_the_loss_of_a_host_is_noticed_by_silence_only(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    connect(story, a, b)
    story.world.crash(b, host_down=True)
    story.world.run(LINK_SILENCE - 1)
    assert story.heard(a) == []
    story.world.run(LINK_SILENCE + 2)
    assert ends(story, a) == [LinkEnd.LOST]


def test_a_host_that_comes_back_resets_the_links_of_its_former_process(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    connect(story, a, b)
    story.world.crash(b, host_down=True)
    story.world.run(5)
    story.world.restart(b)
    story.world.run(1)
    assert ends(story, a) == [LinkEnd.LOST]


def test_what_is_sent_into_a_short_partition_arrives_after_it_in_order(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    connect(story, a, b)
    story.world.partition([a], [b])
    story.want(a, SendFrame(UP, b"1"), SendFrame(UP, b"2"))
    story.world.run(10)
    assert frames(story, b) == []
    story.world.heal()
    story.want(a, SendFrame(UP, b"3"))
    story.world.run(15)
    assert frames(story, b) == [b"1", b"2", b"3"]
    assert ends(story, a) == []


def test_a_long_partition_loses_the_link_on_both_sides(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    connect(story, a, b)
    story.world.partition([a], [b])
    story.want(a, SendFrame(UP, b"lost"))
    story.world.run(2 * LINK_SILENCE + 1)
    assert ends(story, a) == ends(story, b) == [LinkEnd.LOST]
    story.world.heal()
    story.world.run(LINK_SILENCE)
    assert story.heard(a) == story.heard(b) == []
    assert len(story.world.links) == 0


def test_a_link_lost_on_one_side_only_is_lost_on_the_other_after_the_heal(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    connect(story, a, b)
    story.world.partition([a], [b])
    story.want(b, CloseLink(DOWN))
    story.world.run(5)
    assert story.heard(a) == []
    story.world.heal()
    story.world.run(10)
    assert ends(story, a) == [LinkEnd.GOODBYE]


def test_a_paused_process_accepts_when_it_wakes_if_the_dialler_still_waits(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    story.world.pause(b)
    story.want(a, Dial(UP, b.address, None, 5.0))
    story.world.run(2)
    story.world.resume(b)
    story.world.run(1)
    assert ("opened", DOWN) in story.heard(b)
    assert story.heard(a) == [("opened", UP)]

    story.world.pause(b)
    story.want(a, Dial(LinkId(2), b.address, None, 5.0))
    story.world.run(10)
    assert ends(story, a) == [LinkEnd.TIMEOUT]
    story.world.resume(b)
    story.world.run(1)
    assert [what for what in story.heard(b) if what[0] == "opened"] == []


def test_nothing_reaches_an_engine_about_a_link_it_has_closed(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    connect(story, a, b)
    story.want(b, SendFrame(DOWN, b"on its way"))
    story.want(a, CloseLink(UP))
    story.world.run(1)
    assert story.heard(a) == []
    assert [what for what in story.heard(b) if what[0] == "closed"] == [("closed", DOWN, LinkEnd.GOODBYE)]


def test_streams_that_are_over_are_forgotten(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    for number in range(1, 6):
        story.want(a, Dial(LinkId(number), b.address, None, 5.0))
        story.world.run(1)
        story.want(a, CloseLink(LinkId(number)))
        story.world.run(1)
    assert len(story.world.links) == 0
    assert a.links == b.links == {}


def test_who_is_accepted_and_dropped_at_once_hears_of_both(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    story.want(a, Dial(UP, b.address, None, 5.0))
    story.world.run(0.031)
    assert story.heard(b) == [("opened", DOWN)]
    story.want(b, CloseLink(DOWN, abort=True))
    story.world.run(1)
    assert story.heard(a) == [("opened", UP), ("closed", UP, LinkEnd.LOST)]
