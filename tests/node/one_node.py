"""A node as a process of its own, for tests: `python one_node.py OPTIONS` (JSON), run as `reachp2p.run` runs it.

It prints the engine's news, a line of JSON each, and does what it is told on standard input, a line of JSON each too.
Its surroundings can be made worse than this machine's are:

    hosts   a file of names, as /etc/hosts, asked again at each look-up
    wall    a file with the seconds by which the wall clock is wrong, read at each look at the clock
    cut     (command) addresses with which nothing is exchanged any more; `heal` takes it back
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import trio

from reachp2p import Agent, CallFailed, Node
from reachp2p.core.effects import Dial, Effect, Notify, SendDatagram, SendFrame
from reachp2p.core.engine import Engine
from reachp2p.core.ids import Address, LinkId, split_host_port
from reachp2p.core.settings import Protocol
from reachp2p.runtime import seeds
from reachp2p.runtime.run import run_node


def say(what: str, **fields: Any) -> None:
    """One line, whole."""
    os.write(1, json.dumps({"is": what, **fields}, default=plain).encode() + b"\n")


def plain(value: object) -> object:
    """Bytes as hexadecimal digits, everything else as msgspec sees it."""
    return value.hex() if isinstance(value, bytes) else msgspec.to_builtins(value, builtin_types=(bytes,))


class WatchedEngine(Engine):
    """An engine whose news are printed, and whose network can be cut."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cut: dict[Address, None] = {}
        self._black_hole = socket.create_server(("127.0.0.1", 0))  # connects, and says nothing

    def handle_datagram(self, source: Address, data: bytes, now: float) -> None:
        if source not in self.cut:
            super().handle_datagram(source, data, now)

    def handle_frame(self, link: LinkId, data: bytes, now: float) -> None:
        if not self._is_cut(link):
            super().handle_frame(link, data, now)

    def take_effects(self) -> list[Effect]:
        kept: list[Effect] = []
        for effect in super().take_effects():
            match effect:
                case Notify(event=event):
                    say(type(event).__name__, **msgspec.structs.asdict(event))
                case SendDatagram(address=address) if address in self.cut:
                    continue
                case SendFrame(link=link) if self._is_cut(link):
                    continue
                case Dial(address=address) if address in self.cut:
                    effect = msgspec.structs.replace(effect, address=Address(*self._black_hole.getsockname()))
                case _:
                    pass
            kept.append(effect)
        return kept

    def _is_cut(self, link: LinkId) -> bool:
        """Whether a link leads to the other side; it was there before the cut, since none is made after it."""
        if not self.cut:
            return False
        life = self._parts.links.life_of(link)
        return any(
            member.life == life and any(address in self.cut for address in member.addresses)
            for member in self._parts.table
        )


class HostsFile(trio.abc.HostnameResolver):
    """Names from a file that may change."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # type: ignore[no-untyped-def]
        name = host.decode() if isinstance(host, bytes) else host
        await trio.lowlevel.checkpoint()
        found = [line.split()[0] for line in self._path.read_text().splitlines() if name in line.split()[1:]]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)) for address in found]

    async def getnameinfo(self, sockaddr, flags):  # type: ignore[no-untyped-def]
        raise NotImplementedError


def use_names_of(hosts: Path) -> None:
    """Have all names looked up there: a resolver belongs to a trio run, in which the first to look up is `Seeds`."""
    original = seeds.Seeds.__init__

    def begin(self: seeds.Seeds, *arguments: Any) -> None:
        trio.socket.set_custom_hostname_resolver(HostsFile(hosts))
        original(self, *arguments)

    seeds.Seeds.__init__ = begin  # type: ignore[method-assign]


def agent_of(name: str) -> Agent:
    """An agent with a handler for each kind of trouble. Its capabilities begin with the node's name."""
    agent = Agent(f"test/{name}", version="1.0.0")

    @agent.capability(f"{name}.wait", repeatable=True)
    async def wait(seconds: float = 0.0) -> str:
        say("waiting")
        await trio.sleep(seconds)
        return f"{name} has waited"

    @agent.capability(f"{name}.resist")
    async def resist() -> None:
        say("resisting")
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()

    @agent.capability("any.name", repeatable=True)
    def who() -> str:
        return name

    return agent


async def obey(node: Node, engines: list[WatchedEngine]) -> None:
    """Do what standard input says."""
    stream, rest = trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())), b""
    async with stream, trio.open_nursery() as nursery:
        async for data in stream:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                nursery.start_soon(obey_one, node, engines[-1], json.loads(line))


async def obey_one(node: Node, engine: WatchedEngine, order: dict[str, Any]) -> None:
    match order.pop("do"):
        case "cut":
            engine.cut = {Address(*split_host_port(text)): None for text in order["addresses"]}
        case "call":
            try:
                say("answer", value=await node.call(**order))
            except CallFailed as error:
                say("answer", code=int(error.code), reason=str(error))
        case "look":
            say(
                "look",
                members={m.name: [m.state.value, m.life.epoch] for m in node.members()},
                agents=[[a.agent, a.node_name, a.state.value] for a in node.agents()],
                diagnostics=node.diagnostics(),
                hash=node.view_hash(),
            )
        case other:
            raise AssertionError(f"no such order: {other}")


def main() -> int:
    """Run until a signal comes."""
    options = json.loads(sys.argv[1])
    engines: list[WatchedEngine] = []

    def build(*arguments: Any, **more: Any) -> WatchedEngine:
        engines.append(WatchedEngine(*arguments, **more))
        return engines[-1]

    def on_started(node: Node) -> None:
        life = node.life
        assert life is not None
        say("started", node=node.id, address=str(node.address), epoch=life.epoch, process=os.getpid())
        trio.lowlevel.spawn_system_task(obey, node, engines)

    if (wall := options.pop("wall", None)) is not None:
        real, file = time.time, Path(wall)
        time.time = lambda: real() + float(file.read_text())
    if (hosts := options.pop("hosts", None)) is not None:
        use_names_of(Path(hosts))
    seeds.RESOLVE_INTERVAL = options.pop("resolve_interval", seeds.RESOLVE_INTERVAL)
    agents = [agent_of(options["name"])] if options.pop("offers", True) else []
    options["protocol"] = Protocol(**options.get("protocol", {}))
    return run_node(*agents, on_started=on_started, engine_factory=build, **options)


if __name__ == "__main__":
    sys.exit(main())
