"""What is checked about a call before anything is sent: what cannot succeed is refused where its author can see it."""

from __future__ import annotations

from reachp2p.core.commands import CallSpec, Lasting, RouteQuery, StreamKind
from reachp2p.core.ids import MESSAGE_ID_BYTES
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.instance import Instance
from reachp2p.core.settings import Protocol
from reachp2p.errors import CallFailed, ErrorCode, InvalidIdentifier

PATH_MAX = 16
"""Agents that a request can name on its path."""


def check_spec(spec: CallSpec, protocol: Protocol) -> None:
    """Raise `CallFailed` (1401, 1404, 1407) or `InvalidIdentifier` (1707) for a call that nobody could serve."""
    size = len(spec.payload)
    if size > protocol.payload_max:
        raise CallFailed(
            ErrorCode.PAYLOAD_TOO_LARGE,
            f"the payload has {size} bytes, at most {protocol.payload_max}; pass a reference instead",
        )
    if spec.timeout is not None and not spec.timeout > 0:
        raise CallFailed(
            ErrorCode.DEADLINE_EXCEEDED, f"the deadline has passed ({spec.timeout:.3f} s are left)"
        )
    if spec.connect is not None and not spec.connect > 0:
        raise CallFailed(
            ErrorCode.DEADLINE_EXCEEDED, f"connect part of {spec.connect:.3f} s: no time for a link"
        )
    if spec.read is not None and not spec.read > 0:
        raise CallFailed(
            ErrorCode.DEADLINE_EXCEEDED, f"read part of {spec.read:.3f} s: no time for an answer"
        )
    if spec.within is not None and not spec.within > 0:
        raise CallFailed(
            ErrorCode.DEADLINE_EXCEEDED, "the deadline of the call that this one is made for has passed"
        )
    if (spec.hops_left is not None and spec.hops_left <= 0) or len(spec.path) >= PATH_MAX:
        raise CallFailed(ErrorCode.HOPS_USED_UP, f"a chain of {protocol.hops_max} calls ends here")
    if spec.idle_timeout is not None and not spec.idle_timeout > 0:
        raise CallFailed(ErrorCode.DEADLINE_EXCEEDED, "idle_timeout: more than 0 seconds")
    _check_texts(spec)


def capability_of(query: RouteQuery, instance: Instance) -> str:
    """The capability that is meant. An agent alone is enough if it has just one."""
    if query.capability is not None:
        return query.capability
    names = list(instance.info.capabilities)
    if len(names) != 1:
        offered = ", ".join(names[:5]) or "none"
        raise RouteFailed(
            ErrorCode.TARGET_NOT_SPECIFIED,
            f"agent {instance.agent!r} has several capabilities, name one: {offered}",
        )
    return names[0]


def check_stream(spec: CallSpec, capability: str, kind: StreamKind) -> None:
    """Raise `CallFailed` (1405) if a call streams and its capability does not, or the reverse; or streams as a task."""
    if spec.stream and not kind:
        raise CallFailed(
            ErrorCode.SCHEMA_MISMATCH,
            f"{capability!r} takes one set of parameters and returns one result: use call(), not stream()",
        )
    if spec.stream and spec.lasting is Lasting.TASK:
        raise CallFailed(
            ErrorCode.SCHEMA_MISMATCH,
            f"{capability!r} streams: somebody has to take its items, so it is no task",
        )
    if kind and not spec.stream:
        raise CallFailed(ErrorCode.SCHEMA_MISMATCH, f"{capability!r} streams: use stream(), not call()")


def _check_texts(spec: CallSpec) -> None:
    """What would not survive the wire is refused here, where its author can see it."""
    for name, text in (
        ("content_type", spec.content_type),
        ("idempotency_key", spec.idempotency_key),
    ):
        if text is not None and (len(text) > 256 or not text.isprintable()):
            raise InvalidIdentifier(f"{name}: at most 256 printable characters")
    if spec.session_id is not None and len(spec.session_id) != MESSAGE_ID_BYTES:
        raise InvalidIdentifier(f"session_id: {MESSAGE_ID_BYTES} bytes")
