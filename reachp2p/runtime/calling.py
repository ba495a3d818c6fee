"""The part of a node that calls agents: arguments checked, the call that is being served carried on.

A call made while a handler runs, by whatever way, belongs to the call that it serves: it ends no later, goes on its
path and has one hop less. Nobody could ask for it later, so that its synchronous limit is its deadline.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from reachp2p._arguments import (
    check_optional_seconds,
    check_optional_text,
    check_seconds,
    check_tags,
    check_text,
    wrong,
)
from reachp2p.core.calls.tasks import TaskView
from reachp2p.core.commands import Lasting, RouteQuery
from reachp2p.core.events import CallEnded
from reachp2p.core.ids import MESSAGE_ID_BYTES
from reachp2p.runtime.preferences import Preferences, check_preferences, split_versions
from reachp2p.runtime.serving import in_session, served, session_here

if TYPE_CHECKING:  # naming `Node` loads no event loop
    from reachp2p.runtime.call_stream import CallStream
    from reachp2p.runtime.calls import Calls
    from reachp2p.runtime.driver import Driver
    from reachp2p.runtime.handlers import InvokeContext
    from reachp2p.runtime.tasks import Task

_PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
"""The example of the Recommendation."""
_SESSION_ID = re.compile("[0-9a-fA-F]{32}")


class Calling:
    """What a `Node` can ask of others. Its methods may be called from any task of the node's trio run."""

    _calls: Calls
    _by_shape: bool = False
    """Whether calls that name neither capability nor agent go by the shape of their parameters, if they say nothing."""

    @property
    def _driver(self) -> Driver:
        raise NotImplementedError  # a node has one once it has started

    def _check_running(self) -> None:
        raise NotImplementedError  # raises `LocalProtocolError` before the start and after the end

    async def call(
        self,
        capability: str | None = None,
        params: Any = None,
        *,
        agent: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the whole call's, retries included; told to the callee)
        connect_timeout: float | None = None,
        read_timeout: float | None = None,
        tags: Mapping[str, str] | None = None,
        policy: str | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        **preferences: Unpack[Preferences],
    ) -> Any:
        """Call an agent and return its result.

        `capability` or `agent` may say a range of versions: `text.summarize@^1.2`. `agent` and `tags` narrow the
        choice, and beside a capability `agent` may be a namespace: `nlp`; without a name, tags mean the one
        capability that is offered with them. `policy` (`random`, `round_robin`, `consistent_hash` with `key`, …)
        chooses the instance; without one the rules do (docs/protocol/rules.md), else equal keys go to one instance, and
        calls without a key to any. Rarer wishes
        (`Preferences`): `version` (a range), `release="candidate"` or `"stable"`, `prefer="zone"`, `strict=True` (the
        owner of `key` or nobody), `by_shape` (True: a call that names nobody goes to the one capability that its
        parameters fit), `fallback` (a list of capabilities and agents to try when nobody can be asked; True: those
        that a rule names). `params` is an object of the JSON data model, or bytes. `timeout` ends the whole call;
        without one, a call that outlasts its synchronous limit goes on as a task, and `StillRunning` has it.
        `connect_timeout` bounds each wait for a link, `read_timeout` each wait for an answer, if another instance may
        be asked after it. `traceparent` (W3C) is the trace that the call belongs to; without one it begins one.
        Raises `CallFailed`: its code says how the call ended.
        """
        self._check_running()
        query = self._query(capability, agent, tags, policy, key, preferences)
        options = _call_options(timeout, connect_timeout, idempotency_key, read_timeout)
        options |= self._carried_on(served(), traceparent)
        return await self._calls.value(self._driver, query, params, options)

    async def call_for(
        self,
        serving: InvokeContext,
        capability: str | None = None,
        params: Any = None,
        *,
        agent: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (as above)
        connect_timeout: float | None = None,
        read_timeout: float | None = None,
        tags: Mapping[str, str] | None = None,
        policy: str | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
        **preferences: Unpack[Preferences],
    ) -> Any:
        """Like `call`, for a handler of this node (`Context.call`): `serving` is the call that it serves."""
        self._check_running()
        query = self._query(capability, agent, tags, policy, key, preferences)
        options = _call_options(timeout, connect_timeout, idempotency_key, read_timeout)
        options |= self._carried_on(serving)
        return await self._calls.value(self._driver, query, params, options)

    async def call_detailed(
        self,
        capability: str | None = None,
        params: Any = None,
        *,
        agent: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (as above)
        connect_timeout: float | None = None,
        read_timeout: float | None = None,
        tags: Mapping[str, str] | None = None,
        policy: str | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        **preferences: Unpack[Preferences],
    ) -> tuple[str, bytes, CallEnded]:
        """Like `call`, but returns content type and payload as they came, and how the call ended (node, attempts)."""
        self._check_running()
        query = self._query(capability, agent, tags, policy, key, preferences)
        options = _call_options(timeout, connect_timeout, idempotency_key, read_timeout)
        options |= self._carried_on(served(), traceparent)
        return await self._calls.call(self._driver, query, params, options)

    def stream(
        self,
        capability: str | None = None,
        params: Any = None,
        *,
        agent: str | None = None,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        connect_timeout: float | None = None,
        tags: Mapping[str, str] | None = None,
        policy: str | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        **preferences: Unpack[Preferences],
    ) -> CallStream:
        """Call an agent whose results or parameters are a stream; the call begins with `async with`.

        `timeout` ends the whole stream, else what its capability declares, else 10 minutes; `idle_timeout` (60 s) is
        how long one item may take while it is waited for. The rest is as in `call`.
        """
        return self._stream(
            served(),
            traceparent,
            params,
            self._query(capability, agent, tags, policy, key, preferences),
            _call_options(timeout, connect_timeout, idempotency_key),
            idle_timeout,
        )

    def stream_for(
        self,
        serving: InvokeContext,
        capability: str | None = None,
        params: Any = None,
        *,
        agent: str | None = None,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        connect_timeout: float | None = None,
        tags: Mapping[str, str] | None = None,
        policy: str | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
        **preferences: Unpack[Preferences],
    ) -> CallStream:
        """Like `stream`, for a handler of this node (`Context.stream`): `serving` is the call that it serves."""
        return self._stream(
            serving,
            None,
            params,
            self._query(capability, agent, tags, policy, key, preferences),
            _call_options(timeout, connect_timeout, idempotency_key),
            idle_timeout,
        )

    def _stream(
        self,
        serving: InvokeContext | None,
        traceparent: str | None,
        params: Any,
        query: RouteQuery,
        options: dict[str, Any],
        idle_timeout: float | None,
    ) -> CallStream:
        from reachp2p.runtime.call_stream import CallStream

        self._check_running()
        if query.capability is None and query.agent is None:
            query = replace(query, streams=True)
        options["idle_timeout"] = check_optional_seconds("idle_timeout", idle_timeout)
        carried = self._carried_on(serving, traceparent)
        carried.pop("lasting", None)
        return CallStream(self._calls, self._driver, query, params, options | carried)

    async def submit(
        self,
        capability: str | None = None,
        params: Any = None,
        *,
        agent: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (as above)
        connect_timeout: float | None = None,
        read_timeout: float | None = None,
        tags: Mapping[str, str] | None = None,
        policy: str | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        **preferences: Unpack[Preferences],
    ) -> Task:
        """Like `call`, but returns at once: the call is a task, whose result can be asked for again and again.

        It may take `timeout` seconds, else what its capability declares for tasks, else an hour, and is not bound to
        the call that is being served. It is kept in memory until 10 minutes after its end, and ends with this node.
        """
        from reachp2p.runtime.tasks import Task

        self._check_running()
        query = self._query(capability, agent, tags, policy, key, preferences)
        options = _call_options(timeout, connect_timeout, idempotency_key, read_timeout)
        carried = self._carried_on(served(), traceparent) | {"lasting": Lasting.TASK}
        carried.pop("within", None)
        call = await self._calls.start(self._driver, query, params, options | carried)
        return Task(self._calls, self._driver, call)

    @contextmanager
    def session(self, session: bytes | str | None = None) -> Iterator[str]:
        """Calls made inside, by this task and those that it starts there, belong to one session; yields its id.

            with node.session() as session:
                await node.call("text.summarize", ...)
                await node.call("text.check", ...)
            print(await node.trace(session))

        `session`: the 16 bytes or 32 hexadecimal digits of one that goes on; a new one is drawn if not given. A handler
        has no need of it: what it calls belongs to the session of the call that it serves.
        """
        if session is None:
            chosen = secrets.token_bytes(MESSAGE_ID_BYTES)
        elif isinstance(session, bytes) and len(session) == MESSAGE_ID_BYTES:
            chosen = session
        elif isinstance(session, str) and _SESSION_ID.fullmatch(session):
            chosen = bytes.fromhex(session)
        else:
            raise wrong("session", session, "its 16 bytes or their 32 hexadecimal digits")
        with in_session(chosen):
            yield chosen.hex()

    def task(self, task_id: str) -> Task:
        """A task of this node by its id. Raises `CallFailed` (1502) if it is not known, or forgotten."""
        from reachp2p.runtime.tasks import Task, call_of, unknown

        check_text("task_id", task_id, "9f86d081884c7d659a2feaa0c55ad015")
        call = call_of(task_id)
        if call is None or self._driver.engine.task(call) is None:
            raise unknown(task_id)
        return Task(self._calls, self._driver, call)

    def tasks(self) -> list[TaskView]:
        """All tasks of this node that are known: those that run, then those that have ended."""
        return self._driver.engine.tasks()

    def _carried_on(self, serving: InvokeContext | None, traceparent: str | None = None) -> dict[str, Any]:
        """What a call takes over from the call that is being served."""
        if traceparent is not None:
            check_text("traceparent", traceparent, _PARENT)
        if serving is None:
            return {"lasting": Lasting.OUTLAST, "traceparent": traceparent, "session_id": session_here()}
        return {
            "within": serving.deadline - self._driver.now,
            "path": serving.path,
            "hops_left": serving.hops_left,
            "session_id": serving.session_id,
            "traceparent": serving.traceparent if traceparent is None else traceparent,
        }

    def _query(
        self,
        capability: str | None,
        agent: str | None,
        tags: Mapping[str, str] | None,
        policy: str | None,
        key: str | None,
        preferences: Preferences,
    ) -> RouteQuery:
        is_plain = agent is None and tags is None and policy is None and key is None and not preferences
        if is_plain and type(capability) is str and "@" not in capability:
            return _plain(capability)  # as nearly all calls are
        wishes = check_preferences(preferences, "a call")
        capability = check_optional_text("capability", capability, "text.summarize")
        agent = check_optional_text("agent", agent, "nlp/summarizer")
        if "@" in (capability or "") or "@" in (agent or ""):
            capability, agent, wishes["version"] = split_versions(capability, agent, wishes.get("version"))
        if capability is None and agent is None and preferences.get("by_shape") is None:
            wishes["by_shape"] = self._by_shape
        return RouteQuery(
            agent=agent,
            capability=capability,
            tags=check_tags("tags", tags),
            policy=check_optional_text("policy", policy, "round_robin"),
            key=check_optional_text("key", key, "customer-17"),
            **wishes,
        )


def _call_options(
    timeout: float | None,
    connect_timeout: float | None,
    idempotency_key: str | None,
    read_timeout: float | None = None,
) -> dict[str, Any]:
    """The fields of a `CallSpec` that the caller has asked for."""
    options: dict[str, Any] = {}
    if timeout is not None:
        options["timeout"] = check_seconds("timeout", timeout)
    if connect_timeout is not None:
        options["connect"] = check_seconds("connect_timeout", connect_timeout)
    if read_timeout is not None:
        options["read"] = check_seconds("read_timeout", read_timeout)
    if idempotency_key is not None:
        options["idempotency_key"] = check_text("idempotency_key", idempotency_key, "order-4711")
    return options


@lru_cache(maxsize=256)
def _plain(capability: str) -> RouteQuery:
    """The query for a capability and nothing else: one object for all of its calls, of all nodes of the process."""
    return RouteQuery(capability=capability)
