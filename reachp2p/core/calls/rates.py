"""How fast one caller may call a capability: a token bucket for each, at each instance (docs/protocol/calls.md).

A bucket holds `burst` tokens at most and gains `per_second`; a call takes one. It is worked out when it is asked, so it
needs no timer.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from reachp2p.core.commands import Rate
from reachp2p.core.counters import Counters

BUCKETS_MAX = 16_384
"""Callers times capabilities that are remembered; the one that called longest ago is forgotten first."""
_EPSILON = 1e-9
"""A token that is due now is there, whatever the rounding of its time."""

BucketKey = tuple[str, str, bytes | str]
"""Agent, capability, and the node or namespace that calls."""


class _Bucket(msgspec.Struct, gc=False):
    tokens: float
    at: float


class Buckets:
    """The buckets of one node. Bound: `BUCKETS_MAX` (`calls.rates_evicted`); who is forgotten begins anew."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._buckets: OrderedDict[BucketKey, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: BucketKey, rate: Rate, now: float) -> float:
        """Take a token: 0, or the seconds until there is one, and nothing is taken."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(float(rate.burst), now)
            if len(self._buckets) > BUCKETS_MAX:
                self._buckets.popitem(last=False)
                self._counters.add("calls.rates_evicted")
        else:
            self._buckets.move_to_end(key)
            bucket.tokens = min(rate.burst, bucket.tokens + (now - bucket.at) * rate.per_second)
            bucket.at = now
        if bucket.tokens >= 1 - _EPSILON:
            bucket.tokens = max(0.0, bucket.tokens - 1)
            return 0.0
        return (1 - bucket.tokens) / rate.per_second
