"""A call that the engine refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from reachp2p.core.commands import CallSpec, RouteQuery
from reachp2p.errors import CallFailed, ErrorCode
from reachp2p.runtime.calls import Calls
from reachp2p.runtime.driver import Driver


@pytest.mark.trio
async def test_effects_are_taken_after_a_call_that_fails_too() -> None:
    """The engine may have noticed that it is late, and have something to do about it."""
    woken: list[bool] = []

    def refuse(spec: CallSpec, now: float) -> bytes:
        raise CallFailed(ErrorCode.UNKNOWN_TARGET, "nobody offers it")

    driver: Any = SimpleNamespace(engine=SimpleNamespace(call=refuse), wake=lambda: woken.append(True))
    with pytest.raises(CallFailed):
        await Calls().call(cast(Driver, driver), RouteQuery(capability="no.body"), {})
    assert woken == [True]
