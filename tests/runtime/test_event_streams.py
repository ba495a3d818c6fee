"""News for listeners and for the log: nobody delays the node, and what goes on is not said again and again."""

from __future__ import annotations

import logging

import pytest
from trio.testing import MockClock

from reachp2p.core.counters import Counters
from reachp2p.core.events import Event, Lagged
from reachp2p.runtime.event_log import LAG_INTERVAL, EventLog
from reachp2p.runtime.event_streams import BUFFER_MAX, WARNING_INTERVAL, EventStreams


@pytest.mark.trio
async def test_a_slow_listener_loses_its_oldest_events_and_that_is_said_once_in_a_while(
    caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    counters = Counters()
    streams = EventStreams(counters)
    stream = streams.open(with_calls=False)
    mock_clock.jump(1.0)
    with caplog.at_level(logging.WARNING, "reachp2p.node"):
        for number in range(BUFFER_MAX + 10):
            streams.put(Event(at=float(number)))
        assert (stream.dropped, counters.value("events.dropped")) == (10, 10)
        assert ["one is dropped" in record.getMessage() for record in caplog.records] == [True]
        mock_clock.jump(WARNING_INTERVAL)
        streams.put(Event(at=0.0))
    assert "10 are dropped" in caplog.records[-1].getMessage()
    assert len(caplog.records) == 2
    assert (await stream.__anext__()).at == 11.0
    assert counters.value("events.dropped") == 11


def test_a_process_that_starves_says_so_at_once_and_then_counts(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog()
    with caplog.at_level(logging.WARNING, "reachp2p.node"):
        for number in range(20):
            log(Lagged(at=100.0 + number, seconds=1.5))
        assert [r.getMessage() for r in caplog.records] == [
            "the event loop got no time for 1.5 s: a handler or other code in this program has held it, or the "
            "machine is too busy. Doubting itself first"
        ]
        log(Lagged(at=100.0 + LAG_INTERVAL, seconds=2.0))
    assert (
        caplog.records[-1]
        .getMessage()
        .startswith(
            "the event loop got no time for 2.0 s (and 19 times since this was last said, 28.5 s in all): a handler or "
        )
    )
