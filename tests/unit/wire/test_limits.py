"""The wall in front of the decoder: what gets through, what is refused, and under which name."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest

from reachp2p.core.wire.limits import DEPTH_MAX, ELEMENTS_MAX, UNSCANNED_BYTES_MAX, WireError, load, scan


def reason(data: bytes, *, bytes_max: int = 1 << 20, elements_max: int = ELEMENTS_MAX) -> str:
    """Why `data` is refused."""
    with pytest.raises(WireError) as caught:
        load(data, bytes_max=bytes_max, elements_max=elements_max)
    return caught.value.reason


def nested(levels: int) -> bytes:
    """An integer in arrays in arrays."""
    return b"\x81" * levels + b"\x00"


@pytest.mark.parametrize(
    "item",
    [
        0,
        23,
        24,
        2**64 - 1,
        -1,
        -(2**64),
        1.5,
        True,
        False,
        None,
        "",
        "é",
        b"",
        [],
        {},
        [[[1]]],
        {1: {"a": [b"x"]}},
    ],
)
def test_plain_items_come_through(item: object) -> None:
    assert load(cbor2.dumps(item), bytes_max=100) == item


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("", "truncated"),
        ("18", "truncated"),
        ("1900", "truncated"),
        ("4261", "truncated"),
        ("8201", "truncated"),
        ("a101", "truncated"),
        ("0000", "trailing"),
        ("8000", "trailing"),
        ("9fff", "indefinite"),
        ("bfff", "indefinite"),
        ("5f4100ff", "indefinite"),
        ("7fff", "indefinite"),
        ("ff", "indefinite"),
        ("1c", "malformed"),
        ("fe", "malformed"),
        ("61ff", "malformed"),
        ("a201010102", "malformed"),
        ("f805", "malformed"),
        ("c000", "tag"),
        ("c24101", "tag"),
        ("81c24101", "tag"),
        ("a1c1000000", "tag"),
        ("d81c80", "tag"),
        ("d81d00", "tag"),
        ("d9010280", "tag"),
        ("d9d9f700", "tag"),
        ("dbffffffffffffffff00", "tag"),
    ],
)
def test_what_is_wrong_has_a_name(data: str, expected: str) -> None:
    assert reason(bytes.fromhex(data)) == expected


def test_size_is_checked_first() -> None:
    assert reason(b"\xff" * 11, bytes_max=10) == "too_large"


def test_depth_ends_at_its_limit() -> None:
    assert load(nested(DEPTH_MAX), bytes_max=100) is not None
    assert reason(nested(DEPTH_MAX + 1)) == "depth"


def test_elements_end_at_their_limit() -> None:
    def array(items: int) -> bytes:
        return b"\x99" + items.to_bytes(2, "big") + b"\x00" * items

    assert load(array(999), bytes_max=2_000, elements_max=1_000) == [0] * 999
    assert reason(array(1_000), bytes_max=2_000, elements_max=1_000) == "elements"


def test_keys_and_containers_are_elements_too() -> None:
    maps = b"\x98\xc8" + b"\xa1\x00\xa0" * 200
    assert reason(maps, elements_max=600) == "elements"
    assert load(maps, bytes_max=1_000, elements_max=601) == [{0: {}}] * 200


def test_long_strings_are_not_elements() -> None:
    data = cbor2.dumps([b"\x00" * 5_000, "x" * 5_000])
    assert load(data, bytes_max=20_000, elements_max=3) == [b"\x00" * 5_000, "x" * 5_000]


@pytest.mark.parametrize("key", [[], [1], {}, {1: 2}])
def test_arrays_and_maps_are_no_keys_where_collisions_would_cost(key: Any) -> None:
    key = tuple(key) if isinstance(key, list) else cbor2.frozendict(key)
    assert reason(cbor2.dumps([b"x" * UNSCANNED_BYTES_MAX, {1: [{"a": 1}], key: 1}])) == "bad_key"


@pytest.mark.parametrize("head", ["9a", "ba", "5a", "7a"])
def test_a_declared_length_must_be_there(head: str) -> None:
    assert reason(bytes.fromhex(head) + b"\x00\x00\x00\x10" + b"\x00" * 8) == "truncated"


@pytest.mark.parametrize("size", [1, 40_000])
def test_scan_and_decoder_agree_on_the_end_of_an_item(size: int) -> None:
    data = cbor2.dumps({1: b"x" * size, "k": [1, [2, {}], -1, None, 0.5]})
    scan(data)
    for wrong in (data[:-1], data + b"\x00"):
        with pytest.raises(WireError):
            scan(wrong)
        with pytest.raises(WireError):
            load(wrong, bytes_max=100_000)
