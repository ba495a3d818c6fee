"""Whose rules a node goes by, what it refuses, and what it keeps."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, Notify, Persist, Table
from reachp2p.core.events import RulesChanged, RulesRefused
from reachp2p.core.ids import COUNTER_MAX
from reachp2p.core.routing.rule_keeper import ROW, RuleKeeper
from reachp2p.core.routing.rule_reading import RulesInvalid
from reachp2p.core.routing.rule_text import encode_rules
from reachp2p.core.trust.facts import FactSigner
from reachp2p.core.wire.facts import RulesRecord
from reachp2p.errors import ConfigurationInvalid, LocalProtocolError
from tests.support import CLUSTER, WALL, KeyedHash, checker, node_id, wall_clock

RETRY: dict[str, Any] = {"rule": [{"retry": False}]}
ZONE: dict[str, Any] = {"rule": [{"prefer": "zone"}]}
ROUND: dict[str, Any] = {"rule": [{"policy": "round_robin", "retry": True}]}
QUERY = RouteQuery(capability="x")


class Node:
    """A keeper and what it does."""

    def __init__(self, number: int = 1, policies: tuple[str, ...] = ("random", "round_robin")) -> None:
        self.counters = Counters()
        self.effects = Effects()
        self.policies = policies
        self.keeper = RuleKeeper(
            node_id(number),
            policies=lambda: self.policies,
            signer=FactSigner(KeyedHash(node_id(number)), CLUSTER),
            checker=checker(self.counters),
            clock=wall_clock(),
            effects=self.effects,
            counters=self.counters,
        )

    def take(self) -> tuple[list[Any], list[Persist]]:
        """Events and writes since the last time."""
        items = self.effects.take()
        return [i.event for i in items if isinstance(i, Notify)], [i for i in items if isinstance(i, Persist)]

    @property
    def ruling(self) -> Any:
        return self.keeper.in_force.ruling(QUERY)


def test_rules_of_the_own_file_are_in_force_until_others_are() -> None:
    node = Node()
    assert node.keeper.set_own(RETRY, "rules.toml", 1.0)
    assert node.ruling.retry is False
    assert node.take()[0] == [
        RulesChanged(at=1.0, origin="rules.toml", version=None, changes=("rule 1 is new: retry = false",))
    ]
    assert not node.keeper.set_own(RETRY, "rules.toml", 2.0)
    assert node.take() == ([], [])
    assert node.keeper.set_own(None, "rules.toml", 3.0)
    assert node.keeper.in_force.is_empty
    (gone,), _ = node.take()
    assert gone.changes == ("rule 1 is gone: retry = false",)


def test_a_wrong_file_changes_nothing() -> None:
    node = Node()
    node.keeper.set_own(RETRY, "rules.toml", 1.0)
    node.take()
    with pytest.raises(
        RulesInvalid, match=r"^rules\.toml: rule 1: polcy: unknown key; did you mean 'policy'\? \[1704\]$"
    ):
        node.keeper.set_own({"rule": [{"polcy": "random", "prefer": "zone"}]}, "rules.toml", 2.0)
    assert node.ruling.retry is False
    assert node.ruling.prefer is None
    assert node.take() == ([], [])


def test_applied_rules_are_signed_above_all_that_is_known_and_written() -> None:
    node = Node()
    first = node.keeper.apply(RETRY, "", 1.0)
    second = node.keeper.apply(ZONE, "zones first", 2.0)
    assert (first.fact.version, second.fact.version) == (1, 2)
    assert (second.fact.author, second.fact.issued_at, second.fact.comment) == (
        node_id(1),
        WALL + 2,
        "zones first",
    )
    assert (node.ruling.retry, node.ruling.prefer) == (None, "zone")
    events, writes = node.take()
    assert [(event.version, event.changes) for event in events] == [
        (1, ("rule 1 is new: retry = false",)),
        (2, ('rule 1: prefer: nothing -> "zone"', "rule 1: retry: false -> nothing")),
    ]
    assert [(write.table, write.key) for write in writes] == [(Table.LIFE, ROW)] * 2


def test_rules_that_are_in_force_already_are_no_news() -> None:
    node = Node()
    first = node.keeper.apply(RETRY, "", 1.0)
    node.take()
    assert node.keeper.apply(RETRY, "once more", 2.0) is first
    assert node.take() == ([], [])
    node.keeper.apply(ZONE, "", 3.0)
    assert node.keeper.apply(RETRY, "", 4.0).fact.version == 3, "former rules are news again"


def test_the_own_file_comes_before_the_cluster_setting_by_setting() -> None:
    node = Node()
    node.keeper.set_own(RETRY, "rules.toml", 1.0)
    node.keeper.apply(ROUND, "", 2.0)
    assert (node.ruling.retry, node.ruling.policy) == (False, "round_robin")
    assert node.ruling.origins == {
        "retry": "rule 1 of rules.toml",
        "policy": f"rule 1 of the cluster's version 1 by {node_id(1)[:4].hex()}",
    }


def test_conflicting_rules_end_with_the_higher_everywhere_and_the_other_in_the_history() -> None:
    left, right = Node(1), Node(2)
    here, there = left.keeper.apply(RETRY, "", 1.0), right.keeper.apply(ZONE, "", 1.0)
    assert left.keeper.hear(there.data, 2.0) is not None
    assert right.keeper.hear(here.data, 2.0) is not None
    for node in (left, right):
        assert (node.ruling.retry, node.ruling.prefer) == (None, "zone")
        assert [(one.author, one.in_force, one.newest) for one in node.keeper.view().history] == [
            (node_id(2), True, True),
            (node_id(1), False, False),
        ]
        assert node.keeper.hear(here.data, 3.0) is None
    events, _ = right.take()
    assert len(events) == 1  # what lost was never in force there


def test_a_forged_record_is_dropped_and_counted() -> None:
    node, author = Node(1), Node(2)
    record = author.keeper.apply(RETRY, "", 1.0)
    forged = record.data[:-1] + bytes([record.data[-1] ^ 1])
    assert node.keeper.hear(forged, 2.0) is None
    assert node.counters.value("dropped.rules.bad_signature") == 1
    assert node.keeper.in_force.is_empty


def test_what_is_not_understood_is_kept_and_the_rules_before_it_stay_in_force() -> None:
    node, author = Node(1), Node(2, ("random", "cheapest"))
    node.keeper.hear(author.keeper.apply(RETRY, "", 1.0).data, 1.0)
    node.take()
    newer = author.keeper.apply({"rule": [{"policy": "cheapest"}]}, "", 2.0)
    assert node.keeper.hear(newer.data, 2.0) is not None  # so that it is passed on
    assert node.ruling.retry is False
    (refused,), _ = node.take()
    assert isinstance(refused, RulesRefused)
    assert "policy: 'cheapest' is unknown" in refused.reason
    view = node.keeper.view()
    assert [(one.version, one.newest, one.in_force, bool(one.refused)) for one in view.history] == [
        (2, True, False, True),
        (1, False, True, False),
    ]
    assert node.counters.value("rules.not_understood") == 1
    assert node.keeper.apply(ZONE, "", 3.0).fact.version == 3


def test_the_book_is_read_back_and_damage_is_counted() -> None:
    node = Node()
    node.keeper.apply(RETRY, "", 1.0)
    node.keeper.apply(ZONE, "", 2.0)
    row = node.take()[1][-1].value
    again = Node()
    again.keeper.load([(b"epoch", bytes(8)), (ROW, row)])
    assert again.ruling.prefer == "zone"
    assert again.keeper.book.entries == node.keeper.book.entries
    assert again.take() == ([], [])
    torn = Node()
    torn.keeper.load([(ROW, row[:-3])])
    assert torn.keeper.in_force.is_empty
    assert torn.counters.value("dropped.rules.truncated") == 1


def test_a_write_that_failed_is_done_again() -> None:
    node = Node()
    node.keeper.apply(RETRY, "", 1.0)
    ((write,),) = (node.take()[1],)
    assert node.keeper.on_failed(write.ticket)
    assert node.keeper.has_unwritten
    node.keeper.write_again()
    ((again,),) = (node.take()[1],)
    assert again.value == write.value
    assert not node.keeper.on_failed(write.ticket)
    node.keeper.write_again()
    assert node.take() == ([], [])


def test_what_cannot_be_applied_is_refused() -> None:
    node = Node()
    with pytest.raises(ConfigurationInvalid, match="comment: write printable text of at most 256 characters"):
        node.keeper.apply(RETRY, "x" * 257, 1.0)
    with pytest.raises(RulesInvalid):
        node.keeper.apply({"rule": [{}]}, "", 1.0)
    with pytest.raises(ConfigurationInvalid, match="say nothing, as a file that was cut off"):
        node.keeper.apply({}, "", 1.0)
    last = RulesRecord(
        author=node_id(2), version=COUNTER_MAX, issued_at=0, rules=encode_rules(node.keeper.read(RETRY, "f"))
    )
    node.keeper.hear(FactSigner(KeyedHash(node_id(2)), CLUSTER).sign(last), 1.0)
    with pytest.raises(LocalProtocolError, match="used up"):
        node.keeper.apply(ZONE, "", 2.0)
    assert node.ruling.retry is False


def test_a_flood_of_records_costs_one_write() -> None:
    node, author = Node(1), Node(2)
    for number in range(5):
        node.keeper.hear(author.keeper.apply({"rule": [{"split": {"candidate": number}}]}, "", 1.0).data, 1.0)
    assert node.take()[1] == []
    assert node.keeper.has_unwritten
    node.keeper.write_again()
    ((write,),) = (node.take()[1],)
    again = Node()
    again.keeper.load([(ROW, write.value)])
    assert len(again.keeper.book) == 5
