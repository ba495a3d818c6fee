"""One node's records in two replicas, through any order of records, heads and deltas (Scuttlebutt).

An owner offers and withdraws agents, renews its head and forgets old withdrawals. Its records are said again and again
by anybody, at any time; heads arrive or do not; deltas come from the owner as it is or was, or from the other replica,
and may be overtaken by anything. Whatever happens: a replica knows exactly what was so through its `complete`, and a
last exchange with the owner makes it equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from reachp2p.core.counters import Counters
from reachp2p.core.registry.store import RecordStore
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import AgentRecord
from tests.support import Author, life

ANN = Author(1)
LIFE = life(1)
Records = dict[str, Checked[AgentRecord]]


@dataclass
class State:
    """The owner at one time: what its head says, and what it lists."""

    version: int = 0
    floor: int = 0
    records: Records = field(default_factory=dict)


class Owner:
    """Signs records; remembers all it has ever been."""

    def __init__(self) -> None:
        self.said: list[Checked[AgentRecord]] = []
        self.states = [State()]

    @property
    def now(self) -> State:
        return self.states[-1]

    def offer(self, agent: str) -> None:
        self._say(agent, withdrawn=False)

    def withdraw(self, agent: str) -> None:
        held = self.now.records.get(agent)
        if held is not None and not held.fact.withdrawn:
            self._say(agent, withdrawn=True)

    def _say(self, agent: str, *, withdrawn: bool) -> None:
        version = self.now.version + 1
        record = ANN.record(agent, version, withdrawn=withdrawn)
        self.said.append(record)
        self.states.append(State(version, self.now.floor, {**self.now.records, agent: record}))

    def renew(self) -> None:
        self.states.append(State(self.now.version + 1, self.now.floor, self.now.records))

    def forget(self, count: int) -> None:
        """Let the oldest withdrawals go."""
        tombstones = sorted(r.fact.version for r in self.now.records.values() if r.fact.withdrawn)
        if tombstones:
            floor = tombstones[: count + 1][-1]
            kept = {
                agent: record
                for agent, record in self.now.records.items()
                if not (record.fact.withdrawn and record.fact.version <= floor)
            }
            self.states.append(State(self.now.version + 1, floor, kept))

    def last_said(self, agent: str, through: int) -> Checked[AgentRecord] | None:
        """What was so about an agent as of a version."""
        about = [r for r in self.said if r.fact.agent == agent and r.fact.version <= through]
        return about[-1] if about else None


@dataclass
class Delta:
    """What a sender lists, and through what it says this is complete."""

    head: State
    records: list[Checked[AgentRecord]]
    through: int


class Replica:
    """What a node does with heads, records and deltas (`core.hearing`)."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.store = RecordStore(100, self.counters)
        self.store.open(ANN.node, LIFE)
        self.head = State()
        self.on_their_way: list[Delta] = []

    @property
    def complete(self) -> int:
        return self.store.complete(ANN.node)

    def hear_head(self, state: State) -> None:
        if state.version > self.head.version:
            self.head = state
            self.store.raise_floor(ANN.node, state.floor, state.version)

    def ask_owner(self, state: State) -> None:
        """The owner's answer as it was in `state`, for what we are complete through now."""
        if self.head.version <= state.version:
            have = self.complete
            start = 0 if have < state.floor else have
            listed = [r for r in state.records.values() if r.fact.version > start]
            self.on_their_way.append(Delta(state, listed, state.version))

    def ask(self, other: Replica) -> None:
        """Another replica's answer: nothing if our head is newer than its own (`registry.replica`)."""
        if other.complete > self.complete and self.head.version <= other.head.version:
            listed = other.store.after(ANN.node, self.complete)
            self.on_their_way.append(Delta(other.head, listed, other.complete))

    def receive(self, delta: Delta) -> None:
        self.hear_head(delta.head)
        for record in delta.records:
            self.store.put(record)
        listed = {record.fact.agent: None for record in delta.records}
        self.store.completed(ANN.node, LIFE, delta.through, listed, delta.head.version)

    def held(self) -> Records:
        return {record.fact.agent: record for record in self.store.records(ANN.node)}

    def offered(self) -> dict[str, int]:
        return {a: r.fact.version for a, r in self.held().items() if not r.fact.withdrawn}


def check(replica: Replica, owner: Owner) -> None:
    """Through `complete` the replica knows exactly what was so, unless it knows that it does not."""
    if replica.complete < replica.head.floor:
        return
    held = replica.held()
    for agent in AGENTS:
        last = owner.last_said(agent, replica.complete)
        mine = held.get(agent)
        if mine is None:
            assert last is None or last.fact.withdrawn, f"{agent} is lost"
        elif mine.fact.version <= replica.complete:
            assert mine.digest == last.digest, f"{agent} is outdated"  # type: ignore[union-attr]
            assert not (mine.fact.withdrawn and mine.fact.version <= replica.head.floor), "kept for ever"


AGENTS = ["a/a", "a/b", "a/c", "a/d"]
agents = st.sampled_from(AGENTS)
owner_acts = st.one_of(
    st.tuples(st.just("offer"), agents),
    st.tuples(st.just("offer"), agents),
    st.tuples(st.just("withdraw"), agents),
    st.tuples(st.just("renew"), st.none()),
    st.tuples(st.just("forget"), st.integers(0, 2)),
)
numbers = st.integers(0, 40)
replica_acts = st.tuples(
    st.sampled_from(
        ["record", "record", "record", "head", "ask owner", "ask other", "deliver", "deliver last"]
    ),
    st.integers(0, 1),
    numbers,
)


def story_of(acts: list[tuple[str, object]]) -> Owner:
    owner = Owner()
    for act, argument in acts:
        match act:
            case "offer":
                owner.offer(str(argument))
            case "withdraw":
                owner.withdraw(str(argument))
            case "renew":
                owner.renew()
            case _:
                owner.forget(int(str(argument)))
    return owner


def act(owner: Owner, replicas: list[Replica], what: str, who: int, number: int) -> None:
    replica, other = replicas[who], replicas[1 - who]
    state = owner.states[number % len(owner.states)]
    match what:
        case "record" if owner.said:
            replica.store.put(owner.said[number % len(owner.said)])
        case "head":
            replica.hear_head(state)
        case "ask owner":
            replica.ask_owner(state)
        case "ask other":
            replica.ask(other)
        case "deliver" if replica.on_their_way:
            replica.receive(replica.on_their_way.pop(number % len(replica.on_their_way)))
        case "deliver last" if replica.on_their_way:
            replica.receive(replica.on_their_way.pop())


@settings(max_examples=400)
@given(st.lists(owner_acts, min_size=1, max_size=14), st.lists(replica_acts, max_size=30))
def test_a_replica_knows_what_was_so_through_its_version_whatever_arrives_in_whatever_order(
    history: list[tuple[str, object]], arrivals: list[tuple[str, int, int]]
) -> None:
    owner, replicas = story_of(history), [Replica(), Replica()]
    for what, who, number in arrivals:
        before = [replica.complete for replica in replicas]
        act(owner, replicas, what, who, number)
        for replica, complete in zip(replicas, before, strict=True):
            assert replica.complete >= complete
            check(replica, owner)
    for replica in replicas:
        replica.hear_head(owner.now)
        replica.ask_owner(owner.now)
        for delta in replica.on_their_way:
            replica.receive(delta)
        check(replica, owner)
        assert replica.complete == owner.now.version
        assert replica.held() == owner.now.records


@given(st.lists(owner_acts, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_all_orders_of_records_and_one_delta_give_one_result(
    history: list[tuple[str, object]], random: object
) -> None:
    owner = story_of(history)
    whole = Delta(owner.now, list(owner.now.records.values()), owner.now.version)
    arrivals: list[Checked[AgentRecord] | Delta] = [*owner.said, whole, *owner.said[:2]]
    random.shuffle(arrivals)  # type: ignore[attr-defined]
    for order in list(permutations(arrivals))[:120]:
        replica = Replica()
        for arrival in order:
            if isinstance(arrival, Delta):
                replica.receive(arrival)
            else:
                replica.store.put(arrival)
        assert replica.held() == owner.now.records
        assert replica.complete == owner.now.version


@given(st.lists(st.tuples(agents, st.booleans()), min_size=1, max_size=6))
def test_all_orders_of_records_alone_give_one_result(said: list[tuple[str, bool]]) -> None:
    records = [ANN.record(agent, at, withdrawn=gone) for at, (agent, gone) in enumerate(said, start=1)]
    results = []
    for order in list(permutations(records))[:200]:
        replica = Replica()
        for record in order:
            replica.store.put(record)
        results.append((sorted(replica.held().items()), replica.complete))
    assert results == [results[0]] * len(results)
    assert results[0][1] == len(records)
