"""Each checker, on a planted violation by scripted nodes, and on the nearest thing that is allowed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reachp2p_sim.budgets import completeness, dissemination, healing, suspicion_maximum
from reachp2p_sim.checkers import CHECKERS, attach_all
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.host import Host
from reachp2p_sim.network import Conditions
from reachp2p_sim.scripted import ScriptedEngine, Story
from reachp2p_sim.violation import Violation
from reachp2p_sim.workload import Handler, Loop, Offer, sign_reply
from reachp2p_sim.world import World

from reachp2p.core.commands import RouteQuery
from reachp2p.core.effects import Invoke, SendDatagram
from reachp2p.core.events import CallEnded, Event, Fenced, MemberChanged, MemberState, Paused, Started
from reachp2p.core.ids import Address, Life, NodeId
from reachp2p.core.views import MemberView

ALIVE, SUSPECT, DEAD, LEFT = MemberState.ALIVE, MemberState.SUSPECT, MemberState.DEAD, MemberState.LEFT


class Watched(Story):
    """Scripted nodes with all checkers attached."""

    def __init__(self) -> None:
        super().__init__(
            World(seed=1, conditions=Conditions(delay=0.01, spread=0.0), engine_factory=ScriptedEngine)
        )
        self.checkers: list[Checker] = attach_all(self.world)

    def hosts(self, count: int) -> list[Host]:
        hosts = self.world.add_nodes(count)
        for host in hosts:
            self.begin(host)
        return hosts

    def sees(
        self,
        observer: Host,
        subject: Host,
        state: MemberState | None,
        incarnation: int = 0,
        life: Life | None = None,
    ) -> None:
        """Let a node say that it holds another one so, and answer so when asked."""
        life = life or subject.life
        assert life is not None
        held = observer.view.members.get(subject.node)
        old = held.state if held is not None else None
        rest = [m for m in self.script(observer).present_members if m.node != subject.node]
        if state is not None:
            rest.append(member_view(subject, life, state, incarnation))
        self.script(observer).present_members = rest
        self.say(
            observer,
            MemberChanged(
                at=observer.now, node=subject.node, name=subject.name, life=life, incarnation=incarnation, old=old,
                new=state, reason="planted",
            ),
        )  # fmt: skip

    def all_see_all(self) -> None:
        for observer in self.world.running:
            for subject in self.world.running:
                if observer is not subject:
                    self.sees(observer, subject, ALIVE)


def member_view(
    subject: Host, life: Life, state: MemberState, incarnation: int, version: int = 0
) -> MemberView:
    return MemberView(
        node=subject.node, name=subject.name, is_self=False, state=state, life=life, incarnation=incarnation,
        version=version, complete=version, addresses=(subject.address,), zone="", state_since=0.0, rtt=None,
        linked=False, refused=False,
    )  # fmt: skip


@pytest.fixture
def watched() -> Watched:
    return Watched()


def caught(checker: str, act: Callable[[], object]) -> str:
    """Do something that breaks a promise, and return what the checker says."""
    with pytest.raises(Violation) as raised:
        act()
    assert raised.value.checker == checker
    return raised.value.message


def test_every_checker_has_a_name_of_its_own() -> None:
    assert len({checker.name for checker in CHECKERS}) == len(CHECKERS)


# monotonicity


def test_monotonicity_sees_a_rank_that_falls_inside_an_incarnation(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sees(a, b, ALIVE)
    watched.sees(a, b, SUSPECT)
    assert "back to ALIVE" in caught("monotonicity", lambda: watched.sees(a, b, ALIVE))


def test_monotonicity_sees_a_lower_incarnation_and_a_lower_life(watched: Watched) -> None:
    a, b, c = watched.hosts(3)
    watched.sees(a, b, ALIVE, incarnation=3)
    caught("monotonicity", lambda: watched.sees(a, b, SUSPECT, incarnation=2))
    watched.sees(a, c, ALIVE, life=Life(5, bytes(16)))
    caught("monotonicity", lambda: watched.sees(a, c, ALIVE, life=Life(4, bytes(16))))


def test_monotonicity_sees_a_version_that_falls_without_an_event(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    life = b.life
    assert life is not None
    watched.script(a).present_members = [member_view(b, life, ALIVE, 0, version=5)]
    watched.world.run(3)
    watched.script(a).present_members = [member_view(b, life, ALIVE, 0, version=4)]
    caught("monotonicity", lambda: watched.world.run(3))


def test_monotonicity_allows_a_refutation_a_new_life_and_a_fresh_start(watched: Watched) -> None:
    a, b = watched.hosts(2)
    for state, incarnation, life in (
        (ALIVE, 0, None), (SUSPECT, 0, None), (ALIVE, 1, None), (DEAD, 1, None), (ALIVE, 2, None), (LEFT, 0, None),
        (ALIVE, 0, Life(9, bytes(16))),
    ):  # fmt: skip
        watched.sees(a, b, state, incarnation, life)
    watched.world.restart(a)
    watched.begin(a, epoch=2)
    watched.sees(a, b, ALIVE)


# no resurrection


def test_no_resurrection_sees_a_life_return_that_had_left_even_if_it_was_forgotten(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sees(a, b, LEFT)
    watched.sees(a, b, None)
    assert "had left" in caught("no_resurrection", lambda: watched.sees(a, b, ALIVE))


def test_no_resurrection_sees_a_dead_life_return_that_is_really_over(watched: Watched) -> None:
    a, b = watched.hosts(2)
    life = b.life
    watched.world.crash(b)
    watched.sees(a, b, DEAD, life=life)
    watched.sees(a, b, None, life=life)
    caught("no_resurrection", lambda: watched.sees(a, b, SUSPECT, life=life))


def test_no_resurrection_allows_the_return_of_what_only_looked_dead(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.world.set_weather(loss=0.5)
    watched.sees(a, b, DEAD)
    watched.sees(a, b, ALIVE, incarnation=1)
    watched.sees(a, b, LEFT)
    watched.sees(a, b, ALIVE, life=Life(2, bytes(16)))


# accuracy


def test_accuracy_sees_a_healthy_member_buried_or_forgotten(watched: Watched) -> None:
    a, b, c = watched.hosts(3)
    watched.all_see_all()
    watched.world.run(100)
    assert "declared n01 DEAD" in caught("accuracy", lambda: watched.sees(a, b, DEAD))
    assert "forgot n02" in caught("accuracy", lambda: watched.sees(a, c, None))


@pytest.mark.parametrize(
    "excuse", ["crash", "pause", "partition", "observer", "loss", "just started", "former life"]
)
def test_accuracy_allows_a_burial_that_has_a_reason(watched: Watched, excuse: str) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    life = b.life
    if excuse != "just started":
        watched.world.run(100)
    match excuse:
        case "crash":
            watched.world.crash(b)
        case "pause":
            watched.world.pause(b)
        case "observer":
            watched.world.pause(a)
            watched.world.resume(a)
        case "partition":
            watched.world.partition([a], [b])
            watched.world.heal()
        case "loss":
            watched.world.set_weather(loss=0.3)
        case "former life":
            watched.begin(b, epoch=2)
    watched.sees(a, b, DEAD, life=life)


# convergence


def test_convergence_sees_views_that_stay_apart(watched: Watched) -> None:
    watched.hosts(3)
    budget = healing(3, watched.world.protocol)
    watched.world.run(budget - 2)
    message = caught("convergence", lambda: watched.world.run(5))
    assert "n00 misses n01,n02" in message


def test_convergence_sees_views_with_equal_members_and_different_facts(watched: Watched) -> None:
    a, _ = watched.hosts(2)
    watched.all_see_all()
    watched.script(a).present_view_hash = b"other"
    message = caught("convergence", lambda: watched.world.run(healing(2, watched.world.protocol) + 5))
    assert "the ALIVE sets agree" in message


def test_convergence_waits_while_the_world_is_disturbed_and_begins_anew_after_it(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.world.partition([a], [b])
    watched.world.run(1_000)
    watched.world.heal()
    watched.world.run(healing(2, watched.world.protocol) - 5)
    watched.all_see_all()
    watched.world.run(1_000)


def test_convergence_sees_at_the_end_that_views_have_parted_again(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    watched.world.run(10)
    watched.sees(a, b, SUSPECT)
    convergence = next(checker for checker in watched.checkers if checker.name == "convergence")
    caught("convergence", convergence.finish)


# completeness


def test_completeness_sees_a_crashed_node_that_is_still_believed_in(watched: Watched) -> None:
    a, b, c = watched.hosts(3)
    watched.all_see_all()
    lives = {host: host.life for host in (b, c)}
    watched.world.crash(b)
    watched.world.pause(c)  # keeps the convergence checker quiet
    watched.sees(a, b, SUSPECT, life=lives[b])
    budget = completeness(2, watched.world.protocol)
    watched.world.run(budget - 10)
    assert "still SUSPECT" in caught("completeness", lambda: watched.world.run(30))


def test_completeness_is_content_once_it_is_dead(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    life = b.life
    watched.world.crash(b)
    watched.sees(a, b, DEAD, life=life)
    watched.world.run(2 * completeness(2, watched.world.protocol))


# lives


def test_lives_sees_an_epoch_used_twice_on_one_disk(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    watched.world.restart(a)
    assert "on the same disk" in caught("lives", lambda: watched.begin(a, epoch=1))


def test_lives_sees_an_epoch_that_is_not_on_disk(watched: Watched) -> None:
    (a,) = watched.world.add_nodes(1)
    announced = Started(at=0.0, life=Life(1, bytes(16)))
    assert "only epoch 0 is on its disk" in caught("lives", lambda: watched.say(a, announced))


def test_lives_allows_a_low_epoch_on_another_disk(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    watched.world.restart(a)
    watched.begin(a, epoch=2)
    watched.world.restart(a, disk="lost")
    watched.begin(a, epoch=1)


# fencing


def invoke() -> Invoke:
    return Invoke(
        invocation=1, agent="work/doer", capability="work.do", content_type="application/cbor", payload=b"",
        caller=NodeId(bytes(32)), message_id=bytes(16), deadline=1e9, attempt=1, session_id=None, idempotency_key=None,
        traceparent=None,
    )  # fmt: skip


def ended(call: bytes, code: int = 0, payload: bytes = b"") -> CallEnded:
    return CallEnded(
        at=0.0, call=call, code=code, content_type="application/cbor", payload=payload, detail="", node=None,
        agent=None, attempts=1,
    )  # fmt: skip


def test_fencing_sees_a_paused_life_run_a_handler(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    a.application.offer(Offer.simple("work/doer", "work.do", Handler()))
    watched.want(a, invoke())
    watched.say(a, Paused(at=0.0, other=Life(9, bytes(16))))
    assert "while it is paused" in caught("fencing", lambda: watched.want(a, invoke()))


def test_fencing_sees_a_fenced_life_say_more(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    events: list[Event] = [
        Fenced(at=0.0, other=Life(9, bytes(16))),
        Started(at=0.0, life=Life(10, bytes(16))),
    ]
    assert "after it was fenced" in caught("fencing", lambda: watched.say(a, *events))


def test_fencing_sees_the_result_of_a_life_that_is_known_to_be_over(watched: Watched) -> None:
    a, b = watched.hosts(2)
    former = b.life
    assert former is not None
    start_call(watched, a)
    (_, call), *_ = [what for what in watched.heard(a) if what[0] == "call"]
    watched.sees(a, b, ALIVE, life=Life(2, bytes(16)))
    reply = ended(call, payload=sign_reply(b.node, former))
    assert "although it holds" in caught("fencing", lambda: watched.say(a, reply))


def test_fencing_sees_two_machines_with_one_key_go_on(watched: Watched) -> None:
    a, _ = watched.hosts(2)
    twin = watched.world.clone(a)
    watched.world.start(twin)
    watched.begin(twin, epoch=2)
    protocol = watched.world.protocol
    budget = healing(3, protocol) + suspicion_maximum(3, protocol) + dissemination(3, protocol)
    watched.world.run(budget - 3)
    assert "run under one key" in caught("fencing", lambda: watched.world.run(10))


# bounded


def test_bounded_sees_a_datagram_that_is_too_large(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.want(a, SendDatagram(b.address, bytes(1_400)))
    send = SendDatagram(Address("192.0.2.1", 9), bytes(1_401))
    assert "1401 bytes" in caught("bounded", lambda: watched.want(a, send))


def test_bounded_sees_a_table_over_its_limit(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    watched.script(a).gauges = {"size.members": watched.world.protocol.members_max}
    watched.world.run(2)
    watched.script(a).gauges = {"size.members": watched.world.protocol.members_max + 1}
    caught("bounded", lambda: watched.world.run(2))


# single outcome


def start_call(watched: Watched, host: Host) -> None:
    host.application.call_in_a_loop(Loop(RouteQuery(capability="work.do"), think_time=1e9, timeout=5.0))
    watched.world.run(1.0)


def test_single_outcome_sees_a_call_end_twice(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    start_call(watched, a)
    ((_, call),) = [what for what in watched.heard(a) if what[0] == "call"]
    watched.say(a, ended(call))
    assert "a second time" in caught("single_outcome", lambda: watched.say(a, ended(call, 1401)))


def test_single_outcome_sees_the_end_of_a_call_that_nobody_made(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    caught("single_outcome", lambda: watched.say(a, ended(bytes(16))))


def test_single_outcome_sees_a_call_that_never_ends_unless_its_caller_was_away(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    start_call(watched, a)
    watched.world.pause(a)
    watched.world.run(20)
    watched.world.resume(a)
    start_call(watched, b)
    assert "past its deadline" in caught("single_outcome", lambda: watched.world.run(20))


# truthful events


def test_truthful_events_sees_a_change_without_an_event(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    watched.world.run(3)
    life = b.life
    assert life is not None
    watched.script(a).present_members = [member_view(b, life, SUSPECT, 0)]
    caught("truthful_events", lambda: watched.world.run(3))
