"""The release split: which calls go to release candidates (tag `release=candidate`), and which stay with what is
stable.

Candidates announce the percentage of calls that they should get, in their records, and may change it while they run.
If several say different things, the smallest counts, so that whoever takes a release back is heard at once. An
operator's rule, which comes with the query, beats them all.

The side of a call with a routing key is a pure function of key and percentage: a growing percentage moves keys to the
candidates and none back. A call without a key is drawn. A side is a selector of its own, with its own pool and ring;
if nobody on it can be asked, the other side is, except that a percentage of 0 sends nobody to candidates unasked.
"""

from __future__ import annotations

from hashlib import blake2b

from reachp2p.core.commands import RouteQuery

RELEASE_TAG = "release"
CANDIDATE, STABLE = "candidate", "stable"
"""The sides. What has no such tag is stable."""
PERCENT_DEFAULT = 10
"""What candidates get that announce nothing."""

_BASE = blake2b(digest_size=8, person=b"reachp2p split")


def key_percentile(key: str) -> float:
    """Where a key stands, 0 to below 100: it is on the candidates' side of every percentage above that.

    Independent of where it lies on a ring (another personalisation of BLAKE2b), so that the split takes keys of all
    instances alike.
    """
    digest = _BASE.copy()
    digest.update(key.encode("utf-8", "surrogatepass"))
    return (int.from_bytes(digest.digest(), "big") >> 11) / 2**53 * 100.0


def sides(query: RouteQuery, percent: int, drawn: float) -> tuple[str, ...]:
    """The sides that may serve a call, the first being its own. `drawn` is from [0, 1), for a call without a key."""
    if query.release == CANDIDATE:
        return CANDIDATE, STABLE
    if query.release == STABLE or percent <= 0:
        return (STABLE,)
    stands_at = drawn * 100.0 if query.key is None else key_percentile(query.key)
    return (CANDIDATE, STABLE) if stands_at < percent else (STABLE, CANDIDATE)
