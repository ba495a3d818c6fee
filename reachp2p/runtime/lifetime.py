"""One task owns a node from open to close (cases B65, B67).

Opening and closing are requests to that task, from any task and in any order. However a node ends - closed, left,
cancelled, by an exception, fenced - the same clean-up runs, once, in the reverse order of opening. It is shielded from
cancellation because it says goodbye to others, and every wait in it has a deadline.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio

from reachp2p.core.commands import AgentSpec
from reachp2p.core.counters import Counters
from reachp2p.core.engine import Engine
from reachp2p.core.events import DrainFinished, Event, Fenced, Started, StartRefused
from reachp2p.core.ids import Address
from reachp2p.core.settings import Settings
from reachp2p.core.trust.ed25519 import Ed25519Signer, Ed25519Verifier
from reachp2p.errors import ErrorCode, LocalProtocolError, NodeError
from reachp2p.runtime.addresses import advertised
from reachp2p.runtime.chance import SystemEntropy, new_rng
from reachp2p.runtime.driver import Driver, Outlets
from reachp2p.runtime.exception_groups import sole
from reachp2p.runtime.handlers import Handler, Handlers
from reachp2p.runtime.options import NodeOptions
from reachp2p.runtime.policies import Policies
from reachp2p.runtime.seeds import Seeds
from reachp2p.runtime.sockets import BoundPair, bind_pair
from reachp2p.runtime.state_folder import StateFolder, open_folder
from reachp2p.runtime.storage import FILE_NAME, Storage
from reachp2p.runtime.streams import ItemPort
from reachp2p.runtime.telemetry import find_telemetry
from reachp2p.runtime.temporary_folders import sweep
from reachp2p.runtime.udp import UdpSocket

if TYPE_CHECKING:
    from reachp2p.runtime.websocket import Links

logger = logging.getLogger("reachp2p.node")

RESOLVE_PATIENCE = 2.0
"""Seconds that a start waits for the names of seeds; after that it starts without, and joins when they resolve."""
CANCELLED_TIMEOUT = 0.5
"""Seconds for goodbyes when the node ends by cancellation or an exception."""
GOODBYE_TIMEOUT = 1.0
"""Seconds for the closing handshakes of links, after everything is said."""
HANDLER_PATIENCE = 5.0
"""After this many seconds, handlers that resist their cancellation are reported in the log."""

EngineFactory: TypeAlias = Callable[..., Engine]
Offer: TypeAlias = tuple[AgentSpec, Mapping[str, Handler]]
Service: TypeAlias = Callable[..., Awaitable[None]]
"""`async def service(*, task_status)`: works from its `started` on until it is cancelled."""


class Lifetime:
    """The life of one node. `run` is the one task that owns it; everything else may be called from any task."""

    def __init__(
        self,
        options: NodeOptions,
        *,
        offers: Callable[[], Sequence[Offer]],
        services: Sequence[Service],
        on_event: Callable[[Event], None],
        engine_factory: EngineFactory = Engine,
        prepare: Callable[[Engine], Awaitable[object]] | None = None,
    ) -> None:
        """`prepare`: what a new engine is told before all else; what it raises ends the start.

        `offers`: the agents to start with. `services` run while the node does. `on_event` must not raise."""
        self._options = options
        self.name = options.name
        self._offers = offers
        self._services = services
        self._on_event = on_event
        self._engine_factory = engine_factory
        self._prepare = prepare
        self.counters = Counters()
        self.telemetry = find_telemetry(self.counters)
        self.closed = trio.Event()
        self.unfinished: int | None = None
        """Calls and handlers that the goodbye has cut off; None before it is finished, or if it was not."""
        self.advertised: tuple[Address, ...] = ()
        self.folder: StateFolder | None = None
        self.outlets: Outlets | None = None
        self._driver: Driver | None = None
        self._pair: BoundPair | None = None
        self._storage: Storage | None = None
        self._is_started = False
        self._decided = trio.Event()
        self._stop_asked = trio.Event()
        self._drained = trio.Event()
        self._opening = trio.CancelScope()
        self._draining: trio.CancelScope | None = None
        self._deadline = float("inf")
        self._failure: BaseException | None = None
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the node has started and has not been asked to end."""
        return self._is_started and not self._stop_asked.is_set()

    @property
    def driver(self) -> Driver:
        """The driver. Raises `LocalProtocolError` before there is one."""
        if self._driver is None:
            raise LocalProtocolError(
                "this node has not started: use it inside `async with Node(...) as node`"
            )
        return self._driver

    @property
    def has_ended_cleanly(self) -> bool:
        """Whether, at its end, goodbye was said in time, nothing was cut off, and everything is on disk."""
        storage = self._storage
        return self.unfinished == 0 and storage is not None and not storage.has_given_up

    def stop(self, timeout: float) -> None:
        """Ask for the end: drain and say goodbye within `timeout` seconds. A further request can only shorten it."""
        self._deadline = min(self._deadline, trio.current_time() + timeout)
        if self._draining is not None:
            self._draining.deadline = self._deadline
        if not self._is_started:
            self._opening.cancel(reason="the node was closed while it started")
        self._stop_asked.set()

    async def wait_stopping(self) -> float:
        """Wait until the node is asked to end, or fails; the seconds that it has for it, infinite after a failure."""
        await self._stop_asked.wait()
        return max(0.0, self._deadline - trio.current_time())

    async def enter(self, run: Callable[..., Awaitable[None]]) -> None:
        """Begin an `async with` block of the caller's: `run`, which awaits ours, gets a nursery of its own."""
        manager = trio.open_nursery()
        nursery = await manager.__aenter__()
        try:
            await nursery.start(run)
        except BaseException as error:
            if await leave_nursery(manager, error):
                raise AssertionError("the nursery has swallowed a failed start") from error
            raise
        self._manager = manager

    async def exit(self, error: BaseException | None, timeout: float) -> bool:  # noqa: ASYNC109 (told to `stop`)
        """End that block: ask for the end and wait for it. Returns what `__aexit__` returns."""
        assert self._manager is not None, "the block was entered"
        self.stop(timeout if error is None else CANCELLED_TIMEOUT)
        return await leave_nursery(self._manager, error)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Open, serve, close. Raises what has ended the node, if it was not asked to end."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._carry, task_status)
                try:
                    await self._stop_asked.wait()
                finally:
                    if not self._stop_asked.is_set():
                        self.stop(CANCELLED_TIMEOUT)
        finally:
            self.closed.set()
        if self._failure is not None:
            raise self._failure
        if not self._is_started:
            raise LocalProtocolError("this node was closed before it had started")

    async def _carry(self, task_status: trio.TaskStatus[None]) -> None:
        """The whole life, shielded: what is cancelled from outside is `run`, which then asks for the end."""
        with trio.CancelScope(shield=True):
            try:
                async with AsyncExitStack() as stack:
                    with self._opening:
                        seeds = await self._open(stack)
                        await self._live(seeds, task_status)
            except BaseException as error:  # noqa: BLE001 (whatever it is, `run` raises it)
                self._fail(sole(error))
            finally:
                self._stop_asked.set()

    # Opening

    async def _open(self, stack: AsyncExitStack) -> Seeds:
        """Everything that can fail before others notice us."""
        options, entropy, rng = self._options, SystemEntropy(), new_rng()
        folder, key = await trio.to_thread.run_sync(_open_state, options, entropy)
        stack.callback(folder.close)
        self.folder = folder
        signer = Ed25519Signer(key)
        self.name = options.name_of(signer.node)
        self._pair = pair = bind_pair(options.host, options.port)
        stack.callback(pair.close)
        seeds = Seeds(options.seeds, self._on_seeds, rng)
        await seeds.resolve_once(RESOLVE_PATIENCE)
        self.advertised = advertised(pair.host, pair.port, options.advertise, seeds.addresses)
        settings = Settings(
            cluster_id=options.cluster,
            name=self.name,
            addresses=self.advertised,
            zone=options.zone,
            take_over=options.take_over,
            tells_load=True,
            tells_coordinate=True,
            protocol=options.protocol,
        )
        engine = self._engine_factory(
            settings,
            signer=signer,
            verifier=Ed25519Verifier(),
            rng=rng,
            entropy=entropy,
            policies=Policies(),
        )
        if self._prepare is not None:
            await self._prepare(engine)
        self._driver = Driver(engine, self._take_event)
        self._storage = Storage(folder.path / FILE_NAME, self._driver.wake, self.counters)
        stack.push_async_callback(self._storage.aclose)
        await self._storage.open()
        return seeds

    def _on_seeds(self, addresses: tuple[Address, ...]) -> None:
        self.driver.engine.set_seeds(addresses, trio.current_time())
        self.driver.wake()

    # Living

    async def _live(self, seeds: Seeds, task_status: trio.TaskStatus[None]) -> None:
        # Loaded here because wsproto and h11 cost 30 ms of CPU, which a program that only names `Node` need not pay.
        from reachp2p.runtime.websocket import Links

        driver, pair, storage, protocol = self.driver, self._pair, self._storage, self._options.protocol
        assert pair is not None, "opened before"
        assert storage is not None, "opened before"
        async with trio.open_nursery() as watch:
            async with trio.open_nursery() as nursery:
                handlers = Handlers(
                    nursery,
                    driver,
                    self.counters,
                    port=partial(ItemPort, driver),
                    telemetry=self.telemetry,
                    adopt_span=driver.engine.adopt_span,
                )
                udp = UdpSocket(pair.udp, driver, self.counters, protocol.datagram_max)
                links = Links(pair.tcp, nursery, driver, self.counters, protocol)
                self.outlets = Outlets(udp, links, storage, handlers)
                driver.connect(self.outlets)
                now = trio.current_time()
                for spec, served in self._offers():
                    driver.engine.register(spec, now)
                    handlers.add(spec.agent, served)
                driver.engine.set_seeds(seeds.addresses, now)
                driver.start()
                for part in (driver.run, udp.receive, links.listen, seeds.run):
                    nursery.start_soon(part)
                await self._decided.wait()
                if self._failure is None:
                    for service in self._services:
                        await nursery.start(service)
                    task_status.started()
                    await self._stop_asked.wait()
                    await self._say_goodbye(links)
                watch.start_soon(_report_late_handlers, handlers)
                nursery.cancel_scope.cancel(reason="the node closes")
            watch.cancel_scope.cancel(reason="the node has closed")

    async def _say_goodbye(self, links: Links) -> None:
        """Drain and leave within the deadline, then end all links with their handshake."""
        driver = self.driver
        with trio.CancelScope(deadline=self._deadline) as self._draining:
            now = trio.current_time()
            left = max(0.0, self._deadline - now)
            driver.engine.leave(now, timeout=left - min(GOODBYE_TIMEOUT, left / 4))
            driver.wake()
            await self._drained.wait()
        links.close_all()
        with trio.move_on_at(max(self._deadline, trio.current_time() + GOODBYE_TIMEOUT)):
            await links.wait_closed()

    def _take_event(self, event: Event) -> None:
        """The engine's news, before anybody else hears them."""
        match event:
            case Started():
                self._is_started = True
                self._decided.set()
            case StartRefused():
                code, reason = ErrorCode(event.code), event.reason
                if code in (ErrorCode.STATE_DAMAGED, ErrorCode.STORE_FULL) and self.folder is not None:
                    reason = f"{self.folder.path / FILE_NAME}: {reason}"
                if code is ErrorCode.STORE_FULL:
                    reason += ". Make room on its disk, or make it writable, and start again"
                self._fail(NodeError(code, reason))
                self._decided.set()
            case Fenced():
                folder = self.folder.path if self.folder is not None else "?"
                self._fail(
                    NodeError(
                        ErrorCode.FENCED,
                        f"another node runs under this node's key (life {event.other}), so that this one has stopped "
                        f"for good. Its state folder {folder} is marked; to replace the other node, start this one "
                        "with take_over=True (--take-over)",
                    )
                )
                self.stop(CANCELLED_TIMEOUT)
            case DrainFinished():
                self.unfinished = event.unfinished
                self._drained.set()
        self._on_event(event)

    def _fail(self, error: BaseException) -> None:
        """Remember the first failure, for `run` to raise; later ones are consequences or accidents of the clean-up."""
        if self._failure is None:
            self._failure = error
        else:
            logger.error("while the node closed after %r:", self._failure, exc_info=error)


def _open_state(options: NodeOptions, entropy: SystemEntropy) -> tuple[StateFolder, bytes]:
    """The locked folder and the key in it (in a worker thread: locks and disks take their time)."""
    sweep()
    folder = open_folder(options.state)
    try:
        if options.control:
            folder.place_socket()  # now, so that what is in the way is told before others hear of us
        return folder, folder.load_key(entropy)
    except BaseException:
        folder.close()
        raise


async def _report_late_handlers(handlers: Handlers) -> None:
    while True:
        await trio.sleep(HANDLER_PATIENCE)
        logger.warning(
            "the node cannot close: %d handlers go on although they are cancelled", handlers.running
        )


async def leave_nursery(
    manager: AbstractAsyncContextManager[trio.Nursery], error: BaseException | None
) -> bool:
    """Leave a nursery so that a lone exception comes out as itself. Returns what `__aexit__` returns."""
    kind, traceback = (None, None) if error is None else (type(error), error.__traceback__)
    try:
        return bool(await manager.__aexit__(kind, error, traceback))
    except BaseException as group:  # noqa: BLE001 (what it is about is raised below)
        found = sole(group)
    if found is error or (isinstance(found, trio.Cancelled) and isinstance(error, trio.Cancelled)):
        return False
    raise found  # outside of the except block, so that its own cause and context stay as they are
