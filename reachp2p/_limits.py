"""The limits of a capability as its decorator takes them, checked where they are written."""

from __future__ import annotations

from typing import Any

from reachp2p._arguments import shown
from reachp2p.core.commands import Rate
from reachp2p.errors import ConfigurationInvalid

CONCURRENCY_MAX = 100_000
"""More than any process runs at once."""
SECONDS_MAX = 86_400
RATE_MAX = 1_000_000


def check_limits(
    name: str,
    *,
    timeout: float | None,
    task_timeout: float | None,
    concurrency: int,
    queue: int | None,
    rate: Rate | None,
) -> dict[str, Any]:
    """The fields of a `CapabilitySpec`. Raises `ConfigurationInvalid` (1704) with what to write instead."""
    where = f"capability {name!r}"
    for what, seconds in (("timeout", timeout), ("task_timeout", task_timeout)):
        if seconds is not None and not (_is_number(seconds) and 0 < seconds <= SECONDS_MAX):
            raise ConfigurationInvalid(
                f"{where}: {what} is seconds above 0 and at most {SECONDS_MAX:,}, not {shown(seconds)}"
            )
    if not _is_count(concurrency, 1):
        raise ConfigurationInvalid(
            f"{where}: concurrency is a whole number from 1 to {CONCURRENCY_MAX:,}, not {shown(concurrency)}"
        )
    if queue is not None and not _is_count(queue, 0):
        raise ConfigurationInvalid(
            f"{where}: queue is a whole number from 0 to {CONCURRENCY_MAX:,}, not {shown(queue)}"
        )
    if rate is not None:
        _check_rate(where, rate)
    return {
        "timeout": None if timeout is None else float(timeout),
        "task_timeout": None if task_timeout is None else float(task_timeout),
        "concurrency_max": concurrency,
        "queue_max": queue,
        "rate": rate,
    }


def check_event_limits(pattern: str, *, timeout: float | None, concurrency: int) -> None:
    """The same for a handler of events."""
    where = f"events {pattern!r}"
    if timeout is not None and not (_is_number(timeout) and 0 < timeout <= SECONDS_MAX):
        raise ConfigurationInvalid(
            f"{where}: timeout is seconds above 0 and at most {SECONDS_MAX:,}, not {shown(timeout)}"
        )
    if not _is_count(concurrency, 1):
        raise ConfigurationInvalid(
            f"{where}: concurrency is a whole number from 1 to {CONCURRENCY_MAX:,}, not {shown(concurrency)}"
        )


def _check_rate(where: str, rate: Rate) -> None:
    if not isinstance(rate, Rate):
        raise ConfigurationInvalid(f"{where}: rate is a Rate, as in Rate(10, burst=50), not {shown(rate)}")
    if not (_is_number(rate.per_second) and 0 < rate.per_second <= RATE_MAX):
        raise ConfigurationInvalid(
            f"{where}: a rate has calls per second above 0 and at most {RATE_MAX:,}, not {shown(rate.per_second)}"
        )
    if not _is_count(rate.burst, 1):
        raise ConfigurationInvalid(
            f"{where}: the burst of a rate is a whole number from 1 to {CONCURRENCY_MAX:,}, not {shown(rate.burst)}"
        )
    if rate.per not in ("node", "namespace"):
        raise ConfigurationInvalid(f"{where}: a rate is per 'node' or per 'namespace', not {shown(rate.per)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= CONCURRENCY_MAX
