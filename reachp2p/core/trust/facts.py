"""Signing facts, and opening what others have signed: each fact is verified once and then known by its bytes.

A fact is the payload of a COSE_Sign1 object; purpose and cluster id are signed with it as external data, so that no
fact means anything in another cluster or as another kind of fact. The signer is the node the fact itself names: a
head's and a record's `node`, an accusation's `accuser`, the `author` of rules. The bytes received are what is checked,
kept and passed on (case B48).

What comes later, here: a certificate check between signature and admission (a head whose certificate is unknown
waits), that of an operator's key for rules, and facts signed by a cluster's root or issuers (revocations), which name
their signer like the others.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Generic, TypeVar

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p.core.wire.codec import decode_fact, encode_fact
from reachp2p.core.wire.cose import parse1, sign1, to_be_signed
from reachp2p.core.wire.facts import Accusation, AgentRecord, Fact, Head, RulesRecord
from reachp2p.core.wire.limits import WireError
from reachp2p.errors import LocalProtocolError

DIGEST_BYTES = 16
CACHE_MAX = 16_384
"""As many facts as a view may have members."""
SHARED_MAX = 262_144
"""Facts in a memory that several checkers share."""
CACHE_BYTES_MAX = 33_554_432
"""Of signed bytes held by the cache. A head or usual record has 250 to 700, so `CACHE_MAX` is met first."""

F = TypeVar("F", bound=Fact)


class FactRejected(Exception):
    """Not a fact we accept; nothing has changed. `reason` is a word of our own, fit for a counter's name."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class Checked(msgspec.Struct, Generic[F], frozen=True):
    """A fact whose signature is good, with the exact bytes that were signed and their BLAKE2b-128."""

    fact: F
    digest: bytes
    data: bytes
    memo: object = None
    """What is worked out from the fact again and again, kept by whoever does so (`registry.digest`)."""

    def keep(self, memo: object) -> None:
        """Keep this in place of what was kept before."""
        msgspec.structs.force_setattr(self, "memo", memo)


class FactSigner:
    """Signs what this node says of itself."""

    def __init__(self, signer: Signer, cluster_id: str) -> None:
        self._signer = signer
        self._cluster_id = cluster_id

    def sign(self, fact: Fact) -> bytes:
        """The COSE_Sign1 object that travels.

        Raises `LocalProtocolError` if another node would have to sign it, or if nobody would accept it (out of
        bounds): structs do not check themselves when they are built, and a signed mistake cannot be taken back.
        """
        if signer_of(fact) != self._signer.node:
            raise LocalProtocolError(f"this {fact.PURPOSE} names another node as its signer")
        payload = encode_fact(fact)
        try:
            decode_fact(type(fact), payload)
        except WireError as error:
            raise LocalProtocolError(f"this {fact.PURPOSE} cannot be signed: {error}") from error
        return sign1(payload, external_data(fact.PURPOSE, self._cluster_id), self._signer.sign)


class FactChecker:
    """Opens signed facts and remembers those that were good.

    The memory is bounded in entries and in bytes; beyond either the oldest are forgotten (counter
    `facts.cache_evicted`) and would be verified again. Bad ones are not remembered.
    """

    def __init__(
        self,
        verifier: Verifier,
        cluster_id: str,
        counters: Counters,
        *,
        cache_max: int = CACHE_MAX,
        opened: dict[bytes, Checked[Fact]] | None = None,
    ) -> None:
        """`opened`: a memory that several checkers with one verifier share; else it has its own."""
        self._verifier = verifier
        self._cluster_id = cluster_id
        self._counters = counters
        self._cache_max = cache_max
        self._shared = opened
        self._cache: dict[bytes, Checked[Fact]] = {} if opened is None else opened
        """By the signed bytes, oldest first: they are held anyway, and to find them is cheaper than to digest them."""
        self._cache_bytes = 0

    def open(self, kind: type[F], data: bytes) -> Checked[F]:
        """The fact of this kind in `data`, verified now or earlier. Raises `FactRejected` only."""
        known = self._cache.get(data)
        if known is not None:
            if not isinstance(known.fact, kind):
                raise FactRejected("wrong_kind")
            self._counters.add("facts.cache_hits")
            return known  # type: ignore[return-value]  # its fact is of this kind
        try:
            parsed = parse1(data)
            fact = decode_fact(kind, parsed.payload)
        except WireError as error:
            raise FactRejected(error.reason, error.detail) from error
        external = external_data(kind.PURPOSE, self._cluster_id)
        signed = to_be_signed(parsed.protected, external, parsed.payload)
        self._counters.add("facts.verifications")
        if not self._verifier.verify(signer_of(fact), parsed.signature, signed):
            raise FactRejected("bad_signature")
        checked = Checked(fact, fact_digest(data), data)
        self.remember(checked)
        return checked

    def __len__(self) -> int:
        """Facts remembered."""
        return len(self._cache)

    def remember(self, checked: Checked[F]) -> None:
        """Hold a fact that was found good, here or by another checker of this cluster with the same verifier."""
        if self._shared is not None and len(self._shared) >= SHARED_MAX:
            self._shared.clear()  # whatever is in use is opened once more
            self._counters.add("facts.shared_cleared")
        is_known = checked.data in self._cache
        self._cache[checked.data] = checked  # type: ignore[assignment]  # Checked is only read
        if self._shared is not None or is_known:
            return
        self._cache_bytes += len(checked.data)
        while len(self._cache) > self._cache_max or self._cache_bytes > CACHE_BYTES_MAX:
            oldest = next(iter(self._cache))
            del self._cache[oldest]
            self._cache_bytes -= len(oldest)
            self._counters.add("facts.cache_evicted")


def fact_digest(data: bytes) -> bytes:
    """BLAKE2b-128 of a signed fact's bytes: its name in caches, digests and proofs."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def signer_of(fact: Fact) -> NodeId:
    """The node whose key must have signed this fact."""
    match fact:
        case Head() | AgentRecord():
            return NodeId(fact.node)
        case Accusation():
            return NodeId(fact.accuser)
        case RulesRecord():
            return NodeId(fact.author)
        case _:
            raise TypeError(f"no signer is known for {type(fact).__name__}")


def external_data(purpose: str, cluster_id: str) -> bytes:
    """What is signed with a fact without travelling: its purpose and its cluster."""
    return b"reachp2p " + purpose.encode() + b"\x00" + cluster_id.encode()
