"""A running node answers its own command line.

The socket lies in the state folder, which only its user can enter (0700), and is itself closed to others (0600).
Bounds: CLIENTS_MAX + RESERVED connections, lines of `LINE_MAX` bytes, deadlines on sending and on silence.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from reachp2p import __version__
from reachp2p.core.counters import Counters
from reachp2p.errors import ConfigurationInvalid, ErrorCode, LocalProtocolError, NodeError, ReachError
from reachp2p.runtime.calls import result_of
from reachp2p.runtime.control_items import send_items
from reachp2p.runtime.control_rules import rules_operations
from reachp2p.runtime.control_tasks import answer_task, answer_tasks
from reachp2p.runtime.control_traces import answer_sessions, answer_trace
from reachp2p.runtime.control_wire import (
    LINE_MAX,
    Lines,
    LineTooLong,
    LineUnreadable,
    agent_object,
    error_object,
    event_object,
    explanation_object,
    member_object,
    topic_event_object,
)
from reachp2p.runtime.exception_groups import sole
from reachp2p.runtime.routable import RoutableLog
from reachp2p.runtime.state_folder import StateFolder

if TYPE_CHECKING:
    from reachp2p.runtime.node import Node

logger = logging.getLogger("reachp2p.control")

CLIENTS_MAX = 16
"""Connections at once. `RESERVED` further ones are answered if they only ask or end the node, anything else is refused
with 1406; beyond them a connection is told so and closed."""
RESERVED = 4
ALWAYS = ("info", "diagnostics", "leave")
"""What an operator needs when everything else is taken."""
LONG = ("call", "task", "trace", "sessions")
"""What may take its time, and is cancelled when whoever asked has gone."""
SEND_TIMEOUT = 10.0
SECONDS_MAX = 86_400
"""The longest timeout that can be asked for: a day, as on the wire."""
LEAVE_TIMEOUT = 10.0
"""Seconds for draining when `leave` names none (the default of `Node.leave`)."""
SILENCE_MAX = 300.0
"""Seconds without a request after which a connection is closed."""

Args = Mapping[str, Any]


async def serve_control(
    node: Node,
    routable: RoutableLog,
    folder: StateFolder,
    counters: Counters,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Answer on the folder's socket until cancelled; whoever is told that the node has started can ask."""
    path = folder.place_socket()
    listener = _listen(path)
    server = _Server(node, routable, counters)
    task_status.started()
    try:
        async with trio.open_nursery() as nursery:
            while True:
                await trio.lowlevel.wait_readable(listener)
                try:
                    accepted, _ = listener.accept()
                except (BlockingIOError, ConnectionError):
                    continue
                except OSError as error:
                    counters.add("control.accept_failed")
                    logger.error("the control socket cannot accept: %s", error.strerror)
                    await trio.sleep(0.1)
                    continue
                accepted.setblocking(False)
                nursery.start_soon(server.serve, accepted)
    finally:
        listener.close()


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen(CLIENTS_MAX)
    except OSError as error:
        listener.close()
        raise ConfigurationInvalid(
            f"control socket {path} cannot be opened: {error.strerror or error}"
        ) from error
    return listener


class _Server:
    """The operations, and the connections that ask for them."""

    def __init__(self, node: Node, routable: RoutableLog, counters: Counters) -> None:
        self._node = node
        self._routable = routable
        self._counters = counters
        self._clients = 0
        self._operations: dict[str, Callable[[Args], Awaitable[Any]]] = {
            "info": self._info,
            "members": self._members,
            "agents": self._agents,
            "call": self._call,
            "submit": self._submit,
            "task": partial(answer_task, node),
            "tasks": partial(answer_tasks, node),
            "explain": self._explain,
            "leave": self._leave,
            "diagnostics": self._diagnostics,
            "routable": self._routable_nodes,
            "trace": partial(answer_trace, node),
            "sessions": partial(answer_sessions, node),
            **rules_operations(node),
            "publish": self._publish,
        }

    async def serve(self, accepted: socket.socket) -> None:
        """One connection until it ends. Nothing but cancellation leaves here: it would end the node and its agents."""
        self._clients += 1
        try:
            await self._converse(accepted)
        except Exception as error:
            found = sole(error)  # of the tasks that serve one
            if isinstance(found, OSError | trio.BrokenResourceError):
                self._counters.add("control.lost")
                logger.debug("a command line has gone: %s", found)
            else:
                self._counters.add("control.failed")
                logger.exception("a connection of the command line has failed")
        finally:
            self._clients -= 1

    async def _converse(self, accepted: socket.socket) -> None:
        """Requests one after the other. Raises what ends the connection."""
        lines = Lines(accepted, LINE_MAX)
        try:
            if self._clients > CLIENTS_MAX + RESERVED:
                await self._refuse(lines, self._too_many())
                return
            is_late = self._clients > CLIENTS_MAX
            while True:
                with trio.move_on_after(SILENCE_MAX) as scope:
                    request = await lines.read()
                if scope.cancelled_caught or request is None:
                    return
                await self._answer(lines, request, is_late=is_late)
        except LineTooLong as error:
            self._counters.add("control.refused.bad_line")
            await self._refuse(lines, NodeError(ErrorCode.PAYLOAD_TOO_LARGE, error.message))
        except LineUnreadable as error:
            self._counters.add("control.refused.bad_line")
            await self._refuse(lines, LocalProtocolError(f"not a line of JSON: {error.message}"))
        finally:
            with trio.CancelScope(shield=True):
                await lines.aclose()

    async def _refuse(self, lines: Lines, error: ReachError) -> None:
        await self._write(lines, {"id": None, "ok": False, "error": error_object(error)})

    def _too_many(self) -> ReachError:
        self._counters.add("control.refused.too_many")
        return NodeError(
            ErrorCode.REFUSED_FULL, f"{CLIENTS_MAX} command lines are connected already; try again"
        )

    async def _answer(self, lines: Lines, request: Any, *, is_late: bool) -> None:
        number = request.get("id") if isinstance(request, dict) else None
        try:
            operation, args = _request(request)
            if is_late and operation not in ALWAYS:
                raise self._too_many()
            streams = {
                "events": self._stream_events,
                "subscribe": self._stream_topic,
                "stream": self._stream_items,
            }
            if operation in streams:
                await streams[operation](lines, number, args)
                return
            perform = self._operations.get(operation)
            if perform is None:
                known = ", ".join([*self._operations, *streams])
                raise LocalProtocolError(f"unknown operation {operation!r}; known are {known}")
            is_call = operation in LONG  # the others are quick, and `leave` ends what would wait for it
            result = await (self._while_there(lines, perform, args) if is_call else perform(args))
            answer = {"id": number, "ok": True, "result": result}
        except ReachError as error:
            answer = {"id": number, "ok": False, "error": error_object(error)}
        except (OSError, trio.BrokenResourceError):
            raise  # the connection itself
        except Exception as error:
            # A defect of ours must not let whoever asks a question end the node and its agents.
            logger.exception("a question of the command line could not be answered")
            self._counters.add("control.failed")
            failure = NodeError(
                ErrorCode.HANDLER_FAILED, f"this node could not answer: {type(error).__name__}; see its log"
            )
            answer = {"id": number, "ok": False, "error": error_object(failure)}
        await self._write(lines, answer)

    async def _while_there(self, lines: Lines, perform: Callable[[Args], Awaitable[Any]], args: Args) -> Any:
        """The answer; whoever is no longer there to read it has its call cancelled."""
        result: Any = None
        failure: Exception | None = None
        has_ended = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_when_gone, lines, nursery.cancel_scope)
            try:
                result = await perform(args)
            except Exception as error:  # noqa: BLE001 (raised again below, outside the nursery's group)
                failure = error
            has_ended = True
            nursery.cancel_scope.cancel()
        if not has_ended:
            raise trio.BrokenResourceError("the command line has gone")
        if failure is not None:
            raise failure
        return result

    async def _write(self, lines: Lines, item: object) -> None:
        with trio.move_on_after(SEND_TIMEOUT) as scope:
            await lines.write(item)
        if scope.cancelled_caught:
            raise trio.BrokenResourceError("the command line does not read")

    # Operations

    async def _info(self, args: Args) -> Any:
        node, life = self._node, self._node.life
        return {
            "node": node.id.hex(),
            "name": node.name,
            "cluster": node.cluster,
            "epoch": None if life is None else life.epoch,
            "life": None if life is None else life.life_id.hex(),
            "addresses": [str(address) for address in node.addresses],
            "state": os.fspath(node.state_folder),
            "pid": os.getpid(),
            "version": __version__,
            "agents": node.offered,
            "running": node.is_running,
            "started_at": node.started_at,
            "view": node.view_hash().hex(),
        }

    async def _members(self, args: Args) -> Any:
        now = trio.current_time()
        agents: dict[bytes, list[str]] = {}
        for view in self._node.agents():
            agents.setdefault(view.node, []).append(view.agent)
        return {
            "members": [
                {**member_object(view, now), "agents": agents.get(view.node, [])}
                for view in self._node.members()
            ],
            "diagnostics": self._node.diagnostics(),
            "view": self._node.view_hash().hex(),
        }

    async def _agents(self, args: Args) -> Any:
        now = trio.current_time()
        return {"agents": [agent_object(view, now) for view in self._node.agents()]}

    async def _call(self, args: Args) -> Any:
        begun = trio.current_time()
        content_type, payload, ended = await self._node.call_detailed(
            params=args.get("params"),
            timeout=_seconds(args, "timeout"),
            idempotency_key=_text(args, "idempotency_key"),
            **_route(args),
        )
        value = result_of(content_type, payload)
        return {
            "value": value.hex() if isinstance(value, bytes) else value,
            "content_type": content_type,
            "node": None if ended.node is None else ended.node.hex(),
            "agent": ended.agent,
            "attempts": ended.attempts,
            "session": ended.call.hex(),
            "seconds": round(trio.current_time() - begun, 6),
        }

    async def _submit(self, args: Args) -> Any:
        task = await self._node.submit(
            params=args.get("params"),
            timeout=_seconds(args, "timeout"),
            idempotency_key=_text(args, "idempotency_key"),
            **_route(args),
        )
        return {"task": task.id}

    async def _explain(self, args: Args) -> Any:
        route = _route(args)
        by_shape = route.get("by_shape", self._node.goes_by_shape)
        if by_shape and route["capability"] is None and route["agent"] is None:
            await self._node.fetch_schemas(tags=route["tags"], version=route["version"])
        return explanation_object(self._node.explain(params=args.get("params"), **route))

    async def _leave(self, args: Args) -> Any:
        timeout = _seconds(args, "timeout")
        self._node.stop(LEAVE_TIMEOUT if timeout is None else timeout)
        return {"leaving": True, "pid": os.getpid()}

    async def _diagnostics(self, args: Args) -> Any:
        return self._node.diagnostics()

    async def _routable_nodes(self, args: Args) -> Any:
        capability = _text(args, "capability")
        if capability is None:
            raise ConfigurationInvalid("routable: name a capability")
        watch = self._routable.look(self._node.engine, capability)
        return {
            "capability": capability,
            "at": time.time(),
            "routable": [{"node": node.hex(), "since": since} for node, since in watch.since.items()],
            "lost": [{"node": node.hex(), "at": at} for node, at in watch.lost.items()],
        }

    async def _publish(self, args: Args) -> Any:
        topic = _text(args, "topic")
        if topic is None:
            raise ConfigurationInvalid("publish: name a topic, such as orders.eu.created")
        return {"topic": topic, "nodes": await self._node.publish(topic, args.get("data"))}

    async def _stream_topic(self, lines: Lines, number: Any, args: Args) -> None:
        """Events of a pattern as lines, until the node or the command line ends."""
        pattern = _text(args, "pattern")
        if pattern is None:
            raise ConfigurationInvalid("subscribe: name a pattern, such as orders.>")
        async with self._node.subscribe(pattern) as events, trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_when_gone, lines, nursery.cancel_scope)
            await self._write(lines, {"id": number, "event": {"subscribed": pattern}})
            async for event in events:
                await self._write(lines, {"id": number, "event": topic_event_object(event)})
            nursery.cancel_scope.cancel()
        await self._write(lines, {"id": number, "ok": True, "result": {"missed": events.missed}})

    async def _stream_items(self, lines: Lines, number: Any, args: Args) -> None:
        """The results of a call that streams them; it is cancelled when whoever asked has gone."""

        async def write(event: Any) -> None:
            await self._write(lines, {"id": number, "event": event})

        async def perform(args: Args) -> Any:
            key = _text(args, "idempotency_key")
            timeout, params = _seconds(args, "timeout"), args.get("params")
            return await send_items(
                self._node, write, params=params, timeout=timeout, idempotency_key=key, **_route(args)
            )

        result = await self._while_there(lines, perform, args)
        await self._write(lines, {"id": number, "ok": True, "result": result})

    async def _stream_events(self, lines: Lines, number: Any, args: Args) -> None:
        """Lines until the node or the command line ends."""
        stream = self._node.events(with_calls=bool(args.get("calls")))
        offset = time.time() - trio.current_time()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_when_gone, lines, nursery.cancel_scope)
                async for event in stream:
                    await self._write(lines, {"id": number, "event": event_object(event, event.at + offset)})
                nursery.cancel_scope.cancel()
        finally:
            stream.close()
        await self._write(lines, {"id": number, "ok": True, "result": {"dropped": stream.dropped}})


def _request(request: Any) -> tuple[str, Args]:
    if not isinstance(request, dict) or not isinstance(request.get("op"), str):
        raise LocalProtocolError('a request is an object such as {"id": 1, "op": "members", "args": {}}')
    args = request.get("args", {})
    if not isinstance(args, dict):
        raise LocalProtocolError("args must be an object")
    return request["op"], args


def _route(args: Args) -> dict[str, Any]:
    """The arguments that choose an instance, checked for their types."""
    tags = args.get("tags") or {}
    if not isinstance(tags, dict) or not all(isinstance(one, str) for one in [*tags, *tags.values()]):
        raise ConfigurationInvalid("tags must be an object of texts")
    names = ("capability", "agent", "key", "policy", "version", "release", "prefer")
    route: dict[str, Any] = {name: _text(args, name) for name in names}
    wishes = {name: args[name] for name in ("strict", "fallback", "by_shape") if args.get(name) is not None}
    return {**route, **wishes, "tags": tags}


def _text(args: Args, name: str) -> str | None:
    value = args.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigurationInvalid(f"{name} must be text")
    return value


async def _cancel_when_gone(lines: Lines, scope: trio.CancelScope) -> None:
    try:
        await lines.wait_gone()
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        logger.debug("a command line has reset its connection")
    scope.cancel()


def _seconds(args: Args, name: str) -> float | None:
    value = args.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= SECONDS_MAX:
        raise ConfigurationInvalid(f"{name} must be seconds from 0 to {SECONDS_MAX:,}")
    return float(value)
