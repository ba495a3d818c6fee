"""The opening of a link: both sides prove their key, or both learn why not."""

from __future__ import annotations

import pytest

from reachp2p.core.effects import CloseLink, LinkEnd, SendFrame
from reachp2p.core.ids import LinkId
from reachp2p.core.links.hello import opening_frame
from reachp2p.core.links.link import LinkDue
from reachp2p.core.links.outputs import CloneReached, LinkDown, LinkUp, SelfReached
from reachp2p.core.wire.codec import encode_message, pack_messages
from reachp2p.core.wire.messages import Goodbye, Hello, HelloProof, Ping
from reachp2p.errors import ErrorCode
from tests.unit.links.pair import KeyedHash, Net, Side, life, node_id


def hello_of(side: Side, **changes: object) -> Hello:
    fields: dict[str, object] = {
        "wire_version": 1, "cluster_id": "test", "node": side.node, "life": side.life, "nonce": b"n" * 16,
    }  # fmt: skip
    return Hello(**{**fields, **changes})  # type: ignore[arg-type]


def frame(*messages: object) -> bytes:
    return pack_messages([encode_message(message) for message in messages])  # type: ignore[arg-type]


def test_a_dial_ends_with_both_sides_knowing_each_other_and_their_lives() -> None:
    net = Net()
    a, b = net.side("a", own=life(3)), net.side("b", own=life(7))
    link = a.dial(b)
    net.run()
    assert a.outputs == [LinkUp(link, b.node, life(7), b.address, True)]
    assert b.outputs == [LinkUp(LinkId(-1), a.node, life(3), None, False)]
    assert a.links.link_to(b.node) == link
    assert b.links.link_to(a.node) == -1


def test_two_clusters_do_not_become_one_and_both_sides_are_told_both_names() -> None:
    net = Net()
    a, b = net.side("a", cluster_id="blue"), net.side("b", cluster_id="green")
    a.dial(b)
    net.run()
    (down,) = a.downs
    assert (down.end, down.code, down.was_proven) == (LinkEnd.GOODBYE, ErrorCode.CLUSTER_MISMATCH, False)
    assert "'blue' here" in down.detail
    assert "'green' there" in down.detail
    for side in (a, b):
        assert side.counters.value("dropped.hello.cluster_id") == 1
        assert [o for o in side.outputs if isinstance(o, LinkUp)] == []
    assert len(a.ends) == len(b.ends) == 0


def test_two_long_cluster_ids_are_both_named() -> None:
    net = Net()
    a, b = net.side("a", cluster_id="blue" + "x" * 252), net.side("b", cluster_id="green" + "\x1b" * 251)
    a.dial(b)
    net.run()
    assert "'blue" in a.downs[0].detail
    assert "'green" in a.downs[0].detail
    assert "\x1b" not in a.downs[0].detail


@pytest.mark.parametrize(
    ("wire_min", "wire_max", "common"),
    [(1, 1, True), (0, 1, True), (1, 9, True), (2, 9, False), (0, 0, False)],
)
def test_versions_must_overlap(wire_min: int, wire_max: int, common: bool) -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    a.links.on_opened(LinkId(-1), None, net.now)
    hello = opening_frame(hello_of(b, wire_min=wire_min, wire_max=wire_max))
    outputs = a.links.on_frame(LinkId(-1), hello, net.now)
    assert outputs == []  # an accepted link that was never proven is nobody's business
    assert (a.counters.value("dropped.hello.wire_version") == 0) is common


def test_a_first_byte_of_another_version_is_told_so() -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    a.links.on_opened(LinkId(-1), None, net.now)
    a.links.on_frame(LinkId(-1), b"\x02" + opening_frame(hello_of(b))[1:], net.now)
    sent = [effect.data for effect in a.effects.take() if isinstance(effect, SendFrame)]
    assert a.counters.value("dropped.hello.wire_version") == 1
    assert sent[-1] == frame(
        Goodbye(
            code=ErrorCode.WIRE_VERSION,
            reason="wire version 2 is not understood here, only 1 to 1",
            final=True,
        )
    )


def test_another_node_than_the_one_that_was_dialled_is_not_accepted() -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    a.dial(b, node_id("c"))
    net.run()
    (down,) = a.downs
    assert down.node == node_id("c")
    assert "another node" in down.detail
    assert a.counters.value("dropped.hello.other_node") == 1
    assert [o for o in b.outputs if isinstance(o, LinkUp)] == []


def test_the_transport_and_the_hello_must_name_the_same_node() -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    a.identity = node_id("c")
    a.dial(b)
    net.run()
    assert a.downs[0].code == ErrorCode.BAD_SIGNATURE
    assert a.counters.value("dropped.hello.identity") == 1
    a.identity = b.node
    a.dial(b)
    net.run()
    assert a.links.link_to(b.node) is not None


class Impostor:
    """Speaks for itself on an accepted link of `a`, with whatever frames it likes."""

    def __init__(self) -> None:
        self.net = Net()
        self.a = self.net.side("a")
        self.link = LinkId(-7)
        self.outputs = self.a.links.on_opened(self.link, None, self.net.now)
        self.hello = self.sent()[0]

    def sent(self) -> list[bytes]:
        return [effect.data for effect in self.a.effects.take() if isinstance(effect, SendFrame)]

    def say(self, data: bytes) -> list[bytes]:
        self.outputs += self.a.links.on_frame(self.link, data, self.net.now)
        return self.sent()


def test_a_proof_by_another_key_proves_nothing() -> None:
    net = Impostor()
    victim = Net().side("v")
    net.say(opening_frame(hello_of(victim)))
    said = net.say(frame(HelloProof(signature=KeyedHash(node_id("m")).sign(b"anything"))))
    assert net.outputs == []
    assert net.a.counters.value("dropped.hello.proof") == 1
    assert b"proof" in said[-1]


def test_our_own_hello_and_proof_sent_back_prove_nothing() -> None:
    net = Impostor()
    (proof,) = net.say(net.hello)  # claims to be us, with our own hello
    net.say(proof)
    assert net.outputs == []
    assert net.a.counters.value("dropped.hello.proof") == 1


def test_a_proof_of_another_link_proves_nothing() -> None:
    honest = Net()
    a, b = honest.side("a"), honest.side("b")
    b.dial(a)
    honest.run()
    recorded = [effect.data for effect in b.performed if isinstance(effect, SendFrame)]

    net = Impostor()  # its `a` draws the same nonce as the honest one did: the recording fits
    for data in recorded:
        net.say(data)
    assert [type(output) for output in net.outputs] == [LinkUp]

    again = LinkId(-8)  # on the next link the nonce is another
    net.a.links.on_opened(again, None, net.net.now)
    assert [output for data in recorded for output in net.a.links.on_frame(again, data, net.net.now)] == []
    assert net.a.counters.value("dropped.hello.proof") == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (b"\x01", "truncated"),
        (b"\x01\xff\xff", "malformed"),
        (b"\x01" + frame(), "not_a_hello"),
        (b"\x01" + frame(Ping(nonce=b"8 bytes!")), "not_a_hello"),
        (b"\x01" + b"\x40" * 5_000, "too_large"),
    ],
)
def test_a_first_frame_that_is_no_hello_ends_the_link(data: bytes, reason: str) -> None:
    net = Impostor()
    net.say(data)
    counted = {name for name in net.a.counters.snapshot() if name.startswith("dropped.frame")}
    assert counted <= {f"dropped.frame.{reason}", "dropped.frame.indefinite"}
    assert counted
    assert net.a.links.gauges()["links"] == 0


@pytest.mark.parametrize("second", [frame(), frame(Ping(nonce=b"8 bytes!")), b"\x00", b"\x40" * 5_000])
def test_a_second_frame_that_is_no_proof_ends_the_link(second: bytes) -> None:
    net = Impostor()
    net.say(opening_frame(hello_of(Net().side("b"))))
    net.say(second)
    assert net.outputs == []
    assert net.a.links.gauges()["links"] == 0


def test_reaching_oneself_is_found_out_on_both_ends_and_leaves_nothing_behind() -> None:
    net = Net()
    a = net.side("a")
    link = a.dial(a)
    net.run()
    assert a.outputs[0] == SelfReached(a.address)
    assert [output.link for output in a.downs] == [link]
    assert a.links.gauges()["links"] == 0
    assert a.links.link_to(a.node) is None


def test_a_clone_is_told_from_oneself_by_its_life() -> None:
    net = Net()
    a, clone = net.side("a", own=life(4)), net.side("clone", node=node_id("a"), own=life(4, "other"))
    link = a.dial(clone)
    net.run()
    assert a.outputs == [CloneReached(a.node, life(4, "other"), clone.address, link)]
    assert clone.outputs == [CloneReached(a.node, life(4), None, LinkId(-1))]
    assert a.links.link_to(a.node) is None  # never used for calls
    a.close(link, "a clone", ErrorCode.FENCED)
    net.run()
    assert [(d.node, d.code) for d in clone.downs] == [(a.node, ErrorCode.FENCED)]
    assert a.links.gauges()["links"] == clone.links.gauges()["links"] == 0


def test_an_opening_has_one_deadline_that_dripping_cannot_extend() -> None:
    net = Net()
    a, b = net.side("a"), net.side("b")
    net.silent.add(b.address)
    link = a.dial(b, b.node)
    net.sleep(4.9)
    assert a.downs == []
    net.sleep(0.2)
    assert a.downs == [
        LinkDown(
            link=link,
            node=b.node,
            life=None,
            address=b.address,
            end=LinkEnd.TIMEOUT,
            dialled=True,
            was_proven=False,
        )
    ]
    a.links.on_opened(LinkId(-5), None, net.now)  # a hello, then nothing
    a.links.on_frame(LinkId(-5), opening_frame(hello_of(b)), net.now + 4.0)
    assert a.links.on_timer(LinkDue(LinkId(-5)), net.now + 5.0) == []
    assert a.effects.take()[-1] == CloseLink(LinkId(-5), abort=True)
    assert a.links.gauges()["links"] == 0
    assert a.counters.value("links.closed.opening_timeout") == 2
