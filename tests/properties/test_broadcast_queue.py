"""The broadcast queue against a model, through any history: bounds, limits, order, and room that is never wasted."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from reachp2p.core.counters import Counters
from reachp2p.core.dissemination.broadcast_queue import BroadcastQueue, Kind

ENTRIES_MAX = 12
LIMIT = 4


@dataclass
class Slot:
    encoded: bytes
    put_at: int
    sent: int = 0


class Circulation(RuleBasedStateMachine):
    """Updates are put, dropped and taken; the model knows how often each was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.counters = Counters()
        self.queue = BroadcastQueue(ENTRIES_MAX, self.counters)
        self.slots: dict[tuple[Kind, int], Slot] = {}
        self.clock = 0
        self.evicted = 0

    @rule(kind=st.sampled_from(Kind), key=st.integers(0, 7), size=st.sampled_from([4, 5, 20, 90]))
    def put(self, kind: Kind, key: int, size: int) -> None:
        self.clock += 1
        self.slots.pop((kind, key), None)
        if len(self.slots) == ENTRIES_MAX:
            self.evict()
        encoded = self.clock.to_bytes(3, "big") + bytes(size - 3)  # no two updates are equal
        self.slots[kind, key] = Slot(encoded, self.clock)
        self.queue.put(kind, key, encoded)

    def evict(self) -> None:
        """Of the most numerous kind (of two, the later one), the most often sent, of those the one that came first."""
        counts = {kind: sum(k is kind for k, _ in self.slots) for kind in Kind}
        kind = max(Kind, key=lambda k: (counts[k], k.value))
        most = max(slot.sent for (k, _), slot in self.slots.items() if k is kind)
        candidates = [key for key, slot in self.slots.items() if key[0] is kind and slot.sent == most]
        del self.slots[min(candidates, key=lambda key: self.slots[key].put_at)]
        self.evicted += 1

    @rule(kind=st.sampled_from(Kind), key=st.integers(0, 7))
    def drop(self, kind: Kind, key: int) -> None:
        self.queue.drop(kind, key)
        self.slots.pop((kind, key), None)

    @rule(room=st.sampled_from([0, 3, 4, 9, 30, 100, 200, 10_000]))
    def take(self, room: int) -> None:
        by_bytes = {slot.encoded: key for key, slot in self.slots.items()}
        taken = [by_bytes[encoded] for encoded in self.queue.take(room, LIMIT)]
        assert len(set(taken)) == len(taken)
        assert sum(len(self.slots[key].encoded) for key in taken) <= room
        self.check_nothing_that_fits_is_left(taken, room)
        self.check_order(taken)
        self.check_kinds_take_turns(taken)
        for key in taken:
            slot = self.slots[key]
            slot.sent += 1
            self.clock += 1
            slot.put_at = self.clock  # among those sent equally often it is the newest now
            if slot.sent == LIMIT:
                del self.slots[key]

    def check_nothing_that_fits_is_left(self, taken: list[tuple[Kind, int]], room: int) -> None:
        left = room - sum(len(self.slots[key].encoded) for key in taken)
        assert all(len(slot.encoded) > left for key, slot in self.slots.items() if key not in taken)

    def check_order(self, taken: list[tuple[Kind, int]]) -> None:
        """Within a kind, one that was passed over for one sent more often did not fit when its turn came."""
        for kind in Kind:
            sent = [self.slots[key].sent for key in taken if key[0] is kind]
            assert sent == sorted(sent)

    def check_kinds_take_turns(self, taken: list[tuple[Kind, int]]) -> None:
        """No kind is served twice in a row while another one still gets something."""
        for place, (kind, _) in enumerate(taken[:-1]):
            later = [k for k, _ in taken[place + 1 :]]
            if later[0] is kind:
                assert set(later) == {kind}

    @invariant()
    def the_queue_holds_what_the_model_holds(self) -> None:
        assert len(self.queue) == len(self.slots) <= ENTRIES_MAX
        assert self.counters.value("broadcast_queue.evicted") == self.evicted


Circulation.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestCirculation = Circulation.TestCase
