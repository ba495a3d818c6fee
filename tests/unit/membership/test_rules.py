"""Each switch for experiments changes one thing (`core/rules.py`); with all of them on nothing differs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from msgspec.structs import fields

from reachp2p.core.events import MemberState
from reachp2p.core.ids import NodeId
from reachp2p.core.membership.detector import SuspicionEnds
from reachp2p.core.membership.looks import VerifyDue
from reachp2p.core.membership.probe import ProbeResult
from reachp2p.core.membership.relays import RelayNackDue
from reachp2p.core.membership.suspicion import Grade
from reachp2p.core.rules import Rules
from reachp2p.core.settings import Protocol
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.codec import decode_message
from reachp2p.core.wire.facts import Accusation
from reachp2p.core.wire.messages import AccusationUpdate, Ping, PingReq
from tests.support import Author, address, checker, life, node_id, seeded
from tests.unit.membership.watch import OWN, Watch

ALIVE, SUSPECT, DEAD, _ = MemberState
ANN = Author(1)
SIX = (1, 2, 3, 4, 5, 6)


def watching(*numbers: int, rng: Any = None, **rules: bool) -> Watch:
    return Watch(*(numbers or SIX), rng=rng, rules=Rules(**rules))


def fail_probe(watch: Watch, number: int = 1) -> None:
    watch.ended(ProbeResult(node_id(number), life(), answered=False))


def told(watch: Watch) -> list[Checked[Accusation]]:
    """Accusations that wait to be sent; they go on waiting."""
    found = []
    for encoded in watch.queue.take(10**6, 10**6):
        update = decode_message(encoded)
        assert isinstance(update, AccusationUpdate)
        found.append(checker().open(Accusation, update.accusation))
    return found


def test_a_node_that_ships_has_every_rule_on() -> None:
    assert all(getattr(Protocol().rules, field.name) is True for field in fields(Rules))


def test_without_suspicion_an_unanswered_probe_buries_at_once() -> None:
    watch = watching(suspicion=False)
    fail_probe(watch)
    watch.run(0.0)
    assert watch.story()[6:] == [(1, ALIVE, SUSPECT), (1, SUSPECT, DEAD)]


def test_without_suspicion_an_accusation_still_needs_an_own_probe() -> None:
    watch = watching(suspicion=False)
    watch.accuse(Author(2).accusation(ANN.head()))
    watch.run(0.9)
    assert watch.state(1) is SUSPECT
    watch.run(1.0)
    assert watch.state(1) is DEAD


def test_without_own_verdict_the_timer_buries_and_the_others_are_told() -> None:
    watch = watching(own_verdict=False)
    fail_probe(watch)
    assert watch.timers.due_at(VerifyDue(node_id(1))) is None
    watch.run(24.0)
    assert watch.state(1) is DEAD
    (confirm,) = told(watch)
    assert (confirm.fact.grade, confirm.fact.subject) == (Grade.DEAD, node_id(1))
    assert watch.pings() == {}


def test_without_own_verdict_a_confirmed_member_is_dead_at_once_and_the_word_is_passed_on_as_it_came() -> (
    None
):
    watch = watching(own_verdict=False)
    fail_probe(watch)
    confirm = Author(2).accusation(ANN.head(), Grade.DEAD)
    watch.accuse(confirm)
    assert watch.state(1) is DEAD
    assert [c.data for c in told(watch)] == [confirm.data]
    assert len(watch.detector) == 0
    assert watch.timers.due_at(SuspicionEnds(node_id(1))) is None


def test_a_confirm_stops_circulating_when_its_subject_refutes() -> None:
    watch = watching(own_verdict=False)
    watch.accuse(Author(2).accusation(ANN.head(), Grade.DEAD))
    watch.meet(ANN.head(incarnation=1))
    assert watch.state(1) is ALIVE
    assert told(watch) == []


def test_without_own_verdict_only_the_latest_word_about_a_member_circulates() -> None:
    watch = watching(own_verdict=False)
    for accuser in (4, 2, 3):
        watch.accuse(Author(accuser).accusation(ANN.head()))
    assert [c.fact.accuser for c in told(watch)] == [node_id(3)]
    watch.meet(ANN.head(incarnation=1))
    assert told(watch) == []


def test_with_final_death_a_higher_incarnation_changes_nothing_and_a_new_life_does() -> None:
    watch = watching(own_verdict=False, refutable_death=False)
    watch.accuse(Author(2).accusation(ANN.head(), Grade.DEAD))
    watch.meet(ANN.head(incarnation=1))
    assert watch.state(1) is DEAD
    assert watch.row(1).incarnation == 1
    watch.meet(ANN.head(epoch=2))
    assert watch.state(1) is ALIVE


def test_with_final_death_the_word_of_the_dead_counts_no_more() -> None:
    watch = watching(own_verdict=False, refutable_death=False)
    watch.accuse(Author(2).accusation(ANN.head(), Grade.DEAD))
    watch.accuse(ANN.accusation(Author(3).head(), Grade.DEAD))
    assert watch.state(3) is ALIVE
    assert watch.counters.value("dropped.accusation.of_the_dead") == 1


def test_final_death_leaves_suspects_their_refutation() -> None:
    watch = watching(refutable_death=False)
    fail_probe(watch)
    watch.meet(ANN.head(incarnation=1))
    assert watch.state(1) is ALIVE


def test_without_lha_suspicion_the_timer_is_fixed_and_only_the_first_word_is_passed_on() -> None:
    watch = watching(lha_suspicion=False)
    for accuser in (6, 5, 4, 3, 2):
        watch.accuse(Author(accuser).accusation(ANN.head()))
    assert watch.timers.due_at(SuspicionEnds(node_id(1))) == 4.0  # S_min of ten members or fewer
    assert [c.fact.accuser for c in told(watch)] == [node_id(6)]
    fail_probe(watch)
    assert len(told(watch)) == 1


def test_what_is_told_in_a_comparison_of_views_is_an_accusation_of_our_own_that_shortens_nothing_here() -> (
    None
):
    watch = watching(own_verdict=False, doubts_told_once=False)
    watch.accuse(Author(2).accusation(ANN.head()))
    before = watch.timers.due_at(SuspicionEnds(node_id(1)))
    (data,) = watch.detector.doubts(1.0)
    fact = checker().open(Accusation, data).fact
    assert (fact.accuser, fact.subject, fact.grade) == (node_id(OWN), node_id(1), Grade.SILENCE)
    assert watch.timers.due_at(SuspicionEnds(node_id(1))) == before
    assert [c.fact.accuser for c in told(watch)] == [node_id(2)]


def test_without_ages_a_timer_begins_when_the_accusation_is_heard() -> None:
    watch = watching(accusation_ages=False)
    watch.run(10.0)
    watch.accuse(Author(2).accusation(ANN.head(), age=8.0))
    assert watch.timers.due_at(SuspicionEnds(node_id(1))) == 34.0


def test_without_lha_probe_helpers_send_no_nacks() -> None:
    for rules, is_set in ((Rules(), True), (Rules(lha_probe=False), False)):
        watch = Watch(*SIX, rules=rules)
        request = PingReq(nonce=b"12345678", target=node_id(1), timeout_ms=500)
        watch.relays.on_ping_req(node_id(2), address(2), request, 0.0)
        assert (watch.timers.due_at(RelayNackDue(b"12345678")) is not None) is is_set


def test_without_an_adaptive_timeout_the_direct_probe_always_waits_the_full_time() -> None:
    for rules, asked in ((Rules(), True), (Rules(adaptive_timeout=False), False)):
        watch = Watch(*SIX, rules=rules)
        watch.row(1).rtt = 0.01
        assert watch.prober.probe(watch.row(1), 0.0)
        watch.run(0.4)
        assert any(isinstance(m, PingReq) for _, m in watch.sent) is asked


def asked(watch: Watch) -> list[NodeId]:
    """The helpers of a round that nobody answers."""
    assert watch.prober.probe(watch.row(1), watch.now, is_last=True)
    (nonce,) = watch.pings().values()
    watch.prober.on_direct_late(nonce, watch.now)
    found = [node for node, m in watch.sent if isinstance(m, PingReq)]
    watch.prober.on_probe_ends(nonce)
    return found


def test_without_other_helpers_each_round_draws_k_members_anew() -> None:
    watch = watching(*range(1, 8), rng=seeded(1), other_helpers=False, link_probes=False)
    rounds = [asked(watch) for _ in range(20)]
    assert all(len(set(helpers)) == 3 for helpers in rounds)
    assert any(set(one) & set(next_one) for one, next_one in pairwise(rounds))
    assert watch.row(1).asked == ()


def test_without_helpers_told_a_helper_is_asked_and_told_nothing() -> None:
    for rules, is_told in ((Rules(), True), (Rules(helpers_told=False), False)):
        watch = Watch(*SIX, rules=rules)
        fail_probe(watch)
        assert watch.prober.probe(watch.row(1), 0.0)
        watch.run(0.6)
        assert any(isinstance(m, AccusationUpdate) for _, m in watch.sent) is is_told


def test_without_round_robin_targets_are_drawn_from_all_members() -> None:
    watch = watching(*SIX, rng=seeded(3), round_robin=False)
    probed = []
    for second in range(60):
        watch.prober.on_probe_due(float(second))
        for node, message in watch.sent:
            if isinstance(message, Ping):
                probed.append(node)
        watch.prober.void_rounds()
    assert set(probed) == {node_id(n) for n in SIX}
    passes = [probed[i : i + 6] for i in range(0, 60, 6)]
    assert any(len(set(one)) < 6 for one in passes)  # a pass of a list would name everyone once


def test_without_infection_nobody_passes_on_what_others_say() -> None:
    watch = watching(infection=False)
    watch.accuse(Author(2).accusation(ANN.head()))
    assert told(watch) == []
    fail_probe(watch)
    assert [c.fact.accuser for c in told(watch)] == [node_id(OWN)]
