"""Three nodes that dial, talk, close and lose links in any order: what holds whatever happens."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from reachp2p.core.effects import LinkEnd
from reachp2p.core.ids import LinkId
from reachp2p.core.links.outputs import LinkMessage
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.codec import encode_message, pack_messages
from reachp2p.core.wire.messages import (
    Ack,
    Cancel,
    Chunk,
    Goodbye,
    Hello,
    HelloProof,
    Message,
    Ping,
    Reply,
    Request,
)
from tests.unit.links.pair import Net, Script, Side, life

PROTOCOL = Protocol(payload_max=60_000, frame_messages_max=4)
ACTIONS = ("step", "step", "step", "step", "dial", "send", "send", "send big", "close")


def number_of(message: Message) -> int:
    assert isinstance(message, Cancel | Reply)
    return int.from_bytes(message.message_id, "big")


class Run:
    """One history, drawn by Hypothesis."""

    def __init__(self) -> None:
        self.net = Net()
        self.sides = [self.net.side(name, protocol=PROTOCOL) for name in "abc"]
        self.sent: dict[tuple[str, str], list[int]] = {}
        self.count = 0

    def act(self, what: str, first: Side, second: Side, choice: int) -> None:
        net = self.net
        if what == "step":
            possible = net.steps()
            if possible:
                net.step(*possible[choice % len(possible)])
        elif what == "dial":
            first.links.ensure(second.node, [second.address], net.now)
            first.perform()
        elif what in ("close", "hang up"):
            # Before the proof there is nobody to say goodbye to: closing then is hanging up.
            links = [
                link for link in first.ends if what == "hang up" or first.links.life_of(link) is not None
            ]
            if links:
                first.close(links[choice % len(links)])
        elif what == "cut":
            if net.wires:
                net.cut(net.wires[choice % len(net.wires)])
        else:
            self.count += 1
            message_id = self.count.to_bytes(16, "big")
            message: Message = Cancel(message_id=message_id)
            if what == "send big":
                message = Reply(message_id=message_id, payload=bytes([self.count % 256]) * 30_000)
            if first.send(second, message):
                self.sent.setdefault((first.name, second.name), []).append(self.count)

    def received(self, sender: Side, receiver: Side) -> list[int]:
        return [
            number_of(output.message)
            for output in receiver.outputs
            if isinstance(output, LinkMessage) and output.node == sender.node
        ]


steps = st.tuples(st.sampled_from(ACTIONS), st.permutations(range(3)), st.integers(0, 50))
rough_steps = st.tuples(
    st.sampled_from((*ACTIONS, "hang up", "cut")), st.permutations(range(3)), st.integers(0, 50)
)


@given(st.lists(steps, max_size=120))
@settings(max_examples=150)
def test_without_a_broken_transport_every_message_arrives_once(
    history: list[tuple[str, list[int], int]],
) -> None:
    run = Run()
    for what, order, choice in history:
        run.act(what, run.sides[order[0]], run.sides[order[1]], choice)
    run.net.run()
    for first, second in combinations(run.sides, 2):
        for sender, receiver in ((first, second), (second, first)):
            assert sorted(run.received(sender, receiver)) == run.sent.get((sender.name, receiver.name), [])
        assert first.links.gauges()["links.dials"] == second.links.gauges()["links.dials"] == 0
        used = first.links.link_to(second.node)
        assert (used is None) == (second.links.link_to(first.node) is None)
        if used is not None:
            wire, end = first.ends[used]
            assert wire.other(end) is second.ends[second.links.link_to(first.node) or LinkId(0)][1]
    for side in run.sides:
        assert all(down.clean or not down.was_proven for down in side.downs)
        assert side.links.gauges()["links.queued_bytes"] == side.links.gauges()["links.assembling"] == 0


@given(st.lists(rough_steps, max_size=120))
@settings(max_examples=150)
def test_whatever_breaks_no_message_arrives_twice_and_every_link_ends_once(
    history: list[tuple[str, list[int], int]],
) -> None:
    run = Run()
    for what, order, choice in history:
        run.act(what, run.sides[order[0]], run.sides[order[1]], choice)
    for side in run.sides:
        side.take(side.links.close_all(run.net.now, "the end"))
    run.net.sleep(60.0)
    for side in run.sides:
        ended = [down.link for down in side.downs]
        assert len(ended) == len(set(ended))
        assert {up.link for up in side.ups} <= set(ended)
        assert side.links.gauges() == dict.fromkeys(side.links.gauges(), 0)
        assert len(side.timers) == 0
        for other in run.sides:
            got = run.received(other, side)
            assert len(got) == len(set(got))
            assert set(got) <= set(run.sent.get((other.name, side.name), []))


said = st.one_of(
    st.builds(Goodbye, final=st.booleans()),
    st.builds(Ping, nonce=st.just(b"8 bytes!")),
    st.builds(Ack, nonce=st.binary(min_size=8, max_size=8)),
    st.just(Cancel(message_id=bytes(16))),
    st.just(HelloProof(signature=bytes(64))),
    st.just(Hello(wire_version=1, cluster_id="test", node=bytes(32), life=life(1), nonce=bytes(16))),
    st.just(
        Request(
            message_id=bytes(16),
            life=life(1),
            agent="a/b",
            capability="c",
            remaining_ms=1,
            payload=b"p" * 100,
        )
    ),
    st.builds(
        Chunk,
        sequence=st.integers(0, 3),
        offset=st.integers(0, 4),
        total=st.integers(1, 6),
        data=st.binary(min_size=1, max_size=4),
    ),
)
frames = st.one_of(
    st.lists(said, max_size=4).map(lambda messages: pack_messages([encode_message(m) for m in messages])),
    st.binary(max_size=60),
    st.tuples(said, st.integers(0, 200), st.integers(0, 255)).map(
        lambda drawn: spoiled(pack_messages([encode_message(drawn[0])]), drawn[1], drawn[2])
    ),
)
events = st.one_of(frames, st.sampled_from([*LinkEnd, "close", "wait", "send"]))


def spoiled(data: bytes, at: int, value: int) -> bytes:
    """One byte of a frame is another."""
    at %= len(data)
    return data[:at] + bytes([value]) + data[at + 1 :]


@given(st.booleans(), st.lists(events, max_size=12))
@settings(max_examples=400)
def test_no_bytes_and_no_order_of_events_raise_or_leave_anything_behind(
    is_proven: bool, history: list[bytes | LinkEnd | str]
) -> None:
    net = Net()
    side = net.side("a")
    remote = Script(side) if is_proven else Script.unproven(side)
    for event in history:
        if isinstance(event, bytes):
            remote.say_frame(event)
        elif isinstance(event, LinkEnd):
            remote.end(event)
        elif event == "close":
            remote.act(side.links.close(remote.link, net.now, "enough"))
        elif event == "send":
            side.links.send(remote.link, Reply(message_id=bytes(16), payload=b"p" * 20_000))
        else:
            net.now += 3.0
            remote.timeout()
    for _ in range(8):
        net.now += 21.0  # always late, which is no excuse for ever
        remote.timeout()
    assert len(remote.downs()) == is_proven
    assert side.links.gauges() == dict.fromkeys(side.links.gauges(), 0)
    assert len(side.timers) == 0
