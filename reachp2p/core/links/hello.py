"""The opening conversation of a link: a mutual signed hello (docs/protocol/links.md).

Each side sends its Hello as soon as the transport is open, and after the other's Hello a signature over both of them
as they travelled, under its role. The nonces make each pair of hellos unique; the roles make a proof worthless when
it is sent back to its maker. Byte 0 of each side's first frame is the wire version in which the rest is written.
"""

from __future__ import annotations

from reachp2p.core.ids import Life, NodeId
from reachp2p.core.links.incoming import FRAME_MESSAGES_READ_MAX
from reachp2p.core.trust.proofs import Role, hello_transcript
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p.core.wire.codec import decode_messages, encode_message, pack_messages
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import WIRE_VERSION, Goodbye, Hello, HelloProof, Message
from reachp2p.errors import ErrorCode

WIRE_MIN = 1
"""The oldest wire version that this code still understands."""
FEATURES = 0
"""Bits of optional behaviour; none exist in wire version 1."""
HELLO_NONCE_BYTES = 16
OPENING_FRAME_MAX = 4_096
"""Bytes of a frame before the proof: a hello has at most 1,200 without extensions."""


class HelloRefused(Exception):
    """The opening failed. `reason` names a counter, `code` and `detail` go into our Goodbye. Fault: the remote."""

    def __init__(self, reason: str, code: int, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.code = code
        self.detail = detail


def own_hello(cluster_id: str, node: NodeId, life: Life, nonce: bytes) -> Hello:
    """What this node says of itself."""
    return Hello(
        wire_version=WIRE_VERSION,
        cluster_id=cluster_id,
        node=node,
        life=life,
        nonce=nonce,
        wire_min=WIRE_MIN,
        wire_max=WIRE_VERSION,
        features=FEATURES,
    )


def opening_frame(message: Hello | Goodbye) -> bytes:
    """The first frame of a side: the version byte before the body."""
    return bytes((WIRE_VERSION,)) + pack_messages((encode_message(message),))


class Handshake:
    """One opening. It hears the other side's first frame and its proof, and ends proven or by `HelloRefused`."""

    def __init__(
        self,
        own: Hello,
        *,
        dialled: bool,
        expected: NodeId | None,
        identity: NodeId | None,
        signer: Signer,
        verifier: Verifier,
    ) -> None:
        self.frame = opening_frame(own)
        """What we send first."""
        self.remote: Hello | None = None
        """What the other side claims; proven once `check_proof` has returned."""
        self._own = own
        self._dialled = dialled
        self._expected = expected
        self._identity = identity
        self._signer = signer
        self._verifier = verifier
        self._remote_frame = b""

    def read_first(self, frame: bytes) -> Hello | Goodbye:
        """The other side's first frame. Raises `HelloRefused` or `WireError`."""
        if not frame:
            raise WireError("truncated")
        if not WIRE_MIN <= frame[0] <= WIRE_VERSION:
            raise HelloRefused(
                "wire_version",
                ErrorCode.WIRE_VERSION,
                f"wire version {frame[0]} is not understood here, only {WIRE_MIN} to {WIRE_VERSION}",
            )
        message = self._only_message(frame[1:])
        if isinstance(message, Goodbye):
            return message
        if not isinstance(message, Hello):
            raise WireError("not_a_hello")
        self._check(message, frame[0])
        self.remote = message
        self._remote_frame = frame
        return message

    def prove(self) -> bytes:
        """Our proof, as a frame; after the other side's hello."""
        transcript = self._transcript("dialler" if self._dialled else "acceptor")
        proof = HelloProof(signature=self._signer.sign(transcript))
        return pack_messages((encode_message(proof),))

    def check_proof(self, proof: HelloProof) -> Hello:
        """The hello, now proven. Raises `HelloRefused`."""
        remote = self.remote
        assert remote is not None, "a proof is read only after the hello"
        transcript = self._transcript("acceptor" if self._dialled else "dialler")
        if not self._verifier.verify(NodeId(remote.node), proof.signature, transcript):
            raise HelloRefused("proof", ErrorCode.BAD_SIGNATURE, "the hello's proof does not fit its node id")
        return remote

    def _only_message(self, body: bytes) -> Message:
        messages, _ = decode_messages(body, bytes_max=OPENING_FRAME_MAX, messages_max=FRAME_MESSAGES_READ_MAX)
        if len(messages) != 1:
            raise WireError("not_a_hello")
        return messages[0]

    def _check(self, remote: Hello, version: int) -> None:
        if remote.cluster_id != self._own.cluster_id:
            raise HelloRefused(
                "cluster_id",
                ErrorCode.CLUSTER_MISMATCH,
                f"two clusters: {_name(self._own.cluster_id)} here, {_name(remote.cluster_id)} there",
            )
        low = max(self._own.wire_min, remote.wire_min)
        high = min(self._own.wire_max, remote.wire_max)
        if low > high or remote.wire_version != version:
            raise HelloRefused(
                "wire_version",
                ErrorCode.WIRE_VERSION,
                f"no common wire version: {self._own.wire_min} to {self._own.wire_max} here, "
                f"{remote.wire_min} to {remote.wire_max} there",
            )
        if self._identity is not None and remote.node != self._identity:
            raise HelloRefused(
                "identity",
                ErrorCode.BAD_SIGNATURE,
                "the hello names another node than the transport's certificate",
            )
        if self._expected is not None and remote.node != self._expected:
            raise HelloRefused(
                "other_node", 0, "another node answers at this address than the one that was dialled"
            )

    def _transcript(self, role: Role) -> bytes:
        mine, theirs = self.frame, self._remote_frame
        return hello_transcript(mine, theirs, role) if self._dialled else hello_transcript(theirs, mine, role)


def _name(cluster_id: str) -> str:
    """A cluster id for people; both fit into a Goodbye."""
    return repr(cluster_id if len(cluster_id) <= 80 else cluster_id[:79] + "…")
