"""The agents that a node offers: declared once, signed anew in each life, withdrawn with a floor (case B03)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from reachp2p.core.clock import WallClock
from reachp2p.core.commands import AgentSpec, CapabilitySpec
from reachp2p.core.counters import Counters
from reachp2p.core.ids import CLAIM_EPOCH_MAX, COUNTER_MAX, EPOCH_MAX, Life
from reachp2p.core.membership.own import OwnNode
from reachp2p.core.registry.own import OwnAgents
from reachp2p.core.registry.record import RECORD_BYTES_MAX, RECORDS_BYTES_MAX, schema_hash
from reachp2p.core.registry.schemas import Schemas
from reachp2p.core.registry.store import RecordStore
from reachp2p.core.trust.facts import FactChecker
from reachp2p.core.wire.facts import Claim
from reachp2p.errors import ErrorCode, InvalidIdentifier, LocalProtocolError
from tests.support import CLUSTER, WALL, Author, KeyedHash, life, settings

RETENTION = 4_800.0
ME = Author(50)


class Desk:
    """Node 50's agents. `begin` opens a life as the engine does."""

    def __init__(self, records_max: int = 100) -> None:
        self.clock = WallClock()
        self.clock.report(WALL, 0.0)
        checker = FactChecker(KeyedHash(ME.node), CLUSTER, Counters())
        self.store = RecordStore(records_max, Counters())
        self.schemas = Schemas(Counters())
        self.own = OwnNode(ME.node, settings(50), ME.signer, checker, self.clock)
        self.agents = OwnAgents(
            self.own, self.store, self.schemas, ME.signer, checker, self.clock, records_max // 2
        )

    def begin(self, epoch: int = 1) -> Desk:
        self.own.open(life(epoch), 0.0)
        self.agents.open(life(epoch), 0.0)
        return self

    def register(self, agent: str, now: float = 0.0, **fields: Any) -> int | None:
        """The record's version, or None."""
        record = self.agents.register(AgentSpec(agent=agent, **fields), now)
        return None if record is None else record.fact.version

    def withdraw(self, agent: str, now: float = 0.0) -> int | None:
        record = self.agents.withdraw(agent, now)
        return None if record is None else record.fact.version

    def expire(self, now: float) -> bool:
        return self.agents.expire(RETENTION, now)

    def held(self) -> dict[str, int]:
        """Versions by agent, tombstones negative."""
        return {
            r.fact.agent: -r.fact.version if r.fact.withdrawn else r.fact.version
            for r in self.store.records(ME.node)
        }


@pytest.fixture
def desk() -> Desk:
    return Desk().begin()


def test_each_change_and_withdrawal_takes_the_next_version(desk: Desk) -> None:
    assert desk.register("a/a") == 1
    assert desk.register("a/b") == 2
    assert desk.register("a/a", description="changed") == 3
    assert desk.withdraw("a/b") == 4
    assert desk.held() == {"a/a": 3, "a/b": -4}
    assert desk.own.version == 4


def test_agents_registered_before_a_life_begins_are_signed_when_it_does() -> None:
    desk = Desk()
    assert desk.register("a/a") is None
    assert desk.register("a/b") is None
    assert desk.withdraw("a/b") is None
    desk.begin()
    assert desk.held() == {"a/a": 1}


def test_agents_can_be_registered_and_withdrawn_while_the_node_still_asks_about_its_own_id() -> None:
    """The life is known then, but does not run yet; nothing is signed before it does."""
    desk = Desk()
    desk.own.open(life(1), 0.0)
    assert desk.register("a/a") is None
    assert desk.register("a/b") is None
    assert desk.withdraw("a/b") is None
    assert desk.own.version == 0
    assert [r.fact.version for r in desk.agents.open(life(1), 0.0)] == [1]


def test_a_new_life_signs_every_agent_anew_and_knows_no_withdrawals(desk: Desk) -> None:
    desk.register("a/a")
    desk.register("a/b")
    desk.withdraw("a/b")
    desk.register("a/c")
    desk.own.open(life(2), 5.0)
    records = desk.agents.open(life(2), 5.0)
    assert [(r.fact.agent, r.fact.life, r.fact.version) for r in records] == [
        ("a/a", life(2), 1),
        ("a/c", life(2), 2),
    ]
    assert desk.held() == {"a/a": 1, "a/c": 2}


def test_after_leaving_nothing_is_signed(desk: Desk) -> None:
    desk.register("a/a")
    desk.own.leave()
    assert desk.register("a/b") is None
    assert desk.withdraw("a/a") is None
    assert desk.held() == {"a/a": 1}


def test_what_is_not_offered_cannot_be_withdrawn(desk: Desk) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        desk.withdraw("a/a")
    assert caught.value.code is ErrorCode.CONFIGURATION_INVALID
    assert desk.own.version == 0


def test_a_refused_registration_changes_nothing(desk: Desk) -> None:
    desk.register("a/a")
    with pytest.raises(InvalidIdentifier):
        desk.register("a/a", weight=99.0)
    with pytest.raises(InvalidIdentifier):
        desk.register("Bad")
    assert list(desk.agents.specs) == ["a/a"]
    assert desk.own.version == 1
    assert desk.held() == {"a/a": 1}


# Bounds


def big(size: int) -> tuple[CapabilitySpec, ...]:
    """Capabilities whose descriptions have this many bytes together."""
    count = -(-size // 4_096)
    return tuple(CapabilitySpec(name=f"c{n}", description="x" * (size // count)) for n in range(count))


def test_a_record_that_is_too_large_is_refused_when_it_is_registered(desk: Desk) -> None:
    """Case B13: not when somebody tries to send it."""
    with pytest.raises(InvalidIdentifier, match="shorten"):
        desk.register("a/a", capabilities=big(RECORD_BYTES_MAX))
    assert desk.register("a/a", capabilities=big(RECORD_BYTES_MAX - 2_000)) == 1
    (record,) = desk.store.records(ME.node)
    assert RECORD_BYTES_MAX - 2_000 < len(record.data) <= RECORD_BYTES_MAX


def test_the_record_of_an_exclusive_agent_has_room_for_every_claim(desk: Desk) -> None:
    with suppress(InvalidIdentifier):
        for size in range(RECORD_BYTES_MAX - 1_000, RECORD_BYTES_MAX):
            desk.register("a/a", capabilities=big(size), exclusive=True)
    (record,) = desk.store.records(ME.node)
    claimed = replace(
        record.fact,
        life=Life(EPOCH_MAX, bytes(16)),
        version=COUNTER_MAX,
        claim=Claim(CLAIM_EPOCH_MAX, CLAIM_EPOCH_MAX),
    )
    assert len(ME.signer.sign(claimed)) <= RECORD_BYTES_MAX


def test_all_records_of_a_node_fit_one_message(desk: Desk) -> None:
    fits = RECORDS_BYTES_MAX // (RECORD_BYTES_MAX - 1_000)
    for number in range(fits):
        desk.register(f"a/{number}", capabilities=big(RECORD_BYTES_MAX - 2_000))
    with pytest.raises(InvalidIdentifier, match="offer it from another node"):
        desk.register("a/more", capabilities=big(RECORD_BYTES_MAX - 2_000))
    assert sum(len(r.data) for r in desk.store.records(ME.node)) <= RECORDS_BYTES_MAX
    assert desk.register("a/0") == fits + 1  # smaller in its place


def test_a_node_offers_a_bounded_number_of_agents() -> None:
    desk = Desk(records_max=10).begin()
    for number in range(5):
        desk.register(f"a/{number}")
    with pytest.raises(LocalProtocolError, match="offers 5 agents already"):
        desk.register("a/5")
    assert desk.register("a/4") == 6


def test_too_many_withdrawals_are_refused_before_anything_changes() -> None:
    desk = Desk(records_max=10).begin()
    for number in range(10):
        desk.register(f"a/{number}")
        desk.withdraw(f"a/{number}")
    with pytest.raises(LocalProtocolError, match="withdrawn too many"):
        desk.register("a/more")
    assert "a/more" not in desk.agents.specs
    assert desk.register("a/3") == 21  # a name that is remembered anyway
    desk.withdraw("a/3")
    assert desk.expire(RETENTION + 1)
    assert desk.register("a/more", now=RETENTION + 1) is not None


def test_schemas_are_kept_as_long_as_they_are_offered(desk: Desk) -> None:
    for turn in range(50):
        body = b"%d" % turn
        desk.register("a/a", capabilities=(CapabilitySpec(name="c", parameters=body, result=b"shared"),))
    assert desk.schemas.get(schema_hash(b"49")) == b"49"
    assert desk.schemas.get(schema_hash(b"48")) is None
    desk.register("a/b", capabilities=(CapabilitySpec(name="c", result=b"shared"),))
    desk.withdraw("a/a")
    assert desk.schemas.get(schema_hash(b"49")) is None
    assert desk.schemas.get(schema_hash(b"shared")) == b"shared"


# Letting withdrawals go


def test_a_withdrawal_is_let_go_after_its_retention_and_raises_the_floor(desk: Desk) -> None:
    desk.register("a/a")
    desk.register("a/b")
    desk.withdraw("a/a", now=10.0)
    assert not desk.expire(10.0 + RETENTION)
    assert desk.expire(11.0 + RETENTION)
    assert desk.held() == {"a/b": 2}
    head = desk.own.head(11.0 + RETENTION).fact
    assert (head.floor, head.version) == (3, 4)
    assert not desk.expire(99.0 + RETENTION)
    assert desk.own.version == 4


def test_the_floor_stays_below_a_withdrawal_that_is_still_kept(desk: Desk) -> None:
    for agent in ("a/a", "a/b", "a/c"):
        desk.register(agent)
    desk.withdraw("a/a", now=0.0)
    desk.withdraw("a/b", now=3_000.0)
    assert desk.expire(RETENTION + 1)
    assert desk.own.floor == 4
    assert desk.held() == {"a/b": -5, "a/c": 3}
    assert desk.expire(3_000.0 + RETENTION + 1)
    assert desk.held() == {"a/c": 3}


def test_a_clock_that_steps_back_lets_nothing_go_too_early(desk: Desk) -> None:
    for agent in ("a/a", "a/b"):
        desk.register(agent)
    desk.withdraw("a/a", now=0.0)
    desk.clock.report(WALL - 10_000, 0.0)
    desk.withdraw("a/b", now=0.0)  # a later version that says it was issued earlier
    desk.clock.report(WALL, 0.0)
    assert not desk.expire(0.0)
    assert desk.held() == {"a/a": -3, "a/b": -4}


def test_versions_without_a_record_do_not_keep_withdrawals_for_ever(desk: Desk) -> None:
    """A renewed head takes a version too; before it was noted as known, no later withdrawal was ever let go."""
    desk.register("a/a")
    desk.own.next_version()  # the head is renewed
    for turn in range(200):
        now = turn * 1_000.0
        desk.register(f"a/{turn}", now)
        desk.withdraw(f"a/{turn}", now)
        desk.expire(now)
        assert len(desk.held()) <= 1 + 5  # five are younger than the retention
    assert desk.held()["a/a"] == 1


def test_only_withdrawals_hold_the_floor_up(desk: Desk) -> None:
    desk.register("a/a")
    assert not desk.expire(1e6)
    assert desk.own.floor == 0
