"""How long a call may take: its connect part, its synchronous limit, and its deadline (docs/protocol/calls.md).

An explicit time of the caller comes first, then what a routing rule says, then what the capability declares, then the
tier of its agent (tag `tier`), then the default of the protocol.
"""

from __future__ import annotations

from math import inf

import msgspec

from reachp2p.core.commands import CallSpec, Lasting
from reachp2p.core.routing.instance import CapabilityInfo, Instance
from reachp2p.core.routing.rules import Timeouts
from reachp2p.core.settings import Protocol

TIER_TAG = "tier"
"""The tag by which an agent says how long its calls usually take."""
QUICK, HEAVY = "quick-query", "heavy-task"
UNRULED = Timeouts()
"""No rule says anything about times."""
TIMEOUT_MAX = 86_400.0
"""A day: the most that `Request.remaining_ms` can say."""

_END = Lasting.END


class Times(msgspec.Struct, frozen=True, gc=False):
    """Seconds from the start of a call. `limit` infinite: it never becomes a task. `connect`: for each attempt."""

    deadline: float
    limit: float = inf
    connect: float = inf


def times_of(
    spec: CallSpec, info: CapabilityInfo, instance: Instance, protocol: Protocol, rules: Timeouts = UNRULED
) -> Times:
    """The times of a call that begins with this instance."""
    limit, connect = info.timeout or protocol.call_timeout, inf
    tier = instance.info.tags.get(TIER_TAG)
    if tier is not None:
        limit, connect = _tier(tier, limit, info, protocol)
    if rules.total is not None:
        limit = rules.total
    if rules.connect is not None:
        connect = rules.connect
    if spec.connect is not None:
        connect = spec.connect
    lasting, timeout = spec.lasting, spec.timeout
    if spec.stream:  # it is no task: its items are somebody's who waits
        timeout = timeout or rules.total or info.timeout or protocol.stream_timeout
        return Times(min(timeout, TIMEOUT_MAX if spec.within is None else spec.within), inf, connect)
    if lasting is not _END and (timeout is None or lasting is Lasting.TASK):
        task = info.task_timeout or protocol.task_timeout
        if lasting is Lasting.TASK:
            return Times(min(timeout or task, TIMEOUT_MAX), inf, connect)
        return Times(min(max(task, limit), TIMEOUT_MAX), limit, connect)
    if timeout is None:
        timeout = limit
    if spec.within is not None:
        timeout = min(timeout, spec.within)
    return Times(min(timeout, TIMEOUT_MAX), inf, connect)


def _tier(tier: str, limit: float, info: CapabilityInfo, protocol: Protocol) -> tuple[float, float]:
    """Synchronous limit and connect part of a tier; what the capability declares itself comes first."""
    if tier == QUICK:
        return info.timeout or protocol.quick_timeout, protocol.quick_connect
    if tier == HEAVY:
        return info.timeout or protocol.heavy_timeout, inf
    return limit, inf
