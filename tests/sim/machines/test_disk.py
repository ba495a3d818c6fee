from __future__ import annotations

from random import Random
from typing import Any

import pytest
from reachp2p_sim.machines import disk as disk_module
from reachp2p_sim.machines.disk import NO_SPACE, Disk, DiskConditions

from reachp2p.core.effects import Delete, Fetch, Persist, Table
from reachp2p.core.ids import Ticket


def write(number: int, key: bytes = b"k", value: bytes = b"v") -> Persist:
    return Persist(Ticket(number), Table.HEADS, key, value)


@pytest.fixture
def disk() -> Disk:
    return Disk(Random(1))


def test_a_write_is_durable_only_when_its_group_has_ended(disk: Disk) -> None:
    assert disk.add(write(1), 0.0) == disk.conditions.latency
    assert disk.rows == {}
    ended, again = disk.finish(0.002)
    assert [(operation.ticket, failure) for operation, _, failure in ended] == [(1, None)]  # type: ignore[union-attr]
    assert again is None
    assert disk.rows == {Table.HEADS: {b"k": b"v"}}


def test_what_arrives_while_a_group_is_written_waits_for_the_next(disk: Disk) -> None:
    disk.add(write(1), 0.0)
    assert disk.add(write(2), 0.0) is None
    assert disk.add(write(3), 0.001) is None
    first, again = disk.finish(0.002)
    assert len(first) == 2
    assert again == disk.conditions.latency
    second, again = disk.finish(0.004)
    assert len(second) == 1
    assert again is None


def test_a_fetch_sees_the_writes_before_it_and_not_those_after_it(disk: Disk) -> None:
    disk.add(write(1, b"a"), 0.0)
    disk.add(Fetch(9, Table.HEADS, b"", None, 10), 0.0)
    disk.add(write(2, b"b"), 0.0)
    ended, _ = disk.finish(0.002)
    assert ended[1][1] == [(b"a", b"v")]


def test_a_fetch_reads_a_range_in_key_order_up_to_its_limit(disk: Disk) -> None:
    for number, key in enumerate((b"d", b"b", b"a", b"c"), start=1):
        disk.add(write(number, key), 0.0)
    disk.finish(0.0)
    assert [key for key, _ in disk.read(Fetch(1, Table.HEADS, b"b", b"d", 10))] == [b"b", b"c"]
    assert [key for key, _ in disk.read(Fetch(1, Table.HEADS, b"", None, 2))] == [b"a", b"b"]


def test_a_delete_of_what_is_not_there_succeeds(disk: Disk) -> None:
    disk.add(Delete(Ticket(1), Table.HEADS, b"nothing"), 0.0)
    ended, _ = disk.finish(0.0)
    assert ended[0][2] is None


def test_a_crash_loses_what_was_in_flight_but_for_some_of_the_oldest(disk: Disk) -> None:
    outcomes = set()
    for seed in range(40):
        disk = Disk(Random(seed))
        for number in range(1, 4):
            disk.add(write(number, bytes([number])), 0.0)
        disk.crash()
        survivors = sorted(disk.rows.get(Table.HEADS, {}))
        assert survivors == [bytes([number]) for number in range(1, len(survivors) + 1)]
        assert disk.in_flight == 0
        outcomes.add(len(survivors))
    assert outcomes == {0, 1, 2, 3}


def test_a_failing_disk_says_why_and_stores_nothing(disk: Disk) -> None:
    disk.conditions.failure = "no space left on device"
    disk.add(write(1), 0.0)
    ended, _ = disk.finish(0.0)
    assert ended[0][2] == "no space left on device"
    assert disk.rows == {}


def test_an_image_is_a_copy_and_replacing_makes_another_disk(disk: Disk) -> None:
    disk.add(write(1), 0.0)
    disk.finish(0.0)
    image = disk.image()
    disk.add(write(2, b"k", b"new"), 1.0)
    disk.finish(1.0)
    assert image == {Table.HEADS: {b"k": b"v"}}
    number = disk.number
    disk.replace(image)
    assert disk.rows == image
    assert disk.number == number + 1


def test_too_much_in_flight_stops_the_run(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "IN_FLIGHT_MAX", 2)
    disk.add(write(1), 0.0)
    disk.add(write(2), 0.0)
    with pytest.raises(RuntimeError, match="in flight"):
        disk.add(write(3), 0.0)


def test_a_full_disk_refuses_what_does_not_fit_and_takes_deletions(disk: Disk) -> None:
    disk.conditions = DiskConditions(capacity=10)
    failures = []
    for number, (key, value) in enumerate([(b"a", b"12345"), (b"b", b"12345"), (b"a", b"123456789")], 1):
        disk.add(write(number, key, value), float(number))
        failures += [failure for _, _, failure in disk.finish(float(number))[0]]
    assert failures == [None, NO_SPACE, None]
    assert disk.used == 10
    disk.add(Delete(Ticket(4), Table.HEADS, b"a"), 4.0)
    disk.finish(4.0)
    disk.add(write(5, b"b", b"12345"), 5.0)
    assert disk.finish(5.0)[0][0][2] is None
    assert disk.rows == {Table.HEADS: {b"b": b"12345"}}
    assert disk.used == 6


def test_a_disk_may_fail_now_and_then(disk: Disk) -> None:
    disk.conditions = DiskConditions(failure="input/output error", failing=0.25)
    for number in range(400):
        disk.add(write(number, number.to_bytes(2, "big")), float(number))
        disk.finish(float(number))
    assert disk.failed == pytest.approx(100, abs=30)
    assert len(disk.rows[Table.HEADS]) == 400 - disk.failed


def test_a_slow_disk_has_a_mean_and_a_spread(disk: Disk) -> None:
    disk.conditions = DiskConditions(latency=0.1, spread=0.2)
    took = []
    for number in range(500):
        delay = disk.add(write(number), float(number))
        assert delay is not None
        took.append(delay)
        disk.finish(float(number))
    assert min(took) >= 0.1
    assert sum(took) / 500 == pytest.approx(0.3, rel=0.15)


def test_a_crash_may_tear_the_first_write_that_did_not_survive() -> None:
    lengths = set()
    for seed in range(60):
        disk = Disk(Random(seed), DiskConditions(tears=True))
        disk.add(write(1, b"a", b"1234"), 0.0)
        disk.add(write(2, b"b", b"1234"), 0.0)
        disk.crash()
        rows = disk.rows[Table.HEADS]
        lengths.add((len(rows.get(b"a", b"")), len(rows.get(b"b", b"")) if b"b" in rows else None))
    assert {(4, length) for length in (0, 1, 2, 3, 4)} <= lengths
    assert all(a == 4 or b is None for a, b in lengths), "nothing later than the torn write is there"


@pytest.mark.parametrize("when_durable", [False, True])
def test_a_crash_is_due_at_the_write_it_was_set_for(disk: Disk, when_durable: bool) -> None:
    disk.set_crash(2, when_durable=when_durable)
    disk.add(write(1), 0.0)
    disk.add(Fetch(1, Table.HEADS, b"", None, 10), 0.0)
    disk.finish(0.0)
    assert not disk.is_crash_due
    disk.add(write(2), 1.0)
    assert disk.is_crash_due is not when_durable
    disk.finish(1.0)
    assert disk.is_crash_due
    disk.crash()
    assert not disk.is_crash_due
    disk.add(write(3), 2.0)
    disk.finish(2.0)
    assert not disk.is_crash_due


@pytest.mark.parametrize(
    "wrong", [{"latency": -1.0}, {"spread": float("inf")}, {"failing": 1.5}, {"capacity": -1}]
)
def test_an_impossible_disk_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="disk"):
        DiskConditions(**wrong)
