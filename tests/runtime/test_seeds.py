"""Seeds are resolved for ever, all their addresses are used, and a name may come back (B56)."""

from __future__ import annotations

import logging
import random
import socket
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from reachp2p.core.ids import Address
from reachp2p.runtime.seeds import ADDRESSES_MAX, RESOLVE_INTERVAL, Seeds

pytestmark = pytest.mark.trio


class Names(trio.abc.HostnameResolver):
    """A name service whose entries change."""

    def __init__(self) -> None:
        self.entries: dict[str, list[str]] = {}
        self.asked: list[tuple[float, str]] = []
        self.delay = 0.0

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # type: ignore[no-untyped-def]
        self.asked.append((trio.current_time(), host.decode() if isinstance(host, bytes) else host))
        await trio.sleep(self.delay)
        name = self.asked[-1][1]
        if name not in self.entries:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6 if ":" in found else socket.AF_INET, type, 0, "", (found, port))
            for found in self.entries[name]
        ]

    async def getnameinfo(self, sockaddr, flags):  # type: ignore[no-untyped-def]
        raise NotImplementedError


@pytest.fixture
async def names() -> Names:
    service = Names()
    trio.socket.set_custom_hostname_resolver(service)
    return service


@pytest.fixture
def delivered() -> list[tuple[Address, ...]]:
    return []


async def test_literals_are_there_at_once_and_names_are_not_waited_for(names: Names) -> None:
    seeds = Seeds([("127.0.0.1", 7946), ("::1", 80)], lambda _: None, random.Random(1))
    assert seeds.addresses == (Address("127.0.0.1", 7946), Address("::1", 80))
    await seeds.resolve_once(1.0)
    assert names.asked == []


async def test_a_slow_name_service_does_not_hold_up_the_start(
    names: Names, autojump_clock: MockClock
) -> None:
    names.delay = 60.0
    seeds = Seeds([("slow.example", 7946), ("127.0.0.1", 1)], lambda _: None, random.Random(1))
    begun = trio.current_time()
    await seeds.resolve_once(2.0)
    assert trio.current_time() - begun == 2.0
    assert seeds.addresses == (Address("127.0.0.1", 1),)


async def test_a_name_missing_at_the_start_is_found_when_it_appears_and_followed_when_it_moves(
    names: Names,
    autojump_clock: MockClock,
    delivered: list[tuple[Address, ...]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "reachp2p.seeds")
    seeds = Seeds([("seed.example", 7946)], delivered.append, random.Random(1))
    await seeds.resolve_once(1.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(seeds.run)
        await trio.sleep(60)
        assert set(delivered) == {()}
        names.entries["seed.example"] = ["10.0.0.1", "10.0.0.2", "fd00::1"]
        await trio.sleep(RESOLVE_INTERVAL * 1.3)
        assert delivered[-1] == (
            Address("10.0.0.1", 7946),
            Address("10.0.0.2", 7946),
            Address("fd00::1", 7946),
        )
        names.entries["seed.example"] = ["10.0.0.9"]
        await trio.sleep(RESOLVE_INTERVAL * 1.3)
        assert delivered[-1] == (Address("10.0.0.9", 7946),)
        del names.entries["seed.example"]
        await trio.sleep(3_600)
        assert delivered[-1] == (Address("10.0.0.9", 7946),)
        nursery.cancel_scope.cancel()
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert said == [
        ("WARNING", "seed seed.example does not resolve: Name or service not known"),
        ("INFO", "seed seed.example is 10.0.0.1, 10.0.0.2, fd00::1"),
        ("INFO", "seed seed.example is 10.0.0.9"),
        ("WARNING", "seed seed.example does not resolve: Name or service not known"),
    ]


async def test_names_are_asked_for_at_a_steady_jittered_pace_for_ever(
    names: Names, autojump_clock: MockClock
) -> None:
    seeds = Seeds([("a.example", 1), ("b.example", 2)], lambda _: None, random.Random(1))
    with trio.move_on_after(100 * RESOLVE_INTERVAL):
        await seeds.run()
    times = [at for at, name in names.asked if name == "a.example"]
    gaps = [after - before for before, after in pairwise(times)]
    assert 90 <= len(times) <= 115
    assert 0.8 * RESOLVE_INTERVAL <= min(gaps) < max(gaps) <= 1.2 * RESOLVE_INTERVAL


async def test_a_long_answer_is_used_in_part_another_part_each_time(
    names: Names, autojump_clock: MockClock
) -> None:
    names.entries["big.example"] = [f"10.0.0.{n}" for n in range(100)]
    seen: set[tuple[Address, ...]] = set()
    seeds = Seeds([("big.example", 7946)], seen.add, random.Random(1))
    with trio.move_on_after(10 * RESOLVE_INTERVAL):
        await seeds.run()
    assert {len(one) for one in seen} == {ADDRESSES_MAX}
    assert len(seen) > 5


async def test_an_answer_with_the_zone_of_an_interface_that_has_gone_is_an_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer(host: str, port: int, **_: object) -> object:
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", port, 0, 987_654))]

    monkeypatch.setattr(trio.socket, "getaddrinfo", answer)
    seeds = Seeds([("printer.local", 7946)], lambda _: None, random.Random(1))
    await seeds.resolve_once(1.0)
    assert list(seeds._found.values()) == [(Address("fe80::1%987654", 7946),)]
