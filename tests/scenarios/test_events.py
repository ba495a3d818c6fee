"""Events: from whoever publishes to whoever subscribes, whatever becomes of the others."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.workload import Handler, Offer
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World

from reachp2p.core.commands import AgentSpec, PublishSpec, RouteQuery, TopicSpec
from reachp2p.core.effects import Invoke
from reachp2p.core.events import Event, EventReceived, MemberState, RecordChanged
from reachp2p.core.ids import SUBSCRIPTIONS
from reachp2p.core.registry import own
from reachp2p.core.registry.claims import fencing_token
from reachp2p.errors import CallFailed, ErrorCode, InvalidIdentifier, LocalProtocolError


class Heard:
    """What each host was handed."""

    def __init__(self, world: World) -> None:
        self.events: dict[str, list[EventReceived]] = {}
        self.at: dict[str, list[float]] = {}
        self._world = world
        world.listen(self._on_event, EventReceived)

    def _on_event(self, host: Host, event: Event) -> None:
        assert isinstance(event, EventReceived)
        self.events.setdefault(host.name, []).append(event)
        self.at.setdefault(host.name, []).append(self._world.now)

    def topics(self, host: Host) -> list[str]:
        return [event.topic for event in self.events.get(host.name, [])]


def subscribe(host: Host, pattern: str) -> int:
    number = host.engine.subscribe(pattern, host.now)
    host.settle()
    return number


def publish(host: Host, topic: str, payload: bytes = b"x", **fields: object) -> int:
    sent = host.engine.publish(PublishSpec(topic=topic, payload=payload, **fields), host.now)  # type: ignore[arg-type]
    host.settle()
    return sent


def stage(nodes: int, seed: int = 3) -> tuple[World, list[Host], Heard]:
    world = World(seed=seed)
    heard = Heard(world)
    hosts = world.add_nodes(nodes)
    world.run(5)
    return world, hosts, heard


def test_an_event_reaches_each_node_that_wants_it_once_and_no_other() -> None:
    world, hosts, heard = stage(6)
    subscribe(hosts[1], "orders.*.created")
    subscribe(hosts[1], "orders.>")
    subscribe(hosts[2], "orders.eu.created")
    subscribe(hosts[3], "carts.>")
    own = subscribe(hosts[0], ">")
    world.run(3)
    assert publish(hosts[0], "orders.eu.created", b"4711") == 3
    world.run(3)
    assert {host.name: len(heard.topics(host)) for host in hosts} == {
        "n00": 1, "n01": 1, "n02": 1, "n03": 0, "n04": 0, "n05": 0,
    }  # fmt: skip
    event = heard.events["n01"][0]
    assert (event.topic, event.payload, event.publisher) == ("orders.eu.created", b"4711", hosts[0].node)
    assert len(event.subscriptions) == 2, "one message for two subscribers"
    assert abs(event.published_at / 1000 - hosts[0].wall) < 10
    assert heard.events["n00"][0].subscriptions == (own,)
    assert sum(h.engine.diagnostics().get("topics.received", 0) for h in hosts) == 3


def test_subscriptions_are_no_agents() -> None:
    world, hosts, _ = stage(4)
    told: list[RecordChanged] = []
    world.listen(lambda host, event: told.append(event), RecordChanged)  # type: ignore[arg-type]
    subscribe(hosts[1], "a.>")
    world.run(5)
    for host in hosts:
        assert host.engine.agents() == []
        assert host.engine.explain(RouteQuery(agent=SUBSCRIPTIONS)).code == ErrorCode.UNKNOWN_TARGET
        assert host.engine.diagnostics()["size.routing.instances"] == 0
    assert told == []
    assert publish(hosts[0], "a.b") == 1
    assert converged(world)


def test_a_subscription_ends_and_is_not_told_for_each_that_comes_and_goes() -> None:
    world, hosts, heard = stage(4)
    before = world.now
    for _ in range(20):
        number = subscribe(hosts[1], "a.b")
        world.run(0.1)
        hosts[1].engine.unsubscribe(number, hosts[1].now)
        hosts[1].settle()
    versions = hosts[0].engine.members()
    world.run(3)
    assert publish(hosts[0], "a.b") == 1, "it lingers, and nobody there wants it"
    world.run(1)
    assert heard.topics(hosts[1]) == []
    assert hosts[1].engine.diagnostics()["topics.unwanted"] == 1
    world.run(6)
    assert publish(hosts[0], "a.b") == 0
    assert world.now > before
    assert versions


def test_a_restarted_subscriber_is_found_again_and_a_lost_one_is_not_sent_to() -> None:
    world, hosts, heard = stage(5)
    subscribe(hosts[2], "a.>")
    world.run(3)
    world.crash(hosts[2])
    world.run(40)
    assert publish(hosts[0], "a.b") == 0
    world.restart(hosts[2])
    world.run(10)
    assert publish(hosts[0], "a.b") == 0, "the new life subscribes to nothing yet"
    subscribe(hosts[2], "a.>")
    world.run(3)
    assert publish(hosts[0], "a.b") == 1
    world.run(2)
    assert heard.topics(hosts[2]) == ["a.b"]


def test_events_keep_their_order_whatever_their_size_and_losses_are_told() -> None:
    world, hosts, heard = stage(4)
    subscribe(hosts[1], "a.>")
    world.run(3)
    sizes = [10, 200_000, 10, 40_000, 5]
    for number, size in enumerate(sizes):
        publish(hosts[0], f"a.n{number}", bytes(size))
    world.run(5)
    assert heard.topics(hosts[1]) == [f"a.n{number}" for number in range(5)]
    assert [event.gap for event in heard.events["n01"]] == [0] * 5
    for _ in range(40):  # more than may wait for one link
        publish(hosts[0], "a.big", bytes(100_000))
    world.run(10)
    publish(hosts[0], "a.last")
    world.run(5)
    dropped = hosts[0].engine.diagnostics()["topics.dropped.link_full"]
    assert dropped > 0
    assert sum(event.gap for event in heard.events["n01"]) == dropped
    assert heard.topics(hosts[1])[-1] == "a.last"


def test_a_stopped_subscriber_delays_nobody() -> None:
    """B36: one of eleven takes nothing any more during a steady flow; the others get theirs as before."""
    world, hosts, heard = stage(12, seed=5)
    for host in hosts[1:]:
        subscribe(host, "flow.>")
    world.run(4)

    def flow(count: int, size: int = 300_000) -> float:
        """The slowest delivery to anybody but the stopped one, of so many events."""
        sent: list[float] = []
        marks = {host.name: len(heard.at.get(host.name, [])) for host in hosts[2:]}
        for _ in range(count):
            sent.append(world.now)
            publish(hosts[0], "flow.tick", bytes(size))
            world.run(0.05)
        world.run(1)
        worst = 0.0
        for host in hosts[2:]:
            got = heard.at[host.name][marks[host.name] :]
            assert len(got) == count, "nothing is lost for the others"
            worst = max(worst, *(after - before for before, after in zip(sent, got, strict=True)))
        return worst

    flow(3)
    calm = flow(10)
    world.partition([hosts[1]], [host for host in hosts if host is not hosts[1]])
    assert flow(40) <= calm * 1.5 + 0.01
    held = hosts[0].engine.diagnostics()
    assert held["topics.dropped.link_full"] > 0
    assert held["size.links.queued_bytes"] < 3_000_000


def test_events_wait_for_a_link_within_bounds() -> None:
    world, hosts, heard = stage(16)
    subscribe(hosts[8], "a.>")
    world.run(3)
    publisher = next(
        host
        for host in hosts
        if host is not hosts[8]
        and not any(view.node == hosts[8].node and view.linked for view in host.engine.members())
    )
    for number in range(70):
        publish(publisher, f"a.n{number}")
    assert publisher.engine.diagnostics()["size.topics.waiting"] == 64
    assert publisher.engine.diagnostics()["topics.dropped.waiting_full"] == 6
    world.run(2)
    assert heard.topics(hosts[8]) == [f"a.n{number}" for number in range(6, 70)], "the oldest are dropped"
    assert publisher.engine.diagnostics()["size.topics.waiting"] == 0


def test_a_subscriber_that_cannot_be_reached_costs_nothing_that_stays() -> None:
    world, hosts, _ = stage(12)
    subscribe(hosts[6], "a.>")
    world.run(3)
    world.partition([hosts[6]], [host for host in hosts if host is not hosts[6]])
    for _ in range(30):
        publish(hosts[0], "a.b", bytes(1_000))
        world.run(0.3)
    world.run(20)
    held = hosts[0].engine.diagnostics()
    assert held["size.topics.waiting"] == held["size.topics.waiting_bytes"] == 0


HANDLED = AgentSpec(agent="shop/audit", topics=(TopicSpec(pattern="orders.>"),))


def test_handlers_run_one_at_a_time_and_a_ring_of_events_ends() -> None:
    world, hosts, _ = stage(4)
    invoked: list[Invoke] = []

    def on_invoke(host: Host, invoke: Invoke) -> None:
        invoked.append(invoke)
        if invoke.event is not None and invoke.event.topic == "orders.ring" and invoke.hops_left:
            world.timeline.after(0.0, again, (host, invoke.hops_left))

    def again(argument: tuple[Host, int]) -> None:
        publish(argument[0], "orders.ring", hops_left=argument[1])

    world.on_invoke.append(on_invoke)
    hosts[1].application.offer(Offer(HANDLED, Handler(service_time=0.2)))
    world.run(3)
    assert [view.agent for view in hosts[0].engine.agents()] == ["shop/audit"]
    for number in range(3):
        publish(hosts[0], f"orders.n{number}")
    world.run(0.001)
    for _ in range(200):
        world.run(0.05)
        running = hosts[1].engine.diagnostics()["size.topics.handling"]
        assert running <= 1
    assert [invoke.event.topic for invoke in invoked if invoke.event] == [
        "orders.n0",
        "orders.n1",
        "orders.n2",
    ]
    assert (invoked[0].agent, invoked[0].capability) == ("shop/audit", "on orders.>")
    assert hosts[1].engine.diagnostics()["topics.handled"] == 3
    invoked.clear()
    publish(hosts[0], "orders.ring")
    world.run(20)
    assert [invoke.hops_left for invoke in invoked] == list(range(9, -1, -1))
    with pytest.raises(CallFailed) as caught:
        publish(hosts[0], "orders.x", hops_left=0)
    assert caught.value.code is ErrorCode.HOPS_USED_UP


def test_handlers_of_an_exclusive_agent_run_at_its_owner() -> None:
    world, hosts, _ = stage(4)
    invoked: list[tuple[str, int | None]] = []
    world.on_invoke.append(lambda host, invoke: invoked.append((host.name, invoke.fencing_token)))
    for host in hosts[:3]:
        host.application.offer(Offer(replace(HANDLED, exclusive=True), Handler(service_time=0.01)))
    world.run(8)
    publish(hosts[3], "orders.new")
    world.run(2)
    owner = hosts[3].engine.owner("shop/audit")
    assert owner is not None
    assert invoked == [(world.by_node[owner][0].name, fencing_token(1, owner))]
    standing_by = [host for host in hosts[:3] if host.node != owner]
    assert all(host.engine.diagnostics()["topics.standing_by"] == 1 for host in standing_by)


def test_an_owner_that_leaves_finishes_the_handlers_of_its_events() -> None:
    world, hosts, _ = stage(4)
    for host in hosts[:2]:
        host.application.offer(Offer(replace(HANDLED, exclusive=True), Handler(service_time=1.0)))
    world.run(8)
    publish(hosts[3], "orders.new")
    world.run(0.3)
    owner = next(host for host in hosts if host.node == hosts[3].engine.owner("shop/audit"))
    engine = owner.engine
    world.leave(owner)
    world.run(3)
    assert engine.diagnostics().get("topics.handled") == 1


def test_an_owner_that_has_left_runs_no_handlers_of_its_events_any_more() -> None:
    world, hosts, _ = stage(4)
    for host in hosts[:2]:
        host.application.offer(Offer(replace(HANDLED, exclusive=True), Handler(service_time=25.0)))
    world.run(8)
    publish(hosts[3], "orders.new")
    world.run(0.3)
    owner = next(host for host in hosts if host.node == hosts[3].engine.owner("shop/audit"))
    engine = owner.engine
    world.leave(owner)
    world.run_until(lambda _: any(m.state is MemberState.LEFT for m in hosts[3].engine.members()), limit=20)
    assert engine.diagnostics()["size.topics.handling"] == 0


def test_a_node_with_as_many_agents_as_it_may_have_subscribes_all_the_same() -> None:
    world, hosts, heard = stage(2)
    engine = hosts[0].engine
    for number in range(world.protocol.records_per_node_max // 2):
        engine.register(AgentSpec(agent=f"many/agent{number}"), hosts[0].now)
    with pytest.raises(LocalProtocolError, match="agents already"):
        engine.register(AgentSpec(agent="many/more"), hosts[0].now)
    hosts[0].settle()
    subscribe(hosts[0], "a.*")
    subscribe(hosts[0], "b.*")
    world.run(3)
    publish(hosts[1], "a.x")
    publish(hosts[1], "b.x")
    world.run(1)
    assert heard.topics(hosts[0]) == ["a.x", "b.x"]


def test_a_subscription_that_there_is_no_room_to_tell_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world, hosts, _ = stage(2)
    monkeypatch.setattr(own, "RECORDS_BYTES_MAX", 1)
    with pytest.raises(InvalidIdentifier, match="offer it from another node"):
        subscribe(hosts[0], "a.*")
    world.run(12)
    told = hosts[0].engine.diagnostics()
    assert (told["size.topics.subscriptions"], told["size.topics.own_patterns"]) == (0, 0)


def test_what_was_to_be_told_later_and_has_no_room_then_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, hosts, heard = stage(2)
    subscribe(hosts[0], "a.*")
    subscribe(hosts[0], "later.*")  # too soon after the first to be told at once
    with monkeypatch.context() as patch:
        patch.setattr(own, "RECORDS_BYTES_MAX", 1)
        world.run(7)
    assert hosts[0].engine.diagnostics()["topics.not_told"] == 2
    world.run(6)
    publish(hosts[1], "later.x")
    world.run(1)
    assert heard.topics(hosts[0]) == ["later.x"]


def test_what_cannot_be_published_says_why() -> None:
    world, hosts, _ = stage(3)
    with pytest.raises(CallFailed) as caught:
        publish(hosts[0], "a.b", bytes(world.protocol.payload_max + 1))
    assert caught.value.code is ErrorCode.PAYLOAD_TOO_LARGE
    world.leave(hosts[1])
    world.run(0.5)
