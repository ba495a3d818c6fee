"""Whatever other nodes say to calls and streams, in any order and with any numbers, raises nothing and ends each call
once; links break, handlers end, nodes drain and pause meanwhile."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reachp2p.core.commands import InvokeResult, Lasting, RouteQuery, StreamKind
from reachp2p.core.ids import LinkId
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.messages import (
    Cancel,
    Message,
    Reply,
    Request,
    StreamCredit,
    StreamEnd,
    StreamItem,
    StreamResume,
)
from reachp2p.errors import CallFailed, ErrorCode, LocalProtocolError
from tests.unit.calls.streaming import end_items, give, take
from tests.unit.calls.world import Node, World
from tests.unit.links.pair import life

NUMBERS = (0, 1, 2, 3, 200, 4_096, 2**31, 2**62)
CODES = (0, 1401, 1402, 1403, 1406, 1409, 1410, 1411, 9_999)
AGENTS = {"test/streams": "test.stream", "test/calls": "test.call"}


class Crowd:
    """Three nodes that call each other and say what they like."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.world = World()
        choose = random.choice
        protocol = replace(
            Protocol(),
            stream_window=choose((1_024, 4_096)),
            stream_bytes_max=choose((300, 5_000, 10_000_000)),
            streams_max=choose((2, 50)),
            pending_calls_max=choose((3, 100)),
            tasks_max=choose((1, 10)),
        )
        self.nodes = [self.world.node(name, protocol=protocol) for name in "abc"]
        repeatable = choose((True, False))
        for node in self.nodes:
            kind = choose((StreamKind.RESULTS, StreamKind.RESULTS, StreamKind.PARAMETERS, StreamKind(3)))
            node.offer(
                agent="test/streams", capability="test.stream", stream=kind, repeatable=repeatable,
                concurrency=choose((1, 64)),
            )  # fmt: skip
            node.offer(
                agent="test/calls", capability="test.call", repeatable=repeatable, concurrency=choose((1, 64))
            )
        self.calls: list[bytes] = []

    def step(self) -> None:
        """One thing happens."""
        random, world = self.random, self.world
        node = random.choice(self.nodes)
        other = random.choice([one for one in self.nodes if one is not node])
        match random.randrange(15):
            case 0 | 1 | 2:
                self._call(node)
            case 3 if self.calls:
                node.cancel(random.choice(self.calls))
            case 4 if node.running:
                result = InvokeResult(
                    payload=bytes(random.choice((0, 3_000))),
                    code=random.choice((0, 0, ErrorCode.HANDLER_FAILED)),
                    executed=random.random() < 0.9,
                )
                node.finish(random.choice(list(node.running)), result)
            case 5:
                for key in (*node.running, *self.calls):
                    with suppress(LocalProtocolError):
                        give(node, key, bytes(random.choice((0, 10, 900))))
            case 6:
                for key in (*node.running, *self.calls):
                    with suppress(LocalProtocolError):
                        take(node, key)
            case 7 if self.calls:
                with suppress(LocalProtocolError):
                    end_items(node, random.choice(self.calls))
            case 8:
                world.lose(node, other)
            case 9:
                world.sleep(random.choice((0.1, 1.0, 40.0, 700.0)))
            case 10:
                node.gone(other, left=random.random() < 0.5)
            case 11:
                self._stop(node)
            case _:
                for _ in range(random.randrange(1, 6)):
                    self._hear(node, other, self._message())
        if random.random() < 0.6:
            world.run()

    def _call(self, node: Node) -> None:
        random = self.random
        if random.random() < 0.6:
            wishes: dict[str, Any] = {"stream": True, "query": RouteQuery(capability="test.stream")}
        else:
            wishes = {
                "query": RouteQuery(capability="test.call"),
                "lasting": random.choice(list(Lasting)),
                "timeout": random.choice((None, 2.0, 50.0)),
            }
        with suppress(CallFailed):
            self.calls.append(node.call(idempotency_key=random.choice((None, "k", "j")), **wishes))

    def _stop(self, node: Node) -> None:
        now = self.world.now
        match self.random.randrange(3):
            case 0:
                node.callee.drain(now)
            case 1:
                node.callee.pause(now)
                node.perform()
                node.callee.resume()
            case _:
                node.callee.hand_back("test/calls", now)
        node.perform()

    def _message(self) -> Message:
        random, choose = self.random, self.random.choice
        call = choose(self.calls) if self.calls and random.random() < 0.95 else bytes(16)
        number = choose(NUMBERS)
        match random.randrange(7):
            case 0:
                return StreamItem(message_id=call, offset=number, payload=bytes(choose((0, 10, 5_000))))
            case 1:
                return StreamCredit(message_id=call, credit=number, ended=random.random() < 0.2)
            case 2:
                return StreamEnd(message_id=call, items=number)
            case 3:
                answers = choose((True, False))
                return StreamResume(message_id=call, next=number, credit=choose(NUMBERS), answers=answers)
            case 4:
                return Reply(
                    message_id=call, code=choose(CODES), payload=bytes(choose((0, 3_000))),
                    executed=choose((True, False)), items=number, retry_after_ms=choose((None, 5)),
                )  # fmt: skip
            case 5:
                return Cancel(message_id=call)
            case _:
                agent, capability = choose(list(AGENTS.items()))
                return Request(
                    message_id=call, life=choose((life(1), life(2))), agent=agent, capability=capability,
                    remaining_ms=choose((1, 1_000, 86_400_000)), payload=b"", stream=random.randrange(4),
                    credit=choose((0, 1, 200, 4_096)), idempotency_key=choose((None, "k", "j")),
                    attempt=choose((1, 100)), hops_left=choose((0, 1, 10)),
                )  # fmt: skip

    def _hear(self, node: Node, other: Node, message: Message) -> None:
        link = node.links.link_to(other.node) or LinkId(999)
        now = self.world.now
        match message:
            case Request():
                its_life = self.random.choice((other.life, life(2)))
                node.callee.on_request(link, other.node, its_life, message, now)
            case Reply():
                node.caller.on_reply(link, other.node, other.life, message, now)
            case Cancel():
                node.callee.on_cancel(other.node, other.life, message, now)
            case StreamItem() | StreamCredit() | StreamEnd() | StreamResume():
                node.streams.on_message(other.node, other.life, message, now)
        node.perform()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nothing_that_others_say_raises_and_every_call_ends_once(seed: int) -> None:
    crowd = Crowd(Random(seed))
    for _ in range(crowd.random.randrange(5, 80)):
        crowd.step()
    for node in crowd.nodes:
        node.caller.end_all(ErrorCode.NODE_LOST, "this node is over", crowd.world.now)
        node.perform()
    crowd.world.run()
    for node in crowd.nodes:
        assert {event.call for event in node.ended} == set(node.started)
        assert node.caller.pending == 0
