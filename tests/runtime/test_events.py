"""Events between nodes over real links: published, subscribed, handled, and lost where nobody reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from reachp2p import Agent, CallFailed, Context, InvalidIdentifier, Node, TopicEvent
from reachp2p.core.events import EventReceived
from reachp2p.core.ids import NodeId
from reachp2p.core.settings import Protocol
from reachp2p.errors import ConfigurationInvalid, ErrorCode, LocalProtocolError, RemoteProtocolError
from reachp2p.runtime.control_client import request, stream

pytestmark = pytest.mark.trio

QUICK = Protocol(start_answer_timeout=0.2, gossip_interval=0.02)


@asynccontextmanager
async def two_nodes(*agents: Agent, state: Path | None = None) -> AsyncIterator[tuple[Node, Node]]:
    async with (
        Node(name="left", protocol=QUICK, state=state, control=state is not None) as left,
        Node(*agents, name="right", seeds=[str(left.address)], protocol=QUICK) as right,
    ):
        yield left, right


async def publish_until_sent(node: Node, topic: str, data: Any = None, nodes: int = 1) -> None:
    """Until the subscriptions of others have been heard of."""
    with trio.fail_after(5):
        while await node.publish(topic, data) < nodes:  # noqa: ASYNC110 (a look at what gossip has brought)
            await trio.sleep(0.02)


async def until(holds: Callable[[], bool]) -> None:
    """Look until something holds."""
    with trio.fail_after(5):
        while not holds():  # noqa: ASYNC110 (a look from outside)
            await trio.sleep(0.01)


async def test_a_program_gets_what_another_publishes() -> None:
    async with two_nodes() as (left, right), right.subscribe("orders.*.created") as events:
        await publish_until_sent(left, "orders.eu.created", {"id": 4711})
        assert await left.publish("orders.created") == 0
        with trio.fail_after(2):
            event = await anext(events)
        assert isinstance(event, TopicEvent)
        assert (event.topic, event.data, event.publisher) == ("orders.eu.created", {"id": 4711}, left.id)
        assert (event.agent, event.sequence, event.gap, event.missed) == (None, 1, 0, 0)
        assert "orders.eu.created" in repr(event)
        assert left.agents() == []
        assert right.agents() == []


async def test_own_events_reach_own_subscribers_and_bytes_stay_bytes() -> None:
    async with Node() as node, node.subscribe(">") as events, node.subscribe("a.b") as others:
        assert await node.publish("a.b", b"\x00raw") == 1
        for subscription in (events, others):
            event = await anext(subscription)
            assert (event.data, event.content_type) == (b"\x00raw", "application/octet-stream")


async def test_a_slow_subscriber_misses_the_oldest_and_is_told() -> None:
    async with Node() as node, node.subscribe("a", buffer=3) as slow, node.subscribe("a") as other:
        for number in range(10):
            await node.publish("a", number)
        assert slow.waiting == 3
        assert [(event.data, event.missed) for event in [await anext(slow) for _ in range(3)]] == [
            (7, 7),
            (8, 0),
            (9, 0),
        ]
        assert slow.missed == 7
        assert [(await anext(other)).data for _ in range(10)] == list(range(10))
        assert node.diagnostics()["topics.dropped.subscriber_full"] == 7


async def test_a_subscription_ends_with_its_block_and_with_the_node() -> None:
    async with Node() as node:
        async with node.subscribe("a") as events:
            await node.publish("a", 1)
        assert [event async for event in events] == []
        assert await node.publish("a", 2) == 1, "the pattern lingers, and nobody wants it"
        assert node.diagnostics()["topics.unwanted"] == 1
        assert node.diagnostics()["size.runtime_subscriptions"] == 0
        with pytest.raises(LocalProtocolError, match="used once"):
            async with events:
                raise AssertionError("not reached")
        with pytest.raises(LocalProtocolError, match="async with"):
            aiter(node.subscribe("a"))
        lasting = node.subscribe("a")
        await lasting.__aenter__()
    with trio.fail_after(1):
        assert [event async for event in lasting] == []


async def test_handlers_of_an_agent_run_in_order_and_publish_on_behalf_of_it() -> None:
    agent = Agent("shop/audit")
    seen: list[Any] = []

    @agent.on("orders.>")
    async def note(event: TopicEvent, context: Context) -> None:
        seen.append((event.topic, context.agent, context.capability, context.caller))
        await trio.sleep(0.02)
        seen.append(event.data)
        if event.data == 2:
            await context.publish("audit.done", {"of": event.topic})

    @agent.on("plain.*", concurrency=2, timeout=5)
    def in_a_thread(event) -> None:  # type: ignore[no-untyped-def]
        seen.append(("thread", event.data))

    async with two_nodes(agent) as (left, right), left.subscribe("audit.>") as done:
        await publish_until_sent(right, "audit.ready")
        assert (await anext(done)).topic == "audit.ready"
        await publish_until_sent(left, "orders.a", 1)
        await left.publish("orders.b", 2)
        with trio.fail_after(5):
            event = await anext(done)
        assert (event.data, event.agent) == ({"of": "orders.b"}, "shop/audit")
        assert seen == [
            ("orders.a", "shop/audit", "on orders.>", left.id), 1,
            ("orders.b", "shop/audit", "on orders.>", left.id), 2,
        ]  # fmt: skip
        assert [view.agent for view in left.agents()] == ["shop/audit"]
        await left.publish("plain.x", "y")
        await until(lambda: seen[-1] == ("thread", "y"))


async def test_a_handler_that_fails_or_hangs_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("shop/frail")
    seen: list[Any] = []

    @agent.on("a.fails")
    async def fails(event: TopicEvent) -> None:
        seen.append(event.data)
        raise ValueError("as it was told")

    @agent.on("a.hangs", timeout=0.1)
    async def hangs(event: TopicEvent) -> None:
        seen.append(event.data)
        await trio.sleep_forever()

    async with Node(agent) as node:
        for number in range(2):
            await node.publish("a.fails", number)
            await node.publish("a.hangs", 10 + number)
        await until(lambda: len(seen) == 4 and not node.diagnostics()["size.topics.handling"])
        counts = node.diagnostics()
        assert counts["topics.handling_failed.1403"] == 2
        assert counts["topics.handling_failed.1401"] == 2
        assert sorted(seen) == [0, 1, 10, 11]
    assert "as it was told" in caplog.text


async def test_events_that_answer_events_end() -> None:
    agent = Agent("shop/echo")
    codes: list[ErrorCode] = []
    count = 0

    @agent.on("ring")
    async def again(event: TopicEvent, context: Context) -> None:
        nonlocal count
        count += 1
        try:
            await context.publish("ring")
        except CallFailed as failed:
            codes.append(failed.code)

    async with Node(agent) as node:
        await node.publish("ring")
        await until(lambda: bool(codes))
    assert (count, codes) == (10, [ErrorCode.HOPS_USED_UP])


async def test_what_cannot_be_published_or_subscribed_to_says_what_to_write() -> None:
    async with Node(protocol=Protocol(payload_max=1_048_576)) as node:
        with pytest.raises(InvalidIdentifier, match="for those who subscribe"):
            await node.publish("orders.*", 1)
        with pytest.raises(ConfigurationInvalid, match="topic"):
            await node.publish(7)  # type: ignore[arg-type]
        with pytest.raises(CallFailed, match=r"cannot be sent: \$\.a") as caught:
            await node.publish("a", {"a": object()})
        assert caught.value.code is ErrorCode.SCHEMA_MISMATCH
        with pytest.raises(CallFailed, match="at most 1,048,576") as caught:
            await node.publish("a", bytes(1_048_577))
        assert caught.value.code is ErrorCode.PAYLOAD_TOO_LARGE
        with pytest.raises(InvalidIdentifier, match=r"orders\.>"):
            node.subscribe("a.>.b")
        for wrong in (0, True, 70_000, "many"):
            with pytest.raises(ConfigurationInvalid, match="buffer"):
                node.subscribe("a", buffer=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "options", "says"),
    [
        ("", {}, "name the topics"),
        ("a..b", {}, "dotted tokens"),
        ("a", {"concurrency": 0}, "whole number"),
        ("a", {"timeout": 0}, "seconds above 0"),
    ],
)
async def test_wrong_declarations_are_errors_where_they_are_written(
    pattern: str, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(LocalProtocolError, match=says):
        Agent("a/b").on(pattern, **options)


async def test_a_handler_takes_the_event_and_nothing_else() -> None:
    agent = Agent("a/b")

    def typed(event: dict[str, Any]) -> None: ...
    def two(event: TopicEvent, other: int) -> None: ...
    def raw(event: bytes) -> None: ...

    for function, says in (
        (typed, "annotate it as TopicEvent"),
        (two, "one parameter"),
        (raw, "one parameter"),
    ):
        with pytest.raises(LocalProtocolError, match=says):
            agent.on("a")(function)
    agent.on("a")(lambda event: None)
    with pytest.raises(InvalidIdentifier, match="handler already"):
        agent.on("a")(lambda event: None)
    assert [topic.pattern for topic in agent.spec.topics] == ["a"]


async def test_an_event_that_cannot_be_read_says_whose_it_is() -> None:
    received = EventReceived(
        at=0.0,
        subscriptions=(),
        topic="a.b",
        content_type="application/cbor",
        payload=b"\xff",
        publisher=NodeId(b"\x01" * 32),
        agent=None,
        sequence=1,
        gap=0,
        published_at=1_000,
        session_id=None,
        traceparent=None,
        hops_left=10,
    )
    event = TopicEvent(received)
    assert (event.payload, event.published_at) == (b"\xff", 1.0)
    with pytest.raises(RemoteProtocolError, match=r"a\.b of node 01010101"):
        event.data  # noqa: B018


async def test_an_exclusive_agent_is_told_its_token_and_its_standby_takes_over() -> None:
    def ledger() -> Agent:
        agent = Agent("pay/ledger", exclusive=True)

        @agent.capability("pay.token")
        async def token(context: Context) -> int | None:
            return context.fencing_token

        return agent

    quick = Protocol(start_answer_timeout=0.2, gossip_interval=0.02, suspicion_alpha=0.2)
    async with Node(ledger(), name="left", protocol=quick) as left:
        with trio.fail_after(5):
            await left.wait_for("pay.token")
            first = await left.call("pay.token")
        async with Node(ledger(), name="right", seeds=[str(left.address)], protocol=quick) as right:
            with trio.fail_after(5):
                await right.wait_for("pay.token")
                assert await right.call("pay.token") == first
            await left.leave()
            with trio.fail_after(5):
                await right.wait_for("pay.token")
                assert await right.call("pay.token") > first


async def test_the_command_line_publishes_and_subscribes(tmp_path: Path) -> None:
    async with two_nodes(state=tmp_path) as (_, right), right.subscribe("a.>") as events:
        with trio.fail_after(5):
            async with aclosing(stream(tmp_path, "subscribe", {"pattern": "b.*"})) as lines:
                assert await anext(lines) == {"subscribed": "b.*"}
                await publish_until_sent(right, "b.x", {"n": 1})
                line = await anext(lines)
                assert (line["topic"], line["data"], line["node"]) == ("b.x", {"n": 1}, right.id.hex())
            answer = {"nodes": 0}
            while not answer["nodes"]:  # right's subscription has to be heard of
                answer = await request(tmp_path, "publish", {"topic": "a.c", "data": [1]})
            assert (await anext(events)).data == [1]
        with pytest.raises(CallFailed) as caught:
            await request(tmp_path, "publish", {"topic": "a.*"})
        assert caught.value.code is ErrorCode.INVALID_IDENTIFIER
