"""Replies, as values: what a callee says for each kind of end, within the limits of the wire."""

from __future__ import annotations

from msgspec.structs import replace

from reachp2p.core.commands import InvokeResult
from reachp2p.core.wire.codec import RejectedCall
from reachp2p.core.wire.messages import Reply
from reachp2p.errors import ErrorCode

DETAIL_MAX = 4_096
TEXT_MAX = 256


def reply_with(message_id: bytes, result: InvokeResult, payload_max: int) -> Reply:
    """The reply for what a handler returned."""
    detail = clip(result.detail)
    if result.code != 0:
        return Reply(
            message_id=message_id,
            code=int(result.code),
            detail=detail,
            executed=result.executed,
            caller_fault=result.caller_fault,
        )
    if len(result.payload) > payload_max:
        detail = f"the result has {len(result.payload)} bytes, at most {payload_max}"
        return Reply(message_id=message_id, code=ErrorCode.PAYLOAD_TOO_LARGE, detail=detail)
    content_type = result.content_type
    if len(content_type) > TEXT_MAX or not content_type.isprintable():
        detail = f"the content type of the result is not at most {TEXT_MAX} printable characters"
        return Reply(message_id=message_id, code=ErrorCode.HANDLER_FAILED, detail=detail)
    return Reply(message_id=message_id, content_type=content_type, payload=result.payload, detail=detail)


def without_answer(reply: Reply) -> Reply:
    """What stands for a reply that its link had no room for: whether the handler ran, and nothing else."""
    return Reply(
        message_id=reply.message_id,
        code=ErrorCode.NODE_LOST,
        detail="its answer did not fit into what waits for this link",
        executed=reply.executed,
    )


def cancelled(message_id: bytes, *, executed: bool) -> Reply:
    """What is remembered of a request that its caller has cancelled; nobody waits for it."""
    detail = "its caller cancelled it while it ran" if executed else "its caller cancelled it"
    return Reply(message_id=message_id, code=ErrorCode.CANCELLED, detail=detail, executed=executed)


def told_to_another(end: Reply, message_id: bytes) -> Reply:
    """The end of an execution, as another request with its idempotency key is told of it.

    The deadline at which it was stopped was that of the request that began it, not of this one: what is true for this
    one is that nobody knows how much was done.
    """
    if end.code != ErrorCode.DEADLINE_EXCEEDED or not end.executed:
        return replace(end, message_id=message_id)
    detail = "what ran under its idempotency key was stopped at the deadline of the request that began it"
    return Reply(message_id=message_id, code=ErrorCode.OUTCOME_UNKNOWN, detail=detail)


def not_understood(call: RejectedCall) -> Reply:
    """To a request of a newer version: certainly not executed."""
    return Reply(
        message_id=call.message_id,
        code=ErrorCode.WIRE_VERSION,
        detail=f"this node's version does not understand the request: {call.why[:200]}",
        executed=False,
    )


def clip(text: str) -> str:
    """Text that any UTF-8 encoder takes and a reply holds."""
    clipped = text[:DETAIL_MAX]
    return clipped if clipped.isascii() else clipped.encode("utf-8", "replace").decode()
