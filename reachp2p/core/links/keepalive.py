"""Whether a proven link is still of use: judged at its timer, not at each frame.

A link on which nothing is heard for `link_keepalive` is pinged by the side that dialled it, and by the other side when
four probe timeouts more have passed without that Ping; if nothing at all comes within four probe timeouts, it is
lost. One whose remote reads nothing for `link_keepalive` although something waits is lost, too. If our own timer was
late, we have not listened either, and judge nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from reachp2p.core.links.link import Link
from reachp2p.core.settings import Protocol

ANSWER_PROBE_TIMEOUTS = 4
"""Probe timeouts that a keepalive may take: TCP's second retransmission falls inside them."""

PINGS_MAX = 4
"""Keepalives in a row that are asked again because our timer was late: a node that always is still has to end."""


class Verdict(Enum):
    """What a check has found."""

    FINE = "fine"
    PING = "ping"
    """Nothing was heard for long: ask."""
    IDLE = "idle"
    """It works, but nobody has used it for `link_idle_close`."""
    SILENT = "silent"
    STALLED = "stalled"
    """What waits for it does not move."""


def answer_time(protocol: Protocol) -> float:
    """How long a keepalive may take, and how late our own timer may be before we trust it no more; seconds."""
    return ANSWER_PROBE_TIMEOUTS * protocol.probe_timeout


def note_use(link: Link, now: float) -> None:
    """Turn the mark of a use into a time, which is at most too late."""
    if link.was_used:
        link.used_at = now
        link.was_used = False


def judge(link: Link, now: float, protocol: Protocol, may_close: Callable[[Link], bool]) -> Verdict:
    """Look at a link whose timer has fired; notes in it what the next check needs to know. Only who dialled a link
    finds it idle, and only if it `may_close` it."""
    note_use(link, now)
    was_late = now - link.due_at > protocol.probe_timeout
    if _is_stalled(link, now, protocol, was_late=was_late):
        return Verdict.STALLED
    if link.pinged_at is not None:
        if link.heard_at >= link.pinged_at:
            link.pinged_at = None
            link.pings = 0
        else:
            return Verdict.PING if was_late and link.pings < PINGS_MAX else Verdict.SILENT
    if link.dialled and now - link.used_at >= protocol.link_idle_close and may_close(link):
        return Verdict.IDLE
    if link.heard_at + _patience(link, protocol) <= now:
        return Verdict.PING
    return Verdict.FINE


def next_check(link: Link, now: float, protocol: Protocol) -> float:
    """When to look again."""
    if link.pinged_at is not None:
        return now + answer_time(protocol)
    return link.heard_at + _patience(link, protocol)


def _patience(link: Link, protocol: Protocol) -> float:
    """How long nothing is heard before we ask. The side that dialled asks first, and so the other need not ask."""
    if link.dialled:
        return protocol.link_keepalive
    return protocol.link_keepalive + answer_time(protocol)


def _is_stalled(link: Link, now: float, protocol: Protocol, *, was_late: bool) -> bool:
    outgoing = link.outgoing
    if outgoing.is_empty:
        link.waiting_since = None
    elif link.waiting_since is None or outgoing.sent_bytes != link.sent_bytes_checked or was_late:
        link.waiting_since = now
        link.sent_bytes_checked = outgoing.sent_bytes
    else:
        return now - link.waiting_since >= protocol.link_keepalive
    return False
