"""The news of a node as an operator reads them."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
import trio
import trio.testing

from reachp2p import Agent, Node
from reachp2p.core.events import Joined, MemberChanged, MemberState, NameShared
from reachp2p.core.ids import Address, Life, NodeId
from reachp2p.runtime.event_log import NAMES_MAX, EventLog


def node(number: int) -> NodeId:
    return NodeId(number.to_bytes(2, "big") * 16)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> EventLog:
    caplog.set_level(logging.INFO, "reachp2p.node")
    return EventLog()


def test_that_a_name_is_shared_is_said_once_however_often_its_nodes_start_again(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(2, 100):  # each start has a new key
        log(NameShared(at=0.0, name="shouter", nodes=(node(1), node(number))))
    assert said(caplog) == [
        "two nodes call themselves shouter: 00010001 and 00020002. That does no harm; names are for people, and `name` "
        "gives another one"
    ]
    for number in range(2 * NAMES_MAX):
        log(NameShared(at=0.0, name=f"name-{number}", nodes=(node(1), node(2))))
    assert len(caplog.records) == NAMES_MAX


def test_joining_names_by_way_of_whom_if_that_is_known(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    log(Joined(at=0.0, via=None))
    log(Joined(at=0.0, via=Address("10.0.0.5", 7946)))
    assert said(caplog) == ["joined", "joined, by way of 10.0.0.5:7946"]


def test_members_come_change_and_go(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    states = [(None, MemberState.ALIVE), (MemberState.ALIVE, MemberState.DEAD), (MemberState.DEAD, None)]
    for old, new in states:
        log(
            MemberChanged(
                at=0.0, node=node(1), name="a\x1bb", life=Life(1, bytes(16)), incarnation=0, old=old, new=new,
                reason="why",
            )
        )  # fmt: skip
    assert said(caplog) == [
        "member a\N{REPLACEMENT CHARACTER}b (00010001): new -> ALIVE, why",
        "member a\N{REPLACEMENT CHARACTER}b (00010001): ALIVE -> DEAD, why",
    ]


@pytest.mark.trio
async def test_who_holds_the_event_loop_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One that has ended when the lag is noticed, and one that is still running."""
    agent = Agent("demo/slow")

    @agent.capability("slow.block")
    async def block() -> None:
        time.sleep(1.8)  # noqa: ASYNC251 (what is to be named)

    @agent.capability("slow.wait")
    async def wait() -> None:
        await trio.sleep_forever()

    @agent.capability("slow.before")
    async def before() -> None:
        return

    async with Node(agent, state=tmp_path) as node, trio.open_nursery() as nursery:
        await node.call("slow.before")
        nursery.start_soon(node.call, "slow.wait")
        await trio.sleep(0.2)
        await node.call("slow.block")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    (lag,) = [text for text in said(caplog) if "got no time" in text]
    assert lag.endswith(
        "handlers that ran then: demo/slow slow.block, demo/slow slow.wait. Doubting itself first"
    )
