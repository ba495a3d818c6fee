"""Exclusive agents: one owner, standbys that take over, and a database that tells owners apart by their tokens."""

from __future__ import annotations

from random import Random

import pytest
from reachp2p_sim.checkers import attach_all
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World

from reachp2p.core.effects import Invoke
from reachp2p.core.events import ClaimChanged, Event
from reachp2p.core.registry.claims import fencing_token, turn_key

LEDGER = "pay/ledger"


class Database:
    """What every handler writes to when it begins, and again a moment later: it refuses a token below one it has seen.

    A token of one holder never comes from another.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.highest = 0
        self.accepted: list[tuple[float, int]] = []
        self.refused: list[tuple[float, int]] = []
        self.holders: dict[int, tuple[str, int]] = {}
        world.on_invoke.append(self._on_invoke)

    def _on_invoke(self, host: Host, invoke: Invoke) -> None:
        token = invoke.fencing_token
        assert token is not None, "a handler of an exclusive agent is told its token"
        holder = (host.name, host.process_number)
        assert self.holders.setdefault(token, holder) == holder, "two holders of one fencing token"
        self.write(token)
        self.world.timeline.after(0.3, self.write, token)

    def write(self, token: int) -> None:
        """Accept or refuse; what was accepted never goes down."""
        if token < self.highest:
            self.refused.append((self.world.now, token))
            return
        self.highest = token
        self.accepted.append((self.world.now, token))


class Owners:
    """Who has said that it owns the agent, from when on, and until when."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.won: list[tuple[float, str, int]] = []
        self.holding: dict[str, int] = {}
        world.listen(self._on_event, ClaimChanged)
        world.on_process.append(lambda host, what: self.holding.pop(host.name, 0) if what == "ended" else 0)

    def _on_event(self, host: Host, event: Event) -> None:
        assert isinstance(event, ClaimChanged)
        if event.token is None:
            self.holding.pop(host.name, None)
        else:
            self.holding[host.name] = event.token
            self.won.append((self.world.now, host.name, event.epoch))


def stage(seed: int, nodes: int, offering: int) -> tuple[World, list[Host], Database, Owners]:
    """A world in which the first hosts offer the agent, all call it, and somebody owns it."""
    world = World(seed=seed)
    database, owners = Database(world), Owners(world)
    hosts = world.add_nodes(nodes)
    world.run(3)
    world.offer(*hosts[:offering], agent=LEDGER, capability="pay.book", service_time=0.05, exclusive=True)
    world.call_in_a_loop(*hosts, capability="pay.book", think_time=0.3, timeout=2.0)
    world.run_until(lambda w: bool(database.accepted), limit=20)
    world.run_until(converged, limit=30)
    return world, hosts, database, owners


def owner(world: World, hosts: list[Host]) -> Host:
    """The one owner that all running hosts agree on."""
    seen = {host.engine.owner(LEDGER) for host in hosts if host.is_running}
    assert len(seen) == 1, "views agree on the owner"
    node = seen.pop()
    assert node is not None
    return world.by_node[node][0]


def takeover_limit(world: World, nodes: int) -> float:
    """Until a lost owner is DEAD, twice S_min more, the turns of two before us, and a margin for disk and spreading."""
    minimum = 4.0
    dead_within = 6 * minimum + 5.0
    return dead_within + 2 * minimum + 2 * minimum / 2 + 3.0


@pytest.mark.parametrize("seed", [1, 2])
def test_a_standby_takes_over_from_an_owner_that_crashes(seed: int) -> None:
    world, hosts, database, owners = stage(seed, 6, 3)
    assert len(owners.won) == 1, "one of three has tried"
    first = owner(world, hosts)
    epochs = {view.node: view.claim_epoch for view in hosts[5].engine.agents()}
    assert epochs == {host.node: int(host is first) for host in hosts[:3]}
    old = database.highest
    world.crash(first)
    crashed_at = world.now
    world.run_until(lambda w: database.highest > old, limit=takeover_limit(world, 6))
    world.run(10)
    second = owner(world, [host for host in hosts if host is not first])
    assert second is not first
    assert len(owners.won) == 2, "of two that stand by, one has tried"
    assert database.accepted[-1][0] > crashed_at
    assert not database.refused
    world.restart(first)
    world.run_until(converged, limit=60)
    world.run(20)
    assert owner(world, hosts) is second, "a former owner stands by while another lives"
    assert len(owners.won) == 2


def test_a_restart_at_once_keeps_the_tokens_rising() -> None:
    world, hosts, database, owners = stage(5, 5, 2)
    for _ in range(3):
        first, before = owner(world, hosts), database.highest
        world.crash(first)
        world.run(0.5)
        world.restart(first)
        world.run_until(lambda w, before=before: database.highest > before, limit=40)
        world.run_until(converged, limit=60)
        world.run(5)
    assert not database.refused
    epochs = [epoch for _, _, epoch in owners.won]
    assert epochs == sorted(set(epochs))


def test_everything_restarts_and_no_token_goes_down() -> None:
    world, hosts, database, _ = stage(7, 4, 2)
    for _ in range(2):
        before = database.highest
        world.crash(*hosts)
        world.run(2)
        world.restart(*hosts)
        world.run_until(lambda w, before=before: database.highest > before, limit=60)
    assert not database.refused


def test_an_owner_that_leaves_hands_over_without_a_pause_for_doubt() -> None:
    world, hosts, database, _ = stage(4, 5, 2)
    first, old = owner(world, hosts), database.highest
    world.leave(first)
    world.run_until(lambda w: database.highest > old, limit=5)
    assert not database.refused


def test_after_a_partition_with_owners_on_both_sides_one_remains() -> None:
    world, hosts, database, owners = stage(11, 8, 4)
    first = owner(world, hosts)
    others = [host for host in hosts[:4] if host is not first]
    left = [first, *hosts[4:6]]
    right = [*others, *hosts[6:]]
    world.partition(left, right)
    world.run(60)
    assert len(owners.holding) == 2, "each side has an owner"
    assert len(set(owners.holding.values())) == 2, "with a token of its own"
    second = next(host for host in right if host.name in owners.holding)
    world.heal()
    world.run_until(converged, limit=healing(8, world.protocol))
    world.run(5)
    assert list(owners.holding) == [second.name], "the higher claim remains"
    assert owner(world, hosts) is second
    assert database.refused, "the old owner went on on its side, and the database told them apart"
    assert all(token < database.highest for _, token in database.refused)
    # The loser runs nothing more under its old token.
    world.run(10)
    healed_at = world.now - 10
    assert all(token == database.highest for at, token in database.accepted if at > healed_at)


def test_two_who_claim_the_same_epoch_on_two_sides_are_told_apart() -> None:
    world, hosts, _, owners = stage(13, 9, 3)
    first = owner(world, hosts)
    others = [host for host in hosts[:3] if host is not first]
    left, right = [others[0], *hosts[3:6]], [others[1], *hosts[6:]]
    world.partition([first], [*left, *right])
    world.partition(left, right)
    world.run(60)
    epochs = sorted(epoch for _, name, epoch in owners.won if name != first.name)
    assert epochs == [2, 2]
    assert sorted(owners.holding.values())[1:] == sorted(fencing_token(2, host.node) for host in others)
    world.heal()
    world.run_until(converged, limit=healing(9, world.protocol))
    world.run(5)
    winner = max(others, key=lambda host: host.node)
    assert owner(world, hosts) is winner
    assert owners.holding == {winner.name: fencing_token(2, winner.node)}


def test_standbys_that_come_and_go_never_unseat_the_owner() -> None:
    world, hosts, database, owners = stage(17, 7, 4)
    first = owner(world, hosts)
    others = [host for host in hosts[:4] if host is not first]
    for number in range(6):
        host = others[number % 3]
        world.crash(host)
        world.run(3 + number)
        world.restart(host)
        world.run(4)
    world.run_until(converged, limit=60)
    assert owner(world, hosts) is first
    assert len(owners.won) == 1
    assert not database.refused


def test_the_first_in_turn_takes_over() -> None:
    world, hosts, _, owners = stage(19, 6, 4)
    first = owner(world, hosts)
    standing_by = [host for host in hosts[:4] if host is not first]
    world.crash(first)
    world.run_until(lambda w: len(owners.won) == 2, limit=takeover_limit(world, 6))
    assert owners.won[1][1] == min(standing_by, key=lambda host: turn_key(LEDGER, host.node)).name


@pytest.mark.parametrize("seed", [3, 4])
def test_whatever_happens_tokens_tell_owners_apart_and_one_remains(seed: int) -> None:
    """Crashes, restarts with and without disks, cuts and loss, at random; every checker watches."""
    world = World(seed=seed, conditions=Conditions(loss=0.03))
    checkers = attach_all(world)
    database, owners = Database(world), Owners(world)
    hosts = world.add_nodes(7)
    world.run(3)
    world.offer(*hosts[:4], agent=LEDGER, capability="pay.book", service_time=0.05, exclusive=True)
    world.call_in_a_loop(*hosts[4:], capability="pay.book", think_time=0.5, timeout=2.0)
    chance, is_cut = Random(seed), False
    down: list[Host] = []
    for _ in range(25):
        act = chance.random()
        running = [host for host in hosts[:4] if host.is_running]
        if act < 0.3 and len(running) > 1:
            down.append(chance.choice(running))
            world.crash(down[-1])
        elif act < 0.6 and down:
            host = down.pop(chance.randrange(len(down)))
            world.restart(host, disk=chance.choice(["kept", "kept", "lost"]))
        elif act < 0.8 and is_cut:
            world.heal()
            is_cut = False
        elif act < 0.8:
            side = chance.sample(hosts, chance.randrange(1, 6))
            world.partition(side, [host for host in hosts if host not in side])
            is_cut = True
        world.run(chance.choice([0.5, 3, 8, 20]))
    world.heal()
    for host in down:
        world.restart(host)
    world.run_until(converged, limit=healing(7, world.protocol) + 60)
    world.run(30)
    assert list(owners.holding) == [owner(world, hosts).name]
    assert len(owners.won) > 2, "there was something to tell apart"
    served = len(database.accepted)
    world.run(10)
    assert len(database.accepted) > served
    for checker in checkers:
        checker.finish()
