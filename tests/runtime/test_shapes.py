"""Calls by the shape of their parameters, over real links."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from reachp2p import Agent, CallFailed, Context, Node
from reachp2p.core.settings import Protocol
from reachp2p.errors import ConfigurationInvalid, ErrorCode
from reachp2p.runtime.shaping import PARAMS_BYTES_MAX

pytestmark = pytest.mark.trio
PROTOCOL = Protocol(start_answer_timeout=0.2, gossip_interval=0.02)


def team() -> list[Agent]:
    writer = Agent("team/writer", tags={"team": "blue"})
    adder = Agent("team/adder", tags={"team": "blue"})

    @writer.capability("text.write")
    async def write(context: Context, text: str, times: int = 1) -> str:
        if text == "nested":
            return f"nested {await context.call(params={'numbers': [1, 2]}, by_shape=True)}"
        return text * times

    @writer.capability("text.lines")
    async def lines(text: str) -> AsyncIterator[str]:
        for line in text.split():
            yield line

    @adder.capability("number.add")
    async def add(numbers: list[int]) -> int:
        return sum(numbers)

    @adder.capability("number.count")
    async def count(numbers: list[int], above: int) -> int:
        return sum(number > above for number in numbers)

    return [writer, adder]


async def test_a_call_goes_where_its_parameters_fit() -> None:
    async with (
        Node(*team(), name="left", protocol=PROTOCOL) as left,
        Node(name="right", seeds=[str(left.address)], protocol=PROTOCOL) as right,
    ):
        for capability in ("text.write", "text.lines", "number.add", "number.count"):
            await right.wait_for(capability, timeout=5)
        with pytest.raises(CallFailed, match="name a capability, an agent or tags") as caught:
            await right.call(params={"numbers": [1, 2]})  # nobody has asked for it
        assert caught.value.code is ErrorCode.TARGET_NOT_SPECIFIED
        assert right.diagnostics()["size.shapes.compiled"] == 0

        told = right.explain(params={"numbers": [1, 2]}, by_shape=True)
        assert (told.code, "number.add: its schema is not here" in told.reason) == (1405, True)
        await right.fetch_schemas()
        told = right.explain(params={"numbers": [1, 2]}, by_shape=True)
        assert (told.capability, told.picked, told.code) == ("number.add", left.id, 0)
        assert told.named == "the parameters fit number.add alone, of 3 capabilities"

        assert await right.call(params={"numbers": [1, 2]}, by_shape=True) == 3
        assert (
            await right.call(params={"numbers": [1, 2], "above": 1}, tags={"team": "blue"}, by_shape=True)
            == 1
        )
        assert await right.call(params={"text": "ab", "times": 2}, by_shape=True) == "abab"
        assert await right.call(params={"text": "nested"}, by_shape=True) == "nested 3"
        task = await right.submit(params={"numbers": [4]}, by_shape=True)
        assert await task.result() == 4
        async with right.stream(params={"text": "a b"}, by_shape=True) as items:
            assert [item async for item in items] == ["a", "b"]

        for params, tags, code, said in (
            ({"numbers": "1"}, None, 1405, r"none of 3 capabilities; number.add: \$.numbers: expected array"),
            ({"numbers": [1]}, {"team": "red"}, 1303, "without|with team=blue"),
            (b"bytes", None, 1302, "no JSON"),
            ({"text": "a" * PARAMS_BYTES_MAX}, None, 1302, "not matched by their shape"),
            ({"text": [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}, None, 1302, "16 levels"),
        ):
            with pytest.raises(CallFailed, match=said) as caught:
                await right.call(params=params, tags=tags, by_shape=True)
            assert int(caught.value.code) == code
        counts = right.diagnostics()
        assert counts["schemas.fetches"] == 2  # of what answers, and of what streams
        assert counts["size.schemas.fetches"] == 0


async def test_many_calls_at_once_wait_for_one_fetch_and_a_tie_is_refused() -> None:
    twin = Agent("other/writer")

    @twin.capability("other.write")
    async def write(text: str) -> str:
        return text

    async with (
        Node(*team(), twin, name="left", protocol=PROTOCOL) as left,
        Node(name="right", seeds=[str(left.address)], protocol=PROTOCOL, by_shape=True) as right,
    ):
        for capability in ("text.write", "number.add", "number.count", "other.write"):
            await right.wait_for(capability, timeout=5)
        sums: list[int] = []

        async def ask(number: int) -> None:
            sums.append(await right.call(params={"numbers": [number]}))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(ask, number)
        assert sorted(sums) == list(range(20))
        assert right.diagnostics()["schemas.fetches"] == 1
        with pytest.raises(
            CallFailed, match=r"fit 2 capabilities, name one: other\.write .*, text\.write"
        ) as tie:
            await right.call(params={"text": "a"})
        assert tie.value.code is ErrorCode.TARGET_NOT_SPECIFIED
        with pytest.raises(CallFailed, match="name a capability, an agent or tags"):
            await right.call(params={"numbers": [1]}, by_shape=False)
        with pytest.raises(ConfigurationInvalid, match="by_shape"):
            await right.call(params={}, by_shape="yes")  # type: ignore[arg-type]  # what is wrong
    with pytest.raises(ConfigurationInvalid, match="by_shape"):
        Node(by_shape="yes")  # type: ignore[arg-type]  # what is wrong
