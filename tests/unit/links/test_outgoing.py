"""What waits for a link leaves in order, in bounded frames, and nothing big stands in the way of anything small."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reachp2p.core.counters import Counters
from reachp2p.core.ids import Life
from reachp2p.core.links.incoming import Incoming, message_bytes_max
from reachp2p.core.links.outgoing import CREDIT_AT_OPENING, PIECE_MAX, Outgoing
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.codec import decode_messages, encode_message
from reachp2p.core.wire.messages import Cancel, Chunk, Goodbye, Message, Reply, Request, SyncDelta, SyncEnd

SMALL = Protocol(payload_max=100_000, link_queue_max=2_000_000)


def small(number: int) -> Cancel:
    return Cancel(message_id=number.to_bytes(16, "big"))


def large(size: int, fill: bytes = b"x") -> Reply:
    return Reply(message_id=bytes(16), payload=fill * size)


def frames(outgoing: Outgoing, credit: int | None = None) -> list[bytes]:
    """All frames, the driver's room being renewed after each unless `credit` is given."""
    found = []
    outgoing.credit = CREDIT_AT_OPENING if credit is None else credit
    while (frame := outgoing.next_frame()) is not None:
        found.append(frame)
        if credit is None:
            outgoing.credit = CREDIT_AT_OPENING
    return found


def read(frame: bytes, protocol: Protocol = SMALL) -> list[Message]:
    return decode_messages(frame, bytes_max=protocol.frame_max, messages_max=protocol.frame_messages_max)[0]


def put_together(all_frames: list[bytes], protocol: Protocol = SMALL) -> list[Message]:
    incoming = Incoming(protocol, Counters())
    found: list[Message] = []
    for frame in all_frames:
        for message in incoming.decode(frame):
            whole = incoming.add_chunk(message) if isinstance(message, Chunk) else message
            if whole is not None:
                found.append(whole)
    assert incoming.assembling == 0
    return found


def test_small_messages_keep_their_order_and_share_frames_of_at_most_32() -> None:
    outgoing = Outgoing(SMALL)
    sent = [small(n) for n in range(70)]
    assert all(outgoing.put(message) for message in sent)
    found = frames(outgoing)
    assert [len(read(frame)) for frame in found] == [32, 32, 6]
    assert put_together(found) == sent
    assert outgoing.is_empty
    assert outgoing.sent_bytes == sum(map(len, found))


def test_no_frame_is_larger_than_the_limit_or_the_room() -> None:
    outgoing = Outgoing(SMALL)
    for n in range(40):
        outgoing.put(large(5_000 + n))
    assert max(map(len, frames(outgoing, credit=20_000))) <= 20_000
    assert not outgoing.is_empty
    assert max(map(len, frames(outgoing))) <= SMALL.frame_max
    assert outgoing.is_empty


def test_without_room_nothing_leaves() -> None:
    outgoing = Outgoing(SMALL)
    outgoing.put(small(1))
    assert frames(outgoing, credit=0) == []
    assert len(frames(outgoing)) == 1


def test_a_large_message_is_cut_and_put_together_again() -> None:
    outgoing = Outgoing(SMALL)
    message = large(100_000)
    outgoing.put(message)
    found = frames(outgoing)
    chunks = [chunk for frame in found for chunk in read(frame)]
    assert {type(chunk) for chunk in chunks} == {Chunk}
    assert max(len(chunk.data) for chunk in chunks if isinstance(chunk, Chunk)) <= PIECE_MAX
    assert put_together(found) == [message]
    assert outgoing.queued_bytes == 0


def test_a_small_message_overtakes_a_large_one_and_waits_for_one_chunk_at_most() -> None:
    outgoing = Outgoing(SMALL)
    outgoing.put(large(90_000))
    assert outgoing.next_frame() is not None
    outgoing.put(small(1))
    frame = outgoing.next_frame()
    assert frame is not None
    assert read(frame)[0] == small(1)


def test_many_small_messages_do_not_starve_a_large_one() -> None:
    outgoing = Outgoing(SMALL)
    message = large(60_000)
    outgoing.put(message)
    found: list[bytes] = []
    for turn in range(4):  # a chunk in each frame
        for n in range(60):
            outgoing.put(large(1_500, bytes([turn, n])))
        frame = outgoing.next_frame()
        assert frame is not None
        assert any(isinstance(part, Chunk) for part in read(frame))
        outgoing.credit = CREDIT_AT_OPENING
        found.append(frame)
    assert message in put_together(found)


def test_large_messages_take_turns() -> None:
    outgoing = Outgoing(SMALL)
    outgoing.put(large(80_000, b"a"))
    outgoing.put(large(20_000, b"b"))
    assert [m.payload[:1] for m in put_together(frames(outgoing)) if isinstance(m, Reply)] == [b"b", b"a"]


def test_the_other_side_never_has_to_assemble_more_than_its_bound() -> None:
    outgoing = Outgoing(SMALL)
    sent = [large(90_000, bytes([n])) for n in range(6)]  # two of them would be too much
    sent += [large(PIECE_MAX + n, b"s") for n in range(40)]  # and here there are too many
    assert all(outgoing.put(message) for message in sent)
    found = put_together(frames(outgoing))
    assert len(found) == len(sent)
    assert [m for m in found if m in sent] == found


def test_the_messages_of_an_exchange_keep_their_order_whatever_their_size() -> None:
    outgoing = Outgoing(SMALL)
    signed = [b"s" * 1_000] * 40
    sent: list[Message] = [
        SyncDelta(exchange=1, heads=signed),
        SyncDelta(exchange=2),
        SyncDelta(exchange=3, heads=signed),
        SyncDelta(exchange=4, heads=signed),
        SyncEnd(exchange=5),
    ]
    for message in sent:
        assert outgoing.put(message)
    outgoing.put(large(80_000))
    outgoing.put(small(1))
    found = put_together(frames(outgoing))
    assert [m for m in found if not isinstance(m, Reply | Cancel)] == sent
    assert found[0] == small(1)
    assert large(80_000) in found


def test_a_full_queue_refuses_and_changes_nothing() -> None:
    outgoing = Outgoing(replace(SMALL, link_queue_max=10_000))
    assert outgoing.put(large(9_000))
    assert not outgoing.put(large(1_500))
    assert outgoing.put(small(1))
    assert len(put_together(frames(outgoing))) == 2


def test_a_message_that_no_link_can_carry_is_refused() -> None:
    outgoing = Outgoing(SMALL)
    assert not outgoing.put(large(message_bytes_max(SMALL)))
    assert outgoing.is_empty


def test_room_that_was_promised_counts_until_the_message_is_put() -> None:
    outgoing = Outgoing(replace(SMALL, link_queue_max=10_000))
    message = large(4_000)
    assert outgoing.promise(message)
    assert not outgoing.promise(large(6_000))
    assert outgoing.put(message)
    assert outgoing.promise(large(1_000))


def test_goodbye_is_the_last_frame_even_behind_a_full_queue() -> None:
    outgoing = Outgoing(replace(SMALL, link_queue_max=100_000))
    outgoing.put(large(99_000))
    outgoing.finish(Goodbye(reason="r" * 256))
    outgoing.finish(Goodbye(reason="a second one does not count"))
    found = frames(outgoing)
    assert read(found[-1]) == [Goodbye(reason="r" * 256)]
    assert outgoing.has_said_goodbye
    assert outgoing.is_empty


def request(number: int, size: int) -> Request:
    return Request(
        message_id=number.to_bytes(16, "big"),
        life=Life(1, bytes(16)),
        agent="a/b",
        capability="c",
        remaining_ms=1,
        payload=b"x" * size,
    )


def test_a_cancel_takes_back_a_large_request_that_was_not_begun() -> None:
    outgoing = Outgoing(SMALL)
    outgoing.put(request(1, 60_000))
    outgoing.put(request(2, 60_000))
    outgoing.put(small(2))
    assert put_together(frames(outgoing)) == [request(1, 60_000)]
    assert outgoing.is_empty


def test_a_cancel_does_not_overtake_a_large_request_that_was_begun() -> None:
    outgoing = Outgoing(SMALL)
    outgoing.put(request(1, 100_000))
    first = outgoing.next_frame()
    assert first is not None
    outgoing.put(small(1))
    outgoing.put(small(2))
    assert put_together([first, *frames(outgoing)]) == [small(2), request(1, 100_000), small(1)]
    assert outgoing.is_empty


@pytest.mark.parametrize("size", [PIECE_MAX - 40, PIECE_MAX - 1, PIECE_MAX, PIECE_MAX + 1, 2 * PIECE_MAX])
def test_sizes_at_the_edge_of_a_chunk_arrive_unchanged(size: int) -> None:
    overhead = len(encode_message(large(PIECE_MAX))) - PIECE_MAX
    outgoing = Outgoing(SMALL)
    sent = [large(size - overhead, bytes([n])) for n in range(7)]
    for message in sent:
        outgoing.put(message)
    found = put_together(frames(outgoing))
    assert sorted(m.payload[:1] for m in found if isinstance(m, Reply)) == [bytes([n]) for n in range(7)]
