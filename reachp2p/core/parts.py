"""How the machines of one engine are put together; nothing is decided here.

Reading this file from top to bottom gives the layers of `core` from bottom to top.
"""

from __future__ import annotations

from collections.abc import Mapping

from reachp2p.core.calls.callee import Callee
from reachp2p.core.calls.caller import Caller
from reachp2p.core.calls.fetching import Fetches
from reachp2p.core.calls.gathering import Gatherings
from reachp2p.core.calls.hop_answers import HopAnswers
from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.streams import Streams
from reachp2p.core.clock import WallClock
from reachp2p.core.counters import Counters
from reachp2p.core.dissemination.anti_entropy import AntiEntropy
from reachp2p.core.dissemination.broadcast_queue import BroadcastQueue
from reachp2p.core.effects import Effects
from reachp2p.core.ids import Address, Entropy, Life, LinkId, NodeId, Rng
from reachp2p.core.links.table import Links
from reachp2p.core.membership.accuser import Accuser
from reachp2p.core.membership.contacts import Contacts
from reachp2p.core.membership.detector import Detector
from reachp2p.core.membership.health import LocalHealth
from reachp2p.core.membership.life import LifeCycle
from reachp2p.core.membership.looks import Looks
from reachp2p.core.membership.member import Member
from reachp2p.core.membership.own import OwnNode
from reachp2p.core.membership.probe import Prober
from reachp2p.core.membership.relays import Relays
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.registry.claims import Claims
from reachp2p.core.registry.own import OwnAgents
from reachp2p.core.registry.own_claims import OwnClaims
from reachp2p.core.registry.replica import Replica
from reachp2p.core.registry.schemas import Schemas
from reachp2p.core.registry.store import RecordStore
from reachp2p.core.routing.access import AccessStage, Identity
from reachp2p.core.routing.breakers import Breakers, BreakerStage
from reachp2p.core.routing.claimed import ClaimStage
from reachp2p.core.routing.load import Loads, LoadStage
from reachp2p.core.routing.measures import Measures
from reachp2p.core.routing.own_load import OwnLoad
from reachp2p.core.routing.places import Places, write_coordinate
from reachp2p.core.routing.policies import BUILT_IN
from reachp2p.core.routing.policy import PolicyFactory
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.rule_keeper import RuleKeeper
from reachp2p.core.routing.rule_spreading import RuleSpreading
from reachp2p.core.routing.stages import STAGES
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.routing.touch import Touch
from reachp2p.core.routing.traffic import TrafficTable
from reachp2p.core.routing.unreached import Unreached
from reachp2p.core.routing.unsteady import Unsteady
from reachp2p.core.settings import Settings
from reachp2p.core.snapshot import Snapshot
from reachp2p.core.timers import Timers
from reachp2p.core.topics.handling import EventHandlers
from reachp2p.core.topics.interest import Interest
from reachp2p.core.topics.publisher import Publisher
from reachp2p.core.topics.subscriber import Subscriber
from reachp2p.core.transmit import Transmitter
from reachp2p.core.trust.facts import FactChecker, FactSigner
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p.core.wire.engine_codec import CODEC, Codec
from reachp2p.core.wire.messages import COORDINATE_EXTENSION, LOAD_EXTENSION, Extensions, Ping, Publication


class Parts:
    """The machines of one engine, wired."""

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
        protocol = settings.protocol
        node = signer.node
        self.settings = settings
        self.verifier = verifier
        self.rng = rng
        self.entropy = entropy
        self.codec = codec

        self.counters = counters = Counters()
        self.timers = timers = Timers()
        self.effects = effects = Effects()
        self.clock = WallClock()

        self.fact_signer = FactSigner(signer, settings.cluster_id)
        self.checker = FactChecker(verifier, settings.cluster_id, counters, opened=codec.opened)
        self.links = Links(
            settings,
            signer=signer,
            verifier=verifier,
            entropy=entropy,
            effects=effects,
            timers=timers,
            counters=counters,
            own_life=self._own_life,
            is_busy=self._is_busy,
            codec=codec,
        )
        self.queue = BroadcastQueue(protocol.broadcast_queue_max, counters)

        self.own = OwnNode(node, settings, self.fact_signer, self.checker, self.clock)
        self.life = LifeCycle(
            settings, node, effects=effects, timers=timers, entropy=entropy, counters=counters
        )
        self.table = MemberTable(
            node, protocol.members_max, counters, refutable_death=protocol.rules.refutable_death
        )
        self.health = LocalHealth(protocol.health_max if protocol.rules.lha_probe else 0)
        self.prober = Prober(
            protocol,
            self.table,
            self.health,
            self._probe_link,
            self._doubt,
            effects=effects,
            timers=timers,
            rng=rng,
            entropy=entropy,
            counters=counters,
        )
        self.relays = Relays(
            protocol, self.table, self._relay_link, effects=effects, timers=timers, counters=counters
        )
        self.looks = Looks(
            protocol,
            self.table,
            self.prober,
            self.health,
            self.dial_member,
            own=node,
            timers=timers,
            rng=rng,
        )
        self.accuser = Accuser(
            protocol.rules, self.queue, self.fact_signer, self.clock, own=node, counters=counters, codec=codec
        )
        self.detector = Detector(
            protocol,
            self.table,
            self.looks,
            self.accuser,
            self.health,
            timers=timers,
            counters=counters,
        )
        self.contacts = Contacts(
            protocol, self.table, self._dial, effects=effects, timers=timers, rng=rng, counters=counters
        )

        self.store = RecordStore(protocol.records_per_node_max, counters)
        self.schemas = Schemas(counters)
        self.claims = Claims(self.table, counters)
        self.own_claims = OwnClaims(
            node, protocol, self.claims, self.table, effects=effects, timers=timers, counters=counters
        )
        self.agents = OwnAgents(
            self.own,
            self.store,
            self.schemas,
            self.fact_signer,
            self.checker,
            self.clock,
            protocol.records_per_node_max // 2,
            self.own_claims,
        )
        self.replica = Replica(
            self.own, self.table, self.store, self.detector, self.clock, protocol.clock_tolerance
        )
        self.sync = AntiEntropy(
            self.replica,
            self.links.send,
            timers=timers,
            rng=rng,
            counters=counters,
            extensions=lambda: self.rule_spreading.extensions(),
        )
        self.snapshot = Snapshot(self.table, self.store, effects=effects, timers=timers, counters=counters)

        identity = Identity(node)
        traffic = TrafficTable(counters)
        self.loads = Loads(timers, counters)
        self.routing = RoutingTable(
            counters,
            virtual_nodes=protocol.virtual_nodes,
            stages=(
                *STAGES[:-1],
                AccessStage(identity),
                ClaimStage(self.claims.owner),
                STAGES[-1],
                BreakerStage(traffic),
                LoadStage(self.loads),
            ),
            identity=identity,
        )
        self.breakers = Breakers(traffic, timers, counters)
        self.breakers.changed = self.routing.reconsider
        self.loads.changed = self.routing.reconsider_node
        self.own_load = OwnLoad(is_told=settings.tells_load)
        self.places = Places(rng, counters)
        self.measures = Measures(traffic, self.loads, self.places, zone=settings.zone)
        self.router = Router(
            self.routing, rng, counters, policies, measures=self.measures, breakers=self.breakers
        )
        self.rules = RuleKeeper(
            node,
            policies=lambda: self.router.policies,
            signer=self.fact_signer,
            checker=self.checker,
            clock=self.clock,
            effects=effects,
            counters=counters,
        )
        self.rule_spreading = RuleSpreading(
            self.rules,
            links=self.links,
            queue=self.queue,
            addresses=self._addresses,
            timers=timers,
            counters=counters,
            codec=codec,
        )
        self.unreached = Unreached(self.routing, timers, counters)
        self.unsteady = Unsteady(self.routing, timers, counters, enabled=protocol.rules.damping)
        self.touch = Touch(
            self.routing,
            node,
            period=protocol.probe_interval,
            effects=effects,
            entropy=entropy,
            counters=counters,
            enabled=protocol.rules.touch,
        )

        self.hops = HopStore(
            protocol, own=node, own_life=lambda: self.own.life, clock=self.clock, counters=counters
        )
        self.streams = Streams(
            protocol,
            own=node,
            links=self.links,
            addresses=self._addresses,
            effects=effects,
            timers=timers,
            counters=counters,
        )
        self.callee = Callee(
            protocol,
            own_life=lambda: self.own.life,
            agents=self.agents.specs,
            tokens=self.own_claims.tokens,
            links=self.links,
            hops=self.hops,
            streams=self.streams,
            effects=effects,
            timers=timers,
            counters=counters,
            offered_by=self.routing.offered_by,
            load=self.own_load,
        )
        self.caller = Caller(
            protocol,
            own=node,
            own_life=lambda: self.own.life,
            router=self.router,
            unreached=self.unreached,
            links=self.links,
            callee=self.callee,
            hops=self.hops,
            streams=self.streams,
            addresses=self._addresses,
            entropy=entropy,
            effects=effects,
            timers=timers,
            counters=counters,
            rules=self.rules.in_force,
        )

        self.hop_answers = HopAnswers(self.hops, self.links, counters)
        self.gatherings = Gatherings(
            own=node,
            hops=self.hops,
            table=self.table,
            links=self.links,
            addresses=self._addresses,
            effects=effects,
            timers=timers,
            counters=counters,
        )

        self.fetches = Fetches(
            schemas=self.schemas,
            links=self.links,
            addresses=self._addresses,
            effects=effects,
            timers=timers,
            counters=counters,
        )

        self.interest = Interest(counters)
        self.event_handlers = EventHandlers(
            self.own_claims.tokens, effects=effects, timers=timers, entropy=entropy, counters=counters
        )
        self.subscriber = Subscriber(self.event_handlers, effects=effects, counters=counters)
        self.publisher = Publisher(
            protocol,
            node,
            self.interest,
            self.table,
            self.routing,
            self.links,
            clock=self.clock,
            timers=timers,
            counters=counters,
        )
        self.publisher.deliver_locally = self._deliver_locally

        self.transmitter = Transmitter(
            settings, signer, self.own, self.table, self.queue, self.detector, self.links, counters, codec
        )

    def tell(self, now: float) -> Extensions | None:
        """What an Ack tells its receiver of this node, besides that it lives."""
        told: Extensions = {}
        report = self.own_load.report(now)
        if report is not None:
            told[LOAD_EXTENSION] = report.write()
        if self.settings.tells_coordinate:
            told[COORDINATE_EXTENSION] = write_coordinate(self.places.own)
        return told or None

    def _deliver_locally(self, publication: Publication, now: float) -> None:
        self.subscriber.on_publication(self.own.node, self._own_life(), publication, now)

    def _own_life(self) -> Life:
        assert self.own.life is not None, "nothing is dialled or accepted before the life is on disk"
        return self.own.life

    def _addresses(self, node: NodeId) -> tuple[Address, ...]:
        member = self.table.get(node)
        return member.addresses if member is not None else ()

    def _is_busy(self, node: NodeId) -> bool:
        return self.caller.is_busy(node) or self.callee.is_busy(node) or self.streams.is_busy(node)

    def _dial(self, address: Address, node: NodeId | None, now: float) -> LinkId | None:
        return self.links.dial(address, node, now)

    def dial_member(self, member: Member, now: float) -> None:
        """See for ourselves whether a member's process answers: a proven link, a new life, or a refusal."""
        if member.addresses:
            self.links.ensure(member.node, member.addresses, now)

    def _relay_link(self, node: NodeId, ping: Ping) -> None:
        """The ping of a helper over a link, if there is one: its target may be where no datagram gets in."""
        link = self.links.link_to(node) if self.settings.protocol.rules.link_probes else None
        if link is not None:
            self.links.send(link, ping)

    def _doubt(self, node: NodeId) -> bytes | None:
        return self.detector.word(node)

    def _probe_link(self, node: NodeId, nonce: bytes, now: float) -> None:
        """The probe over a link beside the indirect ones (UDP may be blocked)."""
        if not self.settings.protocol.rules.link_probes:
            return
        link = self.links.link_to(node)
        if link is not None:
            self.links.send(link, Ping(nonce=nonce))
        else:
            member = self.table.get(node)
            if member is not None:
                self.dial_member(member, now)
