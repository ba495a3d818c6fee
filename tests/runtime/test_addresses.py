"""Where to listen and what to tell others (B58), and which seeds are well formed."""

from __future__ import annotations

import pytest
import trio

from reachp2p import Node
from reachp2p.core.ids import Address
from reachp2p.core.settings import Protocol
from reachp2p.errors import ConfigurationInvalid, ErrorCode, InvalidIdentifier, ReachError
from reachp2p.runtime.addresses import advertised, check_host
from reachp2p.runtime.options import parse_seeds
from reachp2p.runtime.sockets import socket_address


@pytest.mark.parametrize(
    ("host", "bound"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("127.9.9.9", "127.9.9.9"),
    ],
)
def test_loopback_needs_no_permission(host: str, bound: str) -> None:
    assert check_host(host, insecure_open=False) == bound


@pytest.mark.parametrize(
    "host", ["a..b", "a\0b", "127.0.0.1\0", "x" * 70, "\ud800", "", "999.1.1.1", "example.org"]
)
def test_what_is_no_address_is_an_os_error_whatever_the_resolver_thinks_of_it(host: str) -> None:
    """A member may advertise what it likes: the name "a..b" ended every node that heard of it."""
    with pytest.raises(OSError, match=r"."):
        socket_address(host, 7946)


@pytest.mark.trio
async def test_an_address_that_nobody_can_dial_ends_no_other_node(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Protocol(start_answer_timeout=0.2, gossip_interval=0.02)
    async with Node(name="sound", protocol=settings) as sound:
        monkeypatch.setattr("reachp2p.runtime.lifetime.advertised", lambda *_, **__: (Address("a..b", 7946),))
        async with Node(name="odd", seeds=[str(sound.address)], protocol=settings) as odd:
            with trio.fail_after(10):
                while not sound.diagnostics().get("udp.ignored.bad_address"):  # noqa: ASYNC110 (a counter)
                    await trio.sleep(0.02)
            assert odd.id in {member.node for member in sound.members()}
        assert sound.is_running


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "fe80::1%eth0"])
def test_any_other_address_needs_insecure_open_and_the_error_has_the_words_to_write(host: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"insecure_open=True \(--insecure-open\)"):
        check_host(host, insecure_open=False)
    assert check_host(host, insecure_open=True) == host


@pytest.mark.parametrize("host", ["", "node.example", "127.0.0.1:80", "[::1]", "1.2.3"])
def test_an_address_to_listen_on_is_literal(host: str) -> None:
    with pytest.raises(ConfigurationInvalid, match="must be an IP address"):
        check_host(host, insecure_open=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "10.0.0.5", "2001:db8::5"])
def test_what_is_listened_on_is_told(host: str) -> None:
    assert advertised(host, 7946, (), ()) == (Address(host, 7946),)


def test_what_is_advertised_replaces_it_in_order_each_once() -> None:
    told = advertised("0.0.0.0", 7946, ["10.0.0.5", "[2001:db8::5]:80", "2001:db8::6", "10.0.0.5:7946"], ())
    assert told == (Address("10.0.0.5", 7946), Address("2001:db8::5", 80), Address("2001:db8::6", 7946))


def test_a_wildcard_tells_the_way_out_to_the_seeds_or_is_refused() -> None:
    """What is found depends on this machine's network; it is never what others could not use."""
    try:
        told = advertised("0.0.0.0", 7946, (), [Address("127.0.0.1", 7946)])
    except ConfigurationInvalid as error:
        told = ()
        assert 'advertise=["10.0.0.5:7946"]' in error.message  # noqa: PT017 (either of two right outcomes)
    for address in told:
        assert not address.host.startswith(("127.", "0.", "169.254."))


@pytest.mark.parametrize(
    "advertise",
    ["0.0.0.0", "[::]:7946", "127.0.0.1", "::1", "fe80::1", "fe80::1%eth0", "224.0.0.1", "node.example:80"],
)
def test_what_others_cannot_use_is_never_told(advertise: str) -> None:
    with pytest.raises(ConfigurationInvalid) as caught:
        advertised("10.0.0.5", 7946, [advertise], ())
    assert caught.value.code is ErrorCode.CONFIGURATION_INVALID


def test_a_link_local_listener_tells_nothing_by_itself() -> None:
    with pytest.raises(ConfigurationInvalid, match="link-local"):
        advertised("fe80::1%eth0", 7946, (), ())
    assert advertised("fe80::1%eth0", 7946, ["10.0.0.5"], ()) == (Address("10.0.0.5", 7946),)


def test_loopback_is_told_by_who_listens_on_loopback() -> None:
    assert advertised("127.0.0.1", 7946, ["127.0.0.1:80"], ()) == (Address("127.0.0.1", 80),)


def test_at_most_four_addresses_are_told() -> None:
    with pytest.raises(ConfigurationInvalid, match="4 at most"):
        advertised("0.0.0.0", 7946, [f"10.0.0.{n}" for n in range(5)], ())


def test_seeds_are_split_and_each_is_kept_once() -> None:
    seeds = ["127.0.0.1:7946", "[::1]:80", "::1", "node.example", "127.0.0.1:7946"]
    assert parse_seeds(seeds) == [("127.0.0.1", 7946), ("::1", 80), ("::1", 7946), ("node.example", 7946)]


@pytest.mark.parametrize(
    ("seeds", "kind"),
    [
        (["127.0.0.1:http"], InvalidIdentifier),
        (["127.0.0.1:99999"], InvalidIdentifier),
        (["[::1"], InvalidIdentifier),
        ([":7946"], InvalidIdentifier),
        (["127.0.0.1:0"], ConfigurationInvalid),
        ([f"10.0.0.{n}" for n in range(65)], ConfigurationInvalid),
    ],
)
def test_a_malformed_seed_is_an_error_at_the_start(seeds: list[str], kind: type[ReachError]) -> None:
    with pytest.raises(kind):
        parse_seeds(seeds)
