"""Sessions and traces over the control socket: what `reachp2p trace` and `reachp2p sessions` ask, in JSON's terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reachp2p.core.calls.checking import Finding
from reachp2p.core.calls.gathering import Missing
from reachp2p.core.calls.summaries import SessionView
from reachp2p.core.ids import short
from reachp2p.errors import CallFailed, ConfigurationInvalid, ErrorCode
from reachp2p.exporters import hop_object
from reachp2p.runtime.tracing import GATHER_TIMEOUT, Trace

if TYPE_CHECKING:
    from reachp2p.runtime.node import Node

TIMEOUT_MAX = 60.0
"""Seconds that a question of the command line may take: it occupies one of a few places."""
AGE_MAX = 86_400.0
SILENT_SHOWN = 5
"""Nodes that an error names."""


async def answer_trace(node: Node, args: Mapping[str, Any]) -> Any:
    """The hops of one session, whose are missing, and what is wrong with them."""
    session = args.get("session")
    if not isinstance(session, str):
        raise ConfigurationInvalid("trace: name a session")
    found = await node.trace(session, timeout=_timeout(args))
    if not found.hops:
        raise CallFailed(ErrorCode.UNKNOWN_SESSION, _nothing(found, _names(node)))
    return {
        "session": found.session.hex(),
        "hops": [
            {**hop_object(hop), "level": level} for hop, level in zip(found.hops, found.levels, strict=True)
        ],
        "offsets": {
            node.hex(): {"seconds": offset.seconds, "uncertain": offset.uncertain}
            for node, offset in found.offsets.items()
        },
        "findings": [finding_object(finding) for finding in found.findings],
        "heard": [one.node.hex() for one in found.heard],
        "missing": [missing_object(one) for one in found.missing],
        "left_out": found.left_out,
        "names": _names(node),
    }


def _nothing(found: Trace, names: Mapping[str, str]) -> str:
    """Words for a session of which nobody has anything."""
    told = f"session {found.session.hex()}: no hops found on {len(found.heard)} nodes"
    silent = [f"{names.get(one.node.hex(), short(one.node))} ({one.why.value})" for one in found.missing]
    if not silent:
        return told
    more = f" and {len(silent) - SILENT_SHOWN} more" if len(silent) > SILENT_SHOWN else ""
    return f"{told}; not answered have {', '.join(silent[:SILENT_SHOWN])}{more}"


async def answer_sessions(node: Node, args: Mapping[str, Any]) -> Any:
    """The sessions that fit, the latest first."""
    since, limit = args.get("since"), args.get("limit", 100)
    is_age = isinstance(since, int | float) and not isinstance(since, bool) and 0 < since <= AGE_MAX
    if since is not None and not is_age:
        raise ConfigurationInvalid(f"since must be seconds, above 0 and at most {AGE_MAX:,.0f}")
    capability, agent = args.get("capability"), args.get("agent")
    found = await node.sessions(
        failed=bool(args.get("failed")),
        since=since,
        capability=capability,
        agent=agent,
        limit=limit,
        timeout=_timeout(args),
    )
    return {
        "sessions": [session_object(view) for view in found.sessions],
        "more": found.more,
        "missing": [missing_object(one) for one in found.missing],
        "left_out": found.left_out,
        "names": _names(node),
    }


def finding_object(finding: Finding) -> dict[str, Any]:
    """Something that is wrong."""
    return {
        "kind": finding.kind.value,
        "node": finding.node.hex(),
        "because": None if finding.because is None else finding.because.value,
        "message_id": None if finding.message_id is None else finding.message_id.hex(),
        "attempt": finding.attempt,
        "span": None if finding.span is None else finding.span.hex(),
        "agent": finding.agent,
        "capability": finding.capability,
        "other": None if finding.other is None else finding.other.hex(),
        "offset": finding.offset,
        "uncertain": finding.uncertain,
    }


def missing_object(missing: Missing) -> dict[str, Any]:
    """A node that has not answered."""
    return {"node": missing.node.hex(), "why": missing.why.value}


def session_object(view: SessionView) -> dict[str, Any]:
    """One session of a list."""
    return {
        "session": view.session.hex(),
        "started": round(view.started, 6),
        "duration": round(view.duration, 6),
        "hops": view.hops,
        "failed": view.failed,
        "nodes": [node.hex() for node in view.nodes],
        "agent": view.agent,
        "capability": view.capability,
        "code": view.code,
        "detail": view.detail,
    }


def _names(node: Node) -> dict[str, str]:
    return {view.node.hex(): view.name for view in node.members()}


def _timeout(args: Mapping[str, Any]) -> float:
    value = args.get("timeout", GATHER_TIMEOUT)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= TIMEOUT_MAX:
        raise ConfigurationInvalid(f"timeout must be seconds, above 0 and at most {TIMEOUT_MAX:g}")
    return float(value)
