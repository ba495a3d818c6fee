"""An explanation tells what a call would get, names every instance, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life
from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.policies import BUILT_IN
from reachp2p.core.routing.stages import Selector

POLICIES = list(BUILT_IN)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_explained_pick_is_what_the_next_call_gets(desk: Any, policy: str) -> None:
    for number in range(1, 8):
        desk.offer(number)
    desk.believe(3, MemberState.SUSPECT)
    for call in range(30):
        query = desk.query(policy=policy, key=f"k{call}")
        told = explain(desk.router, query)
        assert told == explain(desk.router, query)
        picked = desk.router.pick(query)
        assert (told.picked, told.picked_agent, told.code) == (picked.node, picked.agent, 0)


def test_explaining_does_not_disturb_the_calls(twin_desks: Any) -> None:
    told, untold = twin_desks
    for desk in twin_desks:
        for number in range(1, 6):
            desk.offer(number)
    for call in range(70):
        query = told.query(policy=POLICIES[call % len(POLICIES)], key=f"k{call}")
        explain(told.router, query)
        explain(told.router, told.query(policy="round_robin", tags={"env": str(call)}))
        explain(told.router, told.query("unknown"))
        assert told.picks(1, query) == untold.picks(1, query)
    assert told.counters.snapshot() == untold.counters.snapshot() == {}
    assert told.table.sizes() == untold.table.sizes()


def test_every_instance_is_named_with_the_stage_that_took_it_out(desk: Any) -> None:
    desk.offer(1, tags={"env": "prod"})
    desk.offer(2, tags={"env": "prod"}, weight=250)
    desk.offer(3, tags={"env": "test"})
    desk.offer(4, "nlp/other", tags={"env": "prod"})
    desk.offer(5, tags={"env": "prod"}, state=MemberState.DEAD)
    desk.offer(6, tags={"env": "prod"})
    desk.believe(6, MemberState.ALIVE, refused=True)
    desk.offer(7, tags={"env": "prod"})
    desk.believe(7, MemberState.ALIVE, life=Life(2, bytes(16)))
    query = desk.query(agent="nlp/summarizer", tags={"env": "prod"}, policy="consistent_hash", key="k")
    told = explain(desk.router, query, exclude=[desk.node(2)])
    assert [(c.node[0], c.removed_by, c.why) for c in told.candidates] == [
        (1, None, "ALIVE; " + told.reason.removeprefix("nlp/summarizer on n1: ")),
        (2, "retry", "already tried"),
        (3, "tags", "with env=test"),
        (4, "match", "is not nlp/summarizer"),
        (5, "liveness", "DEAD"),
        (6, "liveness", "process gone: skipped while another candidate exists"),
        (7, "liveness", "registered by another life"),
    ]
    assert told.picked == desk.node(1)
    shares = {c.node[0]: c.share for c in told.candidates}
    assert shares == {1: pytest.approx(1.0), 2: None, 3: None, 4: None, 5: None, 6: None, 7: None}
    positions = {c.node[0]: c.position for c in told.candidates if c.position is not None}
    assert sorted(positions) == [1, 2, 6]
    assert sorted(positions.values()) == [1, 2, 3]
    second = told.candidates[1]
    assert (second.weight, second.version, second.node_name, second.state) == (
        2.5,
        "1.2.0",
        "n2",
        MemberState.ALIVE,
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_the_shares_of_candidates_sum_to_one(desk: Any, policy: str) -> None:
    for number in range(1, 6):
        desk.offer(number)
    desk.believe(2, MemberState.SUSPECT)
    told = explain(desk.router, desk.query(policy=policy, key="k"))
    shares = [c.share for c in told.candidates]
    assert shares[1] is None
    assert sum(share for share in shares if share is not None) == pytest.approx(1.0)


def test_a_key_whose_owner_is_skipped_is_explained_by_its_place_in_the_preference_list(desk: Any) -> None:
    for number in (1, 2, 3):
        desk.offer(number)
    query = desk.query(policy="consistent_hash", key="user:42")
    order = desk.table.pool(Selector.of(query)).ring().preference_list("user:42", 3)
    owner, following = order[0][0], order[1][0]
    told = explain(desk.router, query)
    assert told.reason == f"nlp/summarizer on n{owner[0]}: owns key 'user:42'"
    assert [c.position for c in told.candidates] == [
        order.index((c.node, c.agent)) + 1 for c in told.candidates
    ]
    desk.believe(owner[0], MemberState.SUSPECT)
    told = explain(desk.router, query)
    assert told.picked == following
    assert told.reason == (
        f"nlp/summarizer on n{following[0]}: number 2 in the preference list of key 'user:42', "
        "those before it are skipped"
    )


def test_the_last_resort_is_called_so(desk: Any) -> None:
    desk.offer(1, state=MemberState.DEAD)
    desk.offer(2)
    desk.believe(2, MemberState.SUSPECT)
    told = explain(desk.router, desk.query())
    assert (told.picked, told.candidates[1].removed_by) == (desk.node(2), None)
    assert told.candidates[1].why == "SUSPECT, but nobody better is left; the only candidate"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"capability": "text.sumarize"}, 1301),
        ({"capability": None}, 1302),
        ({"tags": {"env": "prod"}}, 1303),
        ({"policy": "fastest"}, 1704),
        ({"policy": "consistent_hash"}, 1704),
    ],
)
def test_a_call_that_would_fail_is_explained_with_its_error(
    desk: Any, change: dict[str, Any], code: int
) -> None:
    desk.offer(1)
    query = desk.query(**({"capability": "text.summarize"} | change))
    told = explain(desk.router, query)
    assert (told.code, told.picked, told.picked_agent) == (code, None, None)
    with pytest.raises(Exception, match=rf"\[{code}\]") as caught:
        desk.router.pick(query)
    assert told.reason == caught.value.reason  # type: ignore[attr-defined]


def test_the_fingerprint_is_that_of_the_pools_ring_and_the_version_that_of_the_table(desk: Any) -> None:
    desk.offer(1)
    desk.offer(2, "nlp/other", "text.keywords")
    told = explain(desk.router, desk.query())
    pool = desk.table.pool(Selector("text.summarize", None))
    assert told.ring_fingerprint == pool.ring().fingerprint() != desk.table.fingerprint()
    assert told.table_version == desk.table.version
    assert explain(desk.router, desk.query("unknown")).ring_fingerprint is None
