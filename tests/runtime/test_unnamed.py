"""Calls by tags alone, over real links."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reachp2p import Agent, CallFailed, Context, Node
from reachp2p.core.settings import Protocol
from reachp2p.errors import ErrorCode
from reachp2p.runtime.tasks import StillRunning

pytestmark = pytest.mark.trio
PROTOCOL = Protocol(start_answer_timeout=0.2, gossip_interval=0.02)


def team() -> list[Agent]:
    writer = Agent("team/writer", tags={"role": "writer", "team": "blue"})
    reader = Agent("team/reader", tags={"role": "reader", "team": "blue"})

    @writer.capability("text.write", timeout=1.5)
    async def write(context: Context, text: str, wait: float = 0.0) -> str:
        import trio

        await trio.sleep(wait)
        if text == "nested":
            return f"nested {await context.call(params={'text': 'in'}, tags={'role': 'reader'})}"
        return f"wrote {text}"

    @reader.capability("text.read")
    async def read(text: str) -> str:
        return f"read {text}"

    @reader.capability("text.lines")
    async def lines(text: str) -> AsyncIterator[str]:
        for line in text.split():
            yield line

    return [writer, reader]


async def test_tags_find_the_one_capability_that_is_offered_with_them(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nmatch = { capability = "text.write" }\npolicy = "round_robin"\n')
    async with (
        Node(*team(), name="left", protocol=PROTOCOL) as left,
        Node(name="right", seeds=[str(left.address)], protocol=PROTOCOL, rules=rules) as right,
    ):
        for capability in ("text.write", "text.read", "text.lines"):
            await right.wait_for(capability, timeout=5)
        role = {"role": "writer"}
        assert await right.call(params={"text": "a"}, tags=role) == "wrote a"
        assert await right.call(params={"text": "nested"}, tags=role) == "nested read in"
        task = await right.submit(params={"text": "later"}, tags=role)
        assert await task.result() == "wrote later"
        async with right.stream(params={"text": "b c"}, tags={"team": "blue", "role": "reader"}) as items:
            assert [item async for item in items] == ["b", "c"]
        told = right.explain(tags=role)
        assert (told.capability, told.named) == (
            "text.write",
            "anything with role=writer is text.write (1 instance)",
        )
        assert (told.picked, told.policy) == (left.id, "round_robin")  # rules for what is meant count

        with pytest.raises(
            CallFailed, match=r"one of 2 capabilities, name one: text.read .*, text.write"
        ) as tie:
            await right.call(params={"text": "a"}, tags={"team": "blue"})
        assert tie.value.code is ErrorCode.TARGET_NOT_SPECIFIED
        told = right.explain(tags={"team": "blue"})
        assert (told.code, told.picked, told.named) == (1302, None, "")
        with pytest.raises(CallFailed, match=r"text\.write .* does not stream: use call") as wrong:
            async with right.stream(params={"text": "a"}, tags=role):
                pass
        assert wrong.value.code is ErrorCode.SCHEMA_MISMATCH
        with pytest.raises(StillRunning, match="the call of anything with role=writer: no answer"):
            await right.call(params={"text": "a", "wait": 5.0}, tags=role)
