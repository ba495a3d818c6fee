"""A node that most do not answer asks those that do, and nobody while nobody answers."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, Notify
from reachp2p.core.events import Event, IsolationEnded, MemberState, NodeIsolated
from reachp2p.core.ids import NodeId
from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.touch import COUNTED, QUESTIONS_MAX, TOUCHES_MAX, Touch
from reachp2p.core.wire.messages import Ping
from reachp2p.errors import ErrorCode
from tests.support import CountingEntropy, messages
from tests.unit.routing.conftest import FIRST, SECOND, Desk

OWN = 200


class Seat:
    """Eight nodes that all offer one agent, and what node `OWN`, which offers it too if told, believes of itself."""

    def __init__(self, desk: Desk, *, offers: bool = False, enabled: bool = True) -> None:
        self.desk = desk
        self.effects = Effects()
        self.counters = Counters()
        self.touch = Touch(
            desk.table,
            desk.node(OWN),
            period=1.0,
            effects=self.effects,
            entropy=CountingEntropy(),
            counters=self.counters,
            enabled=enabled,
        )
        desk.believe(OWN, MemberState.ALIVE)
        if offers:
            desk.offer(OWN)
        for number in range(1, 9):
            desk.offer(number)

    def nodes(self, numbers: tuple[int, ...]) -> list[NodeId]:
        return [self.desk.node(number) for number in numbers]

    def round(
        self, *, answered: tuple[int, ...] = (), silent: tuple[int, ...] = (), now: float = 0.0
    ) -> None:
        self.touch.on_round(self.nodes(answered), self.nodes(silent), now)

    def healthy(self) -> None:
        """Everybody has answered of late."""
        for number in range(1, 9):
            self.round(answered=(number,))
        for number in range(1, 5):
            self.round(answered=(number,))

    def cut_off(self, *, companion: int | None = None) -> None:
        """Two rounds in which nobody answers but, if there is one, a companion."""
        self.healthy()
        self.round(answered=(companion,) if companion else (), silent=(1, 2, 3, 4))
        self.round(silent=(5, 1, 2, 3))

    def avoided(self) -> list[int]:
        return [instance.node[0] for instance in self.desk.table.instances() if instance.unanswered]

    def told(self) -> list[Event]:
        return [effect.event for effect in self.effects.take() if isinstance(effect, Notify)]


def test_one_who_does_not_answer_says_nothing_about_us(desk: Any) -> None:
    seat = Seat(desk)
    seat.healthy()
    for _ in range(4):
        seat.round(answered=(2, 3, 4), silent=(1,))
    assert not seat.touch.is_lost
    assert seat.avoided() == []


def test_a_single_failed_round_says_nothing(desk: Any) -> None:
    seat = Seat(desk)
    seat.round(silent=(1, 2, 3, 4))
    assert not seat.touch.is_lost


def test_who_has_answered_since_the_silence_began_is_preferred(desk: Any) -> None:
    seat = Seat(desk)
    placed = desk.table.fingerprint()
    seat.cut_off(companion=7)
    assert seat.touch.is_lost
    assert seat.avoided() == [1, 2, 3, 4, 5, 6, 8], "8 has answered, but before the silence"
    assert set(desk.picks(20)) == {7}
    assert desk.table.fingerprint() == placed, "no key moves"
    assert seat.told() == []
    (first, *_) = explain(desk.router, desk.query()).candidates
    assert (first.removed_by, first.why) == (
        "liveness",
        "does not answer: skipped while another candidate exists",
    )


def test_while_somebody_answers_the_others_are_a_last_resort(desk: Any) -> None:
    seat = Seat(desk)
    seat.cut_off(companion=7)
    desk.table.remove_instance(desk.node(7), "nlp/summarizer")
    assert set(desk.picks(40)) == {1, 2, 3, 4, 5, 6, 8}


def test_who_is_alone_serves_itself(desk: Any) -> None:
    seat = Seat(desk, offers=True)
    seat.cut_off()
    seat.round(silent=(6, 7, 8, 4))
    assert desk.routable() == [OWN]
    assert set(desk.picks(20)) == {OWN}


def test_calls_fail_at_once_while_nobody_answers(desk: Any) -> None:
    seat = Seat(desk)
    seat.cut_off()
    assert desk.routable() == [1, 2, 3, 4, 5, 6, 7, 8], "somebody has answered among the latest contacts"
    seat.round(silent=(6, 7, 8, 4), now=5.0)
    assert seat.told() == [NodeIsolated(at=5.0)]
    assert desk.routable() == []
    with pytest.raises(RouteFailed) as failed:
        desk.router.pick(desk.query())
    assert failed.value.code is ErrorCode.NO_HEALTHY_INSTANCE
    assert failed.value.reason == (
        "no healthy instance of text.summarize: 8 known (8 does not answer); "
        "nobody answers this node, so the fault is probably here"
    )
    (first, *_) = explain(desk.router, desk.query()).candidates
    assert (first.removed_by, first.why) == (
        "touch",
        "does not answer; nobody answers this node, so the fault is probably here",
    )
    with pytest.raises(RouteFailed, match=r"\(7 does not answer, 1 already tried\)"):
        desk.router.pick(desk.query(), exclude=[desk.node(3)])
    seat.touch.on_answer(desk.node(3), 9.0)
    assert seat.told() == [IsolationEnded(at=9.0)]
    assert set(desk.picks(20)) == {3}


def test_it_is_over_when_most_answer_again(desk: Any) -> None:
    seat = Seat(desk)
    seat.cut_off()
    for number in (1, 2, 3, 4, 5, 6, 7):
        seat.round(answered=(number,))
        assert seat.touch.is_lost
    while seat.touch.is_lost:
        seat.round(answered=(1,))
    assert seat.avoided() == []
    assert len(seat.touch) == 0


def test_who_falls_silent_meanwhile_is_avoided_too(desk: Any) -> None:
    seat = Seat(desk)
    seat.cut_off(companion=7)
    seat.round(answered=(8,), silent=(7,))
    assert set(desk.picks(20)) == {8}


def test_who_is_heard_is_asked_whether_it_hears_us_once_a_period(desk: Any) -> None:
    seat = Seat(desk)
    seat.touch.on_heard(desk.node(1), FIRST, 0.0)
    assert messages(seat.effects) == []
    seat.cut_off(companion=7)
    for _ in range(3):
        seat.touch.on_heard(desk.node(1), FIRST, 1.0)
        seat.touch.on_heard(desk.node(7), FIRST, 1.0)
    ((node, ping),) = messages(seat.effects)
    assert node == desk.node(1)
    assert isinstance(ping, Ping)
    assert ping.origin is None
    seat.touch.on_heard(desk.node(1), FIRST, 2.0)
    assert len(messages(seat.effects)) == 1
    assert seat.touch.on_ack(ping.nonce, desk.node(1), FIRST, 2.1)
    assert set(desk.picks(20)) == {1, 7}


def test_questions_are_bounded(desk: Any) -> None:
    seat = Seat(desk)
    for number in range(9, 40):
        desk.offer(number)
    seat.cut_off()
    for number in range(1, 40):
        seat.touch.on_heard(desk.node(number), FIRST, 1.0)
    assert len(messages(seat.effects)) == TOUCHES_MAX
    assert seat.counters.value("routing.touch_asked") == TOUCHES_MAX


def test_what_a_node_tells_of_itself_ends_its_mark(desk: Any) -> None:
    seat = Seat(desk)
    seat.cut_off(companion=7)
    desk.believe(1, MemberState.SUSPECT)
    assert 1 in seat.avoided()
    desk.believe(1, MemberState.ALIVE)  # it has refuted
    desk.believe(2, MemberState.ALIVE, life=SECOND)
    assert seat.avoided() == [3, 4, 5, 6, 8]
    assert len(seat.touch) == 5
    for number in (1, 2):
        seat.touch.on_heard(desk.node(number), FIRST, 1.0)
    assert messages(seat.effects) == []


def test_marks_are_kept_of_nodes_that_are_known_only(desk: Any) -> None:
    seat = Seat(desk)
    seat.cut_off(companion=7)
    assert len(seat.touch) == 7
    for number in range(1, 6):
        desk.table.remove_instance(desk.node(number), "nlp/summarizer")
        desk.believe(number, None)
    seat.round(silent=(1, 2, 3, 4, 90))
    assert len(seat.touch) == 2
    assert desk.table.unanswered() == seat.nodes((6, 8))


def test_only_the_ack_to_a_question_of_ours_counts_and_once(desk: Any) -> None:
    seat = Seat(desk)
    seat.cut_off()
    seat.round(silent=(6, 7, 8, 4))
    seat.touch.on_heard(desk.node(1), FIRST, 1.0)
    ((_, ping),) = messages(seat.effects)
    assert isinstance(ping, Ping)
    assert not seat.touch.on_ack(b"8 bytes!", desk.node(1), FIRST, 1.1)
    assert not seat.touch.on_ack(ping.nonce, desk.node(2), FIRST, 1.1)
    assert not seat.touch.on_ack(ping.nonce, desk.node(1), SECOND, 1.1)
    assert desk.table.is_isolated
    assert seat.touch.on_ack(ping.nonce, desk.node(1), FIRST, 1.2)
    assert not desk.table.is_isolated
    for _ in range(COUNTED):
        assert not seat.touch.on_ack(ping.nonce, desk.node(1), FIRST, 1.3)
    assert seat.touch.is_lost


def test_the_oldest_question_is_forgotten_first(desk: Any) -> None:
    seat = Seat(desk)
    seat.cut_off()
    for period in range(QUESTIONS_MAX + 1):
        seat.touch.on_heard(desk.node(1), FIRST, float(period))
    pings = [ping for _, ping in messages(seat.effects) if isinstance(ping, Ping)]
    assert len(pings) == QUESTIONS_MAX + 1
    assert not seat.touch.on_ack(pings[0].nonce, desk.node(1), FIRST, 20.0)
    assert seat.touch.on_ack(pings[1].nonce, desk.node(1), FIRST, 20.0)


def test_after_a_sleep_of_our_own_nothing_counts(desk: Any) -> None:
    seat = Seat(desk)
    for _ in range(COUNTED):
        seat.round(silent=(1,))
    seat.touch.reset(60.0)
    assert not seat.touch.is_lost
    assert seat.avoided() == []
    assert seat.told() == [NodeIsolated(at=0.0), IsolationEnded(at=60.0)]
    seat.round(silent=(1, 2, 3, 4))
    assert not seat.touch.is_lost


def test_switched_off_it_says_nothing(desk: Any) -> None:
    seat = Seat(desk, enabled=False)
    seat.cut_off()
    assert not seat.touch.is_lost
