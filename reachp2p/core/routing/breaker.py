"""Circuit breakers: an instance whose calls fail is left alone for a while, tried again, and let back step by step.

    CLOSED --TRIPPED--> OPEN --COOLED--> HALF_OPEN --PROVEN--> CLOSED
                          ^                  |
                          +------FAILED------+

A breaker guards one instance as this node sees it; nobody else hears of it. It trips when 5 of the last 10 attempts
have failed, or more than 5 % of the last minute and 5 at least. It stays OPEN for 30 s, twice as long each further
time and at most 5 min. Then it is HALF_OPEN: one attempt at once, after each success twice as many; after four
successes in a row it is CLOSED, and the first failure opens it again.

What the caller did wrong itself does not count, nor that the instance had no room (`NO_FAILURES`), nor that it did not
answer within a time in which nobody could (`had_fair_chance`). How many open breakers take effect is the pool's matter:
a tenth of it and never the last (`pool`). The machine that feeds and asks them is `breakers`.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from reachp2p.errors import ErrorCode

RECENT = 10
RECENT_FAILURES = 5
"""Of the last `RECENT` attempts: then it trips at once (Finagle and Envoy trip after 5 in a row)."""
MINUTE_SHARE = 0.05
MINUTE_FAILURES = 5
"""Of the attempts of the last minute: more than that share, and so many at least."""
SLOT_SECONDS = 10
SLOTS = 6
"""The minute, in slots; the oldest is dropped whole."""
OPEN_FIRST, OPEN_MAX = 30.0, 300.0
"""Seconds (Envoy: 30 s times the number of ejections, at most 300 s; doubled here)."""
SUCCESSES_TO_CLOSE = 4
"""1, 2, 4 and 8 attempts at once have then been borne."""
TRIAL_MAX = 30.0
"""Seconds after which trials in flight hold up no others: a task or a stream may take hours, and is no bad sign."""
CALM_AFTER = 300.0
"""Seconds CLOSED after which earlier openings are forgotten."""

_ALL_RECENT = (1 << RECENT) - 1

CALLERS_FAULTS = frozenset(
    {
        ErrorCode.ACCESS_DENIED,
        ErrorCode.CANCELLED,
        ErrorCode.KEY_CONFLICT,
        ErrorCode.PAYLOAD_TOO_LARGE,
        ErrorCode.SCHEMA_MISMATCH,
        ErrorCode.HOPS_USED_UP,
        ErrorCode.LOOP,
        ErrorCode.RATE_LIMITED,
    }
)
"""Codes that say something about the caller and nothing about the instance."""
NO_FAILURES = CALLERS_FAULTS | {ErrorCode.REFUSED_FULL}
"""Neither is a refusal for want of room a failure: the instance does what it can. If it were one, a pool that is asked
for more than it can do would shut out one of its own for half a minute and do still less. Handlers that hang fill an
instance, too; of those the callers hear at their deadlines."""

FAIR_SECONDS = 0.1
FAIR_LATENCIES = 4.0
"""An attempt that ends with 1401 sooner than that, and sooner than so many times what calls take there as a rule, had
no fair chance: 5 ms are less than many a round trip, and a caller that gives no more must not shut out an instance that
answers all others. A tenth of a second is many times a round trip within a region."""


def had_fair_chance(seconds: float, latency: float | None) -> bool:
    """Whether an instance whose calls take `latency` seconds (None: not known) could have answered in `seconds`."""
    return seconds >= FAIR_SECONDS or (latency is not None and seconds >= FAIR_LATENCIES * latency)


class BreakerState(Enum):
    """Whether attempts go through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


class BreakerInput(Enum):
    """What moves a breaker."""

    TRIPPED = "too many attempts have failed"
    COOLED = "it was open long enough"
    FAILED = "a trial has failed"
    PROVEN = "enough trials have succeeded"


TRANSITIONS: dict[tuple[BreakerState, BreakerInput], BreakerState] = {
    (BreakerState.CLOSED, BreakerInput.TRIPPED): BreakerState.OPEN,
    (BreakerState.OPEN, BreakerInput.COOLED): BreakerState.HALF_OPEN,
    (BreakerState.HALF_OPEN, BreakerInput.FAILED): BreakerState.OPEN,
    (BreakerState.HALF_OPEN, BreakerInput.PROVEN): BreakerState.CLOSED,
}
"""What is missing cannot happen. An attempt that ends while a breaker is OPEN has passed it by, or began before: it
moves nothing."""


def open_seconds(openings: int) -> float:
    """How long a breaker stays open the `openings`th time in a row, from 1."""
    return min(OPEN_MAX, OPEN_FIRST * 2.0 ** min(openings - 1, 10))


class Breaker(msgspec.Struct, eq=False):
    """The breaker of one instance in one life of its node."""

    state: BreakerState = BreakerState.CLOSED
    since: float = 0.0
    """When it came into this state."""
    openings: int = 0
    """In a row, without a calm time between."""
    successes: int = 0
    """Trials that have succeeded since it is HALF_OPEN."""
    trials: int = 0
    """Attempts in flight that have begun since `trials_since`, while it is HALF_OPEN."""
    trials_since: float = 0.0
    recent: int = 0
    """The last attempts as bits, 1 for a failure."""
    slot: int = 0
    """The slot of the minute that is written now, by its number since time began."""
    attempts: list[int] = msgspec.field(default_factory=lambda: [0] * SLOTS)
    failures: list[int] = msgspec.field(default_factory=lambda: [0] * SLOTS)

    @property
    def is_shut(self) -> bool:
        """Whether the instance should be left alone now: OPEN, or all trials that are allowed are in flight."""
        if self.state is BreakerState.CLOSED:
            return False
        return self.state is BreakerState.OPEN or self.trials >= self.allowed

    @property
    def allowed(self) -> int:
        """Attempts at once, while HALF_OPEN."""
        return 1 << self.successes

    def on_trial_ended(self, started_at: float) -> None:
        """An attempt that began then is in flight no more, whatever came of it."""
        if self.trials and started_at >= self.trials_since:
            self.trials -= 1

    def forget_trials(self, now: float) -> None:
        """Those in flight count no more."""
        self.trials, self.trials_since = 0, now

    def note(self, failed: bool, now: float) -> BreakerInput | None:
        """An attempt has ended; what follows for the state, which is the caller's to apply (`move`)."""
        self._roll(now)
        place = self.slot % SLOTS
        self.attempts[place] += 1
        self.failures[place] += failed
        self.recent = (self.recent << 1 | failed) & _ALL_RECENT
        if self.state is BreakerState.CLOSED:
            return BreakerInput.TRIPPED if failed and self._is_too_much() else None
        if self.state is BreakerState.OPEN:
            return None
        if failed:
            return BreakerInput.FAILED
        self.successes += 1
        return BreakerInput.PROVEN if self.successes >= SUCCESSES_TO_CLOSE else None

    def _is_too_much(self) -> bool:
        if self.recent.bit_count() >= RECENT_FAILURES:
            return True
        failures = sum(self.failures)
        return failures >= MINUTE_FAILURES and failures > MINUTE_SHARE * sum(self.attempts)

    def _roll(self, now: float) -> None:
        slot = int(now // SLOT_SECONDS)
        for passed in range(min(SLOTS, slot - self.slot)):
            place = (slot - passed) % SLOTS
            self.attempts[place] = self.failures[place] = 0
        self.slot = max(slot, self.slot)

    def move(self, happened: BreakerInput, now: float) -> None:
        """Go where the table says; a pair that is not in it is a defect of ours."""
        after = TRANSITIONS.get((self.state, happened))
        assert after is not None, f"breaker: {happened.name} in {self.state.name}"
        if happened is BreakerInput.TRIPPED and now - self.since > CALM_AFTER:
            self.openings = 0
        self.state, self.since = after, now
        self.successes = 0
        self.forget_trials(now)
        if after is BreakerState.OPEN:
            self.openings += 1
        elif after is BreakerState.CLOSED:  # what was before its trials says no more about it
            self.recent = 0
            self.attempts, self.failures = [0] * SLOTS, [0] * SLOTS
