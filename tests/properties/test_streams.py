"""Two nodes that stream to each other while links break at random moments, applications stall, and calls are cancelled.

Whatever happens: what an application takes is what the other one gave, each item once and in order; every stream ends
once; a stream that ends well has brought every item; nobody holds more than the windows; and in the end every table is
empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reachp2p.core.commands import Flow, RouteQuery, StreamKind
from reachp2p.core.settings import Protocol
from reachp2p.errors import CallFailed, ErrorCode
from tests.unit.calls.streaming import end_items, ended, finish, give, rest, take
from tests.unit.calls.world import Node, World
from tests.unit.links.pair import life

WINDOW = 4_096
PROTOCOL = Protocol(
    payload_max=30_000,
    stream_window=WINDOW,
    streams_max=6,
    stream_resume_window=10.0,
    stream_idle_timeout=15.0,
    link_queue_max=200_000,
)
TIMEOUT = 60.0
ENDS = {
    0, ErrorCode.DEADLINE_EXCEEDED, ErrorCode.CANCELLED, ErrorCode.HANDLER_FAILED, ErrorCode.REFUSED_FULL,
    ErrorCode.OUTCOME_UNKNOWN, ErrorCode.NODE_LOST,
}  # fmt: skip
KINDS = {
    StreamKind.RESULTS: "test.results",
    StreamKind.PARAMETERS: "test.parameters",
    StreamKind(3): "test.both",
}
NODES = st.integers(0, 1)


@dataclass(eq=False)
class Story:
    """One stream as the applications at its two ends have lived it."""

    caller: Node
    callee: Node
    call: bytes
    kind: StreamKind
    given: dict[bool, list[bytes]] = field(default_factory=lambda: {True: [], False: []})
    """By the caller (True) and by the handler."""
    taken: dict[bool, list[bytes]] = field(default_factory=lambda: {True: [], False: []})
    has_ended_items: bool = False

    @property
    def number(self) -> int | None:
        """The invocation, while its handler runs."""
        return next((n for n, i in self.callee.running.items() if i.message_id == self.call), None)

    @property
    def is_over(self) -> bool:
        return any(event.call == self.call for event in self.caller.ended)


class Streams(RuleBasedStateMachine):
    """One history of two nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.nodes = [self.world.node(name, protocol=PROTOCOL) for name in "ab"]
        for number, node in enumerate(self.nodes):
            for kind, capability in KINDS.items():
                name = f"{capability}{number}"
                node.offer(
                    agent=f"test/{name.replace('.', '-')}", capability=name, stream=kind, concurrency=2
                )
        self.stories: list[Story] = []
        self.count = 0

    def pick(self, which: int) -> Story:
        return self.stories[which % len(self.stories)]

    # Applications

    @rule(caller=NODES, callee=NODES, kind=st.sampled_from(list(KINDS)), is_quick=st.booleans())
    def begin(self, caller: int, callee: int, kind: StreamKind, is_quick: bool) -> None:
        query = RouteQuery(capability=f"{KINDS[kind]}{callee}")
        node = self.nodes[caller]
        try:
            call = node.call(b"", query=query, stream=True, timeout=TIMEOUT)
        except CallFailed as failed:
            assert failed.code is ErrorCode.REFUSED_FULL  # noqa: PT017 (the rule may succeed)
        else:
            self.stories.append(Story(node, self.nodes[callee], call, kind))
            if is_quick:
                self.world.run()

    @precondition(lambda self: self.stories)
    @rule(
        which=st.integers(0, 9),
        by_caller=st.booleans(),
        size=st.sampled_from([0, 10, 300, 3_000, 29_000]),
        times=st.integers(1, 8),
    )
    def give(self, which: int, by_caller: bool, size: int, times: int) -> None:
        story = self.pick(which)
        wanted = StreamKind.PARAMETERS if by_caller else StreamKind.RESULTS
        key = story.call if by_caller else story.number
        if not story.kind & wanted or key is None or (by_caller and story.has_ended_items):
            return
        node = story.caller if by_caller else story.callee
        for _ in range(times):
            self.count += 1
            item = f"{self.count} ".encode().ljust(size, b".")
            if give(node, key, item) is Flow.DONE:
                story.given[by_caller].append(item)

    @precondition(lambda self: self.stories)
    @rule(which=st.integers(0, 9), at_caller=st.booleans(), times=st.integers(1, 12))
    def take(self, which: int, at_caller: bool, times: int) -> None:
        story = self.pick(which)
        wanted = StreamKind.RESULTS if at_caller else StreamKind.PARAMETERS
        key = story.call if at_caller else story.number
        if not story.kind & wanted or key is None:
            return
        node = story.caller if at_caller else story.callee
        for _ in range(times):
            item = take(node, key)
            if isinstance(item, Flow):
                if item is Flow.ENDED and not at_caller:
                    assert story.has_ended_items
                    assert story.taken[False] == story.given[True]
                break
            story.taken[at_caller].append(item)

    @precondition(lambda self: self.stories)
    @rule(
        which=st.integers(0, 9),
        size=st.sampled_from([10, 900, 20_000]),
        steps=st.integers(0, 9),
        breaks=st.booleans(),
    )
    def flow(self, which: int, size: int, steps: int, breaks: bool) -> None:
        """Both ends give, something arrives before the link breaks, or does not, both ends take."""
        for by_caller in (True, False):
            self.give(which=which, by_caller=by_caller, size=size, times=4)
        for number in range(steps):
            self.step(choice=number, times=1)
        if breaks:
            for wire in list(self.world.wires):
                self.world.cut(wire)
            self.world.run()
        for at_caller in (True, False):
            self.take(which=which, at_caller=at_caller, times=9)

    @precondition(lambda self: self.stories)
    @rule(which=st.integers(0, 9))
    def parameters_end(self, which: int) -> None:
        story = self.pick(which)
        if story.kind & StreamKind.PARAMETERS and not story.is_over:
            end_items(story.caller, story.call)
            story.has_ended_items = True

    @precondition(lambda self: self.stories)
    @rule(which=st.integers(0, 9), code=st.sampled_from([0, 0, 0, 1403]))
    def handler_ends(self, which: int, code: int) -> None:
        story = self.pick(which)
        if story.number is not None:
            finish(story.callee, story.number, code=code)

    @precondition(lambda self: self.stories)
    @rule(which=st.integers(0, 9))
    def cancel(self, which: int) -> None:
        story = self.pick(which)
        story.caller.cancel(story.call)

    # The network

    @rule(choice=st.integers(0, 50), times=st.integers(1, 6))
    def step(self, choice: int, times: int) -> None:
        for _ in range(times):
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

    @rule(node=NODES, room=st.sampled_from([0, 20_000]))
    def little_room(self, node: int, room: int) -> None:
        side = self.nodes[node]
        for link in list(side.ends):
            side.take(side.links.on_writable(link, room, self.world.now))

    @rule(first=NODES)
    def dial(self, first: int) -> None:
        side, other = self.nodes[first], self.nodes[1 - first]
        side.links.dial(other.address, other.node, self.world.now)
        side.perform()

    @rule(seconds=st.sampled_from([0.01, 0.6, 3.0, 11.0]))
    def sleep(self, seconds: float) -> None:
        self.world.sleep(seconds)

    @precondition(lambda self: self.count % 7 == 6)
    @rule(node=NODES)
    def new_life(self, node: int) -> None:
        """As an engine does it: calls, streams and links of the old life end with it."""
        side = self.nodes[node]
        side.callee.pause(self.world.now)
        side.caller.end_all(ErrorCode.NODE_LOST, "a new life begins", self.world.now)
        side.take(side.links.close_all(self.world.now, "a new life begins"))
        side.life = life(side.life.epoch + 1)
        side.callee.resume()

    # What always holds

    @invariant()
    def what_is_taken_is_what_was_given_in_order(self) -> None:
        for story in self.stories:
            for at_caller in (True, False):
                taken, given = story.taken[at_caller], story.given[not at_caller]
                assert taken == given[: len(taken)]

    @invariant()
    def nobody_holds_more_than_the_windows(self) -> None:
        for node in self.nodes:
            gauges = node.streams.gauges()
            assert gauges["streams"] <= PROTOCOL.streams_max
            assert gauges["streams.bytes"] <= 2 * (WINDOW + PROTOCOL.payload_max) * gauges["streams"]
            assert gauges["streams.bytes"] == sum(s.held_bytes for s in node.streams._table.all())

    def teardown(self) -> None:
        """The network is good again: what was given arrives. No handler ever ends: time alone must end everything."""
        self.world.silent.clear()
        for node in self.nodes:
            for link in list(node.ends):
                self.world.writable(node, link)
        self.world.sleep(3.0)
        for number, story in enumerate(self.stories):
            for at_caller in (True, False):
                self.take(which=number, at_caller=at_caller, times=100)
            if story.number is not None and not story.is_over:
                assert story.taken == {True: story.given[False], False: story.given[True]}
        self.world.sleep(TIMEOUT + PROTOCOL.stream_resume_window + 5.0)
        for story in self.stories:
            end = ended(story.caller, story.call)
            assert end.code in ENDS
            results = story.taken[True] + rest(end)
            assert results == story.given[False][: len(results)]
            assert end.items == len(results)
            if end.code == 0:
                assert results == story.given[False]
        for node in self.nodes:
            assert node.leftovers == {}
            assert node.running == {}


Streams.TestCase.settings = settings(max_examples=40, stateful_step_count=50)
TestStreams = Streams.TestCase
