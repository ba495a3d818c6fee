"""How a life begins, is challenged, fenced and ends (docs/protocol/lives.md; cases B03, B04, B21, B22, B51).

`Node` is a life cycle with a disk and contacts that a test answers for. A starting node's patience with a challenged
life is 4 s (the suspicion minimum), a running one's 24 s (the maximum).
"""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Delete, Effects, Fetch, Notify, Persist, Table, ToNode
from reachp2p.core.events import CloneSeen, Event, Fenced, Paused, Resumed, Started, StartRefused
from reachp2p.core.ids import EPOCH_MAX, Life, Ticket
from reachp2p.core.membership.challenge import ChallengeDue, ChallengeEnds
from reachp2p.core.membership.life import (
    EPOCH_KEY,
    FENCED_KEY,
    AskEnds,
    LifeCycle,
    Phase,
    Step,
)
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import Challenge, ChallengeAnswer
from reachp2p.errors import ErrorCode
from tests.support import Author, CountingEntropy, address, life, settings

ME = Author(50)
Disk = dict[bytes, bytes]


def epoch_row(epoch: int) -> bytes:
    return epoch.to_bytes(8, "big")


def marker(fencer: Life) -> bytes:
    return epoch_row(fencer.epoch) + fencer.life_id


class Node:
    """Node 50's life cycle. Writes wait until `write` or `fail_write`."""

    def __init__(self, disk: Disk | None = None, *, take_over: bool = False, name: str = "entropy") -> None:
        self.now = 0.0
        self.disk: Disk = {} if disk is None else disk
        self.counters = Counters()
        self.timers = Timers()
        self.effects = Effects()
        self.events: list[Event] = []
        self.challenges: list[ToNode] = []
        self.waiting: list[Persist | Delete] = []
        self.steps: list[Step] = []
        own = settings(50)
        self.life = LifeCycle(
            own if not take_over else type(own)(own.cluster_id, own.name, own.addresses, take_over=True),
            ME.node,
            effects=self.effects,
            timers=self.timers,
            entropy=CountingEntropy(name),
            counters=self.counters,
        )

    # Driving it

    def step(self, steps: list[Step] | None) -> None:
        """Note the steps, and collect what it wants."""
        self.steps += steps or []
        for effect in self.effects.take():
            match effect:
                case Fetch():
                    assert effect.table is Table.LIFE
                    self.step(self.life.on_fetched(effect.request, sorted(self.disk.items()), self.now))
                case Persist() | Delete():
                    assert effect.table is Table.LIFE
                    self.waiting.append(effect)
                case Notify():
                    self.events.append(effect.event)
                case ToNode():
                    self.challenges.append(effect)
                case _:
                    raise AssertionError(effect)

    def write(self, count: int | None = None) -> None:
        """The disk does what it was told, in order."""
        for effect in self._take(count):
            if isinstance(effect, Persist):
                self.disk[effect.key] = effect.value
            else:
                self.disk.pop(effect.key, None)
            self.step(self.life.on_persisted(effect.ticket, self.now))

    def fail_write(self) -> None:
        """The disk is full."""
        for effect in self._take(None):
            self.step(self.life.on_persist_failed(effect.ticket, "disk full", self.now))

    def _take(self, count: int | None) -> list[Persist | Delete]:
        taken, self.waiting = self.waiting[:count], self.waiting[count:] if count else []
        return taken

    def start(self, contacts: int = 0) -> Node:
        """Start, write the epoch, ask this many contacts."""
        self.life.start()
        self.step(None)
        self.write()
        if Step.ASK in self.steps:
            self.step(self.life.asked(contacts, self.now))
        return self

    def run(self, until: float) -> None:
        """Let time pass."""
        while (deadline := self.timers.next_deadline()) is not None and deadline <= until:
            self.now = deadline
            match self.timers.pop_due(self.now):
                case AskEnds():
                    self.step(self.life.on_ask_ends(self.now))
                case ChallengeDue():
                    self.life.on_challenge_due(self.now)
                    self.step(None)
                case ChallengeEnds():
                    self.step(self.life.on_challenge_ends(self.now))
                case key:
                    raise AssertionError(key)
        self.now = until

    def answer(self, epoch: int | None, **fields: Any) -> None:
        """A contact says what it holds for us."""
        self.step(self.life.on_answer(None if epoch is None else ME.head(epoch, **fields), self.now))

    def hear(self, epoch: int, **fields: Any) -> None:
        """A head of our own key arrives."""
        self.step(self.life.on_own_head(ME.head(epoch, **fields), self.now))

    def prove(self, other: Life) -> None:
        """The other life answers our challenge."""
        challenge = self.challenges[-1].message
        assert isinstance(challenge, Challenge)
        self.step(self.life.on_challenge_answer(ChallengeAnswer(nonce=challenge.nonce, life=other), self.now))

    # What can be seen

    @property
    def phase(self) -> Phase:
        return self.life.phase

    @property
    def epoch(self) -> int:
        assert self.life.life is not None
        return self.life.life.epoch

    def said(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    def refusal(self) -> tuple[int, str]:
        (event,) = self.said(StartRefused)
        assert isinstance(event, StartRefused)
        return event.code, event.reason


def running(epoch: int = 5, **options: Any) -> Node:
    """A node that runs in this epoch."""
    node = Node({EPOCH_KEY: epoch_row(epoch - 1)}, **options).start()
    assert node.phase is Phase.RUNNING
    assert node.epoch == epoch
    node.steps.clear()
    return node


# Beginning


def test_the_first_life_has_epoch_one_and_is_on_disk_before_anything_else() -> None:
    node = Node()
    node.life.start()
    node.step(None)
    assert node.phase is Phase.WRITING
    assert (node.steps, node.events, node.life.life) == ([], [], None)
    assert [(w.key, w.value) for w in node.waiting if isinstance(w, Persist)] == [(EPOCH_KEY, epoch_row(1))]
    node.write()
    assert (node.phase, node.steps, node.epoch) == (Phase.ASKING, [Step.ASK], 1)


def test_with_nobody_to_ask_a_node_runs_at_once() -> None:
    node = Node().start(contacts=0)
    assert (node.phase, node.steps) == (Phase.RUNNING, [Step.ASK, Step.RUN])
    assert node.events == [Started(at=0.0, life=node.life.life)]  # type: ignore[arg-type]
    assert node.life.is_serving
    assert node.life.is_running
    assert len(node.timers) == 0


def test_every_start_opens_a_life_above_the_last_one() -> None:
    """Case B03: leaving and coming back twenty times."""
    disk: Disk = {}
    lives: list[Life] = []
    for turn in range(20):
        node = Node(disk, name=f"start {turn}").start()
        assert node.life.life is not None
        lives.append(node.life.life)
        assert node.life.leave()
        node.life.left()
        assert node.life.is_over
        assert len(node.timers) == 0
    assert [one.epoch for one in lives] == list(range(1, 21))
    assert len({one.life_id for one in lives}) == 20


def test_an_epoch_is_used_up_by_a_start_that_was_killed_before_it_ran() -> None:
    disk: Disk = {EPOCH_KEY: epoch_row(4)}
    killed = Node(disk)
    killed.life.start()
    killed.step(None)
    killed.write()
    assert killed.phase is Phase.ASKING
    assert Node(disk).start().epoch == 6


@pytest.mark.parametrize("row", [b"", b"\x01", bytes(7), bytes(9)])
def test_a_damaged_epoch_refuses_the_start(row: bytes) -> None:
    node = Node({EPOCH_KEY: row}).start()
    assert node.phase is Phase.REFUSED
    assert node.steps == [Step.STOP]
    assert node.refusal()[0] == ErrorCode.STATE_DAMAGED
    assert node.waiting == []


def test_a_damaged_marker_refuses_the_start() -> None:
    node = Node({FENCED_KEY: b"half"}, take_over=True).start()
    assert node.refusal()[0] == ErrorCode.STATE_DAMAGED


def test_epochs_that_are_used_up_need_a_new_key() -> None:
    node = Node({EPOCH_KEY: epoch_row(EPOCH_MAX)}).start()
    code, reason = node.refusal()
    assert code == ErrorCode.STATE_DAMAGED
    assert "new key" in reason
    assert Node({EPOCH_KEY: epoch_row(EPOCH_MAX - 1)}).start().epoch == EPOCH_MAX


def test_a_disk_that_cannot_store_the_epoch_refuses_the_start() -> None:
    node = Node()
    node.life.start()
    node.step(None)
    node.fail_write()
    assert (node.phase, node.steps, node.life.life) == (Phase.REFUSED, [Step.STOP], None)
    code, reason = node.refusal()
    assert code == ErrorCode.STORE_FULL, "nothing is damaged"
    assert "disk full" in reason


def test_an_engine_starts_once() -> None:
    node = Node().start()
    with pytest.raises(AssertionError):
        node.life.start()


def test_rows_that_others_asked_for_are_not_ours() -> None:
    node = Node()
    node.life.start()
    assert node.life.on_fetched(77, [], 0.0) is None
    assert node.phase is Phase.LOADING


def test_answers_of_the_disk_to_others_change_nothing() -> None:
    node = Node()
    node.life.start()
    node.step(None)
    assert node.life.on_persisted(Ticket(99), 0.0) == []
    assert node.life.on_persist_failed(Ticket(99), "disk full", 0.0) == []
    assert node.phase is Phase.WRITING


# Asking


def test_a_node_waits_for_all_its_contacts_and_then_runs() -> None:
    node = Node({EPOCH_KEY: epoch_row(4)}).start(contacts=3)
    node.answer(4)  # our former life, as it should be
    node.answer(None)
    assert node.phase is Phase.ASKING
    node.step(node.life.on_contact_over(0.1))  # the third cannot be reached
    assert (node.phase, node.epoch) == (Phase.RUNNING, 5)
    assert node.timers.next_deadline() is None


def test_a_node_does_not_wait_longer_than_half_a_second() -> None:
    node = Node().start(contacts=2)
    node.answer(None)
    node.run(0.49)
    assert node.phase is Phase.ASKING
    node.run(0.5)
    assert node.phase is Phase.RUNNING


def test_an_answer_that_comes_late_is_judged_like_any_own_head() -> None:
    node = Node().start(contacts=1)
    node.run(0.5)
    node.answer(None)
    assert node.phase is Phase.RUNNING
    node.answer(7)
    assert node.phase is Phase.PAUSED


@pytest.mark.parametrize("contacts_hold", [1, 7, 2**40])
def test_a_lost_disk_is_outbid_when_nobody_answers_for_the_former_life(contacts_hold: int) -> None:
    """Case B21, and B04: the epoch on disk is gone, others remember more."""
    node = Node().start(contacts=1)
    node.answer(contacts_hold)
    assert node.phase is Phase.CHALLENGING
    assert not node.life.is_running
    node.run(3.9)
    assert node.phase is Phase.CHALLENGING
    node.run(4.0)
    node.write()
    assert (node.phase, node.epoch) == (Phase.RUNNING, contacts_hold + 1)
    assert node.disk[EPOCH_KEY] == epoch_row(contacts_hold + 1)
    assert isinstance(node.events[-1], Started)
    assert node.counters.value("life.outbid") == 1
    assert len(node.timers) == 0


def test_the_highest_life_of_all_answers_is_the_one_that_is_outbid() -> None:
    node = Node().start(contacts=3)
    for epoch in (7, 9, 8):
        node.answer(epoch)
    node.run(4.0)
    node.write()
    assert node.epoch == 10


def test_what_is_heard_while_challenging_is_outbid_too() -> None:
    node = Node().start(contacts=2)
    node.answer(7)
    node.run(0.5)
    assert node.phase is Phase.CHALLENGING
    node.answer(12)  # the second contact was slow
    node.run(5.0)
    node.write()
    assert node.epoch == 13


def test_a_former_life_that_left_is_outbid_without_a_challenge() -> None:
    node = Node().start(contacts=1)
    node.answer(7, left=True)
    assert node.challenges == []
    node.write()
    assert (node.phase, node.epoch) == (Phase.RUNNING, 8)


def test_a_disk_that_fails_while_outbidding_refuses_the_start() -> None:
    node = Node().start(contacts=1)
    node.answer(7)
    node.run(4.0)
    node.fail_write()
    assert node.phase is Phase.REFUSED
    assert node.disk == {EPOCH_KEY: epoch_row(1)}


def test_an_epoch_at_its_bound_cannot_be_outbid() -> None:
    """Case B22: only our own key can have signed it; running out is a clear refusal, not a crash."""
    node = Node().start(contacts=1)
    node.answer(EPOCH_MAX)
    node.run(4.0)
    assert node.refusal()[0] == ErrorCode.STATE_DAMAGED
    assert len(node.timers) == 0


# Challenging


def test_a_challenge_goes_to_every_address_of_the_other_life_once_a_period() -> None:
    node = Node().start(contacts=1)
    node.answer(7, addresses=[address(1), address(2)])
    node.run(1.9)
    assert [item.address for item in node.challenges] == [address(1), address(2)] * 2
    assert all(item.node == ME.node and not item.piggyback for item in node.challenges)
    first = node.challenges[0].message
    assert isinstance(first, Challenge)
    assert first.life == life(7)
    assert all(item.message == first for item in node.challenges)
    assert node.life.challenged_addresses == (address(1), address(2))


@pytest.mark.parametrize("epoch", [1, 7])
def test_a_clone_whose_original_answers_refuses_to_start(epoch: int) -> None:
    """Case B51: at an equal or higher epoch somebody is alive under our key."""
    node = Node().start(contacts=1)
    node.answer(epoch, salt=255)
    assert node.phase is Phase.CHALLENGING
    node.run(0.1)
    node.prove(life(epoch, salt=255))
    assert (node.phase, node.steps[-1]) == (Phase.REFUSED, Step.STOP)
    code, reason = node.refusal()
    assert code == ErrorCode.FENCED
    assert "--take-over" in reason
    assert len(node.timers) == 0
    node.run(60.0)
    assert node.waiting == []


def test_an_answer_to_another_nonce_proves_nothing() -> None:
    node = Node().start(contacts=1)
    node.answer(7)
    node.run(0.1)
    node.step(node.life.on_challenge_answer(ChallengeAnswer(nonce=bytes(8), life=life(7)), node.now))
    assert node.phase is Phase.CHALLENGING
    assert node.counters.value("dropped.challenge_answer.nonce") == 1


@pytest.mark.parametrize("nonce", [b"", bytes(8)])
def test_an_answer_without_a_challenge_proves_nothing(nonce: bytes) -> None:
    node = running()
    node.step(node.life.on_challenge_answer(ChallengeAnswer(nonce=nonce, life=life(9)), node.now))
    assert node.phase is Phase.RUNNING


def test_take_over_starts_above_a_life_that_would_answer() -> None:
    node = Node(take_over=True).start(contacts=1)
    node.answer(7)
    assert node.challenges == []
    node.write()
    assert (node.phase, node.epoch) == (Phase.RUNNING, 8)


def test_a_starting_node_that_meets_a_higher_life_on_a_link_refuses_or_takes_over() -> None:
    refusing = Node().start(contacts=1)
    refusing.step(refusing.life.on_other_life(life(7), address(1), 0.1))
    assert refusing.phase is Phase.REFUSED
    taking = Node(take_over=True).start(contacts=1)
    taking.step(taking.life.on_other_life(life(7), address(1), 0.1))
    taking.write()
    assert taking.phase is Phase.ASKING  # it asks again, under the new number
    taking.step(taking.life.asked(0, 0.2))
    assert (taking.phase, taking.epoch) == (Phase.RUNNING, 8)


def test_of_two_that_start_at_once_the_higher_goes_on() -> None:
    node = Node().start(contacts=1)
    assert node.life.life is not None
    node.step(node.life.on_other_life(life(1, salt=0), address(1), 0.1))
    assert node.phase is Phase.ASKING
    assert node.counters.value("life.unannounced_seen") == 1
    node.step(node.life.on_other_life(life(1, salt=255), address(1), 0.1))
    assert node.phase is Phase.REFUSED


# Challenged


@pytest.mark.parametrize("phase", Phase)
def test_a_life_answers_a_challenge_from_when_it_runs_until_it_is_over(phase: Phase) -> None:
    node = running()
    node.life.phase = phase
    reply = node.life.on_challenge(Challenge(nonce=b"8 bytes!", life=life(5)))
    if phase in (Phase.RUNNING, Phase.PAUSED, Phase.LEAVING):
        assert reply == ChallengeAnswer(nonce=b"8 bytes!", life=node.life.life)  # type: ignore[arg-type]
    else:
        assert reply is None


# Fencing


def test_a_running_life_that_hears_of_a_higher_one_stops_serving_at_once_and_challenges_it() -> None:
    node = running()
    node.hear(6)
    assert (node.phase, node.steps) == (Phase.PAUSED, [Step.PAUSE])
    assert not node.life.is_serving
    assert not node.life.is_running
    assert node.events[-1] == Paused(at=0.0, other=life(6))
    node.run(0.0)
    assert [item.message.life for item in node.challenges] == [life(6)]  # type: ignore[union-attr]


def test_a_higher_life_that_answers_fences_for_good_once_the_marker_is_on_disk() -> None:
    node = running()
    node.hear(6)
    node.run(0.1)
    node.prove(life(6))
    assert (node.phase, node.steps[-1]) == (Phase.FENCING, Step.PAUSE)
    assert node.said(Fenced) == []
    node.write()
    assert (node.phase, node.steps[-1]) == (Phase.FENCED, Step.STOP)
    assert node.said(Fenced) == [Fenced(at=0.1, other=life(6))]
    assert node.disk[FENCED_KEY] == marker(life(6))
    assert node.life.is_over
    assert len(node.timers) == 0


def test_a_marker_that_cannot_be_stored_fences_all_the_same() -> None:
    node = running()
    node.hear(6)
    node.run(0.1)
    node.prove(life(6))
    node.fail_write()
    assert (node.phase, node.steps[-1]) == (Phase.FENCED, Step.STOP)
    assert FENCED_KEY not in node.disk


def test_a_higher_life_that_nobody_answers_for_is_outbid_after_the_suspicion_maximum() -> None:
    node = running()
    before = node.life.life
    node.hear(9)
    node.run(23.9)
    assert node.phase is Phase.PAUSED
    node.run(24.0)
    node.write()
    assert (node.phase, node.epoch, node.steps) == (Phase.RUNNING, 10, [Step.PAUSE, Step.RUN])
    assert node.events[-1] == Resumed(at=24.0, life=node.life.life)  # type: ignore[arg-type]
    assert node.life.life != before
    assert node.disk == {EPOCH_KEY: epoch_row(10)}
    assert len(node.timers) == 0


def test_of_several_higher_lives_the_highest_is_outbid() -> None:
    node = running()
    for epoch in (6, 9, 7):
        node.hear(epoch)
    node.run(24.0)
    node.write()
    assert node.epoch == 10
    assert len(node.said(Paused)) == 1


def test_a_higher_life_that_has_left_is_outbid_at_once() -> None:
    node = running()
    node.hear(9, left=True)
    assert node.steps == [Step.PAUSE]
    node.write()
    assert (node.phase, node.epoch, node.steps) == (Phase.RUNNING, 10, [Step.PAUSE, Step.RUN])
    assert node.challenges == []


def test_a_disk_that_fails_while_a_running_node_outbids_ends_it() -> None:
    node = running()
    node.hear(9)
    node.run(24.0)
    node.fail_write()
    assert (node.phase, node.steps[-1]) == (Phase.REFUSED, Step.STOP)


@pytest.mark.parametrize("fields", [{"epoch": 4}, {"epoch": 5, "salt": 0, "incarnation": 99, "version": 99}])
def test_a_lower_life_or_ones_own_changes_nothing(fields: dict[str, Any]) -> None:
    node = running()
    node.hear(**fields)
    assert (node.phase, node.steps) == (Phase.RUNNING, [])


def test_at_one_epoch_the_higher_life_id_wins() -> None:
    node = running()
    assert node.life.life is not None
    higher = Life(5, b"\xff" * 16)
    assert higher > node.life.life > Life(5, bytes(16))
    node.hear(5, salt=255)
    node.run(0.1)
    node.prove(higher)
    assert node.phase is Phase.FENCING


@pytest.mark.parametrize("other", [life(4), life(5, salt=0)])
def test_a_lower_life_that_still_runs_is_reported_and_told_to_stop_by_its_own_rule(other: Life) -> None:
    node = running()
    node.step(node.life.on_other_life(other, address(9), 3.0))
    assert node.phase is Phase.RUNNING
    assert node.events[-1] == CloneSeen(at=3.0, other=other, address=address(9))


def test_a_higher_life_on_a_link_fences_only_once_its_head_is_known() -> None:
    """A hello alone does not say that its life has begun: it may still be asking, and refuse to start."""
    node = running()
    node.step(node.life.on_other_life(life(6), address(9), 1.0))
    assert node.phase is Phase.RUNNING
    assert node.counters.value("life.unannounced_seen") == 1
    node.hear(6)
    node.step(node.life.on_other_life(life(6), address(9), 1.0))
    assert node.phase is Phase.FENCING


def test_two_clones_end_with_one_of_them_running_whoever_hears_of_the_other_first() -> None:
    """Case B51: a fixed rule decides who stays; no flip-flop."""
    low, high = running(5), running(6)
    assert low.life.life is not None
    assert high.life.life is not None
    high.step(high.life.on_own_head(ME.head(5), 0.0))
    low.step(low.life.on_own_head(ME.head(6), 0.0))
    low.run(0.1)
    challenge = low.challenges[-1].message
    assert isinstance(challenge, Challenge)
    reply = high.life.on_challenge(challenge)
    assert reply is not None
    low.step(low.life.on_challenge_answer(reply, low.now))
    low.write()
    assert (low.phase, high.phase) == (Phase.FENCED, Phase.RUNNING)
    restarted = Node(low.disk).start()  # a supervisor that starts it again and again
    assert restarted.phase is Phase.REFUSED


# The marker


def test_a_fenced_folder_refuses_to_start() -> None:
    node = Node({EPOCH_KEY: epoch_row(5), FENCED_KEY: marker(life(6))}).start()
    assert (node.phase, node.steps, node.waiting) == (Phase.REFUSED, [Step.STOP], [])
    code, reason = node.refusal()
    assert code == ErrorCode.FENCED
    assert "--take-over" in reason


def test_take_over_starts_a_fenced_folder_above_the_life_that_fenced_it() -> None:
    disk = {EPOCH_KEY: epoch_row(5), FENCED_KEY: marker(life(9))}
    node = Node(disk, take_over=True).start()
    assert (node.phase, node.epoch) == (Phase.RUNNING, 10)
    node.write()
    assert disk == {EPOCH_KEY: epoch_row(10)}


def test_the_marker_goes_only_after_the_new_epoch_is_on_disk() -> None:
    """Killed in between, the folder is still fenced; without the epoch it must not look like a free one."""
    disk = {EPOCH_KEY: epoch_row(5), FENCED_KEY: marker(life(9))}
    killed = Node(disk, take_over=True)
    killed.life.start()
    killed.step(None)
    killed.write(1)
    assert disk == {EPOCH_KEY: epoch_row(10), FENCED_KEY: marker(life(9))}


def test_the_marker_stays_when_the_epochs_are_used_up() -> None:
    disk = {EPOCH_KEY: epoch_row(5), FENCED_KEY: marker(life(EPOCH_MAX))}
    node = Node(disk, take_over=True).start()
    assert node.phase is Phase.REFUSED
    assert FENCED_KEY in disk


# Ending


def test_a_running_life_leaves_and_is_over() -> None:
    node = running()
    assert node.life.leave()
    assert node.phase is Phase.LEAVING
    assert node.life.is_running
    assert not node.life.is_serving
    assert not node.life.leave()
    node.life.left()
    assert node.phase is Phase.LEFT
    assert node.life.is_over


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.RUNNING])
def test_there_is_no_life_to_leave_with_unless_it_runs(phase: Phase) -> None:
    node = running()
    node.life.phase = phase
    assert not node.life.leave()
    assert node.life.phase is phase


def test_a_leaving_life_that_hears_of_a_higher_one_starts_and_returns_nothing_more() -> None:
    node = running()
    node.life.leave()
    node.hear(6)
    assert (node.phase, node.steps) == (Phase.LEAVING, [Step.PAUSE])
    assert node.waiting == []
    assert len(node.timers) == 0


@pytest.mark.parametrize("phase", [Phase.FENCING, Phase.FENCED, Phase.REFUSED, Phase.LEFT])
def test_after_its_end_nothing_revives_a_life(phase: Phase) -> None:
    node = running()
    node.life.phase = phase
    node.hear(9)
    node.step(node.life.on_other_life(life(9), address(1), 1.0))
    node.step(node.life.on_ask_ends(1.0))
    node.step(node.life.on_contact_over(1.0))
    node.step(node.life.on_challenge_ends(1.0))
    assert node.life.on_challenge_due(1.0) is False
    assert (node.phase, node.steps, node.waiting) == (phase, [], [])
