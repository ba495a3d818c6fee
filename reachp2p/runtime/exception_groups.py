"""Exception groups of nurseries, read for people: what went wrong in them, without the cancellations that followed."""

from __future__ import annotations

import trio


def sole(error: BaseException) -> BaseException:
    """The one exception that a nursery's group is about, or the group without its cancellations."""
    while isinstance(error, BaseExceptionGroup):
        _, rest = error.split(trio.Cancelled)
        error = rest or error
        if len(error.exceptions) != 1 and rest is not None:
            return error
        error = error.exceptions[0]
    return error


def only_cancelled(error: BaseException) -> bool:
    """Whether an exception is made of trio's cancellations and nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return all(only_cancelled(one) for one in error.exceptions)
    return isinstance(error, trio.Cancelled)
