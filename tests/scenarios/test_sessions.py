"""Sessions, as stories: a chain over four nodes with a loss, a retry and a failure, and what is gathered of it."""

from __future__ import annotations

from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.workload import Application, Handler, Offer
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World

from reachp2p.core.calls.checking import Because, Chain, Kind, chain
from reachp2p.core.calls.gathering import Gathered, Why
from reachp2p.core.calls.hops import HopFilter, Side
from reachp2p.core.commands import CallSpec, InvokeResult, RouteQuery
from reachp2p.core.effects import Invoke
from reachp2p.core.events import CallEnded, Event, HopsGathered
from reachp2p.errors import ErrorCode

PLAN, RETRIEVE, CHECK = "plan.work", "text.retrieve", "text.check"


class Scripted(Application):
    """Handlers that a test plays: each invocation is kept until it says how it ends."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.kept: list[Invoke] = []

    def invoke(self, invoke: Invoke) -> None:
        self.kept.append(invoke)

    def cancel(self, invocation: int) -> None:
        self.kept = [invoke for invoke in self.kept if invoke.invocation != invocation]

    def call_ended(self, event: CallEnded) -> None:
        pass


class Team:
    """Nodes with agents whose handlers the test plays."""

    def __init__(self, seed: int, *offers: tuple[str, ...]) -> None:
        self.world = World(seed)
        self.hosts = self.world.add_nodes(len(offers), within=1.0)
        self.gathered: dict[tuple[str, int], Gathered] = {}
        self.ended: list[CallEnded] = []
        self.world.on_event.append(self._on_event)
        self.applications = [Scripted(host) for host in self.hosts]
        for host, application, capabilities in zip(self.hosts, self.applications, offers, strict=True):
            host.application = application
            for capability in capabilities:
                application.offer(Offer.simple(f"team/{capability.replace('.', '-')}", capability, Handler()))
        self.world.run(1)
        self.world.run_until(converged, limit=10)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, HopsGathered):
            self.gathered[host.name, event.gathering] = host.engine.gathered(event.gathering)
        elif isinstance(event, CallEnded):
            self.ended.append(event)

    def call(self, host: Host, capability: str, within: Invoke | None = None) -> bytes:
        """A call, on behalf of an invocation if one is given."""
        spec = CallSpec(
            query=RouteQuery(capability=capability),
            payload=b"work",
            traceparent=within.traceparent if within is not None else None,
            session_id=within.session_id if within is not None else None,
            path=within.path if within is not None else (),
            hops_left=within.hops_left if within is not None else None,
        )
        call = host.engine.call(spec, host.now)
        host.settle()
        self.world.run(0.2)
        return call

    def invoked(self, *capabilities: str) -> tuple[Host, Invoke]:
        """Where a handler of one of these runs now."""
        ((host, invoke),) = [
            (host, invoke)
            for host, application in zip(self.hosts, self.applications, strict=True)
            for invoke in application.kept
            if invoke.capability in capabilities and host.is_running
        ]
        return host, invoke

    def finish(self, capability: str, code: int = 0) -> None:
        host, invoke = self.invoked(capability)
        self.applications[self.hosts.index(host)].kept.remove(invoke)
        assert host.process is not None
        host.process.invoke_ended(
            invoke.invocation, InvokeResult(code=code, payload=b"" if code else b"done")
        )
        self.world.run(0.2)

    def gather(self, host: Host, wanted: HopFilter, timeout: float = 10.0) -> Gathered:
        number = host.engine.gather(wanted, host.now, timeout)
        host.settle()

        def has_ended(_: World) -> bool:
            return (host.name, number) in self.gathered

        self.world.run_until(has_ended, limit=timeout + 0.1, every=0.05)
        return self.gathered[host.name, number]

    def trace(self, host: Host, session: bytes) -> Chain:
        return chain(self.gather(host, HopFilter(session=session, strays=True)), session)


def told(team: Team, found: Chain) -> list[tuple[int, str, str, str, int, int]]:
    """Level, side, node, capability, attempt and code of each hop."""
    names = {host.node: host.name for host in team.hosts}
    return [
        (level, hop.side.value, names[hop.node], hop.capability, hop.attempt, hop.code)
        for level, hop in zip(found.levels, found.hops, strict=True)
    ]


def run_chain(team: Team) -> tuple[bytes, Host, Host]:
    """A planner calls a retriever, which is killed, and then another one; the checker that it calls at last fails."""
    caller, planner = team.hosts[:2]
    session = team.call(caller, PLAN)
    _, plan = team.invoked(PLAN)
    team.call(planner, RETRIEVE, plan)
    lost, _ = team.invoked(RETRIEVE)
    team.world.crash(lost)
    team.world.run(5)
    other, _ = team.invoked(RETRIEVE)
    team.finish(RETRIEVE)
    team.call(planner, CHECK, plan)
    team.finish(CHECK, ErrorCode.HANDLER_FAILED)
    team.finish(PLAN)
    assert team.ended[-1].code == 0
    return session, lost, other


def team_of_four(seed: int = 3) -> Team:
    return Team(seed, (), (PLAN,), (RETRIEVE, CHECK), (RETRIEVE, CHECK))


def test_a_chain_with_a_loss_a_retry_and_a_failure_is_gathered_whole() -> None:
    team = team_of_four()
    session, lost, other = run_chain(team)
    caller, planner = team.hosts[:2]
    found = team.trace(caller, session)
    assert told(team, found) == [
        (0, "asked", caller.name, PLAN, 1, 0),
        (1, "served", planner.name, PLAN, 1, 0),
        (2, "asked", planner.name, RETRIEVE, 1, ErrorCode.NODE_LOST),
        (2, "asked", planner.name, RETRIEVE, 2, 0),
        (3, "served", other.name, RETRIEVE, 2, 0),
        (2, "asked", planner.name, CHECK, 1, ErrorCode.HANDLER_FAILED),
        (3, "served", other.name, CHECK, 1, ErrorCode.HANDLER_FAILED),
    ]
    assert found.findings == []  # nobody has said that the lost one served
    gathered = next(reversed(team.gathered.values()))
    assert [(missing.node, missing.why) for missing in gathered.missing] in (
        [(lost.node, Why.DEAD)],
        [(lost.node, Why.UNREACHABLE)],
    )
    assert {hop.session for hop in found.hops} == {hop.trace for hop in found.hops} == {session}


def test_whoever_took_no_part_finds_it_by_asking_all() -> None:
    team = Team(4, (), (PLAN,), (RETRIEVE,), ())
    session = team.call(team.hosts[0], PLAN)
    _, plan = team.invoked(PLAN)
    team.call(team.hosts[1], RETRIEVE, plan)
    team.finish(RETRIEVE)
    team.finish(PLAN)
    found = team.trace(team.hosts[3], session)
    assert [level for level, *_ in told(team, found)] == [0, 1, 2, 3]
    assert found.findings == []
    assert team.gather(team.hosts[3], HopFilter(session=b"no such session.")).hops == []


def test_the_hops_of_a_node_that_is_gone_are_named() -> None:
    """The planner dies after the session: its two sides are proven by those around it, and the retriever is found."""
    team = Team(5, (), (PLAN,), (RETRIEVE,), ())
    caller, planner = team.hosts[:2]
    session = team.call(caller, PLAN)
    _, plan = team.invoked(PLAN)
    nested = team.call(planner, RETRIEVE, plan)
    team.finish(RETRIEVE)
    team.finish(PLAN)
    team.world.crash(planner)
    found = team.trace(caller, session)
    assert [(f.kind, f.because, f.node, f.message_id) for f in found.findings] == [
        (Kind.SERVED_LOST, Because.GONE, planner.node, session),
        (Kind.ASKED_LOST, Because.GONE, planner.node, nested),
    ]
    team.world.restart(planner)
    team.world.run_until(converged, limit=60)
    again = team.trace(caller, session)
    assert [finding.because for finding in again.findings] == [Because.RESTARTED] * 2


def test_a_handler_that_forgets_whom_it_works_for_breaks_the_trace_and_is_named() -> None:
    team = Team(6, (), (PLAN,), (RETRIEVE,), ())
    session = team.call(team.hosts[0], PLAN)
    stray = team.call(team.hosts[1], RETRIEVE)
    team.finish(RETRIEVE)
    team.finish(PLAN)
    (finding,) = team.trace(team.hosts[0], session).findings
    assert (finding.kind, finding.node, finding.message_id) == (Kind.TRACE_BROKEN, team.hosts[1].node, stray)


def test_a_wrong_clock_is_estimated_and_changes_no_order() -> None:
    team = Team(7, (), (PLAN,), (RETRIEVE,), ())
    team.hosts[1].clock.wall_offset -= 120.0
    team.world.run(15)
    session = team.call(team.hosts[0], PLAN)
    _, plan = team.invoked(PLAN)
    team.call(team.hosts[1], RETRIEVE, plan)
    team.finish(RETRIEVE)
    team.finish(PLAN)
    found = team.trace(team.hosts[0], session)
    assert [level for level, *_ in told(team, found)] == [0, 1, 2, 3]
    assert {finding.kind for finding in found.findings} == {Kind.CLOCKS}
    assert {round(abs(finding.offset)) for finding in found.findings} == {120}
    assert round(found.offsets[team.hosts[1].node].seconds) == -120


def test_a_filter_asks_all_and_a_paused_node_is_silent() -> None:
    team = Team(8, (), (PLAN,), (PLAN,), (RETRIEVE,))
    team.call(team.hosts[0], PLAN)
    team.finish(PLAN, ErrorCode.HANDLER_FAILED)
    team.call(team.hosts[0], RETRIEVE)
    team.finish(RETRIEVE)
    found = team.gather(team.hosts[3], HopFilter(failed=True, age=60.0))
    assert {hop.capability for hop in found.hops} == {PLAN}
    assert {hop.side for hop in found.hops} == {Side.ASKED, Side.SERVED}
    assert len(found.heard) == 4
    team.world.pause(team.hosts[2])
    begun = team.world.now
    found = team.gather(team.hosts[3], HopFilter(failed=True))
    assert [missing.node for missing in found.missing] == [team.hosts[2].node]
    assert team.world.now - begun <= 3.2


def test_too_many_questions_of_one_node_are_refused_and_said_to_be() -> None:
    team = Team(9, (), ())
    found = [team.gather(team.hosts[0], HopFilter(failed=True)) for _ in range(3)]
    assert not any(one.missing for one in found)
    for _ in range(4):
        for _ in range(8):
            team.hosts[0].engine.gather(HopFilter(), team.hosts[0].now)
        team.hosts[0].settle()
        team.world.run(0.1)
    missing = [one for found_one in team.gathered.values() for one in found_one.missing]
    assert {one.why for one in missing} == {Why.REFUSED}
    assert team.hosts[1].engine.diagnostics()["hops.refused"] == len(missing)
