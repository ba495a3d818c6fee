"""The one object a driver touches: everything a node knows and decides, without any IO of its own.

A driver feeds it what happened (`handle_…`, commands, each with `now` in monotonic seconds), performs the effects it
answers with, in order, and wakes it at `next_deadline`. The trio runtime and the simulator are two such drivers, so
what is proven in one is true of the other. Nothing that arrives from the network raises out of `handle_…`: it is
dropped and counted by reason (`diagnostics`).

This file is the surface; the work is in `inbound` (messages), `hearing` (facts), `consequences`, `upkeep` (timers) and
the machines that `parts` puts together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from reachp2p.core.calls.gathering import Gathered
from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.hops import HopFilter
from reachp2p.core.calls.tasks import TaskView
from reachp2p.core.claiming import Claiming
from reachp2p.core.commands import AgentSpec, CallSpec, Flow, InvokeResult, PublishSpec, RouteQuery, StreamKey
from reachp2p.core.consequences import Consequences
from reachp2p.core.effects import Effect, LinkEnd
from reachp2p.core.events import ClockStepped, DrainFinished, Lagged, StorageFailed
from reachp2p.core.hearing import Hearing
from reachp2p.core.ids import Address, Entropy, Life, LinkId, NodeId, Rng, Ticket, check_pattern, check_topic
from reachp2p.core.inbound import Inbound
from reachp2p.core.introductions import Introductions
from reachp2p.core.leaving import Leaving
from reachp2p.core.membership.life import Phase, Step
from reachp2p.core.parts import Parts
from reachp2p.core.pulls import Pulls
from reachp2p.core.push_pull import PushPull
from reachp2p.core.questions import Questions
from reachp2p.core.recall import Recall
from reachp2p.core.registry.record import RECORDS_BYTES_MAX
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.groups import Group
from reachp2p.core.routing.policies import BUILT_IN
from reachp2p.core.routing.policy import PolicyFactory
from reachp2p.core.routing.rules import RuleSet
from reachp2p.core.routing.shapes import declaring
from reachp2p.core.routing.stages import Selector
from reachp2p.core.routing.versions import parse_range
from reachp2p.core.settings import Settings
from reachp2p.core.subscribing import Subscribing
from reachp2p.core.timing import Timing
from reachp2p.core.trust.facts import Checked
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p.core.upkeep import Upkeep
from reachp2p.core.views import AgentView, BulkheadView, Explanation, MemberView, RulesView
from reachp2p.core.wire.engine_codec import CODEC, Codec
from reachp2p.core.wire.facts import Head
from reachp2p.core.wire.messages import DigestEntry, Reply, Request, StreamItem
from reachp2p.errors import CallFailed, ConfigurationInvalid, ErrorCode, LocalProtocolError

LAG_NOTICED = 0.25
"""Seconds by which a timer may be late before this node doubts itself (half the probe time-out)."""
DRAIN_TIMEOUT = 10.0
GATHER_TIMEOUT = 10.0


class Engine:
    """One node. Build it, `start` it once, feed it until `Fenced`, `StartRefused` or `DrainFinished`."""

    def __init__(
        self,
        settings: Settings,
        *,
        signer: Signer,
        verifier: Verifier,
        rng: Rng,
        entropy: Entropy,
        codec: Codec = CODEC,
        policies: Mapping[str, PolicyFactory] = BUILT_IN,
    ) -> None:
        """`policies`: what makes each routing policy, by name; a factory is asked for when its policy first is."""
        if settings.protocol.payload_max < RECORDS_BYTES_MAX:
            raise ConfigurationInvalid(
                f"payload_max is {settings.protocol.payload_max}, at least {RECORDS_BYTES_MAX}: "
                "the records of one node travel in one message"
            )
        self._settings = settings
        self._parts = parts = Parts(
            settings,
            signer=signer,
            verifier=verifier,
            rng=rng,
            entropy=entropy,
            codec=codec,
            policies=policies,
        )
        self._timers = parts.timers
        self._consequences = Consequences(parts)
        pulls = Pulls(parts)
        self._hearing = Hearing(parts, self._consequences, pulls)
        self._push_pull = PushPull(parts, self._hearing)
        self._upkeep = Upkeep(parts, self._hearing, self._consequences, pulls, self._push_pull)
        self._subscribing = Subscribing(parts, self._hearing)
        self._claiming = Claiming(parts, self._hearing, self._push_pull)
        self._introductions = Introductions(parts, self._hearing, self._push_pull)
        self._recall = Recall(parts, self._hearing)
        self._inbound = Inbound(
            parts, self._hearing, self._consequences, self._push_pull, self._introductions
        )
        self._leaving = Leaving(parts, self._hearing)
        self._timing = Timing(
            parts,
            self._consequences,
            self._upkeep,
            self._push_pull,
            self._inbound,
            self._leaving,
            self._subscribing,
            left_spread=self._end_leaving,
        )
        self._questions = Questions(parts)
        self._now = float("-inf")
        self._late_deadline = float("-inf")
        self._life_rows: tuple[int, Sequence[tuple[bytes, bytes]]] | None = None
        self._is_loaded = False

    # Inputs: what happened

    def start(self, now: float, wall: float) -> None:
        """Begin a life: reads its storage, writes the new epoch, asks others about its own id, announces itself.

        Seeds that are known (`set_seeds`) and agents (`register`) should be given before.
        """
        self._now = now
        self._parts.clock.report(wall, now)
        self._parts.callee.pause(now)
        self._parts.snapshot.load(self._settings.protocol.members_max)
        self._parts.life.start()

    def handle_datagram(self, source: Address, data: bytes, now: float) -> None:
        """A UDP payload arrived."""
        now = self._enter(now)
        self._inbound.datagram(source, data, now)
        self._settle(now)

    def handle_link_opened(self, link: LinkId, identity: NodeId | None, now: float) -> None:
        """A dialled link is open, or (negative id) one was accepted. `identity`: what the transport has proven."""
        now = self._enter(now)
        self._inbound.link_opened(link, identity, now)
        self._settle(now)

    def handle_frame(self, link: LinkId, data: bytes, now: float) -> None:
        """A whole frame arrived on a link."""
        now = self._enter(now)
        self._inbound.link_outputs(self._parts.links.on_frame(link, data, now), now)
        self._settle(now)

    def handle_link_writable(self, link: LinkId, free_bytes: int, now: float) -> None:
        """The driver's queue for this link has this much room."""
        now = self._enter(now)
        self._inbound.link_outputs(self._parts.links.on_writable(link, free_bytes, now), now)
        self._settle(now)

    def handle_link_closed(self, link: LinkId, end: LinkEnd, now: float) -> None:
        """A link ended by the remote or by the network, or a dial failed."""
        now = self._enter(now)
        self._inbound.link_closed(link, end, now)
        self._settle(now)

    def handle_persisted(self, ticket: Ticket, now: float) -> None:
        """A `Persist` or `Delete` is durable."""
        now = self._enter(now)
        for item in self._parts.transmitter.settled(ticket, durable=True):
            self._parts.effects.add(item)
        self._parts.snapshot.on_persisted(ticket)
        self._parts.own_claims.on_persisted(ticket, now)
        self._take_steps(self._parts.life.on_persisted(ticket, now), now)
        self._settle(now)

    def handle_persist_failed(self, ticket: Ticket, reason: str, now: float) -> None:
        """A `Persist` or `Delete` failed; nothing of it is stored."""
        now = self._enter(now)
        self._parts.counters.add("storage.failed")
        table = self._parts.transmitter.table_of(ticket)
        for item in self._parts.transmitter.settled(ticket, durable=False):
            self._parts.effects.add(item)
        self._parts.snapshot.on_failed(ticket, now)
        if self._parts.rules.on_failed(ticket):
            self._parts.rule_spreading.on_write_failed(now)
        self._parts.own_claims.on_persist_failed(ticket, now)
        self._parts.effects.notify(StorageFailed(at=now, table=table, reason=reason))
        self._take_steps(self._parts.life.on_persist_failed(ticket, reason, now), now)
        self._settle(now)

    def handle_fetched(self, request: int, rows: Sequence[tuple[bytes, bytes]], now: float) -> None:
        """The rows of a `Fetch`, in key order."""
        now = self._enter(now)
        if self._parts.snapshot.is_asked(request):
            if self._parts.snapshot.on_fetched(request, rows):
                self._recall.load(now)
                self._is_loaded = True
        else:
            self._life_rows = (request, rows)
            self._parts.rules.load(rows)
        if self._is_loaded and self._life_rows is not None:
            self._parts.own_claims.recall(self._life_rows[1])
            steps = self._parts.life.on_fetched(*self._life_rows, now)
            self._life_rows = None
            self._take_steps(steps or [], now)
        self._settle(now)

    def handle_invoke_result(self, invocation: int, result: InvokeResult, now: float) -> None:
        """A handler ended."""
        now = self._enter(now)
        if invocation < 0:
            self._parts.event_handlers.on_invoke_result(invocation, result, now)
        else:
            self._parts.callee.on_invoke_result(invocation, result, now)
        self._settle(now)

    def handle_timeout(self, now: float) -> None:
        """`next_deadline` has come (calling it early or late is harmless; late is noticed)."""
        now = self._enter(now)
        timers, fire = self._timers, self._timing.fire
        while (key := timers.pop_due(now)) is not None:
            steps = fire(key, now)
            if steps:
                self._take_steps(steps, now)
        self._settle(now)

    def handle_wall_clock(self, wall: float, now: float) -> None:
        """What the wall clock says (Unix seconds); at start and about every ten seconds."""
        now = self._enter(now)
        step = self._parts.clock.report(wall, now)
        if step:
            self._parts.counters.add("clock.stepped")
            self._parts.effects.notify(ClockStepped(at=now, seconds=step))
            if self._parts.life.is_running:
                self._upkeep.on_clock_stepped(now)
        self._settle(now)

    def learn(self, heads: Sequence[Checked[Head]], now: float, *, is_all: bool = False) -> None:
        """Take in heads that the driver has from elsewhere than the network: from the disk, where they are in the table
        of heads, opened by a `FactChecker` with our verifier.

        They are merged; nobody is told, nobody is asked, and they are not written again. `is_all`: they are what the
        whole cluster holds now, so that no first comparison of views follows. Before the life runs all is ignored.
        """
        now = self._enter(now)
        if self._parts.life.is_running:
            self._recall.learn(heads, now)
            if is_all:
                self._push_pull.assume_synced()
        self._settle(now)

    # Commands: what the application wishes

    def set_cpu(self, percent: int | None) -> None:
        """How much of the processors that this node may use it uses, as its driver measures; None: not known."""
        self._parts.own_load.cpu = None if percent is None else max(0, min(100, percent))

    def set_seeds(self, addresses: Sequence[Address], now: float) -> None:
        """The seed addresses as resolved now; they are contacted until one answers, and for ever after, slowly."""
        self._parts.contacts.set_seeds(addresses, now)

    def set_addresses(self, addresses: Sequence[Address], now: float) -> None:
        """Tell others these addresses from now on (at most four)."""
        now = self._enter(now)
        before = self._parts.own.addresses
        self._parts.own.readdress(tuple(addresses[:4]))
        if self._parts.life.is_running and self._parts.own.addresses != before:
            self._hearing.announce(now)
        self._settle(now)

    def register(self, spec: AgentSpec, now: float) -> int:
        """Offer an agent (or change it); returns its registry version, 0 before the node runs. Raises 1707 or 1704."""
        now = max(now, self._now)
        if lacking := self._lacking(spec):
            raise ConfigurationInvalid(lacking)
        record = self._parts.agents.register(spec, now)
        self._parts.event_handlers.offer(spec)
        if record is None:
            return 0
        if self._parts.life.is_running:
            self._hearing.own_record(record, now)
            self._settle(now)
        return record.fact.version

    def _lacking(self, spec: AgentSpec) -> str:
        """Which tags a rule requires of an agent that has not got them, in words; nothing if there is none."""
        capabilities = [one.name for one in spec.capabilities]
        keys, origin = self._parts.rules.in_force.missing_tags(spec.agent, capabilities, spec.tags)
        if not keys:
            return ""
        example = ", ".join(f'"{key}": "…"' for key in keys)
        return f"agent {spec.agent} lacks what {origin} requires: tags={{{example}}}"

    def withdraw(self, agent: str, now: float) -> None:
        """Stop offering an agent. Raises `LocalProtocolError` if it is not offered."""
        now = max(now, self._now)
        record = self._parts.agents.withdraw(agent, now)
        self._parts.event_handlers.withdraw(agent)
        if record is not None and self._parts.life.is_running:
            self._hearing.own_record(record, now)
            self._settle(now)

    def set_own_rules(self, document: object, origin: str, now: float) -> bool:
        """Go by these rules for this node alone, before those of the cluster; None: by none. Also before the start.

        `document`: plain values as TOML has them, `origin`: their file. False if they are the same as before. Raises
        `RulesInvalid` (1704) with all that is wrong, and nothing has changed.
        """
        now = max(now, self._now)
        return self._parts.rules.set_own(document, origin, now)

    def apply_rules(self, document: object, comment: str, now: float) -> int:
        """Let the whole cluster go by these rules, in place of its former ones; returns their version.

        Raises `RulesInvalid` (1704) with all that is wrong, and nothing has changed.
        """
        now = self._enter(now)
        if not self._parts.life.is_running:
            raise LocalProtocolError("rules can be applied to the cluster while this node runs")
        record = self._parts.rules.apply(document, comment, now)
        self._parts.rule_spreading.tell(record)
        self._settle(now)
        return record.fact.version

    def call(self, spec: CallSpec, now: float) -> bytes:
        """Start a call and return its id; it ends with one `CallEnded`. Raises `CallFailed` if nobody can be asked."""
        now = self._enter(now)
        try:
            if not self._parts.life.is_running:
                raise CallFailed(
                    ErrorCode.FENCED, f"this node does not run (it is {self._parts.life.phase.value})"
                )
            try:
                return self._parts.caller.call(spec, now)
            except CallFailed as failed:
                failed.call = self._parts.hops.unplaced(spec, failed.code, failed.message, now).hex()
                raise
        finally:  # a call that fails is an input too: lateness may have been noticed
            self._settle(now)

    def cancel_call(self, call: bytes, now: float) -> None:
        """Cancel a call; it ends with `CallEnded` 1402 unless it has ended."""
        now = self._enter(now)
        self._parts.caller.cancel(call, now)
        self._settle(now)

    def task(self, task: bytes) -> TaskView | None:
        """A task by the id of its call, or None if it is unknown, or has ended long ago."""
        return self._parts.caller.tasks.get(task)

    def tasks(self) -> list[TaskView]:
        """All tasks that are known: those that run, then those that have ended."""
        return self._parts.caller.tasks.all()

    def bulkheads(self) -> list[BulkheadView]:
        """How full each capability that is offered here is, in the order in which they were declared."""
        return self._parts.callee.bulkheads()

    def send_item(self, stream: StreamKey, payload: bytes, content_type: str, now: float) -> Flow:
        """Give a stream an item: a parameter of a call, or a result of an invocation.

        WAIT: there is no credit, and `StreamReady` says when to try again. ENDED: nobody takes it any more. Raises
        `CallFailed` (1404) for an item that is too large, `LocalProtocolError` if nothing can be sent on this stream.
        """
        now = self._enter(now)
        flow = self._parts.streams.send(stream, payload, content_type, now)
        self._settle(now)
        return flow

    def end_items(self, call: bytes, now: float) -> None:
        """A call has no more parameters."""
        now = self._enter(now)
        self._parts.streams.finish_sending(call)
        self._settle(now)

    def take_item(self, stream: StreamKey, now: float) -> StreamItem | Flow:
        """Take the next item of a stream: a result of a call, or a parameter of an invocation.

        WAIT: it is not here yet, and `StreamReady` says when to try again. ENDED: none follows; how a call has ended,
        and with which last items, is in its `StreamEnded`. Raises `LocalProtocolError` if nothing is received on it.
        """
        now = self._enter(now)
        item = self._parts.streams.take(stream, now)
        self._settle(now)
        return item

    def gather(self, wanted: HopFilter, now: float, timeout: float = GATHER_TIMEOUT) -> int:
        """Ask those that took part for recorded hops (docs/protocol/sessions.md); returns the number of the one
        `HopsGathered` that follows within `timeout` seconds. Raises `CallFailed` (1406, 1601)."""
        now = self._enter(now)
        try:
            if not self._parts.life.is_running:
                raise CallFailed(
                    ErrorCode.FENCED, f"this node does not run (it is {self._parts.life.phase.value})"
                )
            return self._parts.gatherings.begin(wanted, timeout, now)
        finally:
            self._settle(now)

    def gathered(self, gathering: int) -> Gathered:
        """What was found; once, after its `HopsGathered`."""
        return self._parts.gatherings.take(gathering)

    def cancel_gathering(self, gathering: int) -> None:
        """Nobody waits for it any more."""
        self._parts.gatherings.cancel(gathering)

    def fetch_schemas(self, hashes: Sequence[bytes], now: float) -> int | None:
        """Ask those that declare these schemas for them; the number of the one `SchemasFetched` that follows within two
        seconds. None if nobody is to be asked: none of them is declared, or all were asked for in vain a moment ago."""
        now = self._enter(now)
        parts = self._parts
        number = None
        hashes = parts.fetches.worth(hashes, now)
        if hashes and parts.life.is_running:
            number = parts.fetches.begin(declaring(parts.routing, hashes), now)
        self._settle(now)
        return number

    def adopt_span(self, invocation: int, span: bytes) -> None:
        """The program has a span of its own (8 bytes) for a running invocation: its hop goes by that."""
        self._parts.callee.adopt_span(invocation, span)

    def publish(self, spec: PublishSpec, now: float) -> int:
        """Send an event to every node that subscribes to its topic; to how many. Nothing was sent if it raises
        `CallFailed` (1404, 1407, 1601), or 1707 for a topic that is not well formed."""
        check_topic(spec.topic)
        now = self._enter(now)
        try:
            if not self._parts.life.is_running:
                raise CallFailed(
                    ErrorCode.FENCED, f"this node does not run (it is {self._parts.life.phase.value})"
                )
            return self._parts.publisher.publish(spec, now)
        finally:
            self._settle(now)

    def subscribe(self, pattern: str, now: float) -> int:
        """Want events whose topics match a pattern, as `EventReceived` with the number returned. Raises 1707, 1704."""
        check_pattern(pattern)
        now = self._enter(now)
        number = self._subscribing.subscribe(pattern, now)
        self._settle(now)
        return number

    def unsubscribe(self, subscription: int, now: float) -> None:
        """Want them no more."""
        now = self._enter(now)
        self._subscribing.unsubscribe(subscription, now)
        self._settle(now)

    def leave(self, now: float, timeout: float = DRAIN_TIMEOUT) -> None:
        """Step off the ring, drain and say goodbye: withdraw agents, serve until others have heard of it, refuse new
        work, finish what runs (all of it at most `timeout` seconds), spread LEFT; then `DrainFinished`. Before the life
        runs, or after its end, it finishes at once."""
        now = self._enter(now)
        parts = self._parts
        if not parts.life.leave():
            if parts.life.phase not in (Phase.LEAVING, Phase.LEFT):
                parts.life.left()
                self._stop(now)
                parts.effects.notify(DrainFinished(at=now, unfinished=0))
            return
        self._leaving.begin(now, timeout)
        self._settle(now)

    # Outputs

    def take_effects(self) -> list[Effect]:
        """What to do now, in order. Packs, piggybacks, signs and encodes.

        A request or reply for which its link has no room after all ends its call here, which may add effects.
        """
        parts = self._parts
        if not parts.effects.items and not parts.links.waiting and not parts.streams.is_ready:
            return []
        done = self._transform()
        while parts.streams.is_ready and parts.streams.pump(self._now):
            done += self._transform()  # what has left made room for more
        return done

    def _transform(self) -> list[Effect]:
        parts = self._parts
        done = parts.transmitter.transform(parts.effects.take(), self._now)
        while parts.transmitter.has_unsent:
            for link, message in parts.transmitter.take_unsent():
                if parts.streams.on_unsent(link, message, self._now):
                    continue
                if isinstance(message, Request):
                    parts.caller.on_unsent(link, message, self._now)
                elif isinstance(message, Reply):
                    parts.callee.on_unsent(link, message, self._now)
            done += parts.transmitter.transform(parts.effects.take(), self._now)
        return done

    def next_deadline(self) -> float | None:
        """When to call `handle_timeout`, or None."""
        return self._timers.next_deadline()

    # Questions

    @property
    def node(self) -> NodeId:
        """This node's id."""
        return self._parts.own.node

    @property
    def life(self) -> Life | None:
        """This node's life, or None before it is on disk."""
        return self._parts.life.life

    @property
    def phase(self) -> Phase:
        """Where in its life cycle the node is."""
        return self._parts.life.phase

    def head(self) -> bytes | None:
        """This node's signed head as it tells others, or None while it tells nobody."""
        return self._hearing.head_data(self._parts.own.node, self._now)

    def members(self) -> list[MemberView]:
        """All members in NodeId order, this node included."""
        return self._questions.members()

    def agents(self) -> list[AgentView]:
        """All instances, by agent id and NodeId."""
        return self._questions.agents()

    def explain(self, query: RouteQuery) -> Explanation:
        """Why a call with this query would go where it would go; changes nothing."""
        return self._questions.explain(query, self._now)

    def what_if(self, query: RouteQuery, keys: Iterable[str]) -> dict[InstanceKey | None, int]:
        """How many of these keys (100,000 at most) would go to each instance, None standing for nobody; changes
        nothing."""
        return self._questions.what_if(query, keys, self._now)

    def routable(self, capability: str) -> list[NodeId]:
        """Nodes whose instances a call of `capability` would be offered now, in NodeId order."""
        return self._questions.routable(capability)

    def rules(self) -> RulesView:
        """The rules that this node goes by, and those that were applied to the cluster before."""
        view = self._parts.rules.view()
        unmet = [self._lacking(spec) for spec in self._parts.agents.specs.values()]
        return msgspec.structs.replace(view, unmet=tuple(words for words in unmet if words))

    def rule_set(self, version: int | None) -> RuleSet:
        """The cluster's rules of a version, or those in force (None). Raises `ConfigurationInvalid` (1704)."""
        return self._parts.rules.rule_set(version)

    def check_rules(self, document: object, origin: str) -> RuleSet:
        """The rules that these plain values say, if this node could go by them. Raises `RulesInvalid` (1704)."""
        return self._parts.rules.read(document, origin)

    def owners(
        self, capability: str, keys: Sequence[str]
    ) -> tuple[dict[InstanceKey, int], list[InstanceKey | None]]:
        """The instances of a capability that are placed, with their weights in percent, and the owner of each key."""
        return self._questions.owners(capability, keys)

    @property
    def routing_version(self) -> int:
        """Grows with every change of the routing table: while it stands still, so does `routable`."""
        return self._parts.routing.version

    def is_callable(self, capability: str) -> bool:
        """Whether a call of `capability` would go to an instance that nobody doubts, as far as this node can know.

        Before its first exchange of views a newcomer may have been told of instances and not of their deaths; until
        then only this node itself and those it is linked with count.
        """
        return self._questions.is_callable(capability, has_synced=self._push_pull.has_synced)

    def why_not_callable(self, capability: str) -> RouteFailed:
        """Why `is_callable` is false: 1301 or 1303 with how many instances are known, in which states."""
        return self._questions.why_not_callable(capability, has_synced=self._push_pull.has_synced)

    def owner(self, agent: str) -> NodeId | None:
        """Which node owns an exclusive agent, as this one sees it; None if nobody does, or it is not exclusive."""
        return self._parts.claims.owner(agent)

    def is_probing(self, node: NodeId) -> bool:
        """Whether a probe of this member of our own is under way."""
        return self._parts.prober.is_probing(node)

    @property
    def hops(self) -> HopStore:
        """What this node has recorded of its calls."""
        return self._parts.hops

    def schema(self, digest: bytes) -> bytes | None:
        """A JSON Schema by its hash, if it is here."""
        return self._parts.schemas.get(digest)

    @property
    def schemas_learned(self) -> int:
        """Grows whenever `schema` finds more, or others, than before."""
        return self._parts.schemas.learned

    def named(self, query: RouteQuery) -> RouteQuery:
        """The query with the capability that its tags mean, if it names nobody itself and they mean one."""
        return self._parts.router.named(query)

    def group(self, query: RouteQuery) -> Group:
        """What the instances offer that fit a query which names nobody. Raises `InvalidIdentifier` (1707) for a range
        of versions that is none."""
        if query.version is not None:
            parse_range(query.version)
        return self._parts.routing.group(Selector.of(query))

    def view_hash(self) -> bytes:
        """Hash over all signed facts held and all DEAD verdicts: equal views, equal hash."""
        return self._parts.replica.digest_hash(self._now)

    def digest(self) -> list[DigestEntry]:
        """What that hash is over, in NodeId order: the numbers of each node whose head is still valid."""
        return self._parts.replica.digest(self._now)

    def diagnostics(self) -> dict[str, int]:
        """Counters by name (`dropped.<what>.<reason>`, `datagrams.sent`, …) and sizes (`size.<what>`) of all tables."""
        return self._questions.diagnostics()

    # The frame around every input

    def _enter(self, now: float) -> float:
        """Time never goes back; if our own timers are late, doubt ourselves before anybody else."""
        if now < self._now:
            now = self._now
        self._now = now
        deadline = self._timers.first
        if now - deadline > LAG_NOTICED:
            self._late(deadline, now)
        return now

    def _late(self, deadline: float, now: float) -> None:
        if not self._settings.protocol.rules.lateness:
            return
        if self._parts.life.is_running and deadline != self._late_deadline:
            self._late_deadline = deadline  # one sleep counts once, whatever has queued up meanwhile
            self._lagged(now - deadline, now)

    def _lagged(self, seconds: float, now: float) -> None:
        parts = self._parts
        parts.counters.add("lag.noticed")
        parts.health.worse()
        parts.detector.on_lag(seconds, now)
        parts.links.on_lag(seconds)
        for result in parts.prober.void_rounds():
            self._consequences.probed(result, now)
        parts.touch.reset(now)
        if seconds >= self._settings.protocol.probe_interval:
            parts.effects.notify(Lagged(at=now, seconds=seconds))

    def _settle(self, now: float) -> None:
        """After every input: take the steps that facts have caused, set timers, see whether draining is done."""
        if self._hearing.steps:
            steps, self._hearing.steps = self._hearing.steps, []
            self._take_steps(steps, now)
        parts = self._parts
        if parts.own_claims.changed or parts.own_claims.lost:
            self._claiming.carry_out(now)
        if parts.life.is_running:
            self._upkeep.arm(now)
            if parts.own.is_used_up:
                self._take_steps(parts.life.outgrow(now), now)
            if parts.life.is_leaving:
                self._leaving.look(now)

    def _take_steps(self, steps: Sequence[Step], now: float) -> None:
        parts = self._parts
        for step in steps:
            match step:
                case Step.ASK:
                    self._open_life(now)
                    more = parts.life.asked(parts.contacts.ask(now), now)
                    self._take_steps(more, now)
                case Step.RUN:
                    self._run(now)
                case Step.PAUSE:
                    parts.callee.pause(now)
                    parts.event_handlers.pause()
                    parts.routing.set_node(
                        parts.own.node,
                        *self._questions.own_state(),
                        parts.own.name,
                        parts.own.life,
                        self._settings.zone,
                    )
                case Step.STOP:
                    self._stop(now)

    def _open_life(self, now: float) -> None:
        life = self._parts.life.life
        assert life is not None, "the life cycle has opened it"
        if self._parts.own.life != life:
            self._parts.own.open(life, now)

    def _run(self, now: float) -> None:
        """The life is ours: announce it, offer our agents, serve."""
        parts = self._parts
        is_first = parts.own.life == parts.life.life
        if not is_first:  # after a pause: what was said under the former life is over
            self._inbound.link_outputs(parts.links.close_all(now, "a new life of this node begins"), now)
            self._upkeep.stop()
        self._open_life(now)
        life = parts.own.life
        assert life is not None, "just opened"
        parts.routing.set_node(
            parts.own.node, *self._questions.own_state(), parts.own.name, life, self._settings.zone
        )
        self._claiming.begin(now)
        for record in parts.agents.open(life, now):
            self._hearing.own_record(record, now)
        self._hearing.announce(now)
        parts.callee.resume()
        parts.event_handlers.resume()
        parts.publisher.begin()
        parts.hops.begin(now)
        self._upkeep.start(now)
        self._introductions.after_start(now)

    def _stop(self, now: float) -> None:
        """This node is over: nothing runs, nothing is answered."""
        parts = self._parts
        self._upkeep.stop()
        parts.callee.stop(now)
        parts.event_handlers.pause()
        parts.gatherings.end_all(now)
        parts.fetches.end_all(now)
        code = 0 if parts.own.has_left else int(ErrorCode.FENCED)
        reason = "this node has left" if parts.own.has_left else "this node is over"
        parts.caller.end_all(ErrorCode(code) if code else ErrorCode.NODE_LOST, reason, now)
        self._inbound.link_outputs(parts.links.close_all(now, reason, code), now)

    # Leaving

    def _end_leaving(self, now: float) -> None:
        parts = self._parts
        unfinished = parts.callee.unfinished + parts.caller.pending + parts.event_handlers.running
        parts.snapshot.flush()
        parts.rules.write_again()
        parts.life.left()
        self._stop(now)
        parts.effects.notify(DrainFinished(at=now, unfinished=unfinished))
