"""The states of calls and invocations are tables; the page draws those tables and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reachp2p.core.calls import call, invocation, stream
from reachp2p.core.calls.call import Call, CallInput, CallState
from reachp2p.core.calls.invocation import Bulkhead, Invocation, InvocationInput, InvocationState
from reachp2p.core.calls.stream import Stream, StreamInput, StreamState
from reachp2p.core.commands import CallSpec, RouteQuery
from reachp2p.core.ids import LinkId
from reachp2p.core.routing.pick import Pick
from reachp2p.core.wire.messages import Request
from tests.unit.links.pair import life, node_id

STREAMS_PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocol" / "streams.md"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocol" / "calls.md"


def a_call(state: CallState) -> Call:
    return Call(
        id=bytes(16),
        spec=CallSpec(query=RouteQuery(), payload=b""),
        deadline=1.0,
        node=node_id("n"),
        agent="a/b",
        capability="c",
        repeatable=False,
        query=RouteQuery(),
        pick=Pick(None, RouteQuery()),  # type: ignore[arg-type]
        state=state,
    )


def an_invocation(state: InvocationState) -> Invocation:
    request = Request(
        message_id=bytes(16), life=life(1), agent="a/b", capability="c", remaining_ms=1, payload=b""
    )
    return Invocation(1, LinkId(1), node_id("n"), life(1), request, 1.0, Bulkhead(("a/b", "c"), 1), state)


@pytest.mark.parametrize("state", CallState)
@pytest.mark.parametrize("happened", CallInput)
def test_a_call_goes_where_the_table_says_and_nowhere_else(state: CallState, happened: CallInput) -> None:
    moved = a_call(state)
    if (state, happened) in call.TRANSITIONS:
        moved.move(happened)
        assert moved.state is call.TRANSITIONS[state, happened]
    else:
        with pytest.raises(AssertionError):
            moved.move(happened)


@pytest.mark.parametrize("state", InvocationState)
@pytest.mark.parametrize("happened", InvocationInput)
def test_an_invocation_goes_where_the_table_says_and_nowhere_else(
    state: InvocationState, happened: InvocationInput
) -> None:
    moved = an_invocation(state)
    if (state, happened) in invocation.TRANSITIONS:
        moved.move(happened)
        assert moved.state is invocation.TRANSITIONS[state, happened]
    else:
        with pytest.raises(AssertionError):
            moved.move(happened)


def test_nothing_follows_an_end_and_every_state_can_end() -> None:
    assert [before for before, _ in call.TRANSITIONS if before is CallState.ENDED] == []
    assert [before for before, _ in invocation.TRANSITIONS if before is InvocationState.ENDED] == []
    for state in (CallState.LINKING, CallState.ASKED):
        assert call.TRANSITIONS[state, CallInput.ENDED] is CallState.ENDED
    for running in (InvocationState.QUEUED, InvocationState.RUNNING):
        assert invocation.TRANSITIONS[running, InvocationInput.EXPIRED] is InvocationState.ENDED


def test_the_page_draws_exactly_these_tables() -> None:
    drawn = re.findall(r"^ +([A-Z]+) --> ([A-Z]+) : ([A-Z_]+)$", PAGE.read_text(), re.MULTILINE)
    calls = [
        (before.name, after.name, happened.name) for (before, happened), after in call.TRANSITIONS.items()
    ]
    invocations = [
        (before.name, after.name, happened.name)
        for (before, happened), after in invocation.TRANSITIONS.items()
    ]
    assert sorted(drawn) == sorted(calls + invocations)


@pytest.mark.parametrize("state", StreamState)
@pytest.mark.parametrize("happened", StreamInput)
def test_a_stream_goes_where_the_table_says_and_nowhere_else(
    state: StreamState, happened: StreamInput
) -> None:
    moved = Stream(1, bytes(16), None, None, 60.0, 0.0, state)
    if (state, happened) in stream.TRANSITIONS:
        moved.move(happened)
        assert moved.state is stream.TRANSITIONS[state, happened]
    else:
        with pytest.raises(AssertionError):
            moved.move(happened)


def test_the_page_of_streams_draws_exactly_its_table() -> None:
    drawn = re.findall(r"^ +([A-Z]+) --> ([A-Z]+) : ([A-Z_]+)$", STREAMS_PAGE.read_text(), re.MULTILINE)
    table = [(before.name, after.name, what.name) for (before, what), after in stream.TRANSITIONS.items()]
    assert sorted(drawn) == sorted(table)
    assert [before for before, _ in stream.TRANSITIONS if before is StreamState.ENDED] == []
