"""The driver: inputs at once, effects in order and in batches, one timer, nothing that blocks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from reachp2p.core.commands import InvokeResult
from reachp2p.core.effects import (
    CancelInvoke,
    CloseLink,
    Delete,
    Dial,
    Effect,
    Fetch,
    Invoke,
    LinkEnd,
    Notify,
    Persist,
    SendDatagram,
    SendFrame,
    Table,
)
from reachp2p.core.engine import Engine
from reachp2p.core.events import Event, Lagged
from reachp2p.core.ids import Address, LinkId, NodeId, Ticket
from reachp2p.errors import ErrorCode, NodeError
from reachp2p.runtime.driver import BATCH, WALL_INTERVAL, Driver, Outlets
from reachp2p.runtime.storage import Fetched, Outcome, Written
from tests.runtime.fake_engine import FakeEngine

pytestmark = pytest.mark.trio

ADDRESS = Address("127.0.0.1", 7946)


class Performed:
    """Stands for sockets, links, storage and handlers: a list of what they were asked to do."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []
        self.outcomes: list[Outcome] = []
        self.fault: NodeError | None = None
        self.rooms: dict[LinkId, int] = {}

    def outlets(self) -> Outlets:
        return Outlets(
            cast(Any, _Udp(self)),
            cast(Any, _Links(self)),
            cast(Any, _Storage(self)),
            cast(Any, _Handlers(self)),
        )


class _Part:
    def __init__(self, performed: Performed) -> None:
        self.performed = performed

    def note(self, *what: Any) -> None:
        self.performed.log.append((what[0], what[1:]))


class _Udp(_Part):
    def send(self, address: Address, data: bytes) -> None:
        self.note("datagram", address, data)


class _Links(_Part):
    def send(self, link: LinkId, data: bytes) -> None:
        self.note("frame", link, data)

    def take_report(self, link: LinkId) -> int | None:
        return self.performed.rooms.pop(link, None)

    def dial(self, effect: Dial) -> None:
        self.note("dial", effect.link)

    def close(self, link: LinkId, abort: bool) -> None:
        self.note("close", link, abort)


class _Storage(_Part):
    def submit(self, operation: Persist | Delete | Fetch) -> None:
        self.note("storage", type(operation).__name__)

    def check(self) -> None:
        if self.performed.fault is not None:
            raise self.performed.fault

    def take_outcomes(self) -> list[Outcome]:
        outcomes, self.performed.outcomes = self.performed.outcomes, []
        return outcomes


class _Handlers(_Part):
    def start(self, invoke: Invoke) -> None:
        self.note("invoke", invoke.invocation)

    def cancel(self, invocation: int, reason: str) -> None:
        self.note("cancel", invocation, reason)


@asynccontextmanager
async def driving() -> AsyncIterator[tuple[FakeEngine, Driver, Performed, list[Event]]]:
    engine, performed, events = FakeEngine(), Performed(), []
    driver = Driver(cast(Engine, engine), events.append)
    driver.connect(performed.outlets())
    async with trio.open_nursery() as nursery:
        driver.start()
        nursery.start_soon(driver.run)
        await wait_all_tasks_blocked()
        yield engine, driver, performed, events
        nursery.cancel_scope.cancel()


async def test_every_effect_goes_where_it_belongs_in_order() -> None:
    async with driving() as (engine, driver, performed, events):
        invoke = Invoke(3, "a/b", "c", "t", b"", NodeId(bytes(32)), b"", 0.0, 1, None, None, None)
        effects: list[Effect] = [
            Persist(Ticket(1), Table.LIFE, b"k", b"v"),
            SendDatagram(ADDRESS, b"d"),
            Dial(LinkId(4), ADDRESS, None, 1.0),
            SendFrame(LinkId(4), b"f"),
            Notify(Lagged(at=1.0, seconds=2.0)),
            invoke,
            CancelInvoke(3, "no"),
            Delete(Ticket(2), Table.LIFE, b"k"),
            Fetch(1, Table.LIFE, b"", None, 1),
            SendFrame(LinkId(4), b"g"),
            CloseLink(LinkId(4), abort=True),
        ]
        engine.effects.extend(effects)
        driver.wake()
        await wait_all_tasks_blocked()
        assert performed.log == [
            ("storage", ("Persist",)),
            ("datagram", (ADDRESS, b"d")),
            ("dial", (4,)),
            ("frame", (4, b"f")),
            ("invoke", (3,)),
            ("cancel", (3, "no")),
            ("storage", ("Delete",)),
            ("storage", ("Fetch",)),
            ("frame", (4, b"g")),
            ("close", (4, True)),
        ]
        assert events == [Lagged(at=1.0, seconds=2.0)]


async def test_few_inputs_of_one_round_are_one_batch() -> None:
    async with driving() as (engine, driver, performed, _):
        engine.on_input = lambda name, arguments: engine.effects.append(SendFrame(LinkId(1), arguments[1]))
        async with trio.open_nursery() as nursery:
            for number in range(BATCH - 1):

                async def feed(data: bytes = b"%d" % number) -> None:
                    driver.datagram(ADDRESS, data)

                nursery.start_soon(feed)
        await wait_all_tasks_blocked()
        assert engine.taken == [BATCH - 1]
        assert len(performed.log) == BATCH - 1


async def test_what_one_read_has_brought_is_performed_at_once() -> None:
    async with driving() as (engine, driver, performed, _):
        engine.effects.append(SendFrame(LinkId(4), b"f"))
        driver.link_frame(LinkId(1), b"a")
        driver.link_frame(LinkId(1), b"b")
        assert performed.log == []
        driver.link_read()
        assert performed.log == [("frame", (LinkId(4), b"f"))]
        taken = len(engine.taken)
        await wait_all_tasks_blocked()
        assert len(engine.taken) == taken, "and no turn follows"


async def test_what_a_read_has_brought_waits_for_other_inputs_that_wait() -> None:
    async with driving() as (engine, driver, performed, _):
        driver.datagram(ADDRESS, b"d")
        engine.effects.append(SendFrame(LinkId(4), b"f"))
        driver.link_frame(LinkId(1), b"a")
        driver.link_read()
        assert not performed.log
        await wait_all_tasks_blocked()
        assert performed.log == [("frame", (LinkId(4), b"f"))]


async def test_a_deadline_that_a_read_has_brought_is_kept(autojump_clock: MockClock) -> None:
    async with driving() as (engine, driver, _, _):
        fired: list[float] = []

        def on_input(name: str, _: tuple[Any, ...]) -> None:
            if name == "handle_timeout":
                fired.append(trio.current_time())
                engine.deadline = None

        engine.on_input = on_input
        engine.deadline = due = trio.current_time() + 0.5
        driver.link_frame(LinkId(1), b"a")
        driver.link_read()
        await trio.sleep(0.75)
        assert fired == [due]


async def test_every_input_reaches_the_engine_with_the_time() -> None:
    async with driving() as (engine, driver, performed, _):
        result = InvokeResult()
        driver.datagram(ADDRESS, b"d")
        driver.link_opened(LinkId(1), None)
        driver.link_frame(LinkId(1), b"f")
        driver.link_writable(LinkId(1), 10)
        driver.link_closed(LinkId(1), LinkEnd.LOST)
        driver.invoke_ended(3, result)
        performed.outcomes += [
            Written(Ticket(1), None),
            Written(Ticket(2), "disk full"),
            Fetched(5, [(b"k", b"v")]),
        ]
        driver.wake()
        await wait_all_tasks_blocked()
        assert engine.inputs[1:] == [
            ("handle_datagram", (ADDRESS, b"d")),
            ("handle_link_opened", (1, None)),
            ("handle_frame", (1, b"f")),
            ("handle_link_writable", (1, 10)),
            ("handle_link_closed", (1, LinkEnd.LOST)),
            ("handle_invoke_result", (3, result)),
            ("handle_persisted", (1,)),
            ("handle_persist_failed", (2, "disk full")),
            ("handle_fetched", (5, [(b"k", b"v")])),
        ]
        assert all(0 <= trio.current_time() - at < 5 for at in engine.times[1:])


async def test_the_one_timer_follows_the_engine(autojump_clock: MockClock) -> None:
    async with driving() as (engine, driver, _, _):
        fired: list[float] = []

        def on_input(name: str, arguments: tuple[Any, ...]) -> None:
            if name == "handle_timeout":
                fired.append(trio.current_time())
                engine.deadline = trio.current_time() + 1.0 if len(fired) < 3 else None

        start = trio.current_time()
        engine.on_input = on_input
        engine.deadline = start + 2.0
        driver.wake()
        await trio.sleep(8)
        assert [round(at - start, 6) for at in fired] == [2.0, 3.0, 4.0]
        engine.deadline = trio.current_time() + 5.0
        driver.wake()
        await trio.sleep(1)
        engine.deadline = trio.current_time() + 0.5  # an input has made it earlier
        driver.wake()
        await trio.sleep(1)
        assert len(fired) == 4


async def test_a_deadline_that_has_passed_fires_even_when_inputs_never_end() -> None:
    async with driving() as (engine, driver, _, _):
        engine.deadline = trio.current_time() + 0.02

        def on_input(name: str, _: tuple[Any, ...]) -> None:
            if name == "handle_timeout":
                engine.deadline = None

        engine.on_input = on_input
        with trio.move_on_after(1):
            while engine.deadline is not None:
                driver.datagram(ADDRESS, b"d")
                await trio.lowlevel.checkpoint()
        assert "handle_timeout" in engine.names()


async def test_the_wall_clock_is_reported_at_the_start_and_every_ten_seconds(
    autojump_clock: MockClock,
) -> None:
    async with driving() as (engine, _, _, _):
        assert engine.names() == ["start"]
        await trio.sleep(3.5 * WALL_INTERVAL)
        assert engine.names() == ["start", *["handle_wall_clock"] * 3]


async def test_a_node_that_is_awake_reports_the_wall_clock_every_second(autojump_clock: MockClock) -> None:
    async with driving() as (engine, driver, _, _):
        for _ in range(41):
            driver.datagram(ADDRESS, b"d")
            await trio.sleep(0.125)
        assert engine.names().count("handle_wall_clock") == 5


async def test_room_on_a_link_is_reported_and_frees_further_frames_in_the_same_round() -> None:
    async with driving() as (engine, driver, performed, _):
        frames = [b"1", b"2", b"3"]

        def on_input(name: str, _: tuple[Any, ...]) -> None:
            if name == "handle_link_writable" and frames:
                performed.rooms[LinkId(1)] = 1_000
                engine.effects.append(SendFrame(LinkId(1), frames.pop(0)))

        engine.on_input = on_input
        performed.rooms[LinkId(1)] = 1_000
        engine.effects.append(SendFrame(LinkId(1), b"0"))
        driver.wake()
        await wait_all_tasks_blocked()
        assert performed.log == [("frame", (1, b"%d" % number)) for number in range(4)]
        assert engine.names().count("handle_link_writable") == 4


async def test_an_engine_that_never_stops_sending_lets_other_tasks_run() -> None:
    async with driving() as (engine, driver, performed, _):

        def on_input(name: str, _: tuple[Any, ...]) -> None:
            if name == "handle_link_writable":
                performed.rooms[LinkId(1)] = 1_000
                engine.effects.append(SendFrame(LinkId(1), b"more"))

        engine.on_input = on_input
        performed.rooms[LinkId(1)] = 1_000
        engine.effects.append(SendFrame(LinkId(1), b"0"))
        driver.wake()
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        assert 10 < len(performed.log) < 200


async def drive_with_a_damaged_file() -> None:
    async with driving() as (_, driver, performed, _):
        performed.fault = NodeError(ErrorCode.STATE_DAMAGED, "damaged")
        driver.wake()
        await trio.sleep(1)


async def drive_a_defective_engine() -> None:
    async with driving() as (engine, driver, _, _):

        def fail(*_: object) -> None:
            raise AssertionError("what can never happen")

        engine.on_input = fail
        engine.deadline = trio.current_time()
        driver.wake()
        await trio.sleep(1)


async def test_a_fault_of_the_storage_or_the_engine_ends_the_driver() -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        await drive_with_a_damaged_file()
    assert caught.group_contains(NodeError, match="damaged")
    with pytest.raises(BaseExceptionGroup) as caught:
        await drive_a_defective_engine()
    assert caught.group_contains(AssertionError, match="what can never happen")


def datagrams(count: int) -> list[Effect]:
    return [SendDatagram(ADDRESS, bytes([number])) for number in range(count)]


async def test_outputs_of_a_long_round_do_not_wait_for_its_end() -> None:
    async with driving() as (engine, driver, performed, _):
        for number in range(2 * BATCH + 1):
            engine.effects.extend(datagrams(1))
            driver.datagram(ADDRESS, b"d")
            assert len(performed.log) == (number + 1) // BATCH * BATCH
        await wait_all_tasks_blocked()
        assert len(performed.log) == 2 * BATCH + 1


async def test_an_input_that_comes_of_an_output_performs_nothing_itself() -> None:
    async with driving() as (engine, driver, performed, events):

        def again(event: Event) -> None:
            events.append(event)
            for _ in range(2 * BATCH):
                engine.effects.extend(datagrams(1))
                driver.wake()
            assert performed.log == []

        driver._notify = again
        engine.effects.append(Notify(Lagged(at=1.0, seconds=2.0)))
        driver.wake()
        await wait_all_tasks_blocked()
        assert (len(events), len(performed.log)) == (1, 2 * BATCH)


async def test_what_an_output_raises_ends_the_driver_and_not_whoever_came_along() -> None:
    reached = []

    async def come_along() -> None:
        async with driving() as (engine, driver, performed, _):
            engine.effects.append(cast(Any, "a defect"))
            for _ in range(2 * BATCH):
                driver.wake()
            engine.effects.extend(datagrams(1))
            reached.append(performed.log)
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as raised:
        await come_along()
    assert reached == [[]]
    assert raised.group_contains(AssertionError)


async def test_outputs_have_nothing_of_the_context_of_whoever_came_along() -> None:
    """Or a link would keep what belongs to one request of the program for as long as it lives."""
    request: ContextVar[str] = ContextVar("request", default="none")
    async with driving() as (engine, driver, _, _):
        seen: list[str] = []
        driver._notify = lambda event: seen.append(request.get())
        request.set("mine")
        engine.effects.append(Notify(Lagged(at=1.0, seconds=2.0)))
        driver.link_read()
        assert seen == ["none"]


async def test_what_is_for_the_application_waits_for_the_end_of_the_round_and_keeps_its_order() -> None:
    """Whoever has just given a command does not listen yet; every eighth of many calls that ended at once hung."""
    async with driving() as (engine, driver, performed, _):
        seen: list[float] = []
        driver._notify = lambda event: seen.append(event.at)
        for number in range(3 * BATCH):
            engine.effects.append(Notify(Lagged(at=float(number), seconds=2.0)))
            engine.effects.extend(datagrams(1))
            driver.wake()
        assert len(performed.log) >= 2 * BATCH, "datagrams do not wait"
        assert seen == []
        await wait_all_tasks_blocked()
        assert seen == [float(number) for number in range(3 * BATCH)]


async def test_nothing_is_performed_before_the_start_or_after_the_end() -> None:
    engine, performed = FakeEngine(), Performed()
    driver = Driver(cast(Engine, engine), lambda _: None)
    driver.connect(performed.outlets())
    engine.effects.extend(datagrams(1))
    for _ in range(2 * BATCH):
        driver.wake()
    assert performed.log == []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.run)
        await wait_all_tasks_blocked()
        assert len(performed.log) == 1
        nursery.cancel_scope.cancel()
    engine.effects.extend(datagrams(1))
    for _ in range(2 * BATCH):
        driver.wake()
    assert len(performed.log) == 1
