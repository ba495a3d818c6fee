"""What a node does about its own exclusive agents: it waits, claims on disk first, holds, and steps back."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, Persist, Table
from reachp2p.core.events import MemberState
from reachp2p.core.ids import CLAIM_EPOCH_MAX, Ticket
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.registry.claims import Claims, fencing_token
from reachp2p.core.registry.own_claims import HIGHEST_KEY, STORED_MAX, ClaimDue, ClaimState, OwnClaims
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.facts import Claim
from tests.support import Author, node_id

AGENT = "pay/ledger"
MINIMUM = 4.0
"""S_min of a small group, seconds."""


class Bench:
    """Own claims of node 1, with members 2 and 3; the test plays engine and disk."""

    def __init__(self) -> None:
        self.own = node_id(1)
        self.now = 0.0
        self.effects, self.timers, self.counters = Effects(), Timers(), Counters()
        self.table = MemberTable(self.own, 100, self.counters)
        for number in (0, 2, 3):
            self.table.merge(Author(number).head(), 0.0)
        self.claims = Claims(self.table, self.counters)
        self.mine = OwnClaims(
            self.own,
            Protocol(),
            self.claims,
            self.table,
            effects=self.effects,
            timers=self.timers,
            counters=self.counters,
        )
        self.disk: dict[str, int] = {}
        self.signed: list[Claim] = []

    def offer(self) -> None:
        self.mine.offer(AGENT)
        self.sign()

    def hears(self, number: int, epoch: int, highest: int | None = None) -> None:
        heard = Claim(epoch, epoch if highest is None else highest)
        self.claims.on_record(node_id(number), AGENT, heard, self.now, MINIMUM)
        self.mine.on_changed(AGENT, self.now)
        self.settle()

    def gone(self, number: int) -> None:
        self.claims.on_gone(node_id(number), AGENT, None, self.now, MINIMUM)
        self.mine.on_changed(AGENT, self.now)
        self.settle()

    def sign(self) -> None:
        """What the engine does at the end of an input."""
        claim = self.mine.claim_of(AGENT)
        assert claim is not None
        self.mine.on_signed(AGENT, claim)
        self.signed.append(claim)
        self.claims.on_record(self.own, AGENT, claim, self.now, MINIMUM)
        self.mine.on_changed(AGENT, self.now)

    def settle(self) -> None:
        while self.mine.changed:
            self.mine.changed.clear()
            self.sign()

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while (at := self.timers.next_deadline()) is not None and at <= end:
            self.now = max(self.now, at)
            key = self.timers.pop_due(self.now)
            assert isinstance(key, ClaimDue)
            self.mine.on_due(key, self.now)
            self.settle()
        self.now = end

    def writes(self) -> list[Persist]:
        return [item for item in self.effects.take() if isinstance(item, Persist)]

    def store(self) -> None:
        (write,) = self.writes()
        assert (write.table, write.key) == (Table.LIFE, HIGHEST_KEY)
        self.disk = cbor2.loads(write.value)
        self.mine.on_persisted(write.ticket, self.now)
        self.settle()

    @property
    def state(self) -> ClaimState | None:
        return self.mine.state_of(AGENT)


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.offer()
    return bench


def test_the_first_one_claims_on_disk_before_it_says_so(bench: Bench) -> None:
    bench.run(MINIMUM / 2)
    assert bench.state is ClaimState.CLAIMING
    assert bench.mine.tokens == {}
    assert bench.signed == [Claim(0, 0)], "nobody has heard of it"
    bench.store()
    assert bench.state is ClaimState.HOLDING
    assert bench.disk == {AGENT: 1}
    assert bench.mine.tokens == {AGENT: fencing_token(1, bench.own)}
    assert bench.signed[-1] == Claim(1, 1)
    assert bench.claims.owner(AGENT) == bench.own
    bench.run(1_000)
    assert bench.writes() == []


def test_a_standby_waits_for_its_turn(bench: Bench) -> None:
    for number in (2, 3):
        bench.hears(number, 0)
    turn = bench.claims.turn(AGENT, bench.own)
    at = MINIMUM / 2 + turn * MINIMUM / 2
    bench.run(at - 0.1)
    assert bench.state is ClaimState.STANDING_BY
    bench.run(0.2)
    assert bench.state is ClaimState.CLAIMING


def test_it_claims_above_everything_it_has_heard_of(bench: Bench) -> None:
    bench.hears(2, 41)
    assert bench.signed[-1] == Claim(0, 41), "those first in turn remember for all"
    bench.run(1_000)
    assert bench.state is ClaimState.STANDING_BY
    bench.table.doubt(node_id(2), MemberState.DEAD, bench.now, "")
    bench.mine.on_changed(AGENT, bench.now)
    bench.run(2 * MINIMUM - 0.1)
    assert bench.state is ClaimState.STANDING_BY
    bench.run(0.2)
    bench.store()
    assert bench.signed[-1] == Claim(42, 42)


@pytest.mark.parametrize(("epoch", "number", "stays"), [(2, 3, False), (1, 3, False), (1, 0, True)])
def test_an_owner_steps_back_for_a_higher_claim_only(
    bench: Bench, epoch: int, number: int, stays: bool
) -> None:
    bench.run(MINIMUM)
    bench.store()
    bench.hears(number, epoch)
    assert (bench.state is ClaimState.HOLDING) is stays
    assert (AGENT in bench.mine.tokens) is stays
    assert (AGENT in bench.mine.lost) is not stays
    assert bench.signed[-1] == (Claim(1, 1) if stays else Claim(0, epoch))


def test_the_mere_word_of_a_higher_epoch_ends_a_claim(bench: Bench) -> None:
    bench.run(MINIMUM)
    bench.store()
    bench.hears(3, 0, highest=5)
    assert bench.state is ClaimState.STANDING_BY
    bench.run(MINIMUM + 3 * MINIMUM / 2)
    bench.store()
    assert bench.signed[-1] == Claim(6, 6), "nobody has come with that epoch"


def test_a_claim_that_is_overtaken_while_it_is_written_is_not_made(bench: Bench) -> None:
    bench.run(MINIMUM / 2)
    (write,) = bench.writes()
    bench.hears(2, 1)
    bench.mine.on_persisted(write.ticket, bench.now)
    assert bench.state is ClaimState.STANDING_BY
    assert bench.mine.tokens == {}
    assert bench.signed[-1] == Claim(0, 1)


def test_a_disk_that_fails_keeps_it_from_claiming_for_a_while(bench: Bench) -> None:
    bench.run(MINIMUM / 2)
    (write,) = bench.writes()
    bench.mine.on_persist_failed(write.ticket, bench.now)
    assert bench.state is ClaimState.STANDING_BY
    assert bench.counters.value("claims.not_stored") == 1
    bench.run(MINIMUM - 0.1)
    assert bench.writes() == []
    bench.run(0.2)
    bench.store()
    assert bench.signed[-1] == Claim(1, 1)


def test_a_node_that_may_not_claim_asks_itself_again(bench: Bench) -> None:
    fit = False
    bench.mine.may_claim = lambda now: fit
    bench.run(100)
    assert bench.writes() == []
    fit = True
    bench.run(1.1)
    bench.store()


def test_a_new_life_claims_above_its_former_ones(bench: Bench) -> None:
    bench.run(MINIMUM)
    bench.store()
    bench.mine.end_life()
    bench.gone(1)
    assert bench.mine.tokens == {}
    assert list(bench.mine.lost) == [AGENT]
    assert bench.mine.claim_of(AGENT) == Claim(0, 1)

    again = Bench()
    again.mine.recall([(b"epoch", b"x"), (HIGHEST_KEY, cbor2.dumps(bench.disk))])
    again.offer()
    again.run(MINIMUM)
    again.store()
    assert again.signed[-1] == Claim(2, 2)


def test_agents_that_are_offered_no_more_stay_on_disk_within_bounds() -> None:
    bench = Bench()
    former = {f"a/n{number}": 5 for number in range(STORED_MAX)}
    bench.mine.recall([(HIGHEST_KEY, cbor2.dumps(former))])
    bench.offer()
    bench.run(MINIMUM)
    bench.store()
    assert len(bench.disk) == STORED_MAX
    assert bench.disk[AGENT] == 1
    assert "a/n0" not in bench.disk
    assert bench.disk["a/n1"] == 5


@pytest.mark.parametrize("row", [b"", b"\xff", cbor2.dumps([1]), cbor2.dumps({"a/b": "x"})])
def test_a_damaged_row_is_counted(row: bytes) -> None:
    bench = Bench()
    bench.mine.recall([(HIGHEST_KEY, row)])
    assert bench.counters.value("claims.row_damaged") == 1


def test_an_epoch_out_of_bounds_is_not_recalled() -> None:
    bench = Bench()
    bench.mine.recall([(HIGHEST_KEY, cbor2.dumps({AGENT: CLAIM_EPOCH_MAX + 1, "a/b": -1}))])
    assert bench.claims.highest(AGENT) == 0


def test_used_up_epochs_are_counted_and_nobody_claims(bench: Bench) -> None:
    bench.hears(2, 0, highest=CLAIM_EPOCH_MAX)
    bench.run(100)
    assert bench.writes() == []
    assert bench.counters.value("claims.used_up") == 1


def test_what_is_withdrawn_is_forgotten(bench: Bench) -> None:
    bench.run(MINIMUM / 2)
    bench.mine.withdraw(AGENT)
    assert AGENT not in bench.mine
    assert bench.mine.claim_of(AGENT) is None
    assert len(bench.timers) == 0
    (write,) = bench.writes()
    bench.mine.on_persisted(write.ticket, bench.now)
    assert bench.mine.tokens == {}


class Hearing(RuleBasedStateMachine):
    """Anything may be heard in any order: tokens only rise, and only what is on disk is ever said or used."""

    @initialize()
    def begin(self) -> None:
        self.bench = Bench()
        self.bench.offer()
        self.written: dict[Ticket, int] = {}
        self.stored = 0
        self.tokens: list[int] = []

    @rule(number=st.sampled_from([0, 2, 3]), epoch=st.integers(0, 4), more=st.integers(0, 2))
    def hear(self, number: int, epoch: int, more: int) -> None:
        self.bench.hears(number, epoch, epoch + more)
        self.after()

    @rule(number=st.sampled_from([0, 2, 3]))
    def lose(self, number: int) -> None:
        self.bench.gone(number)
        self.after()

    @rule(seconds=st.sampled_from([0.5, 2.0, 9.0]))
    def wait(self, seconds: float) -> None:
        self.bench.run(seconds)
        self.after()

    @rule()
    def die(self) -> None:
        self.bench.table.doubt(node_id(2), MemberState.DEAD, self.bench.now, "")
        self.bench.mine.on_changed(AGENT, self.bench.now)
        self.after()

    @rule(works=st.booleans())
    def disk(self, works: bool) -> None:
        for ticket, epoch in self.written.items():
            if works:
                self.stored = max(self.stored, epoch)
                self.bench.mine.on_persisted(ticket, self.bench.now)
            else:
                self.bench.mine.on_persist_failed(ticket, self.bench.now)
        self.written.clear()
        self.after()

    def after(self) -> None:
        for write in self.bench.writes():
            self.written[write.ticket] = cbor2.loads(write.value)[AGENT]
        self.bench.settle()
        self.bench.mine.lost.clear()
        token = self.bench.mine.tokens.get(AGENT)
        if token is not None and token not in self.tokens:
            assert all(token > former for former in self.tokens)
            self.tokens.append(token)

    @invariant()
    def only_what_is_stored_is_said(self) -> None:
        assert all(claim.epoch <= self.stored for claim in self.bench.signed)

    @invariant()
    def a_holder_owns_it_in_its_own_view(self) -> None:
        holds = AGENT in self.bench.mine.tokens
        assert holds == (self.bench.state is ClaimState.HOLDING)
        assert not holds or self.bench.claims.owner(AGENT) == self.bench.own


Hearing.TestCase.settings = hypothesis_settings(max_examples=60, stateful_step_count=25, deadline=None)
TestHearing = Hearing.TestCase
