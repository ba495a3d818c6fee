"""`codec=off`: the same runs, without signing, verifying and decoding what travels."""

from __future__ import annotations

import pytest
from reachp2p_sim.network.handing import HandingCodec
from reachp2p_sim.running.configuration import RunConfig, UsageError, check
from reachp2p_sim.running.run import run_scenario
from reachp2p_sim.world.randomness import Randomness
from reachp2p_sim.world.signing import KeyedHashSigning

from reachp2p.core.ids import NodeId
from reachp2p.core.wire.codec import encode_message
from reachp2p.core.wire.cose import SIGNATURE_BYTES
from reachp2p.core.wire.datagram import parse_datagram
from reachp2p.core.wire.engine_codec import CODEC, Codec
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import Ack, HeadUpdate, Message, Ping
from tests.support import life

SIGNING = KeyedHashSigning(Randomness(1))
ANN, BOB, EVE = (SIGNING.signer(name) for name in ("ann", "bob", "eve"))
MESSAGES: list[Message] = [Ping(nonce=b"8 bytes."), HeadUpdate(head=b"h" * 300)]


def datagram(codec: Codec, *messages: Message, audience: NodeId | None = BOB.node) -> bytes:
    """From Ann, her first."""
    writer = codec.writer("demo", ANN.node, life(3), ANN.sign, 0)
    return writer.write(codec.pack([codec.encode(message) for message in messages]), audience)


def read(codec: Codec, data: bytes, own: NodeId = BOB.node, cluster_id: str = "demo") -> list[Message]:
    """What a node makes of it."""
    opened = codec.reader(cluster_id, own, SIGNING.verify).read(data)
    assert (opened.node, opened.life) == (ANN.node, life(3))
    return codec.unpack(opened.body, bytes_max=1_400, messages_max=64, datagram=True)[0]


def reason(data: bytes, own: NodeId = BOB.node, cluster_id: str = "demo") -> str:
    with pytest.raises(WireError) as caught:
        read(HandingCodec(), data, own, cluster_id)
    return caught.value.reason


def test_what_travels_has_the_bytes_of_the_codec_but_for_the_signature() -> None:
    handed, signed = datagram(HandingCodec(), *MESSAGES), datagram(CODEC, *MESSAGES)
    assert len(handed) == len(signed)
    assert handed[:-SIGNATURE_BYTES] == signed[:-SIGNATURE_BYTES]
    assert parse_datagram(handed).body == parse_datagram(signed).body


def test_messages_are_handed_over_as_they_are() -> None:
    codec = HandingCodec()
    assert read(codec, datagram(codec, *MESSAGES)) == MESSAGES
    assert read(codec, datagram(codec, *MESSAGES))[1] is MESSAGES[1]


def test_bytes_that_nobody_has_handed_over_are_read_as_the_codec_reads_them() -> None:
    assert read(HandingCodec(), datagram(CODEC, *MESSAGES)) == MESSAGES
    assert reason(bytes(datagram(HandingCodec(), *MESSAGES))) == "bad_signature"


def test_a_datagram_for_somebody_else_or_of_another_cluster_is_refused() -> None:
    data = datagram(HandingCodec(), *MESSAGES)
    assert reason(data, own=EVE.node) == "bad_signature"
    assert reason(data, cluster_id="another") == "cluster"
    for own in (BOB.node, EVE.node):
        assert read(HandingCodec(), datagram(HandingCodec(), *MESSAGES, audience=None), own) == MESSAGES


def test_an_ack_that_is_forwarded_whole_is_signed() -> None:
    ack = Ack(nonce=b"8 bytes.", origin=EVE.node)
    data = datagram(HandingCodec(), ack)
    assert data == datagram(CODEC, ack)
    assert HandingCodec().reader("demo", EVE.node, SIGNING.verify).read(data, BOB.node).node == ANN.node


def test_a_frame_is_handed_over_and_a_slice_of_one_is_read() -> None:
    codec = HandingCodec()
    frame = codec.pack([codec.encode(message) for message in MESSAGES])
    assert frame == CODEC.pack([encode_message(message) for message in MESSAGES])
    for data in (frame, bytes(frame)):
        assert codec.unpack(data, bytes_max=1_400, messages_max=64) == (MESSAGES, 0)


@pytest.mark.parametrize(
    ("scenario", "seed", "options"),
    [
        ("random-faults", 3, {}),
        ("crash-restart", 2, {}),
        (
            "partition-halves",
            2,
            {
                "weather.corrupt": "0.05",
                "weather.duplicate": "0.05",
                "weather.replay": "0.02",
                "path_loss": "0.02",
            },
        ),
    ],
)
def test_a_run_has_the_same_trace_with_and_without_the_codec(
    scenario: str, seed: int, options: dict[str, str]
) -> None:
    on, off = (
        run_scenario(RunConfig(scenario, seed, nodes=6, set={**options, "codec": codec}))
        for codec in ("on", "off")
    )
    assert on.verdict == "pass"
    assert on.trace_digest == off.trace_digest
    assert (on.datagrams, on.frames, on.events) == (off.datagrams, off.frames, off.events)


def test_a_codec_is_on_or_off() -> None:
    with pytest.raises(UsageError, match="codec=never: it must be on or off"):
        check(RunConfig("steady", set={"codec": "never"}))
