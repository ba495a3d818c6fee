"""Rules of a whole cluster, as stories: they reach everybody, outlive their author, and two of them end as one."""

from __future__ import annotations

from typing import Any

import pytest
from reachp2p_sim.checkers import attach_all
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World, halves

from reachp2p.errors import LocalProtocolError

RETRY: dict[str, Any] = {"rule": [{"name": "once", "retry": False}]}
ZONE: dict[str, Any] = {"rule": [{"prefer": "zone"}]}


def grown(seed: int, count: int) -> tuple[World, list[Host]]:
    world = World(seed)
    attach_all(world)
    hosts = world.add_nodes(count, within=1.0)
    world.run(1)
    world.run_until(converged, limit=10)
    return world, hosts


def apply(host: Host, document: dict[str, Any], comment: str = "") -> int:
    version = host.engine.apply_rules(document, comment, host.now)
    host.settle()
    return version


def in_force(host: Host) -> str | None:
    """The rules of the cluster that a node goes by, as text."""
    return next((one.toml for one in host.engine.rules().history if one.in_force), None)


def history(host: Host) -> list[tuple[int, bytes, bool]]:
    return [(one.version, one.author, one.in_force) for one in host.engine.rules().history]


def all_have(hosts: list[Host], words: str) -> Any:
    return lambda _: all(words in (in_force(host) or "") for host in hosts)


@pytest.mark.parametrize("count", [2, 32])
def test_applied_rules_are_everywhere_within_two_seconds(count: int) -> None:
    world, hosts = grown(seed=21, count=count)
    assert apply(hosts[-1], RETRY) == 1
    assert world.run_until(all_have(hosts, "retry = false"), limit=5, every=0.05) < 2.0
    world.run(5)
    for host in hosts:
        diagnostics = host.engine.diagnostics()
        assert diagnostics["rules.newest"] == 1
        assert diagnostics["size.rules.wants"] == 0
        assert diagnostics.get("rules.handed_out", 0) <= count


def test_a_cluster_without_rules_says_nothing_of_them() -> None:
    world, hosts = grown(seed=22, count=6)
    world.run(40)
    for host in hosts:
        assert not [name for name in host.engine.diagnostics() if name.startswith("rules.")]


def test_rules_outlive_their_author_and_a_newcomer_gets_them() -> None:
    world, hosts = grown(seed=23, count=8)
    apply(hosts[3], RETRY, "from a node that goes")
    world.run(3)
    world.crash(hosts[3])
    world.run(60)
    (newcomer,) = world.add_nodes(1)
    world.run_until(all_have([newcomer], "retry = false"), limit=5, every=0.05)
    record = newcomer.engine.rules().history[0]
    assert (record.author, record.comment) == (hosts[3].node, "from a node that goes")
    assert apply(newcomer, ZONE) == 2


def test_rules_come_back_from_the_disk_of_a_cluster_that_was_down_as_a_whole() -> None:
    world, hosts = grown(seed=24, count=4)
    apply(hosts[0], RETRY)
    world.run(3)
    apply(hosts[1], ZONE)
    world.run(3)
    for host in hosts:
        world.crash(host)
    world.run(5)
    for host in hosts:
        world.restart(host)
    world.run(2)
    for host in hosts:
        assert in_force(host) == '[[rule]]\nprefer = "zone"\n'
        assert [version for version, _, _ in history(host)] == [2, 1]


@pytest.mark.parametrize("seed", [25, 26])
def test_two_sides_of_a_partition_that_applied_others_end_with_the_same_rules_and_the_same_history(
    seed: int,
) -> None:
    world, hosts = grown(seed, count=10)
    apply(hosts[0], {"rule": [{"policy": "random"}]})
    world.run(3)
    left, right = halves(hosts)
    world.partition(left, right)
    world.run(30)
    assert apply(left[0], RETRY) == apply(right[0], ZONE) == 2
    world.run(5)
    assert {in_force(host) for host in left} == {'[[rule]]\nname = "once"\nretry = false\n'}
    assert {in_force(host) for host in right} == {'[[rule]]\nprefer = "zone"\n'}
    world.heal()
    world.run_until(converged, limit=healing(10, world.protocol))
    winner = max(left[0].node, right[0].node)
    loser = min(left[0].node, right[0].node)
    wanted = [(2, winner, True), (2, loser, False), (1, hosts[0].node, False)]
    world.run_until(lambda _: all(history(host) == wanted for host in hosts), limit=5, every=0.05)


def test_a_node_that_was_away_while_rules_changed_has_them_when_it_is_back() -> None:
    world, hosts = grown(seed=27, count=6)
    apply(hosts[0], RETRY)
    world.run(3)
    world.crash(hosts[5])
    apply(hosts[1], ZONE)
    world.run(30)
    world.restart(hosts[5])
    world.run_until(all_have([hosts[5]], "zone"), limit=5, every=0.05)
    assert len(history(hosts[5])) == 2


def test_rules_reach_everybody_through_nodes_of_the_next_release_and_back() -> None:
    world, hosts = grown(seed=29, count=6)
    world.crash(*hosts[:3])
    world.upgrade(*hosts[:3])
    world.restart(*hosts[:3])
    world.run_until(converged, limit=30)
    apply(hosts[0], RETRY)
    world.run_until(all_have(hosts, "retry = false"), limit=5, every=0.05)
    world.crash(hosts[5])
    apply(hosts[4], ZONE)
    world.run(20)
    world.restart(hosts[5])
    world.run_until(all_have(hosts, "zone"), limit=5, every=0.05)


def test_rules_travel_alike_without_the_codec() -> None:
    times = []
    for codec in ("on", "off"):
        world = World(30, codec=codec)  # type: ignore[arg-type]  # one of its two
        hosts = world.add_nodes(8, within=1.0)
        world.run(3)
        large = {
            "rule": [
                {"name": f"rule {n}", "match": {"tags": {"env": "x" * 200}}, "retry": True}
                for n in range(100)
            ]
        }
        apply(hosts[0], large)
        times.append(world.run_until(all_have(hosts, "rule 99"), limit=5, every=0.05))
    assert times[0] == times[1]


def test_nothing_is_applied_before_the_node_runs() -> None:
    world = World(31)
    (host,) = world.add_nodes(1)
    with pytest.raises(LocalProtocolError, match="while this node runs"):
        host.engine.apply_rules(RETRY, "", host.now)
    assert host.engine.rules().history == ()
    assert host.engine.set_own_rules(RETRY, "rules.toml", host.now)
    world.run(2)
    own = host.engine.rules().own
    assert own is not None
    assert own.toml.endswith("retry = false\n")


def test_twenty_applied_in_a_row_leave_the_last_sixteen_everywhere() -> None:
    world, hosts = grown(seed=28, count=6)
    for number in range(20):
        apply(hosts[number % 6], {"rule": [{"split": {"candidate": number}}]})
        world.run(2)
    for host in hosts:
        assert in_force(host) == "[[rule]]\nsplit = { candidate = 19 }\n"
        assert [version for version, _, _ in history(host)] == list(range(20, 4, -1))
