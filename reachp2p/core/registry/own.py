"""The agents that this node offers: declared once, signed anew in every life (docs/protocol/registry.md)."""

from __future__ import annotations

from collections.abc import Sequence

from reachp2p.core.clock import WallClock
from reachp2p.core.commands import AgentSpec, TopicSpec
from reachp2p.core.ids import COUNTER_MAX, LIFE_ID_BYTES, SUBSCRIPTIONS, Life
from reachp2p.core.membership.own import OwnNode
from reachp2p.core.registry.own_claims import OwnClaims
from reachp2p.core.registry.record import (
    RECORD_BYTES_MAX,
    RECORDS_BYTES_MAX,
    check_spec,
    record_of,
    schema_hash,
    withdrawal_of,
)
from reachp2p.core.registry.schemas import Schemas
from reachp2p.core.registry.store import Outcome, RecordStore
from reachp2p.core.trust.facts import Checked, FactChecker, FactSigner
from reachp2p.core.wire.codec import encode_fact
from reachp2p.core.wire.facts import AgentRecord, Claim
from reachp2p.errors import InvalidIdentifier, LocalProtocolError

SIGNING_BYTES = 112
"""What COSE_Sign1 and a claim add to a payload, rounded up."""


class OwnAgents:
    """This node's agents and their records. Size: `records_per_node_max`, tombstones included."""

    def __init__(
        self,
        own: OwnNode,
        store: RecordStore,
        schemas: Schemas,
        signer: FactSigner,
        checker: FactChecker,
        clock: WallClock,
        agents_max: int,
        claims: OwnClaims | None = None,
    ) -> None:
        """`claims` says what the records of exclusive agents are to say; without it there are none."""
        self._own = own
        self._store = store
        self._schemas = schemas
        self._signer = signer
        self._checker = checker
        self._clock = clock
        self._max = agents_max
        self._claims = claims
        self._opened: Life | None = None
        self.specs: dict[str, AgentSpec] = {}

    @property
    def _is_open(self) -> bool:
        """Whether records can be signed: `open` has been called for the present life, and it has not left."""
        return self._opened is not None and self._opened == self._own.life and not self._own.has_left

    def register(self, spec: AgentSpec, now: float) -> Checked[AgentRecord] | None:
        """Offer `spec`; its new record, or None while no life is open. Raises 1707, or 1704 when there are too many."""
        check_spec(spec)
        return self._offer(spec, now)

    def subscribe(self, patterns: Sequence[str], now: float) -> Checked[AgentRecord] | None:
        """Say that this node itself wants events of these patterns, at most `PATTERNS_MAX`; the new record, or None as
        with `register`. Raises 1704 and 1707 as that does."""
        if not patterns:
            return self.withdraw(SUBSCRIPTIONS, now) if SUBSCRIPTIONS in self.specs else None
        topics = tuple(TopicSpec(pattern=pattern) for pattern in patterns)
        return self._offer(AgentSpec(agent=SUBSCRIPTIONS, topics=topics), now)

    def _offer(self, spec: AgentSpec, now: float) -> Checked[AgentRecord] | None:
        self._check_size(spec)
        agents = len(self.specs) - (SUBSCRIPTIONS in self.specs)
        if spec.agent not in self.specs and agents >= self._max and spec.agent != SUBSCRIPTIONS:
            raise LocalProtocolError(f"this node offers {self._max} agents already; withdraw one first")
        if self._is_open and not self._store.has_room(self._own.node, spec.agent):
            raise LocalProtocolError(
                "this node has withdrawn too many agents lately, and has to remember each for a while; "
                "register under a name that it has used before"
            )
        self.specs[spec.agent] = spec
        self._keep_schemas()
        if self._claims is not None:
            if spec.exclusive:
                self._claims.offer(spec.agent)
            else:
                self._claims.withdraw(spec.agent)
        return self._sign(spec, now) if self._is_open else None

    def _keep_schemas(self) -> None:
        """Keep the schemas of what is offered, and no others."""
        self._schemas.keep_own(
            {
                schema_hash(schema): schema
                for spec in self.specs.values()
                for capability in spec.capabilities
                for schema in (capability.parameters, capability.result, capability.parameter_item)
                if schema is not None
            }
        )

    def _check_size(self, spec: AgentSpec) -> None:
        """Refuse what would not fit on the wire; sizes are those of the unsigned record plus what signing adds."""
        life = Life(0, bytes(LIFE_ID_BYTES))
        sizes = {
            s.agent: SIGNING_BYTES + len(encode_fact(record_of(s, self._own.node, life, COUNTER_MAX, 2**40)))
            for s in (*self.specs.values(), spec)
        }
        if sizes[spec.agent] > RECORD_BYTES_MAX:
            raise InvalidIdentifier(
                f"agent {spec.agent}: its record has {sizes[spec.agent]} bytes, at most {RECORD_BYTES_MAX}; "
                "shorten its descriptions"
            )
        if sum(sizes.values()) > RECORDS_BYTES_MAX:
            raise InvalidIdentifier(
                f"agent {spec.agent}: the records of this node would have {sum(sizes.values())} bytes, "
                f"at most {RECORDS_BYTES_MAX}; offer it from another node"
            )

    def withdraw(self, agent: str, now: float) -> Checked[AgentRecord] | None:
        """Stop offering `agent`; its tombstone, or None while no life is open. Raises 1704 if it is not offered."""
        if self.specs.pop(agent, None) is None:
            raise LocalProtocolError(f"agent {agent} is not offered by this node")
        self._keep_schemas()
        claim: Claim | None = None
        if self._claims is not None and (held := self._claims.claim_of(agent)) is not None:
            claim = Claim(0, held.highest)
            self._claims.withdraw(agent)
        if not self._is_open:
            return None
        assert self._own.life is not None, "an open life"
        version = self._own.next_version()
        return self._keep(
            withdrawal_of(agent, self._own.node, self._own.life, version, self._clock.at(now), claim)
        )

    def sign_again(self, agent: str, now: float) -> Checked[AgentRecord] | None:
        """Sign the record of an agent anew, because what it says of its claim has changed; None while no life is open
        or if it is not offered any more."""
        spec = self.specs.get(agent)
        return self._sign(spec, now) if spec is not None and self._is_open else None

    def open(self, life: Life, now: float) -> list[Checked[AgentRecord]]:
        """A life has begun: sign every agent's record in it."""
        self._opened = life
        self._store.open(self._own.node, life)
        return [self._sign(spec, now) for spec in self.specs.values()]

    def _sign(self, spec: AgentSpec, now: float) -> Checked[AgentRecord]:
        assert self._own.life is not None, "signing follows opening"
        version = self._own.next_version()
        claim = self._claims.claim_of(spec.agent) if self._claims is not None else None
        if self._claims is not None and claim is not None:
            self._claims.on_signed(spec.agent, claim)
        return self._keep(
            record_of(spec, self._own.node, self._own.life, version, self._clock.at(now), claim)
        )

    def _keep(self, record: AgentRecord) -> Checked[AgentRecord]:
        checked = self._checker.open(AgentRecord, self._signer.sign(record))
        outcome = self._store.put(checked)
        assert outcome is Outcome.NEW, f"an own record is always the newest, not {outcome}"
        # Versions without a record (a renewed head) are no gap here: nobody knows more than we do.
        self._store.completed(self._own.node, record.life, record.version, {})
        return checked

    def expire(self, retention: float, now: float) -> bool:
        """Let tombstones go whose retention (seconds) is over; true if that raised our floor."""
        wall = self._clock.at(now)
        tombstones = [r.fact for r in self._store.records(self._own.node) if r.fact.withdrawn]
        over = [t.version for t in tombstones if wall - t.issued_at > retention]
        kept = [t.version for t in tombstones if wall - t.issued_at <= retention]
        floor = max((v for v in over if not kept or v < min(kept)), default=0)
        if floor <= self._own.floor:
            return False
        self._own.floor = floor
        self._own.next_version()
        self._store.raise_floor(self._own.node, floor, self._own.version)
        return True
