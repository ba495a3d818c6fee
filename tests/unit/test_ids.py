"""Names: which texts are addresses, agents, capabilities, tags and versions, and how lives are ordered (case B58)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reachp2p.core.ids import (
    Address,
    Life,
    check_agent_id,
    check_capability,
    check_tag_key,
    check_version,
    short,
    split_host_port,
)
from reachp2p.errors import ErrorCode, InvalidIdentifier

LABEL_64 = "a" * 64

ADDRESSES = [
    # text, host, port; port None: it needs a default
    ("127.0.0.1:7946", "127.0.0.1", 7946),
    ("127.0.0.1", "127.0.0.1", None),
    ("[::1]:7946", "::1", 7946),
    ("[::1]", "::1", None),
    ("::1", "::1", None),
    ("::", "::", None),
    ("2001:db8::1", "2001:db8::1", None),
    ("[2001:db8::1]:1", "2001:db8::1", 1),
    ("2001:db8::1:7946", "2001:db8::1:7946", None),  # a bare literal: the last group is no port
    ("[fe80::1%eth0]:7946", "fe80::1%eth0", 7946),
    ("fe80::1%eth0", "fe80::1%eth0", None),
    ("seed.example.org:7946", "seed.example.org", 7946),
    ("seed.example.org", "seed.example.org", None),
    ("0.0.0.0:0", "0.0.0.0", 0),
    ("localhost:65535", "localhost", 65_535),
]

NOT_ADDRESSES = [
    "",
    ":7946",
    "[]:7946",
    "[]",
    "[::1",
    "[::1]7946",
    "[::1]x:7946",
    "host:65536",
    "host:-1",
    "host:+1",
    "host:1_000",
    "host: 80",
    "host:80 ",
    "host:http",
    "host:٧٩٤٦",  # digits, but not ASCII
    "host:²",
    "[::1]:99999",
    "host:" + "9" * 5_000,  # more digits than int() reads
    "http://10.0.0.5",
    "http://10.0.0.5:7946",
    "ws://host/path",
    "user@host:80",
    "host:80:81",
    "a:b:c",
    "1::2::3",
    "[host]:80",
    "[::1::]:80",
    "two hosts:80",
    "host\n:80",
]


@pytest.mark.parametrize(("text", "host", "port"), ADDRESSES)
def test_an_address_is_split_into_host_and_port(text: str, host: str, port: int | None) -> None:
    assert split_host_port(text, 1234) == (host, 1234 if port is None else port)


@pytest.mark.parametrize(("text", "host", "port"), ADDRESSES)
def test_a_port_is_required_where_there_is_no_default(text: str, host: str, port: int | None) -> None:
    if port is not None:
        assert split_host_port(text) == (host, port)
        return
    with pytest.raises(InvalidIdentifier, match="the port is missing"):
        split_host_port(text)


@pytest.mark.parametrize("text", NOT_ADDRESSES)
def test_what_is_no_address_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(InvalidIdentifier) as caught:
        split_host_port(text, 1234)
    assert caught.value.code is ErrorCode.INVALID_IDENTIFIER
    assert "address" in str(caught.value)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (Address("127.0.0.1", 7946), "127.0.0.1:7946"),
        (Address("::1", 7946), "[::1]:7946"),
        (Address("fe80::1%eth0", 1), "[fe80::1%eth0]:1"),
    ],
)
def test_a_printed_address_can_be_read_again(address: Address, text: str) -> None:
    assert str(address) == text
    assert Address(*split_host_port(text)) == address


CHECKS: list[tuple[Callable[[str], str], list[str], list[str]]] = [
    (
        check_agent_id,
        ["nlp/summarizer", "a/b", "0/9", "team-1/agent_2", f"{LABEL_64}/{LABEL_64}"],
        [
            "", "/", "a", "a/", "/b", "a/b/c", "A/b", "a/B", "-a/b", "a/b-", "_a/b", "a b/c", "a/b\n",
            "é/b", "٣/b", f"{LABEL_64}a/b", f"a/{LABEL_64}a", "a.b/c",
        ],
    ),
    (
        check_capability,
        ["text.summarize", "a", "a.b.c.d.e.f.g.h", "text_2.do-it", LABEL_64, ".".join([LABEL_64] * 3)],
        [
            "", ".", "a.", ".a", "a..b", "A", "a.B", "a/b", "a.b.c.d.e.f.g.h.i", "a.-b", "a b", "a\n",
            f"{LABEL_64}a", ".".join([LABEL_64] * 4),  # 259 characters: no wire message holds them
        ],
    ),
    (
        check_tag_key,
        ["env", "cost_tier", "a1_b2", "a" * 64],
        ["", "Env", "1env", "_env", "env_", "a__b", "cost-tier", "a.b", "a" * 65, "env\n", "é"],
    ),
    (
        check_version,
        ["0.0.0", "1.2.0", "10.20.30", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-0.3.7", "1.0.0+build.5", "1.0.0-rc.1+x"],
        ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.02.3", "v1.2.3", "1.2.3-", "1.2.3+", "1.2.3-01", "1.2.3 ", "1.2.3\n",
         "1.2.3-" + "a" * 60, "١.2.3"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("check", "text"), [(check, text) for check, good, _ in CHECKS for text in good])
def test_a_good_name_comes_back_unchanged(check: Callable[[str], str], text: str) -> None:
    assert check(text) == text


@pytest.mark.parametrize(("check", "text"), [(check, text) for check, _, bad in CHECKS for text in bad])
def test_a_bad_name_is_refused_with_1707_and_quoted(check: Callable[[str], str], text: str) -> None:
    with pytest.raises(InvalidIdentifier) as caught:
        check(text)
    assert caught.value.code is ErrorCode.INVALID_IDENTIFIER
    assert repr(text) in str(caught.value)


def test_lives_are_ordered_by_epoch_and_then_by_life_id() -> None:
    lives = [
        Life(2, b"\x00" * 16),
        Life(1, b"\xff" * 16),
        Life(2, b"\x00" * 15 + b"\x01"),
        Life(10, bytes(16)),
    ]
    assert sorted(lives) == [lives[1], lives[0], lives[2], lives[3]]


def test_the_short_form_of_an_id_is_for_people() -> None:
    assert short(bytes(range(32))) == "00010203"
    assert str(Life(7, bytes(range(16)))) == "7.00010203"
