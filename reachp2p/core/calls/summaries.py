"""Sessions in a line each, from those of their hops that were gathered (docs/protocol/sessions.md)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reachp2p.core.calls.hops import Hop, Side
from reachp2p.core.ids import NodeId


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """One session, as far as the hops that were asked for tell of it. Times are Unix seconds and seconds."""

    session: bytes
    started: float
    duration: float
    """From the first start to the last end, by the clocks of their nodes."""
    hops: int
    failed: int
    """Of these."""
    nodes: list[NodeId]
    agent: str
    capability: str
    """Of its first hop that is known."""
    code: int
    """Of its first hop, else of the first that failed; 0 if none has."""
    detail: str


def sessions_of(hops: Sequence[Hop], limit: int) -> tuple[list[SessionView], int]:
    """The newest `limit` sessions, the latest first, and how many more there are."""
    by_session: dict[bytes, list[Hop]] = {}
    for hop in hops:
        by_session.setdefault(hop.session, []).append(hop)
    views = [_view(session, of_it) for session, of_it in by_session.items()]
    views.sort(key=lambda view: (-view.started, view.session))
    return views[:limit], max(0, len(views) - limit)


def _view(session: bytes, hops: list[Hop]) -> SessionView:
    first = min(hops, key=lambda hop: (hop.depth, hop.side is Side.SERVED, hop.started, -hop.attempt))
    failed = [hop for hop in hops if hop.code]
    said = first if first.code or not failed else min(failed, key=lambda hop: (hop.depth, hop.started))
    started = min(hop.started for hop in hops)
    nodes = {hop.node: None for hop in sorted(hops, key=lambda hop: hop.started)}
    return SessionView(
        session=session,
        started=started,
        duration=max(hop.ended for hop in hops) - started,
        hops=len(hops),
        failed=len(failed),
        nodes=list(nodes),
        agent=first.agent,
        capability=first.capability,
        code=said.code,
        detail=said.detail,
    )
