"""What a `Node` can say of calls that were made: the hops of a session, and which sessions there were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from reachp2p._arguments import check_bool, check_optional_seconds, check_seconds, wrong
from reachp2p.core.calls.checking import Finding, Offset, chain
from reachp2p.core.calls.gathering import Gathered, Heard, Missing
from reachp2p.core.calls.hops import Hop, HopFilter
from reachp2p.core.calls.summaries import SessionView, sessions_of
from reachp2p.core.ids import MESSAGE_ID_BYTES, NodeId, check_agent_id, check_capability
from reachp2p.errors import CallFailed, ErrorCode, InvalidIdentifier

if TYPE_CHECKING:  # naming `Node` loads no event loop
    import trio

    from reachp2p.core.events import HopsGathered
    from reachp2p.runtime.driver import Driver

DIGITS_MIN = 8
"""Hexadecimal digits that may stand for a session whose hops this node has itself."""
SESSIONS_MAX = 1_000
GATHER_TIMEOUT = 10.0


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A session: its hops in the order of what caused what, what is wrong with them, and whose are missing."""

    session: bytes
    hops: list[Hop]
    levels: list[int]
    """How deep each hop lies: a served hop below its asked one, the calls of its handler below that."""
    offsets: dict[NodeId, Offset]
    """Clocks that differ noticeably from that of the first hop's node."""
    findings: list[Finding]
    heard: list[Heard]
    missing: list[Missing]
    """Nodes that were to be asked and have not answered, and why."""
    left_out: int
    """Hops that were too many."""


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that fit, the latest first."""

    sessions: list[SessionView]
    more: int
    """Further ones that fit."""
    missing: list[Missing]
    left_out: int
    """Hops that fit and were too many to be looked at."""


class Gatherer:
    """Tasks that wait for what is gathered. Bound: the engine's `GATHERINGS_MAX`."""

    def __init__(self) -> None:
        self._waiting: dict[int, trio.Event] = {}
        self._is_closed = False

    async def gather(self, driver: Driver, wanted: HopFilter, timeout: float) -> Gathered:  # noqa: ASYNC109 (the engine's)
        """Ask others and wait. Raises `CallFailed` (1402 if the node closes meanwhile, 1406, 1601)."""
        import trio

        engine = driver.engine
        number = engine.gather(wanted, driver.now, timeout)
        event = self._waiting[number] = trio.Event()
        driver.wake()
        try:
            await event.wait()
            if self._is_closed:
                raise CallFailed(ErrorCode.CANCELLED, "this node has closed before all had answered")
            return engine.gathered(number)
        finally:
            del self._waiting[number]
            engine.cancel_gathering(number)  # also if its end has come with the cancellation of this task

    def on_gathered(self, event: HopsGathered) -> None:
        """The engine has the answers."""
        waiting = self._waiting.get(event.gathering)
        if waiting is not None:
            waiting.set()

    def close(self) -> None:
        """The node has ended."""
        self._is_closed = True
        for event in self._waiting.values():
            event.set()


class Tracing:
    """The part of a `Node` that looks back."""

    _gatherer: Gatherer

    @property
    def _driver(self) -> Driver:
        raise NotImplementedError

    def _check_running(self) -> None:
        raise NotImplementedError

    async def trace(self, session: bytes | str, *, timeout: float = GATHER_TIMEOUT) -> Trace:  # noqa: ASYNC109 (as above)
        """Gather the hops of a session or trace from the nodes that took part.

        `session` is its id or the 32 hexadecimal digits of it; 8 or more are enough for one whose hops this node has.
        The id of a call that this node has made or served (`CallEnded.call`, `Context.message_id`) stands for its
        trace.
        What can be had within `timeout` seconds is returned, nothing if nobody has recorded any of it; `missing` names
        who has not answered.
        """
        self._check_running()
        seconds = max(0.1, check_seconds("timeout", timeout))
        wanted = self._session(session)
        found = await self._gatherer.gather(self._driver, HopFilter(session=wanted, strays=True), seconds)
        told = chain(found, wanted)
        return Trace(
            session=wanted,
            hops=told.hops,
            levels=told.levels,
            offsets=told.offsets,
            findings=told.findings,
            heard=found.heard,
            missing=found.missing,
            left_out=found.left_out,
        )

    async def sessions(
        self,
        *,
        failed: bool = False,
        since: float | None = None,
        capability: str | None = None,
        agent: str | None = None,
        limit: int = 100,
        timeout: float = GATHER_TIMEOUT,  # noqa: ASYNC109 (as above)
    ) -> Sessions:
        """The sessions of all nodes that have hops which fit, the latest first.

        `failed`: only hops that failed. `since`: that ended at most so many seconds ago. Raises 1704 and, for a name
        that no capability or agent can have, 1707.
        """
        self._check_running()
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= SESSIONS_MAX:
            raise wrong("limit", limit, f"a number from 1 to {SESSIONS_MAX}")
        wanted = HopFilter(
            failed=check_bool("failed", failed),
            age=check_optional_seconds("since", since),
            capability=None if capability is None else check_capability(capability),
            agent=None if agent is None else check_agent_id(agent),
        )
        seconds = max(0.1, check_seconds("timeout", timeout))
        found = await self._gatherer.gather(self._driver, wanted, seconds)
        views, more = sessions_of(found.hops, limit)
        return Sessions(sessions=views, more=more, missing=found.missing, left_out=found.left_out)

    def _session(self, given: object) -> bytes:
        """The id of a session from bytes or digits. Raises `InvalidIdentifier` (1707)."""
        if isinstance(given, bytes) and len(given) == MESSAGE_ID_BYTES:
            return self._driver.engine.hops.trace_of(given) or given
        digits = given.lower() if isinstance(given, str) else ""
        if not DIGITS_MIN <= len(digits) <= 2 * MESSAGE_ID_BYTES or digits.strip("0123456789abcdef"):
            raise InvalidIdentifier(
                f"session {given!r}: write its 32 hexadecimal digits, or the first {DIGITS_MIN} or more of them"
            )
        if len(digits) == 2 * MESSAGE_ID_BYTES:
            return self._session(bytes.fromhex(digits))
        found = self._driver.engine.hops.sessions_like(digits)
        if len(found) != 1:
            how_many = "none" if not found else f"{len(found)} sessions"
            raise InvalidIdentifier(
                f"session {digits}: {how_many} of this node's begin so; write all 32 digits of its id"
            )
        return found[0]
