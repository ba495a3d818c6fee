"""From unanswered probes, refusals and accusations to SUSPECT and DEAD (docs/protocol/membership.md).

With n members and this node, T = 1 s and α = 4, β = 6: the shortest timer is 4 s up to ten members, the longest 24 s.
"""

from __future__ import annotations

import pytest

from reachp2p.core.dissemination.broadcast_queue import Kind
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Address
from reachp2p.core.membership.detector import SuspicionEnds
from reachp2p.core.membership.looks import RefusalDialDue, VerifyDue, is_chosen_dialer
from reachp2p.core.membership.probe import ProbeResult
from reachp2p.core.membership.suspicion import Grade
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.codec import decode_message
from reachp2p.core.wire.facts import Accusation
from reachp2p.core.wire.messages import AccusationUpdate
from tests.support import Author, checker, life, node_id
from tests.unit.membership.watch import OWN, Watch

ALIVE, SUSPECT, DEAD, LEFT = MemberState
ANN = Author(1)
SIX = (1, 2, 3, 4, 5, 6)


def circulating(watch: Watch) -> list[Checked[Accusation]]:
    """Accusations that wait to be sent."""
    found = []
    for encoded in watch.queue.take(10**6, 10**6):
        update = decode_message(encoded)
        assert isinstance(update, AccusationUpdate)
        found.append(checker().open(Accusation, update.accusation))
    return found


def accusers(watch: Watch) -> list[int]:
    return sorted(int.from_bytes(item.fact.accuser[:2], "big") for item in circulating(watch))


def fail_probe(watch: Watch, number: int = 1, epoch: int = 1) -> None:
    watch.ended(ProbeResult(node_id(number), life(epoch), answered=False))


def answer_probe(watch: Watch, number: int = 1) -> None:
    watch.ended(ProbeResult(node_id(number), life(), answered=True))


def ends(watch: Watch, number: int = 1) -> float | None:
    return watch.timers.due_at(SuspicionEnds(node_id(number)))


# Own verdict: timer and own probe


def test_an_unanswered_probe_starts_a_doubt_and_tells_others() -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    assert watch.state(1) is SUSPECT
    assert ends(watch) == 24.0
    (told,) = circulating(watch)
    assert (told.fact.subject, told.fact.accuser, told.fact.life, told.fact.incarnation) == (
        node_id(1),
        node_id(OWN),
        life(),
        0,
    )
    assert told.fact.grade == Grade.SILENCE
    fail_probe(watch)
    assert len(circulating(watch)) == 1
    assert watch.counters.value("suspicion.started") == 1


def test_a_doubt_is_told_again_with_each_failed_probe_until_somebody_else_has_said_it() -> None:
    """What was told first may all have gone to members that do not hear us."""
    watch = Watch(*SIX)
    for told in (1, 2, 3):
        fail_probe(watch)
        assert watch.counters.value("suspicion.accused") == told
        assert len(circulating(watch)) == 1
    watch.accuse(Author(2).accusation(ANN.head()))
    fail_probe(watch)
    assert watch.counters.value("suspicion.accused") == 3


def test_no_timer_ends_before_its_object_can_answer_the_first_who_doubts_it_besides_us() -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    watch.run(20.0)
    for accuser in (2, 3, 4):
        watch.accuse(Author(accuser).accusation(ANN.head()))
    assert ends(watch) == 22.0
    watch.run(21.0)
    watch.accuse(Author(5).accusation(ANN.head()))
    assert ends(watch) == 22.0


def test_a_member_is_dead_when_its_timer_has_ended_and_our_own_probe_inside_it_has_failed() -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    watch.run(23.9)
    assert watch.state(1) is SUSPECT
    watch.run(24.0)
    assert watch.state(1) is DEAD
    assert watch.story()[6:] == [(1, ALIVE, SUSPECT), (1, SUSPECT, DEAD)]
    assert len(watch.detector) == 0
    assert watch.timers.due_at(VerifyDue(node_id(1))) is None


def test_the_own_probe_starts_at_a_random_moment_of_the_first_part_of_the_timer() -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    assert watch.timers.due_at(VerifyDue(node_id(1))) == pytest.approx(4.0 * 0.35)  # the middle of 0.1 to 0.6
    watch.run(1.5)
    assert list(watch.pings()) == [node_id(1)]


def test_the_probe_that_started_the_doubt_does_not_bury() -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    watch.timers.cancel(VerifyDue(node_id(1)))  # as if the own probe had been late for ever
    watch.timers.set(SuspicionEnds(node_id(1)), 2.0)
    watch.run(2.0)
    assert watch.state(1) is SUSPECT  # it looks first
    assert list(watch.pings()) == [node_id(1)]
    watch.run(3.0)
    assert watch.state(1) is DEAD


def test_nobodys_word_kills() -> None:
    watch = Watch(*SIX)
    for accuser in (2, 3, 4, 5, 6):
        watch.accuse(Author(accuser).accusation(ANN.head(), Grade.DEAD, age=3_600.0))
    while watch.now < 120.0 and watch.state(1) is not DEAD:
        for _, nonce in watch.pings().items():
            watch.ack(nonce, ANN.head())
        watch.run(watch.now + 0.1)
    assert watch.state(1) is SUSPECT  # it answers us; every answer tells it to refute
    assert watch.counters.value("suspicion.extended") >= 1


def test_an_answer_after_the_timer_gives_the_member_another_chance() -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    watch.run(1.5)
    (nonce,) = watch.pings().values()
    watch.run(1.6)
    watch.ack(nonce, ANN.head())
    watch.run(24.0)  # the timer ends, and no own probe has failed: look again
    assert watch.state(1) is SUSPECT
    (nonce,) = watch.pings().values()
    watch.ack(nonce, ANN.head())
    assert ends(watch) == 28.0
    watch.run(60.0)
    assert watch.state(1) is DEAD


def test_a_member_without_address_is_buried_by_its_timer() -> None:
    watch = Watch(*SIX)
    watch.meet(ANN.head(version=1, addresses=[]))
    watch.accuse(Author(2).accusation(ANN.head()))
    watch.run(24.0)
    assert watch.state(1) is DEAD


def test_a_link_that_answers_is_as_good_as_an_ack() -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    watch.run(23.5)  # the last of our own probes has failed by now
    assert watch.detector.on_alive_link(node_id(1), watch.now) == []
    watch.run(24.0)
    assert watch.state(1) is SUSPECT


def test_a_result_about_a_former_life_doubts_nobody() -> None:
    watch = Watch(*SIX)
    watch.meet(ANN.head(2))
    fail_probe(watch, epoch=1)
    assert watch.state(1) is ALIVE
    assert len(watch.detector) == 0


def test_a_round_with_a_former_life_does_not_leave_a_doubt_without_an_end() -> None:
    watch = Watch(*SIX)
    watch.health.worse(8)  # rounds of nine seconds
    assert watch.prober.probe(watch.row(1), 0.0)
    watch.meet(ANN.head(2))
    for accuser in (2, 3, 4, 5):
        watch.accuse(Author(accuser).accusation(ANN.head(2), age=100.0))
    watch.run(8.0)
    assert watch.state(1) is SUSPECT  # the timer has ended; the round that runs is the former life's
    watch.run(9.0)
    assert list(watch.pings()) == [node_id(1)]  # so it looks again, at the present life
    watch.run(18.0)
    assert watch.state(1) is DEAD


# What ends a doubt


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_refutation_or_a_new_life_ends_the_doubt_and_all_that_belongs_to_it(epoch: int) -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    watch.accuse(Author(2).accusation(ANN.head(), Grade.REFUSAL))
    watch.meet(ANN.head(epoch, incarnation=1))
    assert watch.state(1) is ALIVE
    assert len(watch.detector) == 0
    watch.prober.void_rounds()
    assert len(watch.timers) == 0


def test_a_refuted_accusation_stops_circulating() -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    for accuser in (2, 3, 4, 5, 6):
        watch.accuse(Author(accuser).accusation(ANN.head()))
    watch.accuse(Author(2).accusation(Author(3).head()))
    assert accusers(watch) == [2, 2, 3, 4, OWN]
    watch.meet(ANN.head(incarnation=1))
    assert accusers(watch) == [2]  # of node 3, which has not refuted


def test_an_accusation_of_the_dead_goes_on_circulating() -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    watch.run(24.0)
    assert watch.state(1) is DEAD
    assert accusers(watch) == [OWN]  # others have not looked yet


# Accusations


def test_an_accusation_starts_a_doubt_that_ages_with_the_accusers() -> None:
    watch = Watch(*SIX)
    watch.run(100.0)
    watch.accuse(Author(2).accusation(ANN.head(), age=5.0))
    assert watch.state(1) is SUSPECT
    assert ends(watch) == 100.0 - 5.0 + 24.0
    assert accusers(watch) == [2]  # passed on, not multiplied: we have seen nothing ourselves


def test_a_later_accuser_may_have_doubted_for_longer() -> None:
    watch = Watch(*SIX)
    watch.accuse(Author(2).accusation(ANN.head(), age=1.0))
    watch.accuse(Author(2).accusation(ANN.head(), age=6.0))
    assert ends(watch) == 24.0 - 6.0


@pytest.mark.parametrize("ages", [(86_400.0, 0.0), (0.0, 86_400.0)])
def test_an_age_is_believed_and_passed_on_up_to_the_longest_timer(ages: tuple[float, float]) -> None:
    watch = Watch(*SIX)
    for accuser, age in zip((2, 3), ages, strict=True):
        watch.accuse(Author(accuser).accusation(ANN.head(), age=age))
    told = watch.detector.doubt(watch.row(1), watch.now)
    assert told is not None
    assert checker().open(Accusation, told).fact.age_ms == 24_000


def test_distinct_accusers_shorten_the_timer_down_to_its_minimum() -> None:
    watch = Watch(*SIX)
    found = []
    for accuser in (2, 3, 4, 5, 6):
        watch.accuse(Author(accuser).accusation(ANN.head()))
        watch.accuse(Author(accuser).accusation(ANN.head()))  # repeating helps nobody
        found.append(ends(watch))
    assert found == [pytest.approx(at, abs=0.01) for at in (24.0, 14.0, 8.15, 4.0, 4.0)]
    assert accusers(watch) == [2, 3, 4, 5]


def test_our_own_doubt_confirms_others() -> None:
    watch = Watch(*SIX)
    watch.accuse(Author(2).accusation(ANN.head()))
    fail_probe(watch)
    assert ends(watch) == pytest.approx(14.0)
    assert accusers(watch) == [2, OWN]


def test_who_comes_after_enough_others_keeps_quiet() -> None:
    watch = Watch(*SIX)
    for accuser in (2, 3, 4, 5):
        watch.accuse(Author(accuser).accusation(ANN.head()))
    fail_probe(watch)
    assert accusers(watch) == [2, 3, 4, 5]


def test_no_age_moves_the_end_below_two_periods_so_that_a_live_node_can_refute() -> None:
    watch = Watch(*SIX)
    for accuser in (2, 3, 4, 5, 6):
        watch.accuse(Author(accuser).accusation(ANN.head(), Grade.DEAD, age=86_400.0))
    assert ends(watch) == 2.0


def test_a_newcomer_told_of_a_death_doubts_for_the_shortest_time() -> None:
    watch = Watch(*SIX)
    watch.accuse(Author(2).accusation(ANN.head(), Grade.DEAD), newcomer=True)
    assert ends(watch) == 4.0
    assert watch.state(1) is SUSPECT


def test_an_accusation_by_a_stranger_is_dropped() -> None:
    watch = Watch(*SIX)
    watch.accuse(Author(77).accusation(ANN.head()))
    assert watch.state(1) is ALIVE
    assert watch.counters.value("dropped.accusation.stranger") == 1


@pytest.mark.parametrize("state", [DEAD, LEFT])
def test_who_is_not_present_cannot_be_accused(state: MemberState) -> None:
    watch = Watch(*SIX)
    if state is LEFT:
        watch.meet(ANN.head(left=True))
    else:
        watch.table.doubt(node_id(1), DEAD, 0.0, "")
    watch.accuse(Author(2).accusation(ANN.head()))
    assert watch.state(1) is state
    assert len(watch.detector) == 0


@pytest.mark.parametrize(("numbers", "seconds"), [((1,), 4.0), ((1, 2), 24.0), (SIX, 24.0)])
def test_where_nobody_can_confirm_the_timer_is_at_its_minimum(
    numbers: tuple[int, ...], seconds: float
) -> None:
    watch = Watch(*numbers)
    fail_probe(watch)
    assert ends(watch) == seconds


def test_an_accusation_that_adds_nothing_is_known_for_as_long_as_the_doubt_lasts() -> None:
    watch = Watch(*SIX)
    accusation = Author(2).accusation(ANN.head())

    def is_known() -> bool:
        return watch.detector.has_heard(node_id(1), accusation.digest)

    assert not is_known()
    watch.accuse(accusation)
    assert not is_known()  # it was news
    before = ends(watch)
    watch.now += 1.0
    watch.accuse(accusation)
    assert is_known()
    assert ends(watch) == before
    watch.meet(ANN.head(incarnation=1))
    assert not is_known()  # refuted: whoever says it again is answered


# Refusals


def refused(watch: Watch, number: int = 1) -> None:
    """The process of a member that has answered us is gone, and its host says so."""
    watch.reach(number)
    watch.refuse(number)


def test_a_refusal_makes_suspect_marks_the_row_and_probes_at_once() -> None:
    watch = Watch(*SIX)
    refused(watch)
    assert watch.state(1) is SUSPECT
    assert watch.row(1).refused
    assert list(watch.pings()) == [node_id(1)]
    assert ends(watch) == 24.0  # a refusal seen by one member alone shortens nothing
    (told,) = circulating(watch)
    assert told.fact.grade == Grade.REFUSAL


def test_two_refusals_bury_within_a_period_and_two_round_trips() -> None:
    watch = Watch(*SIX)
    watch.row(1).rtt = 0.1
    refused(watch)
    watch.accuse(Author(2).accusation(ANN.head(), Grade.REFUSAL))
    assert ends(watch) == pytest.approx(1.2)
    watch.run(1.2)
    assert watch.state(1) is DEAD


def test_without_a_measured_round_trip_the_probe_time_out_stands_for_it() -> None:
    watch = Watch(*SIX)
    refused(watch)
    watch.accuse(Author(2).accusation(ANN.head(), Grade.REFUSAL))
    assert ends(watch) == pytest.approx(2.0)


def test_a_refusal_counts_only_where_this_life_has_answered_before() -> None:
    watch = Watch(*SIX)
    watch.refuse(1)
    assert watch.state(1) is ALIVE
    watch.reach(1)
    watch.refuse(1, Address("10.7.7.7", 7946))
    assert watch.state(1) is ALIVE
    assert watch.counters.value("refusal.unproven_address") == 2
    watch.meet(ANN.head(2))  # a new life has answered nowhere yet
    watch.refuse(1)
    assert watch.state(1) is ALIVE


def test_a_refusal_in_a_running_doubt_is_reported_though_the_rank_stays() -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    del watch.changes[:]
    refused(watch)
    assert [(c.old, c.new, c.reason) for c in watch.changes] == [(SUSPECT, SUSPECT, "refused")]
    assert watch.timers.due_at(VerifyDue(node_id(1))) is None  # the own probe runs already
    del watch.changes[:]
    watch.refuse(1)
    assert watch.changes == []


def test_an_answer_ends_a_refusal_and_says_so() -> None:
    watch = Watch(*SIX)
    refused(watch)
    del watch.changes[:]
    answer_probe(watch)
    assert not watch.row(1).refused
    assert [(c.old, c.new) for c in watch.changes] == [(SUSPECT, SUSPECT)]  # so that it is routed to again
    watch.accuse(Author(2).accusation(ANN.head(), Grade.REFUSAL))
    assert ends(watch) == 24.0 - 10.0  # as a confirmation only


def test_a_refusal_is_told_even_after_many_members_have_told_of_silence() -> None:
    watch = Watch(*SIX)
    for accuser in (2, 3, 4, 5):
        watch.accuse(Author(accuser).accusation(ANN.head()))
    refused(watch)
    assert accusers(watch) == [2, 3, 4, 5, OWN]


def test_an_accusation_with_a_refusal_makes_members_that_know_the_subject_look() -> None:
    watch = Watch(*SIX)
    watch.accuse(Author(2).accusation(ANN.head(), Grade.REFUSAL))
    assert watch.timers.due_at(RefusalDialDue(node_id(1))) is None  # it has never answered us
    watch.reach(1)
    watch.accuse(Author(3).accusation(ANN.head(), Grade.REFUSAL))
    watch.run(0.0)
    assert watch.dialled == [node_id(1)]  # among eight members everybody is chosen to dial at once


def test_eight_members_dial_at_once_and_the_others_within_a_period() -> None:
    subjects = [number for number in range(1, 200) if number != OWN]
    watch = Watch(*subjects)
    at_once = 0
    for number in subjects:
        watch.reach(number)
        accuser = 1 if number != 1 else 2
        watch.accuse(Author(accuser).accusation(Author(number).head(), Grade.REFUSAL))
        due = watch.timers.due_at(RefusalDialDue(node_id(number)))
        assert due in (0.0, 0.5)
        at_once += due == 0.0
        watch.meet(Author(number).head(incarnation=1))
    assert 1 <= at_once <= 24  # 198 subjects, each with 8 of 198 members chosen


def test_every_member_names_the_same_dialers() -> None:
    members = [node_id(number) for number in range(1, 101)]
    for subject in members[:10]:
        others = [node for node in members if node != subject]
        chosen = [
            node for node in others if is_chosen_dialer(subject, node, [n for n in others if n != node], 8)
        ]
        assert len(chosen) == 8


def test_a_dial_is_spared_when_the_doubt_is_over() -> None:
    watch = Watch(*SIX)
    watch.reach(1)
    watch.accuse(Author(2).accusation(ANN.head(), Grade.REFUSAL))
    watch.meet(ANN.head(incarnation=1))
    watch.run(5.0)
    assert watch.dialled == []


# The last look


def looks(watch: Watch) -> float | None:
    return watch.timers.due_at(VerifyDue(node_id(1)))


def test_a_lonely_doubt_looks_again_before_its_end_and_lasts_no_longer() -> None:
    watch = Watch(*SIX, health_max=0)
    fail_probe(watch)
    assert looks(watch) == pytest.approx(0.35 * 4)  # the middle of 0.1 to 0.6 of Min
    watch.run(3.0)
    assert looks(watch) == pytest.approx(24 - 1.625)  # the middle of 2 to 1.25 periods before the end
    watch.run(23.999)
    assert watch.state(1) is SUSPECT
    assert looks(watch) is None
    watch.run(24.0)
    assert watch.state(1) is DEAD


def test_a_member_that_answers_the_last_look_is_not_buried() -> None:
    watch = Watch(*SIX, health_max=0)
    fail_probe(watch)
    watch.run(22.5)
    assert watch.prober.is_probing(node_id(1))
    answer_probe(watch)
    watch.prober.stop()
    watch.run(24.0)
    assert watch.state(1) is SUSPECT


def test_the_last_look_comes_earlier_when_another_accuser_shortens_the_timer() -> None:
    watch = Watch(*SIX, health_max=0)
    fail_probe(watch)
    watch.run(3.0)
    watch.accuse(Author(2).accusation(ANN.head()))
    assert ends(watch) == pytest.approx(14.0)
    assert looks(watch) == pytest.approx(14 - 1.625)


def test_a_timer_that_many_have_shortened_needs_no_second_look() -> None:
    watch = Watch(*SIX, health_max=0)
    for accuser in (2, 3, 4, 5):
        watch.accuse(Author(accuser).accusation(ANN.head()))
    watch.run(3.5)
    assert ends(watch) == pytest.approx(4.0)
    assert looks(watch) is None


# What others are told


def test_helpers_are_told_our_own_accusation_or_else_the_first_that_we_heard() -> None:
    watch = Watch(*SIX)
    assert watch.detector.word(node_id(1)) is None
    heard = Author(2).accusation(ANN.head())
    watch.accuse(heard)
    watch.accuse(Author(3).accusation(ANN.head()))
    assert watch.detector.word(node_id(1)) == heard.data
    fail_probe(watch)
    word = watch.detector.word(node_id(1))
    assert word is not None
    assert checker().open(Accusation, word).fact.accuser == node_id(OWN)
    assert word in [item.data for item in circulating(watch)]
    watch.meet(ANN.head(incarnation=1))
    assert watch.detector.word(node_id(1)) is None


def test_a_doubted_member_is_told_with_the_numbers_that_it_can_refute() -> None:
    watch = Watch(*SIX)
    assert watch.detector.doubt(watch.row(1), 0.0) is None
    watch.accuse(Author(2).accusation(ANN.head()))
    told = watch.detector.doubt(watch.row(1), 0.0)
    assert told is not None
    assert checker().open(Accusation, told).fact.age_ms == 0
    watch.meet(ANN.head(incarnation=1))
    fail_probe(watch)
    watch.run(1.0)
    told = watch.detector.doubt(watch.row(1), 1.0)
    assert told is not None
    fact = checker().open(Accusation, told).fact
    assert (fact.life, fact.incarnation, fact.grade, fact.age_ms) == (life(), 1, Grade.SILENCE, 1_000)
    assert watch.detector.doubt(watch.row(1), 4.0) is told  # signed once
    watch.run(24.0)
    dead = watch.detector.doubt(watch.row(1), 24.0)
    assert dead is not None
    assert checker().open(Accusation, dead).fact.grade == Grade.DEAD


def test_a_forgotten_member_leaves_nothing_behind() -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    watch.detector.doubt(watch.row(1), 0.0)
    watch.table.forget(node_id(1), "over")
    watch.detector.forget(node_id(1))
    assert len(watch.detector) == 0
    assert len(watch.accuser) == 0
    assert ends(watch) is None


def test_a_stopped_detector_has_no_timers() -> None:
    watch = Watch(*SIX)
    fail_probe(watch, 1)
    fail_probe(watch, 2)
    watch.detector.stop()
    assert len(watch.timers) == 0


# Our own lateness


def test_a_node_that_did_not_run_does_not_count_the_time_it_missed() -> None:
    watch = Watch(*SIX)
    fail_probe(watch)
    watch.now = 600.0
    watch.detector.on_lag(590.0, 600.0)
    assert ends(watch) == 24.0 + 590.0


def test_a_node_that_did_not_run_accuses_nobody_for_a_period() -> None:
    watch = Watch(*SIX)
    watch.now = 600.0
    watch.detector.on_lag(590.0, 600.0)
    fail_probe(watch)
    watch.reach(2)
    watch.refuse(2)
    assert (watch.state(1), watch.state(2)) == (ALIVE, ALIVE)
    assert watch.counters.value("probe.void") == 1
    watch.now = 601.0
    fail_probe(watch)
    assert watch.state(1) is SUSPECT


def test_an_unhealthy_node_keeps_quiet_for_longer() -> None:
    watch = Watch(*SIX)
    watch.health.worse(2)
    watch.detector.on_lag(10.0, 0.0)
    watch.now = 2.9
    fail_probe(watch)
    assert watch.state(1) is ALIVE
    watch.now = 3.0
    fail_probe(watch)
    assert watch.state(1) is SUSPECT


def test_nobody_is_buried_on_the_strength_of_a_round_that_we_slept_through() -> None:
    watch = Watch(*SIX)
    for accuser in (2, 3, 4, 5):
        watch.accuse(Author(accuser).accusation(ANN.head(), age=100.0))
    watch.run(1.5)
    assert watch.prober.is_probing(node_id(1))
    watch.now = 60.0
    watch.detector.on_lag(58.0, 60.0)
    for result in watch.prober.void_rounds():
        watch.ended(result)
    assert watch.state(1) is SUSPECT
    watch.run(61.9)
    assert watch.state(1) is SUSPECT  # it keeps quiet for a period, and looks again first
    watch.run(62.0)
    assert watch.state(1) is DEAD


def test_a_void_round_says_nothing() -> None:
    watch = Watch(*SIX)
    watch.ended(ProbeResult(node_id(1), life(), answered=False, void=True))
    assert watch.state(1) is ALIVE


# The queue


def test_doubts_about_many_members_have_a_slot_for_each_accuser() -> None:
    watch = Watch(*SIX)
    for subject in (1, 2, 3):
        fail_probe(watch, subject)
    assert len(watch.queue) == 3
    assert len(watch.queue.keys(Kind.ACCUSATION)) == 3
