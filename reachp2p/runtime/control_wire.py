"""How a node and its command line talk: one JSON object a line over a private Unix socket.

    {"id": 1, "op": "members", "args": {}}
    {"id": 1, "ok": true, "result": ...}
    {"id": 1, "ok": false, "error": {"code": 1303, "message": "..."}}
    {"id": 1, "event": {...}}                                       a stream's lines, before its answer

The views of the core are told in words and hex digits; times become seconds ago or Unix seconds.
"""

from __future__ import annotations

import select
import socket
from typing import Any

import msgspec
import trio

from reachp2p.core.events import Event
from reachp2p.core.views import AgentView, Explanation, MemberView
from reachp2p.errors import ReachError, RemoteProtocolError
from reachp2p.topic_event import TopicEvent

LINE_MAX = 2_097_152
"""Bytes of a request: a payload of 1 MiB and what JSON makes of it."""
ANSWER_MAX = 33_554_432
"""Bytes of an answer: the largest views, and a result of 1 MiB with every byte escaped."""
GONE_INTERVAL = 0.5
"""Seconds between looks for whether a connection that has sent more, or has ended its lines, is still there."""
READ_BYTES = 65_536


class LineTooLong(RemoteProtocolError):
    """A line that is too long. Fault: the other side; the connection is of no more use."""


class LineUnreadable(RemoteProtocolError):
    """A line that is no JSON, or JSON that nobody should have to read. Fault: the other side."""


class Lines:
    """One connection as lines of JSON. Not to be read by two tasks, nor written by two."""

    def __init__(self, connected: socket.socket, line_max: int) -> None:
        self._line_max = line_max
        self._socket = trio.socket.from_stdlib_socket(connected)
        self._stream = trio.SocketStream(self._socket)
        self._data = bytearray()

    async def read(self) -> Any:
        """The next object, or None at the end of the stream. Raises `LineTooLong`, `LineUnreadable`, `OSError`."""
        searched = 0
        while (end := self._data.find(b"\n", searched)) < 0:
            searched = len(self._data)
            if searched > self._line_max:
                raise LineTooLong(f"a line of more than {self._line_max:,} bytes")
            data = await self._stream.receive_some(READ_BYTES)
            if not data:
                return None
            self._data += data
        line = bytes(self._data[:end])
        del self._data[: end + 1]
        try:
            return msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LineUnreadable(str(error)) from error
        except RecursionError as error:
            raise LineUnreadable("it is nested too deeply") from error

    async def wait_gone(self) -> None:
        """Return once the other side has closed its socket. One that has only ended its own lines still reads."""
        while await self._socket.recv(1, socket.MSG_PEEK):  # noqa: ASYNC110 (the data stay, so nothing new wakes us)
            await trio.sleep(GONE_INTERVAL)  # it has sent a next line, which waits for its turn
        poll = select.poll()
        poll.register(self._socket.fileno(), 0)  # POLLHUP is always told
        while not any(event & select.POLLHUP for _, event in poll.poll(0)):  # noqa: ASYNC110 (trio waits for no hang-up)
            await trio.sleep(GONE_INTERVAL)

    async def write(self, item: object) -> None:
        """Send one object. Raises `OSError` or `trio.BrokenResourceError` if the other side is gone."""
        await self.send(encoded(item))

    async def send(self, line: bytes) -> None:
        """Send a line that `encoded` has made. Raises `OSError` or `trio.BrokenResourceError` likewise."""
        await self._stream.send_all(line)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()


def encoded(item: object) -> bytes:
    """An object as a line."""
    return msgspec.json.encode(item) + b"\n"


def error_object(error: ReachError) -> dict[str, Any]:
    """An error as it is told to the command line."""
    told: dict[str, Any] = {"code": int(error.code), "message": error.message}
    for field in ("node", "attempts", "detail", "call"):
        if (value := getattr(error, field, None)) is not None:
            told[field] = value
    return told


def member_object(view: MemberView, now: float) -> dict[str, Any]:
    """One member; `since` is seconds ago, and so is `told`, when it has told what ails it."""
    return {
        "node": view.node.hex(),
        "name": view.name,
        "self": view.is_self,
        "state": view.state.value,
        "epoch": view.life.epoch,
        "life": view.life.life_id.hex(),
        "incarnation": view.incarnation,
        "version": view.version,
        "complete": view.complete,
        "addresses": [str(address) for address in view.addresses],
        "zone": view.zone,
        "since": round(max(0.0, now - view.state_since), 3),
        "rtt_ms": None if view.rtt is None else round(view.rtt * 1_000, 3),
        "linked": view.linked,
        "refused": view.refused,
        "late": view.late,
        "overdue": view.overdue,
        "told": _ago(view.told_at, now),
    }


def _ago(at: float | None, now: float) -> float | None:
    return None if at is None else round(max(0.0, now - at), 3)


def agent_object(view: AgentView, now: float) -> dict[str, Any]:
    """One instance of an agent; `told` is how many seconds ago its node has told what ails it."""
    return {
        "agent": view.agent,
        "node": view.node.hex(),
        "node_name": view.node_name,
        "state": view.state.value,
        "version": view.version,
        "registry_version": view.registry_version,
        "description": view.description,
        "owner": view.owner,
        "tags": view.tags,
        "weight": view.weight,
        "access": view.access,
        "callers": list(view.callers),
        "candidate_percent": view.candidate_percent,
        "claim_epoch": view.claim_epoch,
        "topics": list(view.topics),
        "failed": view.failed,
        "stopped": view.stopped,
        "told": _ago(view.told_at, now),
        "capabilities": [
            {
                "name": one.name,
                "description": one.description,
                "repeatable": one.repeatable,
                "timeout": one.timeout,
                "parameters": None if one.parameters is None else one.parameters.hex(),
            }
            for one in view.capabilities
        ],
    }


def explanation_object(view: Explanation) -> dict[str, Any]:
    """Why a call goes where it goes."""
    return {
        "capability": view.capability,
        "agent": view.agent,
        "policy": view.policy,
        "rules": list(view.rules),
        "key": view.key,
        "picked": None if view.picked is None else view.picked.hex(),
        "picked_agent": view.picked_agent,
        "code": view.code,
        "reason": view.reason,
        "table_version": view.table_version,
        "ring_fingerprint": view.ring_fingerprint,
        "target": view.target,
        "fell_back": view.fell_back,
        "release": view.release,
        "named": view.named,
        "candidates": [
            {
                "agent": one.agent,
                "node": one.node.hex(),
                "node_name": one.node_name,
                "state": one.state.value,
                "version": one.version,
                "weight": one.weight,
                "removed_by": one.removed_by,
                "why": one.why,
                "position": one.position,
                "share": one.share,
                "zone": one.zone,
                "release": one.release,
                "candidate_percent": one.candidate_percent,
                "breaker": one.breaker,
                "in_flight": one.in_flight,
                "latency": one.latency,
                "load": one.load,
            }
            for one in view.candidates
        ],
    }


def event_object(event: Event, wall: float) -> dict[str, Any]:
    """One event: its kind, when (Unix seconds), and its fields."""
    fields = msgspec.structs.asdict(event)
    del fields["at"]
    return {
        "event": type(event).__name__,
        "at": wall,
        **{name: _plain(value) for name, value in fields.items()},
    }


def topic_event_object(event: TopicEvent) -> dict[str, Any]:
    """One event of a topic. `data` is what was published; bytes, and what cannot be read, are hex digits."""
    try:
        data = event.data
    except RemoteProtocolError:
        data = event.payload
    return {
        "topic": event.topic,
        "data": data.hex() if isinstance(data, bytes) else data,
        "content_type": event.content_type,
        "node": event.publisher.hex(),
        "agent": event.agent,
        "sequence": event.sequence,
        "at": event.published_at,
        "missed": event.missed,
        "gap": event.gap,
    }


def _plain(value: object) -> Any:
    """A field of an event in JSON's terms: bytes in hex digits, addresses and lives as text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(getattr(value, "value", value))
