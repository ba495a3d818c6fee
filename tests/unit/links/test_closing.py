"""However a link ends, both sides know it in bounded time and once; what was said before a goodbye arrives (B33)."""

from __future__ import annotations

import pytest

from reachp2p.core.effects import CloseLink, LinkEnd
from reachp2p.core.ids import LinkId
from reachp2p.core.links.outputs import LinkDown, LinkMessage
from reachp2p.core.wire.messages import Cancel, Goodbye, Hello, HelloProof, Message, Ping, Publication, Reply
from reachp2p.errors import ErrorCode
from tests.unit.links.pair import Net, Script, Side, life

SETTLED = 60.0
"""Seconds after which nothing may be left of a broken link: 20 s of silence, 2 s for an answer, 5 s of closing."""


def note(number: int) -> Cancel:
    return Cancel(message_id=number.to_bytes(16, "big"))


def big(number: int) -> Reply:
    return Reply(message_id=number.to_bytes(16, "big"), payload=bytes([number]) * 40_000)


def linked() -> tuple[Net, Side, Side, LinkId]:
    net = Net()
    a, b = net.side("a"), net.side("b")
    link = a.dial(b)
    net.run()
    a.outputs.clear()
    b.outputs.clear()
    return net, a, b, link


def test_what_was_sent_before_a_goodbye_arrives_both_ways_and_both_call_it_clean() -> None:
    net, a, b, link = linked()
    for n in range(5):
        a.send(b, big(n))
        b.send(a, note(n))
    a.close(link, "enough", 7)
    net.run()
    assert sorted(map(repr, b.received)) == sorted(repr(big(n)) for n in range(5))
    assert a.received == [note(n) for n in range(5)]
    assert [(d.end, d.clean, d.code, d.detail) for d in b.downs] == [(LinkEnd.GOODBYE, True, 7, "enough")]
    assert [(d.end, d.clean) for d in a.downs] == [(LinkEnd.GOODBYE, True)]
    assert len(a.ends) == len(b.ends) == 0


def test_when_both_say_goodbye_at_once_nothing_is_lost_either() -> None:
    net, a, b, link = linked()
    a.send(b, big(1))
    b.send(a, big(2))
    a.close(link)
    b.close(LinkId(-1))
    net.run()
    assert b.received == [big(1)]
    assert a.received == [big(2)]
    assert [d.clean for d in a.downs + b.downs] == [True, True]


def test_who_says_goodbye_first_still_answers_what_was_on_its_way() -> None:
    net, a, b, link = linked()
    b.send(a, note(1))  # stands for a request that crosses the goodbye, or for its cancel
    a.close(link)
    wire, end = a.ends[link]
    while end.inbox:
        net.step(wire, end)
    assert a.received == [note(1)]
    assert not a.links.send(link, Publication(topic="a", payload=b"", sequence=1, published_at=0))
    assert a.links.send(link, big(3))
    a.perform()
    net.run()
    assert b.received == [big(3)]
    assert [d.clean for d in a.downs + b.downs] == [True, True]


def test_a_closing_link_is_not_used_any_more() -> None:
    net, a, b, link = linked()
    a.close(link)
    assert a.links.link_to(b.node) is None
    wire, end = a.ends[link]
    other = wire.other(end)
    assert other is not None
    while other.inbox:
        net.step(wire, other)
    assert b.links.link_to(a.node) is None
    assert not b.links.send(LinkId(-1), note(1))
    net.run()


def test_a_goodbye_waits_for_room_but_not_for_ever() -> None:
    net, a, b, link = linked()
    net.gated.add("a")
    a.links.on_writable(link, 0, net.now)
    a.send(b, big(1))
    a.close(link)
    net.sleep(4.0)
    net.writable(a, link)
    net.run()
    assert b.received == [big(1)]
    assert [d.clean for d in a.downs + b.downs] == [True, True]

    net, a, b, link = linked()
    a.links.on_writable(link, 0, net.now)
    a.close(link)
    net.sleep(5.1)
    assert [(d.end, d.clean) for d in a.downs] == [(LinkEnd.LOST, False)]
    assert [(d.end, d.clean) for d in b.downs] == [(LinkEnd.LOST, False)]
    assert a.counters.value("links.closed.closing_timeout") == 1


def test_closing_before_the_proof_ends_at_once() -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    dialled = a.dial(b, b.node)
    a.close(dialled, "changed our mind")
    assert a.performed[-1] == CloseLink(dialled, abort=True)
    opened = a.dial(b, b.node)
    while len(a.performed) < 4:
        net.step(*net.steps()[0])
    a.close(opened, "changed our mind again")
    net.run()
    assert [(d.link, d.end, d.was_proven) for d in a.downs] == [
        (dialled, LinkEnd.GOODBYE, False),
        (opened, LinkEnd.GOODBYE, False),
    ]
    assert not a.links.is_dialling(b.node)
    assert b.outputs == []


def test_closing_a_dial_on_purpose_does_not_go_on_to_its_next_address() -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    link = a.links.ensure(b.node, [b.address, b.address], net.now)
    assert link is not None
    a.perform()
    a.close(link)
    assert not a.links.is_dialling(b.node)


def test_all_links_can_be_closed_together() -> None:
    net, a, b, _ = linked()
    c = net.side("c")
    c.dial(a)
    a.dial(net.side("d"))  # not answered yet
    while c.links.link_to(a.node) is None:
        net.step(*net.steps()[-1])
    net.silent.add(net.sides["d"].address)
    a.take(a.links.close_all(net.now, "leaving"))
    net.run()
    assert a.links.gauges()["links"] == 0
    assert [d.detail for d in b.downs + c.downs] == ["leaving", "leaving"]


ENDINGS: dict[str, tuple[list[Message | LinkEnd], LinkEnd, bool]] = {
    "goodbye, then the transport": ([Goodbye(code=3, reason="r"), LinkEnd.GOODBYE], LinkEnd.GOODBYE, True),
    "goodbye, then a reset": ([Goodbye(code=3, reason="r"), LinkEnd.LOST], LinkEnd.GOODBYE, False),
    "the transport without goodbye": ([LinkEnd.GOODBYE], LinkEnd.GOODBYE, False),
    "a reset": ([LinkEnd.LOST], LinkEnd.LOST, False),
    "goodbye for good": ([Goodbye(final=True), LinkEnd.GOODBYE], LinkEnd.GOODBYE, False),
    "goodbye, then for good": ([Goodbye(), Goodbye(final=True)], LinkEnd.GOODBYE, False),
    "goodbye twice": ([Goodbye(), Goodbye()], LinkEnd.GOODBYE, False),
    "goodbye, then a hello's proof": ([Goodbye(), HelloProof(signature=bytes(64))], LinkEnd.GOODBYE, False),
    "hello again": (
        [Hello(wire_version=1, cluster_id="test", node=bytes(32), life=life(1), nonce=bytes(16))],
        LinkEnd.GOODBYE,
        False,
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("before", [(), (note(1), note(2))])
def test_each_order_of_endings_is_reported_once(name: str, before: tuple[Message, ...]) -> None:
    events, end, clean = ENDINGS[name]
    net = Net()
    a = net.side("a")
    remote = Script(a)
    if before:
        remote.say(*before)
    for event in events:
        if isinstance(event, LinkEnd):
            remote.end(event)
        else:
            remote.say(event)
    assert [(d.end, d.clean, d.was_proven) for d in remote.downs()] == [(end, clean, True)]
    assert [o.message for o in remote.outputs if isinstance(o, LinkMessage)] == list(before)
    assert a.links.gauges()["links"] == 0
    assert len(a.timers) == 0
    assert a.links.link_to(remote.node) is None


@pytest.mark.parametrize("name", ENDINGS)
def test_each_order_of_endings_is_reported_once_while_we_close_ourselves(name: str) -> None:
    events, _, _ = ENDINGS[name]
    net = Net()
    a = net.side("a")
    remote = Script(a)
    remote.act(a.links.close(remote.link, net.now, "enough"))
    for event in events:
        if isinstance(event, LinkEnd):
            remote.end(event)
        else:
            remote.say(event)
    net.now += 6.0
    remote.timeout()
    assert len(remote.downs()) == 1
    assert a.links.gauges()["links"] == 0
    assert len(a.timers) == 0


def test_a_remote_that_says_goodbye_and_never_closes_is_hung_up_on() -> None:
    net = Net()
    a = net.side("a")
    remote = Script(a)
    remote.say(Goodbye(reason="bye"))
    assert remote.heard() == [Goodbye()]
    net.now += 5.0
    remote.timeout()
    assert [(d.end, d.detail) for d in remote.downs()] == [(LinkEnd.GOODBYE, "bye")]
    assert remote.closes() == [CloseLink(remote.link, abort=True)]


def test_after_a_goodbye_only_replies_and_cancels_are_read() -> None:
    net = Net()
    a = net.side("a")
    remote = Script(a)
    new = Publication(topic="a", payload=b"", sequence=1, published_at=0)
    remote.say(Goodbye(), note(1), new, big(2), Ping(nonce=b"8 bytes!"))
    assert [o.message for o in remote.outputs if isinstance(o, LinkMessage)] == [note(1), big(2)]
    assert remote.heard() == [Goodbye()]
    assert a.counters.value("dropped.message.after_goodbye") == 2


def test_a_goodbye_during_the_opening_ends_the_dial_with_its_reason() -> None:
    net = Net()
    a, b = net.side("a"), net.side("b", cluster_id="other")
    a.dial(b, b.node)
    net.run()
    (down,) = a.downs
    assert (down.end, down.code, down.was_proven) == (LinkEnd.GOODBYE, ErrorCode.CLUSTER_MISMATCH, False)


def conversation(net: Net, a: Side, b: Side) -> None:
    """One dial, traffic both ways, a close: every kind of step there is."""
    a.links.ensure(b.node, [b.address], net.now)
    a.perform()

    def talk(side: Side, other: Side, output: object) -> None:
        if isinstance(output, LinkMessage):
            return
        if not isinstance(output, LinkDown):
            for n in range(3):
                side.send(other, note(n))
            side.send(other, big(9))
            if side is a:
                side.links.close(side.links.link_to(other.node) or LinkId(0), net.now, "done")

    a.on_output = lambda output, now: talk(a, b, output)
    b.on_output = lambda output, now: talk(b, a, output)


def steps_of_a_conversation() -> int:
    net = Net()
    a, b = net.side("a"), net.side("b")
    conversation(net, a, b)
    count = 0
    while net.steps():
        net.step(*net.steps()[0])
        count += 1
    assert a.downs
    assert b.downs
    return count


@pytest.mark.parametrize("point", range(steps_of_a_conversation() + 1))
@pytest.mark.parametrize("how", ["cut", "a vanishes", "b vanishes"])
def test_a_link_that_breaks_at_any_point_ends_once_on_both_sides(point: int, how: str) -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    conversation(net, a, b)
    for _ in range(point):
        net.step(*net.steps()[0])
    for wire in list(net.wires):
        if how == "cut":
            net.cut(wire)
        else:  # one end is gone without a word: nothing arrives there or comes from there any more
            gone = a if how == "a vanishes" else b
            for end in wire.ends:
                if end.side is gone:
                    end.is_open = False
                    end.inbox.clear()
                    end.is_told = True
            if wire.acceptor is None:
                net.silent.add(wire.address)
    gone_sides = {"cut": [], "a vanishes": [a], "b vanishes": [b]}[how]
    for side in gone_sides:
        del net.sides[side.name]
    net.sleep(SETTLED)
    for side in (a, b):
        if side in gone_sides:
            continue
        ended = [down.link for down in side.downs]
        assert len(ended) == len(set(ended)) <= 1
        assert len(ended) >= len(side.ups)
        assert side.links.gauges()["links"] == 0
        assert side.links.gauges()["links.dials"] == 0
        assert len(side.timers) == 0
