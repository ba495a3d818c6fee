"""A take-over that could not be stored leaves the fence where it was."""

from __future__ import annotations

from msgspec.structs import replace

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Delete, Effects, Persist
from reachp2p.core.membership.life import EPOCH_KEY, FENCED_KEY, LifeCycle, Phase
from reachp2p.core.timers import Timers
from tests.support import CountingEntropy, node_id, settings

ROWS = {EPOCH_KEY: (4).to_bytes(8, "big"), FENCED_KEY: (9).to_bytes(8, "big") + bytes(16)}


def begun(rows: dict[bytes, bytes], *, take_over: bool) -> tuple[LifeCycle, Effects]:
    """A life cycle that has read these rows."""
    effects = Effects()
    cycle = LifeCycle(
        replace(settings(1), take_over=take_over),
        node_id(1),
        effects=effects,
        timers=Timers(),
        entropy=CountingEntropy(),
        counters=Counters(),
    )
    cycle.start()
    effects.take()
    assert cycle._request is not None
    cycle.on_fetched(cycle._request, sorted(rows.items()), 0.0)
    return cycle, effects


def test_a_take_over_whose_epoch_cannot_be_stored_leaves_the_node_fenced() -> None:
    """A full disk has no room for what is written, and lets go of what is removed."""
    cycle, effects = begun(ROWS, take_over=True)
    (write,) = effects.take()
    assert isinstance(write, Persist)
    cycle.on_persist_failed(write.ticket, "disk full", 0.0)
    assert cycle.phase is Phase.REFUSED
    assert not any(isinstance(effect, Delete) for effect in effects.take())
    assert begun(ROWS, take_over=False)[0].phase is Phase.REFUSED


def test_a_take_over_removes_the_fence_once_its_epoch_is_stored() -> None:
    cycle, effects = begun(ROWS, take_over=True)
    (write,) = effects.take()
    assert isinstance(write, Persist)
    assert int.from_bytes(write.value, "big") == 10
    cycle.on_persisted(write.ticket, 0.0)
    assert [effect.key for effect in effects.take() if isinstance(effect, Delete)] == [FENCED_KEY]
