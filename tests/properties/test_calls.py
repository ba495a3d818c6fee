"""Three nodes that call each other while links break, handlers misbehave, nodes pause, drain and are declared dead.

Whatever happens: every call ends exactly once; what is not repeatable is started at most once; a result is the answer
to its own question; and when all is over every table is empty.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reachp2p.core.commands import InvokeResult, Lasting, RouteQuery
from reachp2p.core.settings import Protocol
from reachp2p.errors import CallFailed, ErrorCode
from tests.unit.calls.world import Node, World
from tests.unit.links.pair import life

PROTOCOL = Protocol(
    payload_max=40_000, invocations_max=5, pending_calls_max=12, link_queue_max=120_000,
    call_timeout=3.0, task_timeout=35.0, tasks_max=4, task_keep=15.0,
)  # fmt: skip
TIMEOUT_MAX = 40.0
NODES = st.integers(0, 2)
ENDS = {
    0, ErrorCode.NO_HEALTHY_INSTANCE, ErrorCode.UNKNOWN_TARGET, ErrorCode.DEADLINE_EXCEEDED, ErrorCode.CANCELLED,
    ErrorCode.HANDLER_FAILED, ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.SCHEMA_MISMATCH, ErrorCode.REFUSED_FULL,
    ErrorCode.OUTCOME_UNKNOWN, ErrorCode.NODE_LOST,
}  # fmt: skip


class Calls(RuleBasedStateMachine):
    """One history of one small world."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.nodes = [self.world.node(name, protocol=PROTOCOL) for name in "abc"]
        for node in self.nodes:
            node.offer(agent="test/once", capability="test.once", concurrency=2)
            node.offer(agent="test/again", capability="test.again", repeatable=True, concurrency=1)
        self.questions: dict[bytes, tuple[Node, bytes, bool]] = {}
        self.count = 0
        self.void: dict[str | None, None] = {None: None}
        """Keys whose handler has said that it has not run."""

    # Calls and handlers

    @rule(
        caller=NODES,
        repeatable=st.booleans(),
        size=st.sampled_from([10, 10, 10, 30_000]),
        timeout=st.floats(0.01, TIMEOUT_MAX),
        key=st.sampled_from([None, None, "own", "shared", "shared"]),
        lasting=st.sampled_from([Lasting.END, Lasting.END, Lasting.OUTLAST, Lasting.TASK]),
    )
    def call(
        self, caller: int, repeatable: bool, size: int, timeout: float, key: str | None, lasting: Lasting
    ) -> None:
        if key == "shared":  # all of one node, so that they meet
            caller, repeatable = 0, False
        node = self.nodes[caller]
        self.count += 1
        question = f"question {self.count} ".encode().ljust(size, b".")
        if key == "own":
            key = f"key {self.count}"
        elif key is not None:  # and the same request
            question = key.encode()
        query = RouteQuery(capability="test.again" if repeatable else "test.once")
        try:
            call = node.call(
                question,
                query=query,
                timeout=None if lasting is Lasting.OUTLAST else timeout,
                idempotency_key=key,
                lasting=lasting,
            )
        except CallFailed as failed:
            refusal = failed.code
        else:
            refusal = None
            self.questions[call] = (node, question, repeatable)
        assert refusal in (None, ErrorCode.REFUSED_FULL)

    @rule(caller=NODES, which=st.integers(0, 20))
    def cancel(self, caller: int, which: int) -> None:
        node = self.nodes[caller]
        if node.started:
            node.cancel(node.started[which % len(node.started)])

    @precondition(lambda self: any(node.running for node in self.nodes))
    @rule(
        which=st.integers(0, 20),
        result=st.sampled_from(
            ["answer", "answer", "answer", "large", "failed", "unfit", "twice", "unknown"]
        ),
    )
    def handler_ends(self, which: int, result: str) -> None:
        running = [(node, number) for node in self.nodes for number in node.running]
        node, number = running[which % len(running)]
        question = node.running[number].payload
        match result:
            case "answer" | "twice":
                node.finish(number, InvokeResult(payload=question))
            case "large":
                node.finish(number, InvokeResult(payload=b"x" * 40_001))
            case "failed":
                node.finish(number, InvokeResult(code=1403, detail="\ud800"))
            case "unfit":
                self.void[node.running[number].idempotency_key] = None
                node.finish(number, InvokeResult(code=1405, executed=False))
        if result in ("twice", "unknown"):
            node.finish(number if result == "twice" else 10_000, InvokeResult(payload=b"nobody's answer"))

    # The network

    @rule(choice=st.integers(0, 50))
    def step(self, choice: int) -> None:
        possible = self.world.steps()
        if possible:
            self.world.step(*possible[choice % len(possible)])

    @rule()
    def run_network(self) -> None:
        self.world.run()

    @precondition(lambda self: self.world.wires)
    @rule(which=st.integers(0, 10))
    def cut(self, which: int) -> None:
        self.world.cut(self.world.wires[which % len(self.world.wires)])

    @rule(node=NODES, is_silent=st.booleans())
    def silence(self, node: int, is_silent: bool) -> None:
        if is_silent:
            self.world.silent.add(self.nodes[node].address)
        else:
            self.world.silent.discard(self.nodes[node].address)

    @rule(node=NODES)
    def stop_reading(self, node: int) -> None:
        """Nothing that this node sends finds room any more, until a link is new."""
        side = self.nodes[node]
        for link in list(side.ends):
            side.links.on_writable(link, 0, self.world.now)

    @rule(first=NODES, second=NODES)
    def dial(self, first: int, second: int) -> None:
        if first != second:
            side, other = self.nodes[first], self.nodes[second]
            side.links.dial(other.address, other.node, self.world.now)
            side.perform()

    @rule(seconds=st.sampled_from([0.01, 0.5, 3.0, 25.0]))
    def sleep(self, seconds: float) -> None:
        self.world.sleep(seconds)

    # Nodes

    @rule(node=NODES, other=NODES)
    def declared_dead(self, node: int, other: int) -> None:
        if node != other:
            self.nodes[node].gone(self.nodes[other])

    @rule(node=NODES)
    def pause(self, node: int) -> None:
        side = self.nodes[node]
        side.callee.pause(self.world.now)
        side.perform()

    @rule(node=NODES)
    def resume_in_a_new_life(self, node: int) -> None:
        """As an engine does it: the calls and links of the old life end with it."""
        side = self.nodes[node]
        side.callee.pause(self.world.now)
        side.caller.end_all(ErrorCode.NODE_LOST, "a new life begins", self.world.now)
        side.take(side.links.close_all(self.world.now, "a new life begins"))
        side.life = life(side.life.epoch + 1)
        side.callee.resume()

    @rule(turns=st.integers(1, 5))
    def prefer_others(self, turns: int) -> None:
        instances = self.world.router.instances
        instances[:] = instances[turns:] + instances[:turns]

    # What always holds

    @invariant()
    def what_is_not_repeatable_is_started_at_most_once(self) -> None:
        for call, (_, _, repeatable) in self.questions.items():
            started = sum(invoke.message_id == call for node in self.nodes for invoke in node.invoked)
            assert started <= (2 if repeatable else 1)

    @invariant()
    def a_task_says_how_its_call_has_ended(self) -> None:
        for node in self.nodes:
            for task in node.caller.tasks.all():
                ends = [event for event in node.ended if event.call == task.id]
                assert ([] if task.ended is None else [task.ended]) == ends

    @invariant()
    def a_key_is_executed_once_at_each_instance(self) -> None:
        for node in self.nodes:
            seen = [
                (invoke.caller, invoke.agent, invoke.idempotency_key)
                for invoke in node.invoked
                if invoke.idempotency_key not in self.void
            ]
            assert len(seen) == len(set(seen))

    @invariant()
    def no_request_goes_to_more_than_two_nodes(self) -> None:
        for node in self.nodes:
            for call in node.caller._pending.all():
                assert call.asked <= 2
                assert call.asked <= call.attempts

    @invariant()
    def bounds_hold(self) -> None:
        for node in self.nodes:
            assert len(node.running) <= PROTOCOL.invocations_max
            assert node.caller.pending <= PROTOCOL.pending_calls_max
            assert len(node.caller.tasks) <= PROTOCOL.tasks_max
            assert node.callee.gauges()["calls.running"] == len(node.running)

    def teardown(self) -> None:
        """No handler ever answers again: time alone must end everything."""
        self.world.sleep(TIMEOUT_MAX + 1.0)
        for call, (node, question, _) in self.questions.items():
            ended = node.end_of(call)
            assert ended.code in ENDS
            assert ended.payload == (question if ended.code == 0 else b"")
            assert 1 <= ended.attempts <= len(self.nodes)
        self.world.sleep(PROTOCOL.task_keep)
        for node in self.nodes:
            assert len(node.caller.tasks) == node.caller.tasks.result_bytes == 0
            assert node.leftovers == {}
            assert node.running == {}


# How long a history takes depends on who else uses the machine.
Calls.TestCase.settings = settings(
    max_examples=80, stateful_step_count=50, suppress_health_check=[HealthCheck.too_slow]
)
TestCalls = Calls.TestCase
