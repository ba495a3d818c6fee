"""Probe rounds: who is asked when, what ends a round, and what a helper does (SWIM §3.1, §4.3, Lifeguard §IV.A)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from reachp2p.core.membership.probe import (
    FAILED_MAX,
    PROBE_TIMEOUT_FLOOR,
    DirectProbeDue,
    ProbeDue,
    ProbeEnds,
    ProbeResult,
)
from reachp2p.core.rules import Rules
from reachp2p.core.wire.messages import AccusationUpdate, Ping, PingReq
from tests.support import Author, life, node_id, seeded
from tests.unit.membership.watch import Watch

ANN = Author(1)
NONCE = b"8 bytes!"


def start(watch: Watch, number: int = 1) -> bytes:
    """Begin a round with a member; its nonce."""
    assert watch.prober.probe(watch.row(number), watch.now)
    return watch.pings()[node_id(number)]


# One round


def test_a_round_begins_with_a_ping_and_ends_with_its_ack() -> None:
    watch = Watch(1, 2, 3)
    assert watch.prober.probe(watch.row(1), 0.0)
    ((target, ping),) = watch.sent
    assert target == node_id(1)
    assert isinstance(ping, Ping)
    assert ping.origin is None
    assert watch.timers.due_at(DirectProbeDue(ping.nonce)) == 0.5
    assert watch.timers.due_at(ProbeEnds(ping.nonce)) is None
    watch.run(0.04)
    assert watch.ack(ping.nonce, ANN.head()) == ProbeResult(ANN.node, life(), answered=True, round_trip=0.04)
    assert len(watch.timers) == 0
    assert watch.row(1).rtt == pytest.approx(0.04)
    assert watch.row(1).reached == (ANN.address,)


def test_the_late_ack_of_a_failed_round_is_known_once() -> None:
    watch = Watch(1, 2, 3)
    nonce = start(watch)
    assert not watch.prober.take_late(nonce, ANN.node, life()), "the round runs"
    assert watch.prober.on_probe_ends(nonce) is not None
    assert not watch.prober.take_late(nonce, node_id(2), life())
    assert not watch.prober.take_late(nonce, ANN.node, life(2))
    assert watch.prober.take_late(nonce, ANN.node, life())
    assert not watch.prober.take_late(nonce, ANN.node, life()), "a replay"


def test_the_oldest_failed_round_is_forgotten_first() -> None:
    watch = Watch(1, 2, 3)
    nonces = []
    for _ in range(FAILED_MAX + 1):
        nonces.append(start(watch))
        watch.prober.on_probe_ends(nonces[-1])
    assert not watch.prober.take_late(nonces[0], ANN.node, life())
    assert watch.prober.take_late(nonces[1], ANN.node, life())
    watch.prober.stop()
    assert not watch.prober.take_late(nonces[2], ANN.node, life())


def test_only_one_round_with_a_member_runs_at_a_time() -> None:
    watch = Watch(1, 2)
    start(watch)
    assert watch.prober.is_probing(node_id(1))
    assert not watch.prober.probe(watch.row(1), 0.0)
    assert watch.prober.probe(watch.row(2), 0.0)


def test_a_member_without_address_cannot_be_probed() -> None:
    watch = Watch()
    watch.meet(ANN.head(addresses=[]))
    assert not watch.prober.probe(watch.row(1), 0.0)
    assert watch.sent == []


def test_a_late_ack_makes_helpers_and_a_link_probe_too() -> None:
    watch = Watch(1, 2, 3, 4, 5)
    nonce = start(watch)
    watch.run(0.5)
    requests = watch.sent
    assert [node for node, _ in requests] == [node_id(n) for n in (2, 3, 4)]  # k = 3, never the target
    assert all(m == PingReq(nonce=nonce, target=node_id(1), timeout_ms=500) for _, m in requests)
    assert watch.probed_links == [(node_id(1), nonce)]
    assert watch.counters.value("probe.indirect") == 1


def test_helpers_are_alive_members_and_as_many_as_there_are() -> None:
    watch = Watch(1, 2, 3)
    nonce = start(watch)
    watch.meet(Author(3).head(left=True))
    watch.run(0.5)
    assert [(node, m.nonce) for node, m in watch.sent if isinstance(m, PingReq)] == [(node_id(2), nonce)]


@pytest.mark.parametrize("target", [1, 20, 40])
def test_one_helper_is_a_successor_of_the_target(target: int) -> None:
    """Case B59: it keeps links to its successors, so one of them reaches it where no datagram gets in."""
    order = [node_id(number) for number in range(1, 41)]
    place = order.index(node_id(target)) + 1
    successors = (order[place:] + order[:place])[:3]
    for seed in range(20):
        watch = Watch(*range(1, 41), rng=seeded(seed))
        start(watch, target)
        watch.run(0.9)
        helpers = [node for node, m in watch.sent if isinstance(m, PingReq)]
        assert len(set(helpers)) == 3
        assert set(helpers) & set(successors)


def test_that_helper_is_one_that_has_answered_us() -> None:
    """Two members behind translators cannot dial each other, so one is no help in reaching the other."""
    for seed in range(20):
        watch = Watch(*range(1, 41), rng=seeded(seed))
        nonce = start(watch, 3)
        watch.ack(nonce, Author(3).head())
        start(watch, 1)
        watch.run(0.9)
        assert node_id(3) in [node for node, m in watch.sent if isinstance(m, PingReq)]


def helpers(watch: Watch) -> list[int]:
    """Who has been asked since messages were last looked at."""
    return [int.from_bytes(node[:2], "big") for node, m in watch.sent if isinstance(m, PingReq)]


def unanswered(watch: Watch, number: int = 1, *, is_last: bool = False) -> list[int]:
    """A round that nobody answers; who was asked to help."""
    assert watch.prober.probe(watch.row(number), watch.now, is_last=is_last)
    nonces = [m.nonce for _, m in watch.sent if isinstance(m, Ping) and m.origin is None]
    watch.prober.on_direct_late(nonces[-1], watch.now)
    asked = helpers(watch)
    assert watch.prober.on_probe_ends(nonces[-1]) is not None
    return asked


@pytest.mark.parametrize("seed", range(5))
def test_who_was_asked_in_vain_is_not_asked_again_before_all_others_have_been(seed: int) -> None:
    """Of eight nodes one that is a bridge to the target is among the helpers of one of any two rounds."""
    watch = Watch(*range(1, 8), rng=seeded(seed), rules=Rules(link_probes=False))
    for _ in range(3):
        assert sorted(unanswered(watch) + unanswered(watch)) == [2, 3, 4, 5, 6, 7]


def test_too_few_that_were_not_asked_yet_are_joined_by_others_and_all_begin_anew() -> None:
    watch = Watch(*range(1, 6), rng=seeded(1), rules=Rules(link_probes=False))
    first, second, third = unanswered(watch), unanswered(watch), unanswered(watch)
    assert sorted({*first, *second}) == [2, 3, 4, 5]
    assert len(second) == len(set(second)) == 3
    assert next(iter({2, 3, 4, 5}.difference(second))) in third


def test_with_an_answer_or_a_new_life_all_begin_anew() -> None:
    watch = Watch(*range(1, 8), rng=seeded(1))
    unanswered(watch)
    assert len(watch.row(1).asked) == 3
    watch.ack(start(watch), ANN.head())
    assert watch.row(1).asked == ()
    unanswered(watch)
    watch.meet(ANN.head(2))
    assert watch.row(1).asked == ()


def test_a_round_with_a_former_life_says_nothing_about_helpers_of_this_one() -> None:
    watch = Watch(*range(1, 8))
    nonce = start(watch)
    watch.meet(ANN.head(2))
    watch.prober.on_direct_late(nonce, watch.now)
    assert helpers(watch) == [2, 3, 4]
    watch.prober.on_probe_ends(nonce)
    assert watch.row(1).asked == ()


@pytest.mark.parametrize("number", [1, 2])
def test_whoever_brought_an_ack_is_asked_first_about_this_member_and_about_others(number: int) -> None:
    for seed in range(20):
        watch = Watch(*range(1, 41), rng=seeded(seed))
        nonce = start(watch)
        watch.run(0.9)
        helper = helpers(watch)[0]
        watch.relayed_ack(nonce, ANN.head(), helper)
        if helper == number:
            continue
        assert helper in unanswered(watch, number)
        assert helper not in unanswered(watch, number)  # it was asked in vain


def test_an_ack_by_somebody_who_was_not_asked_names_no_helper() -> None:
    watch = Watch(*range(1, 41), rng=seeded(1))
    nonce = start(watch)
    watch.run(0.9)
    stranger = next(number for number in range(2, 41) if number not in helpers(watch))
    assert watch.relayed_ack(nonce, ANN.head(), stranger) is not None
    assert watch.row(1).helper is None


@pytest.mark.parametrize(("nodes", "asked"), [(4, 2), (8, 6), (40, 6)])
def test_the_last_look_before_a_burial_asks_twice_as_many(nodes: int, asked: int) -> None:
    watch = Watch(*range(1, nodes), rng=seeded(1))
    assert len(set(unanswered(watch, is_last=True))) == asked


def test_a_wide_round_costs_no_more_health_than_another() -> None:
    watch = Watch(*range(1, 41))
    unanswered(watch, is_last=True)
    assert watch.health.value == 3


def test_helpers_are_told_of_a_doubt_and_of_nothing_else() -> None:
    watch = Watch(*range(1, 8))
    start(watch)
    watch.run(0.9)
    assert not any(isinstance(m, AccusationUpdate) for _, m in watch.sent)  # nobody doubts yet
    watch.run(1.0)
    word = watch.detector.word(node_id(1))
    assert word is not None
    watch.prober.on_direct_late(start(watch), watch.now)
    sent = watch.sent
    asked = [node for node, m in sent if isinstance(m, PingReq)]
    assert [node for node, m in sent if m == AccusationUpdate(accusation=word)] == asked


@pytest.mark.parametrize("direct", [True, False])
def test_an_ack_ends_the_round_at_any_time_whichever_way_it_came(direct: bool) -> None:
    watch = Watch(1, 2, 3)
    nonce = start(watch)
    watch.run(0.9)
    assert watch.ack(nonce, ANN.head(), direct=direct) == ProbeResult(ANN.node, life(), answered=True)
    watch.run(5.0)
    assert watch.changes[3:] == []
    # Whether a late direct Ack was late or answered by way of a helper is not known: it is no measurement.
    assert watch.row(1).rtt is None
    assert watch.row(1).reached == ((ANN.address,) if direct else ())


def test_a_round_that_nobody_answers_fails_after_its_period() -> None:
    watch = Watch(1, 2, 3)
    nonce = start(watch)
    watch.run(0.999)
    assert watch.prober.is_probing(node_id(1))
    watch.run(1.0)
    assert not watch.prober.is_probing(node_id(1))
    assert watch.counters.value("probe.failed") == 1
    assert watch.ack(nonce, ANN.head()) is None
    assert watch.counters.value("probe.ack_late") == 1


def test_the_ack_of_another_life_or_another_node_ends_nothing() -> None:
    watch = Watch(1, 2)
    nonce = start(watch)
    assert watch.ack(nonce, ANN.head(2)) is None
    assert watch.ack(nonce, Author(2).head()) is None
    assert watch.prober.is_probing(node_id(1))
    assert watch.counters.value("dropped.ack.other_life") == 1
    assert watch.counters.value("dropped.ack.wrong_source") == 1


def test_rounds_that_this_node_slept_through_say_nothing() -> None:
    watch = Watch(1, 2)
    start(watch, 1)
    start(watch, 2)
    results = watch.prober.void_rounds()
    assert results == [
        ProbeResult(node_id(1), life(), answered=False, void=True),
        ProbeResult(node_id(2), life(), answered=False, void=True),
    ]
    assert len(watch.timers) == 0


# Time-outs and local health


@pytest.mark.parametrize(
    ("rtt", "wait"), [(None, 0.5), (0.001, PROBE_TIMEOUT_FLOOR), (0.06, 0.3), (0.4, 0.5)]
)
def test_the_direct_wait_follows_the_round_trip_within_bounds(rtt: float | None, wait: float) -> None:
    watch = Watch(1)
    watch.row(1).rtt = rtt
    nonce = start(watch)
    assert watch.timers.due_at(DirectProbeDue(nonce)) == pytest.approx(wait)
    watch.prober.on_direct_late(nonce, wait)
    assert watch.timers.due_at(ProbeEnds(nonce)) == 1.0


def test_an_unhealthy_node_gives_others_more_time_and_probes_less() -> None:
    watch = Watch(1, 2)
    watch.health.worse(3)
    nonce = start(watch)
    assert watch.timers.due_at(DirectProbeDue(nonce)) == 2.0
    watch.prober.on_direct_late(nonce, 2.0)
    assert watch.timers.due_at(ProbeEnds(nonce)) == 4.0
    watch.prober.on_probe_due(0.0)
    assert watch.timers.due_at(ProbeDue()) == 4.0


@pytest.mark.parametrize(
    ("nacks", "health"), [((), 3), ((2,), 2), ((2, 2, 2), 2), ((2, 3, 4), 0), ((9, 1), 3)]
)
def test_a_failed_probe_costs_one_for_each_helper_that_was_silent(
    nacks: tuple[int, ...], health: int
) -> None:
    watch = Watch(1, 2, 3, 4, 9)
    nonce = start(watch)
    watch.run(0.5)
    for helper in nacks:
        watch.nack(nonce, helper)
    watch.run(1.0)
    assert watch.health.value == health


def test_the_end_of_a_round_names_the_helpers_that_hear_us_and_those_that_were_silent() -> None:
    watch = Watch(1, 2, 3, 4)
    nonce = start(watch)
    watch.run(0.5)
    watch.nack(nonce, 3)
    failed = watch.prober.on_probe_ends(nonce)
    assert failed == ProbeResult(
        ANN.node, life(), answered=False, helped=(node_id(3),), silent=(node_id(2), node_id(4))
    )
    nonce = start(watch)
    watch.run(2.5)
    brought = watch.relayed_ack(nonce, ANN.head(), 4)
    assert brought == ProbeResult(ANN.node, life(), answered=True, helped=(node_id(4),))
    nonce = start(watch)
    watch.run(4.0)
    assert watch.relayed_ack(nonce, ANN.head(), 77) == ProbeResult(ANN.node, life(), answered=True)


def test_where_nobody_nacks_no_helper_is_called_silent() -> None:
    watch = Watch(1, 2, 3, 4, rules=Rules(lha_probe=False))
    nonce = start(watch)
    watch.run(0.5)
    assert watch.prober.on_probe_ends(nonce) == ProbeResult(ANN.node, life(), answered=False)


def test_a_failed_probe_that_nobody_could_help_with_costs_one() -> None:
    watch = Watch(1)
    start(watch)
    watch.run(1.0)
    assert watch.health.value == 1


def test_an_answered_probe_heals() -> None:
    watch = Watch(1)
    watch.health.worse(2)
    watch.ack(start(watch), ANN.head())
    assert watch.health.value == 1


def test_an_ack_after_a_nack_is_an_answer_and_is_counted() -> None:
    watch = Watch(1, 2)
    nonce = start(watch)
    watch.run(0.5)
    watch.nack(nonce, 2)
    assert watch.ack(nonce, ANN.head(), direct=False) is not None
    assert watch.counters.value("probe.ack_after_nack") == 1


# Rounds in turn


def probed(watch: Watch, periods: int) -> list[int]:
    """Whom the next periods probe; everybody answers at once."""
    order: list[int] = []
    for _ in range(periods):
        watch.prober.on_probe_due(watch.now)
        for node, nonce in watch.pings().items():
            number = int.from_bytes(node[:2], "big")
            order.append(number)
            watch.ack(nonce, watch.row(number).head)
    return order


@pytest.mark.parametrize("seed", range(5))
def test_each_member_is_probed_once_a_pass_and_within_2n_minus_1_periods(seed: int) -> None:
    watch = Watch(*range(1, 9), rng=seeded(seed))
    order = probed(watch, 80)
    for start_of_pass in range(0, 80, 8):
        assert sorted(order[start_of_pass : start_of_pass + 8]) == list(range(1, 9))
    for number in range(1, 9):
        times = [at for at, probed_number in enumerate(order) if probed_number == number]
        assert max(later - earlier for earlier, later in pairwise(times)) <= 2 * 8 - 1


def test_passes_are_shuffled() -> None:
    order = probed(Watch(*range(1, 9), rng=seeded(3)), 48)
    assert len({tuple(order[at : at + 8]) for at in range(8, 48, 8)}) == 5


def test_nobody_to_probe_is_no_trouble() -> None:
    watch = Watch()
    assert probed(watch, 2) == []
    watch.meet(ANN.head(left=True))
    assert probed(watch, 2) == []
    assert watch.timers.due_at(ProbeDue()) == 1.0


def test_dead_and_departed_members_are_passed_over() -> None:
    watch = Watch(1, 2, 3, rng=seeded(1))
    watch.meet(Author(2).head(left=True))
    watch.table.doubt(node_id(3), watch.state(3).DEAD, 0.0, "gone")
    assert probed(watch, 3) == [1, 1, 1]


def test_a_newcomer_takes_a_place_in_the_running_pass() -> None:
    places: dict[int, None] = {}
    for seed in range(40):
        watch = Watch(*range(1, 9), rng=seeded(seed))
        before = probed(watch, 4)
        watch.meet(Author(9).head())
        rest = probed(watch, 5)
        assert sorted(before + rest) == list(range(1, 10))
        places[rest.index(9)] = None
    assert sorted(places) == [
        0,
        1,
        2,
        3,
        4,
    ]  # at random, so that detection times of those that joined together differ


def test_a_node_that_restarts_again_and_again_does_not_lengthen_the_pass() -> None:
    watch = Watch(*range(1, 9), rng=seeded(1))
    for epoch in range(2, 2_000):
        watch.meet(ANN.head(epoch))
    order = probed(watch, 16)
    assert sorted(order[:8]) == list(range(1, 9))
    assert sorted(order[8:]) == list(range(1, 9))


def test_probing_begins_at_a_random_phase() -> None:
    due = []
    for seed in range(20):
        watch = Watch(1, rng=seeded(seed))
        watch.prober.start(100.0)
        at = watch.timers.due_at(ProbeDue())
        assert at is not None
        due.append(at)
    assert all(100.0 <= at < 101.0 for at in due)
    assert len(set(due)) == 20


def test_a_stopped_prober_forgets_everything() -> None:
    watch = Watch(1, 2)
    watch.prober.start(0.0)
    start(watch)
    watch.prober.stop()
    assert len(watch.timers) == 0
    assert not watch.prober.is_probing(node_id(1))
    assert len(watch.prober) == 0
