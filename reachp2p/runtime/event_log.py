"""What an operator should find in the log of a node: its events in words, foreign text made harmless."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from reachp2p.core.events import (
    ClaimChanged,
    CloneSeen,
    Event,
    Fenced,
    IsolationEnded,
    Joined,
    Lagged,
    MemberChanged,
    NameShared,
    NodeIsolated,
    Paused,
    Resumed,
    RulesChanged,
    RulesRefused,
    SeedUnreached,
    SelfContacted,
    Started,
    StorageFailed,
)
from reachp2p.errors import ErrorCode
from reachp2p.runtime.text import plain

logger = logging.getLogger("reachp2p.node")

LAG_INTERVAL = 30.0
"""Seconds between two warnings of our own lateness; the counter `lag.noticed` has each."""
HANDLERS_SHOWN = 4
NAMES_MAX = 256
"""Shared names that are told; beyond them the counter `members.name_shared` goes on."""


class EventLog:
    """The news of one node, each said once: what goes on is not news."""

    def __init__(self) -> None:
        self._shared_names: dict[str, None] = {}
        self._unmet_said: frozenset[str] = frozenset()
        self._lag_said_at = float("-inf")
        self._lags: list[float] = [0, 0.0]
        """How many since, and their seconds."""

    def __call__(self, event: Event) -> None:
        """Log one event."""
        match event:
            case Started():
                logger.info("started with life %s", event.life)
            case Joined():
                logger.info("joined%s", "" if event.via is None else f", by way of {event.via}")
            case SelfContacted():
                logger.info("the seed %s is this node itself, which is not joining", event.address)
            case SeedUnreached():
                logger.warning(
                    "seed %s is not reached: %s; it is tried again for ever [%d]",
                    event.address,
                    plain(event.reason),
                    event.code,
                )
            case ClaimChanged() if event.token is None:
                logger.warning("this node owns the exclusive agent %s no more", plain(event.agent))
            case ClaimChanged():
                logger.info(
                    "this node owns the exclusive agent %s, claim epoch %d", plain(event.agent), event.epoch
                )
            case MemberChanged():
                old = event.old.value if event.old else "new"
                new = event.new.value if event.new else "forgotten"
                level = logging.DEBUG if event.new is None else logging.INFO
                who = f"{plain(event.name, 64)} ({event.node[:4].hex()})"
                logger.log(level, "member %s: %s -> %s, %s", who, old, new, plain(event.reason))
            case CloneSeen():
                logger.warning(
                    "a clone of this node (life %s at %s) is told to stop",
                    event.other,
                    event.address,
                )
            case Paused():
                logger.warning(
                    "serving nothing until life %s of this node's key has answered or not",
                    event.other,
                )
            case Resumed():
                logger.warning("nobody answered for the higher life: going on as life %s", event.life)
            case Fenced():
                logger.error("fenced by life %s of this node's key", event.other)
            case StorageFailed():
                logger.debug(
                    "a write to %s has failed: %s", event.table, plain(event.reason)
                )  # Storage says it
            case RulesChanged():
                logger.info("rules of %s: %s", plain(event.origin), plain("; ".join(event.changes), 2_000))
            case RulesRefused():
                logger.error(
                    "rules are refused, those before them stay in force: %s [%d]",
                    plain(event.reason, 2_000),
                    ErrorCode.CONFIGURATION_INVALID,
                )
            case NameShared():
                self._say_shared(event)
            case NodeIsolated():
                logger.warning(
                    "no other node answers this one: calls that only others could serve fail at once"
                )
            case IsolationEnded():
                logger.info("other nodes answer again")
            case Lagged():
                self._say_lagged(event)
            case _:
                logger.debug("%s", plain(event))

    def warn_unmet(self, unmet: Sequence[str]) -> None:
        """Agents of this node that lack what its rules require now."""
        for words in unmet:
            if words not in self._unmet_said:
                logger.warning("%s; it goes on, because it was offered before", plain(words))
        self._unmet_said = frozenset(unmet)

    def _say_lagged(self, event: Lagged) -> None:
        """A process that starves is late again and again: said at once, then every `LAG_INTERVAL` with the count."""
        if event.at - self._lag_said_at < LAG_INTERVAL:
            self._lags = [self._lags[0] + 1, self._lags[1] + event.seconds]
            return
        more = ""
        if self._lags[0]:
            more = f" (and {self._lags[0]} times since this was last said, {self._lags[1]:.1f} s in all)"
        self._lag_said_at, self._lags = event.at, [0, 0.0]
        logger.warning(
            "the event loop got no time for %.1f s%s: a handler or other code in this program has held it, or the "
            "machine is too busy%s. Doubting itself first",
            event.seconds,
            more,
            self._handlers_since(event.at - event.seconds),
        )

    def _handlers_since(self, begun: float) -> str:
        import trio  # naming `Node` loads no event loop

        from reachp2p.runtime.handler_watch import watch_here

        names = watch_here().names_since(begun) if trio.lowlevel.in_trio_run() else []
        if not names:
            return ""
        more = f" and {len(names) - HANDLERS_SHOWN} more" if len(names) > HANDLERS_SHOWN else ""
        return f"; handlers that ran then: {', '.join(names[:HANDLERS_SHOWN])}{more}"

    def _say_shared(self, event: NameShared) -> None:
        """Once a name: that it is not unique does not change with every node that comes and goes."""
        if event.name in self._shared_names or len(self._shared_names) >= NAMES_MAX:
            return
        self._shared_names[event.name] = None
        logger.warning(
            "two nodes call themselves %s: %s. That does no harm; names are for people, and `name` gives another one",
            plain(event.name, 64),
            " and ".join(node[:4].hex() for node in event.nodes),
        )
