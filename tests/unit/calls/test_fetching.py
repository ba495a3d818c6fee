"""Schemas are fetched from those who declare them, within bounds, and nothing else is taken in."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.calls.fetching import (
    FETCH_TIMEOUT,
    NODES_MAX,
    NODES_PER_SCHEMA,
    PAGE_BYTES_MAX,
    ROUNDS_MAX,
    VAIN_MAX,
    VAIN_TIME,
    FetchDue,
    Fetches,
)
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects
from reachp2p.core.ids import NodeId
from reachp2p.core.registry.record import RECORDS_BYTES_MAX, SCHEMA_BYTES_MAX, schema_hash
from reachp2p.core.registry.schemas import Schemas
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import SCHEMA_HASHES_MAX, SchemaBodies, SchemaWant
from tests.support import events, node_id

A, B = b'{"type":"object"}', b'{"type":"array"}'


class FakeLinks:
    """Links to some nodes; dials and messages are noted."""

    def __init__(self) -> None:
        self.open: dict[NodeId, int] = {}
        self.dialled: list[NodeId] = []
        self.sent: list[tuple[int, SchemaWant]] = []

    def link_to(self, node: NodeId) -> int | None:
        return self.open.get(node)

    def ensure(self, node: NodeId, addresses: object, now: float) -> None:
        self.dialled.append(node)

    def send(self, link: int, message: SchemaWant) -> bool:
        self.sent.append((link, message))
        return True


class Desk:
    def __init__(self) -> None:
        self.counters, self.effects, self.timers = Counters(), Effects(), Timers()
        self.schemas = Schemas(self.counters)
        self.links: Any = FakeLinks()
        self.fetches = Fetches(
            schemas=self.schemas,
            links=self.links,
            addresses=lambda _: (),
            effects=self.effects,
            timers=self.timers,
            counters=self.counters,
        )

    def ended(self) -> list[int]:
        return [event.fetch for event in events(self.effects)]  # type: ignore[attr-defined]  # all are SchemasFetched


@pytest.fixture
def fetch_desk() -> Desk:
    return Desk()


def test_a_linked_node_is_asked_at_once_and_others_when_their_link_opens(fetch_desk: Desk) -> None:
    desk = fetch_desk
    desk.links.open[node_id(1)] = 7
    number = desk.fetches.begin({schema_hash(A): [node_id(1)], schema_hash(B): [node_id(2)]}, 0.0)
    assert desk.links.sent == [(7, SchemaWant(hashes=[schema_hash(A)]))]
    assert desk.links.dialled == [node_id(2)]
    desk.fetches.learn([A], 0.1)
    assert desk.ended() == []
    desk.links.open[node_id(2)] = 8
    desk.fetches.on_link_up(node_id(2))
    desk.fetches.on_link_up(node_id(2))
    assert desk.links.sent[1:] == [(8, SchemaWant(hashes=[schema_hash(B)]))]
    desk.fetches.learn([B], 0.2)
    assert desk.ended() == [number]
    assert (desk.schemas.get(schema_hash(A)), desk.schemas.get(schema_hash(B))) == (A, B)
    assert (len(desk.fetches), len(desk.timers)) == (0, 0)


def test_an_answer_has_as_many_messages_as_it_needs(fetch_desk: Desk) -> None:
    """All that one question may name, 32 schemas of 64 KiB, is more than a link takes as one message."""
    desk = fetch_desk
    bodies = [b"%02d" % n + bytes(SCHEMA_BYTES_MAX - 2) for n in range(SCHEMA_HASHES_MAX)]
    desk.schemas.keep_own({schema_hash(body): body for body in bodies})
    desk.fetches.on_want(3, SchemaWant(hashes=[schema_hash(body) for body in bodies]))
    sent = [message.bodies for _, message in desk.links.sent]
    assert [body for page in sent for body in page] == bodies
    assert all(sum(map(len, page)) <= PAGE_BYTES_MAX < RECORDS_BYTES_MAX for page in sent)
    desk.links.sent.clear()
    desk.fetches.on_want(3, SchemaWant(hashes=[bytes(16)]))
    assert desk.links.sent == [(3, SchemaBodies(bodies=[]))]


def test_what_nobody_asked_for_is_not_taken_in(fetch_desk: Desk) -> None:
    desk = fetch_desk
    desk.fetches.begin({schema_hash(A): [node_id(1)]}, 0.0)
    learned = desk.schemas.learned
    desk.fetches.learn([B, b"x" * (SCHEMA_BYTES_MAX + 1)], 0.1)
    assert (desk.schemas.get(schema_hash(B)), desk.schemas.learned) == (None, learned)
    assert desk.counters.value("dropped.schema.unasked") == 2


def test_a_round_ends_in_time_and_what_was_missing_is_left_alone_for_a_while(fetch_desk: Desk) -> None:
    desk = fetch_desk
    wanted = {schema_hash(A): [node_id(1)]}
    number = desk.fetches.begin(wanted, 0.0)
    assert number is not None
    assert desk.timers.next_deadline() == FETCH_TIMEOUT
    desk.fetches.on_timer(FetchDue(number), FETCH_TIMEOUT)
    desk.fetches.on_timer(FetchDue(number), FETCH_TIMEOUT)
    assert desk.ended() == [number]
    assert desk.counters.value("schemas.not_fetched") == 1
    assert desk.fetches.begin(wanted, FETCH_TIMEOUT + VAIN_TIME - 0.1) is None
    assert desk.fetches.begin(wanted, FETCH_TIMEOUT + VAIN_TIME) == number + 1
    desk.fetches.end_all(20.0)
    assert desk.ended() == [number + 1]


def test_who_wants_what_is_being_fetched_waits_for_that_round(fetch_desk: Desk) -> None:
    desk = fetch_desk
    both = {schema_hash(A): [node_id(1)], schema_hash(B): [node_id(1)]}
    first = desk.fetches.begin(both, 0.0)
    assert desk.fetches.begin({schema_hash(B): [node_id(1)]}, 0.1) == first
    assert len(desk.fetches) == 1


def test_rounds_nodes_and_messages_are_bounded(fetch_desk: Desk) -> None:
    desk = fetch_desk
    wanted = {schema_hash(b"%d" % n): [node_id(n % 60), node_id(n % 60 + 60)] for n in range(120)}
    desk.fetches.begin(wanted, 0.0)
    assert len(desk.links.dialled) == NODES_MAX
    for number in range(ROUNDS_MAX + 1):
        desk.fetches.begin({schema_hash(b"r%d" % number): [node_id(1)]}, 0.0)
    assert len(desk.fetches) == ROUNDS_MAX
    assert desk.counters.value("schemas.fetches_full") == 2
    desk.fetches.end_all(0.1)
    desk.links.open = {node_id(n): n for n in range(9)}
    one_node = {schema_hash(b"s%d" % n): [node_id(1)] for n in range(SCHEMA_HASHES_MAX + 1)}
    desk.fetches.begin(one_node, 0.2)
    assert [len(want.hashes) for _, want in desk.links.sent] == [SCHEMA_HASHES_MAX, 1]
    desk.links.sent.clear()
    desk.fetches.begin({schema_hash(b"many"): [node_id(n) for n in range(9)]}, 0.2)
    assert len(desk.links.sent) == NODES_PER_SCHEMA
    vain = {schema_hash(b"v%d" % n): [node_id(1)] for n in range(VAIN_MAX + 5)}
    number = desk.fetches.begin(vain, 0.3)
    assert number is not None
    desk.fetches.on_timer(FetchDue(number), 0.3 + FETCH_TIMEOUT)
    assert desk.fetches.gauges()["schemas.in_vain"] == VAIN_MAX
