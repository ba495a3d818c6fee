"""What a helper does: it pings for others, hands Acks on whole, and nacks (SWIM §4.1, Lifeguard §IV.A)."""

from __future__ import annotations

import itertools

import pytest

from reachp2p.core.ids import NodeId
from reachp2p.core.membership.probe import answer
from reachp2p.core.membership.relays import RELAYS_MAX, RelayEnds, RelayNackDue
from reachp2p.core.wire.messages import Ack, Nack, Ping, PingReq, RelayedAck
from tests.support import address, node_id
from tests.unit.membership.watch import Watch

NONCE = b"8 bytes!"


def ping_req(
    watch: Watch, nonce: bytes = NONCE, origin: int = 2, target: int = 1, timeout_ms: int = 500
) -> None:
    request = PingReq(nonce=nonce, target=node_id(target), timeout_ms=timeout_ms)
    watch.relays.on_ping_req(node_id(origin), address(origin), request, watch.now)


def test_a_helper_pings_hands_the_ack_back_whole_and_is_done() -> None:
    watch = Watch(1, 2)
    ping_req(watch)
    assert watch.sent == [(node_id(1), Ping(nonce=NONCE, origin=node_id(2)))]
    assert watch.relayed_over_links == [(node_id(1), Ping(nonce=NONCE, origin=node_id(2)))]
    assert watch.relays.on_ack(NONCE, node_id(1), b"the whole datagram") == (
        node_id(2),
        address(2),
        RelayedAck(nonce=NONCE, datagram=b"the whole datagram"),
    )
    assert watch.relays.on_ack(NONCE, node_id(1), b"again") is None
    assert len(watch.timers) == 0


def test_a_helper_nacks_at_80_percent_and_still_hands_on_a_later_ack() -> None:
    watch = Watch(1, 2)
    ping_req(watch)
    assert watch.timers.due_at(RelayNackDue(NONCE)) == pytest.approx(0.4)
    assert watch.timers.due_at(RelayEnds(NONCE)) == 0.5
    watch.run(0.45)
    assert watch.relayed == [(node_id(2), address(2), Nack(nonce=NONCE))]
    assert watch.relays.on_ack(NONCE, node_id(1), b"late") is not None


def test_a_helper_forgets_at_the_end_of_the_time_out() -> None:
    watch = Watch(1, 2)
    ping_req(watch)
    watch.run(0.5)
    assert watch.relays.on_ack(NONCE, node_id(1), b"too late") is None
    assert watch.counters.value("dropped.ack.no_relay") == 1


def test_a_relayed_ack_counts_only_from_its_target() -> None:
    watch = Watch(1, 2, 3)
    ping_req(watch)
    assert watch.relays.on_ack(NONCE, node_id(3), b"not mine") is None
    assert watch.relays.on_ack(NONCE, node_id(1), b"mine") is not None


@pytest.mark.parametrize("size", [0, 513, 1_400])
def test_an_ack_that_no_relayed_ack_can_carry_is_dropped(size: int) -> None:
    """A target may pad its Ack; forwarding it whole would overflow our datagram."""
    watch = Watch(1, 2)
    ping_req(watch)
    assert watch.relays.on_ack(NONCE, node_id(1), bytes(size)) is None
    assert watch.counters.value("dropped.ack.relayed_size") == 1
    assert watch.relays.on_ack(NONCE, node_id(1), bytes(512)) is not None  # the honest one still arrives


def test_an_unknown_target_and_a_repeated_request_are_dropped() -> None:
    watch = Watch(1, 2)
    ping_req(watch, target=77)
    ping_req(watch)
    ping_req(watch)
    assert len(watch.sent) == 1
    assert watch.counters.value("dropped.ping_req.unknown_target") == 1
    assert watch.counters.value("dropped.ping_req.duplicate") == 1


def test_each_origin_has_five_relays_a_second_and_no_one_elses() -> None:
    watch = Watch(1, 2, 3)

    nonces = itertools.count(1)

    def ask(origin: int, count: int) -> int:
        for nonce in itertools.islice(nonces, count):
            ping_req(watch, nonce=nonce.to_bytes(8, "big"), origin=origin)
        return len(watch.sent)

    assert ask(2, 8) == 5
    assert ask(3, 1) == 1
    watch.run(0.4)
    assert ask(2, 8) == 2
    watch.run(60.0)
    assert ask(2, 8) == 5
    assert watch.counters.value("dropped.ping_req.rate") == 3 + 6 + 3


def test_a_helper_that_stops_forgets_everything() -> None:
    watch = Watch(1, 2)
    ping_req(watch)
    assert len(watch.relays) == 1
    watch.relays.stop()
    assert len(watch.relays) == 0
    assert len(watch.timers) == 0


def test_relays_are_bounded() -> None:
    watch = Watch(1, ping_req_per_origin=1_000.0)
    for number in range(RELAYS_MAX + 10):
        ping_req(watch, nonce=number.to_bytes(8, "big"), origin=100 + number)
    assert len(watch.sent) == RELAYS_MAX
    assert watch.counters.value("dropped.ping_req.rate") == 10
    watch.run(0.5)
    assert len(watch.timers) == 0


def test_a_ping_is_answered_with_its_nonce_and_origin() -> None:
    assert answer(Ping(nonce=NONCE)) == Ack(nonce=NONCE)
    assert answer(Ping(nonce=NONCE, origin=NodeId(bytes(32)))) == Ack(nonce=NONCE, origin=NodeId(bytes(32)))
