"""OpenTelemetry: spans of calls and invocations, one trace from program to program, the same ids as the hops have."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from reachp2p import Agent, CallFailed, Context, Node
from reachp2p.core.calls.hops import Side
from reachp2p.core.counters import Counters
from reachp2p.core.settings import Protocol
from reachp2p.errors import ErrorCode
from reachp2p.runtime import telemetry

sdk = pytest.importorskip("opentelemetry.sdk.trace")

from opentelemetry import trace as otel  # noqa: E402 (after the check that it is there)
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF  # noqa: E402

PLAIN = Protocol(start_answer_timeout=0.2, gossip_interval=0.02)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What is exported. The provider of a process can be set only once, so it is put into its place."""
    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def team() -> tuple[Agent, Agent]:
    planner, worker = Agent("team/planner"), Agent("team/worker")

    @planner.capability("plan.work")
    async def plan(context: Context) -> str | None:
        with otel.get_tracer("its own").start_as_current_span("thinking"):
            await context.call("work.well")
        with pytest.raises(CallFailed):
            await context.call("work.fails")
        return context.traceparent

    @worker.capability("work.well")
    def well() -> None:
        return None

    @worker.capability("work.fails")
    async def fails() -> None:
        raise ValueError("no luck")

    return planner, worker


@pytest.mark.trio
async def test_one_trace_goes_through_programs_and_hops_have_its_ids(spans: InMemorySpanExporter) -> None:
    planner, worker = team()
    async with (
        Node(planner, name="one", protocol=PLAIN) as one,
        Node(worker, name="two", seeds=[str(one.address)], protocol=PLAIN) as two,
    ):
        for node, capability in ((two, "plan.work"), (one, "work.well"), (one, "work.fails")):
            await node.wait_for(capability, timeout=5)
        with trio.fail_after(10), otel.get_tracer("the program").start_as_current_span("request") as request:
            traceparent = await two.call("plan.work")
        trace = request.get_span_context().trace_id
        told = await one.trace(trace.to_bytes(16))
    by_name = {(span.name, span.kind): span for span in spans.get_finished_spans()}
    assert len(by_name) == len(spans.get_finished_spans()) == 8
    client, server = otel.SpanKind.CLIENT, otel.SpanKind.SERVER
    asked, served = by_name["plan.work", client], by_name["team/planner/plan.work", server]
    inner, inner_served = by_name["work.well", client], by_name["team/worker/work.well", server]
    thinking = by_name["thinking", otel.SpanKind.INTERNAL]
    bad, bad_served = by_name["work.fails", client], by_name["team/worker/work.fails", server]
    above = {
        span.name + str(span.kind.value): span.parent.span_id for span in by_name.values() if span.parent
    }
    assert asked.parent.span_id == request.get_span_context().span_id
    assert served.parent.span_id == asked.context.span_id
    assert thinking.parent.span_id == served.context.span_id
    assert inner.parent.span_id == thinking.context.span_id
    assert inner_served.parent.span_id == inner.context.span_id
    assert bad.parent.span_id == served.context.span_id
    assert bad_served.parent.span_id == bad.context.span_id
    assert len(above) == 7
    assert {span.context.trace_id for span in by_name.values()} == {trace}
    assert traceparent == f"00-{trace:032x}-{served.context.span_id:016x}-01"
    # The hops are the spans.
    assert [int.from_bytes(hop.span) for hop in told.hops] == [
        span.context.span_id for span in (asked, served, inner, inner_served, bad, bad_served)
    ]
    assert [hop.side for hop in told.hops] == [Side.ASKED, Side.SERVED] * 3
    assert told.levels == [0, 1, 2, 3, 2, 3]
    assert told.findings == []
    # What they say.
    assert inner.attributes == {
        "rpc.system": "reachp2p",
        "rpc.service": "team/worker",
        "rpc.method": "work.well",
        "reachp2p.attempts": 1,
        "reachp2p.node": two.id[:4].hex(),
    }
    assert bad_served.attributes is not None
    assert bad_served.attributes[telemetry.CALLER] == one.id[:4].hex()
    for span in (bad, bad_served):
        assert span.status.status_code is otel.StatusCode.ERROR
        assert "no luck" in (span.status.description or "")
        assert span.attributes[telemetry.ERROR_TYPE] == str(int(ErrorCode.HANDLER_FAILED))
    assert served.status.status_code is otel.StatusCode.UNSET


@pytest.mark.trio
async def test_a_call_without_a_span_around_it_begins_a_trace(spans: InMemorySpanExporter) -> None:
    _, worker = team()
    async with Node(worker, protocol=PLAIN) as node:
        await node.call("work.well")
        served, asked = spans.get_finished_spans()
        assert asked.parent is None
        told = await node.trace(asked.context.trace_id.to_bytes(16))
        assert told.hops[0].parent is None
        assert [int.from_bytes(hop.span) for hop in told.hops] == [s.context.span_id for s in (asked, served)]
        with pytest.raises(CallFailed):
            await node.call("no.such")
        (failed,) = spans.get_finished_spans()[2:]
        assert failed.attributes[telemetry.CODE] == ErrorCode.UNKNOWN_TARGET


@pytest.mark.trio
async def test_the_span_of_a_stream_ends_with_it(spans: InMemorySpanExporter) -> None:
    agent = Agent("team/counter")

    @agent.capability("work.count")
    async def count() -> AsyncIterator[int]:
        for number in range(3):
            yield number

    async with Node(agent, protocol=PLAIN) as node:
        async with node.stream("work.count") as items:
            assert [item async for item in items] == [0, 1, 2]
        async with node.stream("work.count"):
            pass  # it is left at once
        await trio.sleep(0.05)
        ends = [span.status.is_ok for span in spans.get_finished_spans() if span.kind is otel.SpanKind.CLIENT]
    assert ends == [True, False]


@pytest.mark.trio
async def test_a_trace_that_is_not_sampled_is_handed_on_so(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = sdk.TracerProvider(sampler=ALWAYS_OFF)
    monkeypatch.setattr(otel, "get_tracer", provider.get_tracer)
    planner, worker = team()
    async with Node(planner, worker, protocol=PLAIN) as node:
        traceparent = await node.call("plan.work")
        (session,) = (await node.sessions()).sessions
        told = await node.trace(session.session)
    assert traceparent == f"00-{session.session.hex()}-{told.hops[1].span.hex()}-00"
    assert told.levels == [0, 1, 2, 3, 2, 3]
    assert told.findings == []


@pytest.mark.trio
async def test_without_an_sdk_hops_have_ids_of_their_own() -> None:
    _, worker = team()
    async with Node(worker, protocol=PLAIN) as node:
        _, _, ended = await node.call_detailed("work.well")
        assert (await node.trace(ended.call)).levels == [0, 1]


@pytest.mark.trio
async def test_an_sdk_that_raises_costs_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def start_span(self, *_: object, **__: object) -> None:
            raise RuntimeError("broken")

    monkeypatch.setattr(otel, "get_tracer", lambda *_, **__: Broken())
    _, worker = team()
    async with Node(worker, protocol=PLAIN) as node:
        await node.call("work.well")
        assert node.diagnostics()["telemetry.failed"] == 2


def test_without_the_api_nothing_is_told_and_nothing_loaded() -> None:
    program = (
        "import sys; from reachp2p import Node; from reachp2p.core.counters import Counters\n"
        "Node(); from reachp2p.runtime.telemetry import find_telemetry\n"
        "assert find_telemetry(Counters()) is None\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert telemetry.find_telemetry(Counters()) is not None


@pytest.mark.parametrize(
    ("agent", "capability", "name"),
    [("a/b", "c.d", "a/b/c.d"), (None, "c.d", "c.d"), ("a/b", None, "a/b"), (None, None, "call")],
)
def test_spans_are_named_after_service_and_method(
    agent: str | None, capability: str | None, name: str
) -> None:
    assert telemetry.span_name(agent, capability) == name
