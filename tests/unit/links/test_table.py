"""Which links exist, which one is used, and how they are kept: two or three sides over a fake transport."""

from __future__ import annotations

import pytest

from reachp2p.core.effects import CloseLink, Dial, LinkEnd, SendFrame
from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.core.links.outputs import LinkDown, LinkMessage, LinkUp
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.codec import encode_message, pack_messages
from reachp2p.core.wire.messages import Ack, Cancel, Goodbye, Message, Ping, Reply
from reachp2p.errors import ErrorCode
from tests.unit.links.pair import End, Net, Script, Side, Wire, life

NONCE = b"8 bytes!"


def note(number: int) -> Cancel:
    """A small message that means nothing to links."""
    return Cancel(message_id=number.to_bytes(16, "big"))


def linked(protocol: Protocol | None = None) -> tuple[Net, Side, Side, LinkId]:
    """Two sides, `a` having dialled `b`."""
    net = Net()
    a, b = net.side("a", protocol=protocol), net.side("b", protocol=protocol)
    link = a.dial(b)
    net.run()
    a.outputs.clear()
    b.outputs.clear()
    return net, a, b, link


# Reaching a node


def test_the_next_address_is_tried_when_one_fails_and_each_failure_is_told() -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    nowhere, silent = Address("nowhere", 1), Address("silent", 1)
    net.silent.add(silent)
    first = a.links.ensure(b.node, [nowhere, silent, b.address], net.now)
    a.perform()
    assert a.links.is_dialling(b.node)
    net.sleep(6.0)
    ends = [(down.address, down.end, down.was_proven, down.node) for down in a.downs]
    assert ends == [(nowhere, LinkEnd.REFUSED, False, b.node), (silent, LinkEnd.TIMEOUT, False, b.node)]
    assert [(up.node, up.address) for up in a.ups] == [(b.node, b.address)]
    assert not a.links.is_dialling(b.node)
    assert a.links.link_to(b.node) not in (None, first)


def test_when_the_last_address_fails_nobody_is_dialled_any_more() -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    a.links.ensure(b.node, [Address("x", 1), Address("y", 1)], net.now)
    dialling: list[bool] = []
    a.on_output = lambda output, now: dialling.append(a.links.is_dialling(b.node))
    a.perform()
    net.run()
    assert dialling == [True, False]
    assert a.links.gauges()["links"] == 0


def test_a_link_that_was_open_and_is_lost_is_not_dialled_again_by_itself() -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    a.links.ensure(b.node, [b.address, Address("other", 1)], net.now)
    a.perform()
    net.run()
    net.cut(net.wires[0])
    net.run()
    assert [(d.end, d.was_proven) for d in a.downs] == [(LinkEnd.LOST, True)]
    assert sum(isinstance(effect, Dial) for effect in a.performed) == 1


def test_one_dial_serves_all_who_want_the_node() -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    link = a.links.ensure(b.node, [b.address], net.now)
    assert a.links.ensure(b.node, [b.address], net.now) == link
    a.perform()
    net.run()
    assert a.links.ensure(b.node, [b.address], net.now) == link == a.links.link_to(b.node)
    assert sum(isinstance(effect, Dial) for effect in a.performed) == 1


def test_a_node_without_address_cannot_be_dialled_but_is_served_over_its_own_link() -> None:
    net, a, b, _ = linked()
    assert a.links.ensure(b.node, [], net.now) == a.links.link_to(b.node)
    assert b.links.ensure(a.node, [], net.now) == -1
    assert b.send(a, note(1))
    net.run()
    assert a.received == [note(1)]
    assert Net().side("c").links.ensure(a.node, [], 0.0) is None


# Two links to one node


@pytest.mark.parametrize("delayed", [0, 1])
def test_a_simultaneous_dial_ends_with_the_link_of_the_lower_node_and_loses_nothing(delayed: int) -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    kept, given_up = a.dial(b), b.dial(a)
    sent: dict[str, list[Message]] = {"a": [], "b": []}
    for turn in range(200):
        for side, other in ((a, b), (b, a)):
            if side.send(other, note(turn)):
                sent[side.name].append(note(turn))
        possible = net.steps()
        if possible:
            net.step(*possible[-1 if delayed and turn % 3 else 0])
    net.run()
    assert sorted(map(repr, b.received)) == sorted(map(repr, sent["a"]))
    assert sorted(map(repr, a.received)) == sorted(map(repr, sent["b"]))
    assert a.links.link_to(b.node) == kept
    assert [(d.link, d.end, d.clean) for d in b.downs] == [(given_up, LinkEnd.GOODBYE, True)]
    assert [(d.end, d.clean) for d in a.downs] == [(LinkEnd.GOODBYE, True)]
    assert a.links.gauges()["links"] == b.links.gauges()["links"] == 1


def closed_for_another() -> tuple[Net, Side, Side, Wire]:
    """b has closed its own link, because it uses the one that a dials: b's proof on that is still on its way to a."""
    net = Net()
    a, b = net.side("a"), net.side("b")
    a.dial(b, b.node)
    b.dial(a, a.node)
    kept, _ = net.wires

    heard = 0

    def is_withheld(end: End) -> bool:
        return end is kept.dialler and end.is_told and heard == 1  # b's Hello; its proof comes next

    while possible := [step for step in net.steps() if not is_withheld(step[1])]:
        heard += possible[0][1] is kept.dialler and kept.dialler.is_told
        net.step(*possible[0])
    assert kept.acceptor is not None
    assert b.links.link_to(a.node) == kept.acceptor.link
    assert [(down.end, down.clean) for down in b.downs] == [(LinkEnd.GOODBYE, True)]
    return net, a, b, kept


def test_the_end_of_a_link_that_is_closed_for_another_is_told_when_that_one_is_open_here_too() -> None:
    """A newcomer's first call was ended with 1409, because nothing led to its instance for 8 ms (newcomer-calls)."""
    net, a, b, kept = closed_for_another()
    assert (a.downs, a.links.link_to(b.node)) == ([], None)
    assert a.links.is_dialling(b.node)
    net.run()
    up, down = a.outputs[-2:]
    assert isinstance(up, LinkUp)
    assert isinstance(down, LinkDown)
    assert (up.link, down.clean, a.links.link_to(b.node)) == (kept.dialler.link, True, kept.dialler.link)
    assert a.counters.value("links.ends_held") == 1


def test_the_end_of_a_link_that_is_closed_for_another_is_told_when_that_one_does_not_open() -> None:
    net, a, b, kept = closed_for_another()
    net.cut(kept)
    net.run()
    assert [(down.link, down.was_proven, down.clean) for down in a.downs] == [
        (kept.dialler.link, False, False),
        (a.downs[-1].link, True, True),
    ]
    assert not a.links.is_dialling(b.node)


def test_who_dials_twice_keeps_the_older_link() -> None:
    net, a, b, link = linked()
    again = a.dial(b)
    net.run()
    assert a.links.link_to(b.node) == link
    assert [(d.link, d.clean) for d in a.downs] == [(again, True)]
    assert b.links.gauges()["links"] == 1


def test_the_acceptor_uses_the_newest_link_of_a_dialler_that_has_lost_the_older_one() -> None:
    net, a, b, link = linked()
    wire, end = a.ends[link]
    end.is_open = False  # lost on this side; the other has not noticed
    a.ends.pop(link)
    net.wires.remove(wire)
    a.take(a.links.on_closed(link, LinkEnd.LOST, net.now))
    a.dial(b)
    net.run()
    assert b.send(a, note(1))
    net.run()
    assert a.received == [note(1)]


def test_a_node_holds_at_most_three_links_that_it_has_dialled() -> None:
    net = Net()
    a = net.side("a")
    scripts = [Script(a, link=-n) for n in range(1, 5)]
    (down,) = scripts[3].downs()
    assert down.link == -1
    assert a.links.gauges()["links"] == 3
    assert a.counters.value("links.closed.surplus") == 1


# Lives


def test_a_newer_life_ends_the_links_of_the_older_one_at_once() -> None:
    net = Net()
    a = net.side("a")
    old = Script(a, "n", life(1), link=-1)
    new = Script(a, "n", life(2), link=-2)
    up, down = new.outputs
    assert isinstance(up, LinkUp)
    assert isinstance(down, LinkDown)
    assert (down.link, down.life, down.clean) == (-1, life(1), False)
    assert a.links.link_to(old.node) == -2
    assert a.links.life_of(LinkId(-2)) == life(2)


def test_an_older_life_may_ask_but_is_not_preferred() -> None:
    net = Net()
    a = net.side("a")
    Script(a, "n", life(2), link=-1)
    old = Script(a, "n", life(1), link=-2)  # has lost its disk, and comes to learn its own record
    assert [type(output) for output in old.outputs] == [LinkUp]
    assert a.links.link_to(old.node) == -1
    old.say(note(1))
    assert old.outputs[-1] == LinkMessage(LinkId(-2), old.node, life(1), note(1))


def test_a_newer_life_that_is_heard_of_ends_the_links_of_the_older_one() -> None:
    net, a, b, link = linked()
    a.links.supersede(b.node, life(1), net.now)
    assert a.links.link_to(b.node) == link
    a.links.supersede(b.node, life(2), net.now)
    assert a.links.link_to(b.node) is None  # from this moment
    assert not a.links.send(link, note(1))
    a.fire()
    assert [(d.link, d.life, d.clean) for d in a.downs] == [(link, life(1), False)]
    net.run()
    assert "newer life" in b.downs[0].detail


# Messages


def test_a_ping_is_answered_at_once_and_acks_go_up() -> None:
    net, a, b, _ = linked()
    a.send(b, Ping(nonce=NONCE))
    net.run()
    assert a.received == [Ack(nonce=NONCE)]
    assert b.received == []


def test_a_ping_for_another_node_goes_up_because_that_one_needs_a_signed_answer() -> None:
    net, a, b, _ = linked()
    ping = Ping(nonce=NONCE, origin=NodeId(bytes(32)))
    a.send(b, ping)
    net.run()
    assert a.received == []
    assert b.received == [ping]


def test_nothing_is_sent_on_a_link_that_is_not_there_or_not_proven() -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    link = a.dial(b)
    assert not a.links.send(link, note(1))
    assert not a.links.send(LinkId(99), note(1))
    assert a.counters.value("links.send_refused.closed") == 2
    assert not a.links.transmit(link, note(1))
    assert not a.links.transmit(LinkId(99), note(1))
    assert a.counters.value("dropped.link.closed") == 2


def test_a_full_queue_refuses_further_messages() -> None:
    net, a, b, link = linked(Protocol(link_queue_max=100_000))
    a.links.on_writable(link, 0, net.now)
    big = Reply(message_id=bytes(16), payload=b"x" * 60_000)
    assert a.send(b, big)
    assert not a.send(b, big)
    assert a.counters.value("links.send_refused.queue_full") == 1
    assert not a.links.transmit(link, big)
    assert a.counters.value("dropped.link.queue_full") == 1
    net.writable(a, link)
    net.run()
    assert b.received == [big]


def test_one_remote_that_does_not_read_delays_nobody_else() -> None:
    net, a, b, link = linked()
    c = net.side("c")
    a.dial(c)
    net.run()
    a.links.on_writable(link, 0, net.now)
    for n in range(50):
        a.send(b, Reply(message_id=bytes(16), payload=b"x" * 100_000))
        a.send(c, note(n))
    net.run()
    assert len(c.received) == 50
    assert a.links.gauges()["links.queued_bytes"] > 4_000_000


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff", "malformed"),
        (b"", "truncated"),
        (pack_messages([encode_message(note(1))])[:-1], "truncated"),
        (b"\xa0", "not_messages"),
        (b"\x40" * 70_000, "too_large"),
    ],
)
def test_a_frame_that_cannot_be_read_ends_its_link_and_no_other(data: bytes, reason: str) -> None:
    net = Net()
    a = net.side("a")
    bad, good = Script(a, "bad", link=-1), Script(a, "good", link=-2)
    bad.say_frame(data)
    (down,) = bad.downs()
    assert (down.end, down.code, down.clean) == (LinkEnd.GOODBYE, ErrorCode.BAD_SIGNATURE, False)
    assert a.counters.value("links.closed.bad_frame") == 1
    assert [name for name in a.counters.snapshot() if name.startswith("dropped.frame")]
    said = bad.heard()
    assert isinstance(said[-1], Goodbye)
    assert said[-1].code == ErrorCode.BAD_SIGNATURE
    assert bad.closes() == [CloseLink(LinkId(-1))]
    good.say(note(1))
    assert good.outputs[-1] == LinkMessage(LinkId(-2), good.node, life(1), note(1))


# Keeping


def test_a_quiet_link_is_pinged_and_stays() -> None:
    net, a, b, _ = linked()
    net.sleep(200.0)
    pings = a.performed + b.performed
    frames = sum(isinstance(effect, SendFrame) for effect in pings) - 4  # the opening took four
    assert (
        frames == 2 * 10
    )  # a Ping and its Ack every 20 s: the side that dialled asks, and the other need not
    assert a.outputs == b.outputs == []  # and nobody above heard of it


def test_a_silent_remote_is_lost_within_the_keepalive_and_four_probe_timeouts() -> None:
    net, a, _, link = linked(Protocol(link_keepalive=20.0, probe_timeout=0.5))
    del net.sides["b"]
    wire, end = a.ends[link]
    other = wire.other(end)
    assert other is not None
    other.is_open = False  # what is sent to it vanishes
    net.sleep(21.9)
    assert a.downs == []
    net.sleep(0.2)
    assert [(d.link, d.end, d.was_proven) for d in a.downs] == [(link, LinkEnd.LOST, True)]
    assert a.performed[-1] == CloseLink(link, abort=True)
    assert a.counters.value("links.closed.silent") == 1


def test_after_a_gap_of_our_own_a_remote_is_asked_again_before_it_is_given_up() -> None:
    net = Net()
    a = net.side("a")
    remote = Script(a)
    net.now += 22.0  # it dialled, and should have asked two seconds ago
    remote.timeout()
    assert [type(m) for m in remote.heard()] == [Ping]
    net.now += 3_600.0  # we slept; so its answer may wait behind this timer
    remote.timeout()
    (ping,) = remote.heard()
    assert isinstance(ping, Ping)
    assert remote.downs() == []
    remote.say(Ack(nonce=ping.nonce))
    net.now += 2.0
    remote.timeout()
    assert remote.downs() == []
    assert not any(isinstance(output, LinkMessage) for output in remote.outputs)


def test_an_opening_that_we_slept_through_has_that_much_longer() -> None:
    protocol = Protocol()
    net = Net()
    a, b = net.side("a", protocol=protocol), net.side("b")
    net.silent.add(b.address)
    link = a.dial(b, b.node)
    a.links.on_lag(3.0)
    net.sleep(protocol.link_open_timeout + 2.9)
    assert a.downs == []
    net.sleep(0.2)
    assert [(down.link, down.was_proven) for down in a.downs] == [(link, False)]


def test_an_idle_link_is_closed_by_its_dialler_with_goodbye() -> None:
    net, a, b, link = linked(Protocol(link_idle_close=300.0))
    net.sleep(299.0)
    assert a.downs == []
    net.sleep(25.0)
    assert [(d.link, d.end, d.clean, d.detail) for d in a.downs] == [(link, LinkEnd.GOODBYE, True, "idle")]
    assert [(d.end, d.clean, d.detail) for d in b.downs] == [(LinkEnd.GOODBYE, True, "idle")]


def test_links_that_are_used_pinned_or_busy_are_not_idle() -> None:
    net, a, b, _ = linked()
    for _ in range(4):
        net.sleep(100.0)
        b.send(a, note(1))
        net.run()
    a.links.pin([b.node])
    net.sleep(900.0)
    a.links.pin([])
    a.is_busy = lambda other: other == b.node
    net.sleep(900.0)
    assert a.downs == []
    a.is_busy = lambda other: False
    net.sleep(30.0)
    assert len(a.downs) == 1


def test_a_remote_that_sends_but_never_reads_is_lost() -> None:
    net = Net()
    a = net.side("a")
    remote = Script(a)
    remote.act(a.links.on_writable(remote.link, 0, net.now))
    a.links.send(remote.link, note(1))
    for _ in range(70):
        net.now += 1.0
        remote.say(note(2))
        remote.timeout()
    (down,) = remote.downs()
    assert down.end is LinkEnd.LOST
    assert a.counters.value("links.closed.stalled") == 1


def test_a_link_that_is_given_up_ends_at_the_next_timeout() -> None:
    net, a, b, link = linked()
    a.links.give_up(link, net.now)
    assert a.timers.next_deadline() == net.now
    a.fire()
    assert [(d.link, d.end) for d in a.downs] == [(link, LinkEnd.LOST)]
    net.run()
    assert [d.end for d in b.downs] == [LinkEnd.LOST]


# Bounds


def test_a_full_table_refuses_to_dial_and_makes_room_for_the_next_dial() -> None:
    net = Net()
    a = net.side("a", protocol=Protocol(links_max=2))
    sides = [net.side(name) for name in "bcd"]
    links = [a.dial(side) for side in sides[:2]]
    net.run()
    assert a.links.dial(sides[2].address, None, net.now) is None
    assert a.links.ensure(sides[2].node, [sides[2].address], net.now) is None
    assert a.counters.value("links.dial_refused.full") == 2
    assert a.counters.value("links.refused.full") == 0, "nobody else was refused"
    net.sleep(30.0)
    assert a.downs == []
    assert a.links.dial(sides[2].address, None, net.now) is None
    net.sleep(0.1)
    assert [down.link for down in a.downs] == [links[0]]
    assert a.links.dial(sides[2].address, None, net.now) is not None


def test_accepted_links_leave_a_quarter_of_the_room_for_our_own() -> None:
    net = Net()
    a = net.side("a", protocol=Protocol(links_max=8))
    scripts = [Script(a, f"n{n}", link=-n) for n in range(1, 7)]
    a.links.on_opened(LinkId(-7), None, net.now)
    refused, close = a.effects.take()
    assert isinstance(refused, SendFrame)
    assert b"no room" in refused.data
    assert close == CloseLink(LinkId(-7))
    assert a.counters.value("links.refused.full") == 1
    assert a.links.dial(Address("x", 1), None, net.now) is not None
    assert a.counters.value("links.dial_refused.full") == 0
    a.effects.take()
    net.now += 25.0
    for script in scripts[1:]:
        script.say(note(1))
    (down,) = a.links.on_opened(LinkId(-8), None, net.now)
    assert isinstance(down, LinkDown)
    assert down.link == scripts[0].link
    assert a.counters.value("links.closed.evicted") == 1


def test_a_link_gives_way_five_seconds_after_its_last_use() -> None:
    net = Net()
    a = net.side("a", protocol=Protocol(links_max=4))
    scripts = [Script(a, f"n{n}", link=-n) for n in range(1, 4)]
    a.effects.take()
    for script in scripts:
        script.say(note(1))
    net.now += 4.0
    assert a.links.on_opened(LinkId(-4), None, net.now) == []  # their uses are seen now
    net.now += 2.0
    scripts[0].say(note(2))
    assert a.links.on_opened(LinkId(-5), None, net.now) == []
    net.now += 3.0
    (down,) = a.links.on_opened(LinkId(-6), None, net.now)
    assert isinstance(down, LinkDown)
    assert down.link == scripts[1].link
    assert a.counters.value("links.refused.full") == 2


def test_no_link_gives_way_to_one_that_is_refused_all_the_same() -> None:
    net = Net()
    a = net.side("a", protocol=Protocol(links_max=8))
    for n in range(1, 4):
        Script(a, f"n{n}", link=-n)
    net.now += 6.0
    for n in range(4, 7):
        assert a.links.on_opened(LinkId(-n), None, net.now) == []
    assert a.counters.value("links.closed.evicted") == 0
    assert a.counters.value("links.refused.full") == 1


def test_links_that_prove_nothing_fill_a_quarter_at_most() -> None:
    net = Net()
    a = net.side("a", protocol=Protocol(links_max=8))
    for n in range(1, 4):
        a.links.on_opened(LinkId(-n), None, net.now)
    assert a.counters.value("links.refused.full") == 1
    assert a.links.gauges()["links"] == 2


def test_the_dialler_that_finds_no_room_is_told_why() -> None:
    net = Net()
    a, b = net.side("a", protocol=Protocol(links_max=1)), net.side("b")
    Script(a, "other", link=-1_000)
    b.dial(a, a.node)
    net.run()
    assert [(d.end, d.code, d.was_proven) for d in b.downs] == [
        (LinkEnd.GOODBYE, ErrorCode.REFUSED_FULL, False)
    ]
    assert "no room" in b.downs[0].detail


def test_what_the_driver_says_about_forgotten_links_is_ignored() -> None:
    net, a, b, link = linked()
    a.links.supersede(b.node, life(9), net.now)
    a.fire()
    a.outputs.clear()
    a.take(a.links.on_frame(link, b"\x80", net.now))
    a.take(a.links.on_writable(link, 5, net.now))
    a.take(a.links.on_closed(link, LinkEnd.LOST, net.now))
    a.take(a.links.on_opened(link, None, net.now))
    assert a.outputs == []
    assert a.counters.value("dropped.frame.no_link") == 1
    assert a.counters.value("links.late") == 1
