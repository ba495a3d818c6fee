"""Seed nodes: their names are resolved again and again, for ever, and all addresses of each are used (B56).

A name that does not resolve keeps the addresses it had. It is warned about once each time its answer changes, and
tried again. Wrong syntax is an error before (`options.parse_seeds`).
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Callable, Sequence

import trio

from reachp2p.core.ids import Address, Rng
from reachp2p.runtime.text import plain

logger = logging.getLogger("reachp2p.seeds")

RESOLVE_INTERVAL = 30.0
"""Seconds between two look-ups of a name, ±20 %: the time to live that orchestrators give their service names."""
ADDRESSES_MAX = 16
"""Addresses used of one name; of a longer answer a random choice, another one each time."""


class Seeds:
    """Keeps the addresses of the configured seeds. One task a name; bound: `options.SEEDS_MAX`."""

    def __init__(
        self, seeds: Sequence[tuple[str, int]], deliver: Callable[[tuple[Address, ...]], None], rng: Rng
    ) -> None:
        """`deliver` takes all addresses known now; called at each change and after each look-up."""
        self._deliver = deliver
        self._rng = rng
        self._found: dict[tuple[str, int], tuple[Address, ...]] = {}
        self._names: list[tuple[str, int]] = []
        self._answers: dict[str, str] = {}
        for host, port in seeds:
            if (literal := _literal(host)) is not None:
                self._found[host, port] = (Address(literal, port),)
            else:
                self._found[host, port] = ()
                self._names.append((host, port))

    @property
    def addresses(self) -> tuple[Address, ...]:
        """All addresses known now, in the order of the seeds, each once."""
        return tuple(dict.fromkeys(address for found in self._found.values() for address in found))

    async def resolve_once(self, patience: float) -> None:
        """Look up all names at once, for at most `patience` seconds: what a start waits for."""
        with trio.move_on_after(patience):
            async with trio.open_nursery() as nursery:
                for name in self._names:
                    nursery.start_soon(self._resolve, name)

    async def run(self) -> None:
        """Look up all names for ever."""
        async with trio.open_nursery() as nursery:
            for name in self._names:
                nursery.start_soon(self._keep_resolving, name)

    async def _keep_resolving(self, name: tuple[str, int]) -> None:
        while True:
            await self._resolve(name)
            self._deliver(self.addresses)
            await trio.sleep(RESOLVE_INTERVAL * (0.8 + 0.4 * self._rng.random()))

    async def _resolve(self, name: tuple[str, int]) -> None:
        """One look-up. It is not cut short: an abandoned one would go on in its thread while the next one begins."""
        host, port = name
        try:
            answer = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self._note(
                host,
                f"does not resolve: {error.strerror if isinstance(error, OSError) else error}",
                is_warning=True,
            )
            return
        hosts = list(dict.fromkeys(_with_zone(entry[4]) for entry in answer))
        if len(hosts) > ADDRESSES_MAX:
            hosts = self._rng.sample(hosts, ADDRESSES_MAX)
        self._found[name] = tuple(Address(found, port) for found in hosts)
        self._note(host, f"is {', '.join(sorted(hosts))}", is_warning=False)

    def _note(self, host: str, answer: str, *, is_warning: bool) -> None:
        if self._answers.get(host) != answer:
            self._answers[host] = answer
            logger.log(
                logging.WARNING if is_warning else logging.INFO, "seed %s %s", plain(host), plain(answer)
            )


def _literal(host: str) -> str | None:
    """The host if it is an IP address (with zone, if any), in its shortest form."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def _with_zone(address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]) -> str:
    host = str(address[0])
    if len(address) == 4 and address[3] and "%" not in host:
        try:
            return f"{host}%{socket.if_indextoname(address[3])}"
        except OSError:  # the interface has gone since: its number is a zone, too
            return f"{host}%{address[3]}"
    return host
