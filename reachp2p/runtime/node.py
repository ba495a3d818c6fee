"""A node: what a program embeds to offer agents and to call those of others.

async with Node(agent, seeds=["127.0.0.1:7946"]) as node:
    await node.call("text.summarize", {"text": ...})
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from msgspec.structs import replace

from reachp2p._arguments import (
    check_bool,
    check_kind,
    check_names,
    check_seconds,
    check_text,
    wrong,
)
from reachp2p.agent import Agent
from reachp2p.core.engine import Engine
from reachp2p.core.events import (
    CallEnded,
    CallOutlasted,
    Event,
    EventReceived,
    HopsGathered,
    MemberChanged,
    RecordChanged,
    Resumed,
    RulesChanged,
    SchemasFetched,
    Started,
)
from reachp2p.core.ids import Address, Life, NodeId, check_agent_id, check_capability
from reachp2p.core.settings import Protocol
from reachp2p.core.views import AgentView, BulkheadView, Explanation, MemberView
from reachp2p.errors import CallFailed, LocalProtocolError
from reachp2p.runtime.calling import Calling
from reachp2p.runtime.event_log import EventLog
from reachp2p.runtime.exporting import check_recording
from reachp2p.runtime.governed import Governed
from reachp2p.runtime.options import check_options
from reachp2p.runtime.preferences import Preferences
from reachp2p.runtime.publishing import Publishing
from reachp2p.runtime.tracing import Gatherer, Tracing

if TYPE_CHECKING:  # naming `Node` loads no event loop; the first node does
    from trio import Nursery, TaskStatus

    from reachp2p.core.calls.hop_store import Redact
    from reachp2p.core.counters import Counters
    from reachp2p.exporters import Exporter
    from reachp2p.runtime.driver import Driver
    from reachp2p.runtime.event_streams import EventStream
    from reachp2p.runtime.handlers import Handlers
    from reachp2p.runtime.lifetime import EngineFactory, Offer, Service
    from reachp2p.runtime.shaping import Shaping

CLOSE_TIMEOUT = 3.0
"""Seconds that leaving the `async with` block gives to what still runs."""
LEAVE_TIMEOUT = 10.0
ROUTABLE_RECHECK = 0.25
"""Seconds between looks of `wait_for` when no event says that something changed."""


class Node(Calling, Publishing, Tracing, Governed):
    """One node of the network. Use it as `async with Node(...)`, or start it in a nursery of yours with `start_in`.

    A node is used once. Its methods may be called from any task of the trio run it lives in, also the ones that end
    it. What ends it from outside (1601: fenced) is raised out of the `async with` block, or into the nursery.
    """

    def __init__(
        self,
        *agents: Agent,
        name: str | None = None,
        seeds: str | Sequence[str] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        advertise: str | Sequence[str] | None = None,
        state: str | os.PathLike[str] | None = None,
        cluster: str = "default",
        zone: str = "",
        insecure_open: bool = False,
        take_over: bool = False,
        control: bool = False,
        rules: str | os.PathLike[str] | None = None,
        by_shape: bool = False,
        record_payloads: int = 0,
        redact: Redact | None = None,
        exporters: Sequence[Exporter] = (),
        protocol: Protocol | None = None,
        engine_factory: EngineFactory = Engine,
    ) -> None:
        """Nothing is opened yet. Raises `ConfigurationInvalid` (1704) or `InvalidIdentifier` (1707).

        `seeds`: `host:port` of nodes to ask first, or of one; names are resolved again and again. `host`, `port`: where
        to listen, UDP and TCP; port 0 takes a free one. `advertise`: what others are told if that is something else.
        `state`: the folder of key, epoch and address book; without one the node is somebody new at each start.
        `insecure_open`: listen beyond loopback although this version admits and hides nothing. `take_over`: start
        above any life of this key that is known, even one that answers, and with a fenced folder. Start no copy of a
        state folder beside the original: one of its newest state needs no leave to end it. `control`: answer the
        command line over a socket in the state folder. `rules`: a TOML file of routing rules for this node, which go
        before those of the cluster; read again whenever it changes. `by_shape`: calls that name nobody go to the one
        capability that their parameters fit, unless they say `by_shape=False`. `record_payloads`: bytes of each payload
        that its hop keeps, for whoever asks for it; `redact(agent, capability, payload)` says what of it may be kept.
        `exporters` get all hops (`reachp2p.exporters`).
        """
        import trio

        from reachp2p.runtime.calls import Calls
        from reachp2p.runtime.event_streams import EventStreams
        from reachp2p.runtime.lifetime import Lifetime
        from reachp2p.runtime.routable import RoutableLog
        from reachp2p.runtime.rules_file import RulesFile
        from reachp2p.runtime.shaping import Shaping
        from reachp2p.runtime.subscriptions import Subscriptions
        from reachp2p.runtime.threads import Threads

        for agent in agents:
            _check_agent(agent)
        if not callable(engine_factory):
            raise wrong("engine_factory", engine_factory, "what makes an Engine, or leave it out")
        self._options = check_options(
            agent_ids=[agent.id for agent in agents],
            name=name,
            cluster=cluster,
            zone=zone,
            host=host,
            port=port,
            advertise=advertise,
            seeds=seeds,
            state=state,
            insecure_open=insecure_open,
            take_over=take_over,
            control=control,
            rules=rules,
            protocol=protocol,
        )
        self._recording = check_recording(record_payloads, redact, exporters)
        self._agents = {agent.id: agent for agent in agents}
        self._lifetime = Lifetime(
            self._options,
            offers=self._offers,
            services=self._services(),
            on_event=self._take_event,
            engine_factory=engine_factory,
            prepare=self._load_rules,
        )
        file, counters = self._options.rules, self._lifetime.counters
        self._rules_file = None if file is None else RulesFile(file.absolute(), counters, self._take_event)
        self._events = EventStreams(self._lifetime.counters)
        self._log = EventLog()
        self._by_shape = check_bool("by_shape", by_shape)
        self._shaping: Shaping = Shaping(self._lifetime.counters)
        self._calls = Calls(self._lifetime.telemetry, self._shaping)
        self._gatherer = Gatherer()
        self._subscriptions = Subscriptions()
        self._threads = Threads(self._lifetime.counters)
        self._routable = RoutableLog()
        self._changed = trio.Event()
        self.started_at: float | None = None
        """Unix seconds."""
        self._is_used = False

    # Life

    @classmethod
    async def start_in(cls, nursery: Nursery, *agents: Agent, **options: Any) -> Self:
        """Start a node that lives in a nursery of the caller, until `aclose`, `leave` or the nursery's cancellation."""
        import trio

        check_kind("nursery", nursery, trio.Nursery, "the trio nursery in which the node is to live")
        check_names(options, node_options(), "start_in")
        node = cls(*agents, **options)
        node._use()
        await nursery.start(node._run)
        return node

    async def __aenter__(self) -> Self:
        self._use()
        await self._lifetime.enter(self._run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return await self._lifetime.exit(error, CLOSE_TIMEOUT)

    async def aclose(self, timeout: float = CLOSE_TIMEOUT) -> None:  # noqa: ASYNC109 (the others' deadline)
        """End the node from any task and wait until it has ended; again is harmless. Says goodbye, like `leave`."""
        await self._end(timeout)

    async def leave(self, timeout: float = LEAVE_TIMEOUT) -> bool:  # noqa: ASYNC109 (the others' deadline)
        """Drain (finish what runs, refuse new work), say goodbye to all, and end; whether all was done in time."""
        await self._end(timeout)
        return self._lifetime.has_ended_cleanly

    def stop(self, timeout: float) -> None:
        """Ask the node to end within `timeout` seconds, without waiting for it; a further request can shorten it."""
        self._lifetime.stop(max(0.0, check_seconds("timeout", timeout)))

    async def wait_stopping(self) -> float:
        """Wait until the node is asked to end, or fails; the seconds that it has for it (infinite after a failure)."""
        return await self._lifetime.wait_stopping()

    async def wait_closed(self) -> None:
        """Wait until the node has ended, for whatever reason."""
        await self._lifetime.closed.wait()

    # Facts

    @property
    def id(self) -> NodeId:
        """The node's public key."""
        return self._driver.engine.node

    @property
    def name(self) -> str:
        """The node's name, for people. One that nobody chose gets its end from the node id when the node starts."""
        return self._lifetime.name

    @property
    def cluster(self) -> str:
        """The cluster that this node is part of."""
        return self._options.cluster

    @property
    def life(self) -> Life | None:
        """The current run: epoch and life id."""
        return self._driver.engine.life

    @property
    def address(self) -> Address:
        """The first address that others are told."""
        return self.addresses[0]

    @property
    def addresses(self) -> tuple[Address, ...]:
        """What others are told."""
        self._driver  # noqa: B018 (raises before the start)
        return self._lifetime.advertised

    @property
    def state_folder(self) -> Path:
        """Where key, epoch and address book are."""
        assert self._lifetime.folder is not None, "the node has started"
        return self._lifetime.folder.path

    @property
    def temporary_folder(self) -> Path | None:
        """The state folder if it goes away with the node."""
        folder = self._lifetime.folder
        return folder.path if folder is not None and folder.is_temporary else None

    @property
    def has_ended_cleanly(self) -> bool:
        """Whether, at its end, goodbye was said in time, nothing was cut off, and everything is on disk."""
        return self._lifetime.has_ended_cleanly

    @property
    def offered(self) -> list[str]:
        """The agents that this node offers."""
        return list(self._agents)

    @property
    def goes_by_shape(self) -> bool:
        """Whether calls that name nobody go by the shape of their parameters if they do not say themselves."""
        return self._by_shape

    @property
    def engine(self) -> Engine:
        """The core of this node, for those who look inside."""
        return self._driver.engine

    @property
    def is_running(self) -> bool:
        """Whether the node has started and has not been asked to end."""
        return self._lifetime.is_running

    # Calling

    async def run_in_thread(self, what: str, function: Callable[[], Any]) -> Any:
        """Run a plain handler of this node in one of its worker threads. Raises `NoThreadFree`."""
        return await self._threads.run(what, function)

    async def wait_for(self, capability: str, timeout: float = 30.0) -> None:  # noqa: ASYNC109 (names its own error)
        """Wait until a call of `capability` would find an instance that nobody doubts.

        A node that has just started first compares its view with another. After `timeout` seconds, `CallFailed` (1301,
        1303) says how many instances are known, and why none of them will do.
        """
        import trio

        check_capability(check_text("capability", capability, "text.summarize"))
        with trio.move_on_after(max(0.0, check_seconds("timeout", timeout))):
            while not self._driver.engine.is_callable(capability):
                self._check_running()
                changed = self._changed
                with trio.move_on_after(ROUTABLE_RECHECK):
                    await changed.wait()
            await trio.lowlevel.checkpoint()
            return
        failure = self._driver.engine.why_not_callable(capability)
        raise CallFailed(
            failure.code, f"{capability} has no instance to rely on after {timeout:g} s: {failure.reason}"
        )

    # Offering

    async def register(self, agent: Agent) -> int:
        """Offer an agent from now on, or change it; returns its registry version. Raises 1707 or 1704."""
        self._check_running()
        _check_agent(agent)
        version = self._driver.engine.register(agent.spec, self._driver.now)
        self._agents[agent.id] = agent
        self._handlers.add(agent.id, agent.bind(self))
        await self._driver.give_way()
        return version

    async def withdraw(self, agent_id: str) -> None:
        """Stop offering an agent; what runs goes on. Raises `LocalProtocolError` if it is not offered."""
        self._check_running()
        self._driver.engine.withdraw(
            check_agent_id(check_text("agent_id", agent_id, "nlp/summarizer")), self._driver.now
        )
        self._agents.pop(agent_id, None)
        self._handlers.remove(agent_id)
        await self._driver.give_way()

    # Looking

    def members(self) -> list[MemberView]:
        """All members as this node sees them, itself included, in NodeId order."""
        return self._driver.engine.members()

    def agents(self) -> list[AgentView]:
        """All instances of all agents as this node sees them."""
        return self._driver.engine.agents()

    def bulkheads(self) -> list[BulkheadView]:
        """How full each capability that this node offers is: what runs, what waits, and the limits of both."""
        return self._driver.engine.bulkheads()

    def view_hash(self) -> bytes:
        """Hash over everything this node holds: two nodes with equal views have equal hashes."""
        return self._driver.engine.view_hash()

    def explain(
        self,
        capability: str | None = None,
        *,
        agent: str | None = None,
        tags: Mapping[str, str] | None = None,
        policy: str | None = None,
        key: str | None = None,
        params: Any = None,
        **preferences: Unpack[Preferences],
    ) -> Explanation:
        """Why a call would go where it would go.

        `params` matter to a call that names nobody and goes `by_shape` alone; only schemas that are here already count
        (`fetch_schemas` gets the others).
        """
        query = self._query(capability, agent, tags, policy, key, preferences)
        return self._shaping.explain(self._driver.engine, query, params)

    async def fetch_schemas(
        self, *, tags: Mapping[str, str] | None = None, version: str | None = None, streams: bool = False
    ) -> None:
        """Get what calls `by_shape` compare with, as far as it is not here; the first such call does so by itself.

        Takes two seconds at most. `tags`, `version`: of the calls that are to come; `streams`: they are `stream` calls.
        """
        self._check_running()
        query = self._query(None, None, tags, None, None, {"version": version})
        await self._shaping.fetch(self._driver, replace(query, streams=streams))

    def events(self, *, with_calls: bool = False) -> EventStream:
        """News from now on, as an async iterator that ends with the node. `with_calls` adds the end of every call."""
        return self._events.open(with_calls=with_calls)

    def diagnostics(self) -> dict[str, int]:
        """Counters (`dropped.…`, `udp.…`, `links.…`) and sizes of everything bounded."""
        counts = {
            **self._driver.engine.diagnostics(),
            **self._lifetime.counters.snapshot(),
            **self._threads.gauges(),
            **self._recording.gauges(),
            **self._shaping.gauges(),
        }
        outlets = self._lifetime.outlets
        if outlets is not None:
            counts |= {
                "size.runtime_links": len(outlets.links),
                "size.runtime_link_bytes": outlets.links.queued_bytes,
                "size.runtime_storage_queue": outlets.storage.waiting,
                "size.runtime_invocations": outlets.handlers.running,
                "size.runtime_invocations_overdue": self._overdue(),
                "size.runtime_calls": len(self._calls),
                "size.runtime_subscriptions": len(self._subscriptions),
            }
        return dict(sorted(counts.items()))

    # Inside

    @property
    def _driver(self) -> Driver:
        return self._lifetime.driver

    @property
    def _runtime_counters(self) -> Counters:
        return self._lifetime.counters

    @property
    def _handlers(self) -> Handlers:
        assert self._lifetime.outlets is not None, "the node runs"
        return self._lifetime.outlets.handlers

    def _use(self) -> None:
        if self._is_used:
            raise LocalProtocolError("a Node is used once; make a new one to start again")
        self._is_used = True

    def _check_running(self) -> None:
        if not self._lifetime.is_running:
            self._driver  # noqa: B018 (raises before the start)
            raise LocalProtocolError("this node has closed")

    async def _run(self, task_status: TaskStatus[None]) -> None:
        try:
            await self._lifetime.run(task_status)
        finally:
            self._calls.close()
            self._gatherer.close()
            self._shaping.close()
            self._events.close()
            self._subscriptions.close()
            self._tell_waiting()

    async def _end(self, timeout: float) -> None:  # noqa: ASYNC109 (as above)
        seconds = max(0.0, check_seconds("timeout", timeout))
        if not self._is_used:
            self._is_used = True
            return
        self._lifetime.stop(seconds)
        await self._lifetime.closed.wait()

    def _offers(self) -> list[Offer]:
        return [(agent.spec, agent.bind(self)) for agent in self._agents.values()]

    def _services(self) -> list[Service]:
        services: list[Service] = [self._sample_routable, self._measure_processor, self._record]
        if self._options.rules is not None:
            services.append(self._watch_rules)
        if self._options.control:
            services.append(self._serve_control)
        return services

    async def _record(self, *, task_status: TaskStatus[None]) -> None:
        await self._recording.run(self._driver.engine, self._lifetime.counters, task_status=task_status)

    async def _measure_processor(self, *, task_status: TaskStatus[None]) -> None:
        from reachp2p.runtime.processor import tell_engine

        task_status.started()
        await tell_engine(self._driver.engine, self._overdue)

    def _overdue(self) -> int:
        outlets = self._lifetime.outlets
        return 0 if outlets is None else outlets.handlers.overdue

    async def _sample_routable(self, *, task_status: TaskStatus[None]) -> None:
        task_status.started()
        await self._routable.run(self._driver.engine)

    async def _serve_control(self, *, task_status: TaskStatus[None]) -> None:
        from reachp2p.runtime.control import serve_control  # only programs with a command line need it

        assert self._lifetime.folder is not None, "the node runs"
        folder, counters = self._lifetime.folder, self._lifetime.counters
        await serve_control(self, self._routable, folder, counters, task_status=task_status)

    def _tell_waiting(self) -> None:
        """Wake whoever waits for a change now; the next change is another event."""
        import trio

        self._changed.set()
        self._changed = trio.Event()

    def _take_event(self, event: Event) -> None:
        if isinstance(event, CallEnded | CallOutlasted):
            self._calls.on_event(event)
        elif isinstance(event, EventReceived):
            self._subscriptions.put(event)
            return
        elif isinstance(event, SchemasFetched):
            self._shaping.on_fetched(event)
            return
        elif isinstance(event, HopsGathered):
            self._gatherer.on_gathered(event)
            return
        else:
            if isinstance(event, MemberChanged | RecordChanged | Started | Resumed):
                self._tell_waiting()
            if isinstance(event, Started):
                self.started_at = time.time()
            self._log(event)
            if isinstance(event, RulesChanged | Started):
                self._log.warn_unmet(self._driver.engine.rules().unmet)
        self._events.put(event)


def _check_agent(agent: object) -> None:
    if not isinstance(agent, Agent):
        raise wrong("agent", agent, 'an Agent, as in Agent("nlp/summarizer")')


def node_options() -> list[str]:
    """The keyword arguments of `Node`, which `run` and `start_in` pass on."""
    return [name for name in inspect.signature(Node).parameters if name != "agents"]
