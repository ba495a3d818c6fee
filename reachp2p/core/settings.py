"""What one engine is told when it is built: who it is, and the constants of the protocol.

Each default names its source. Times are seconds, sizes bytes. `Settings` is per node;
every node of a cluster should have the same `Protocol`.
"""

from __future__ import annotations

import msgspec

from reachp2p.core.ids import Address
from reachp2p.core.rules import Rules
from reachp2p.errors import ConfigurationInvalid

ADDRESSES_MAX = 4
WINDOW_MAX = 16_777_216
"""The largest window of a stream that the wire can say (`Request.credit`)."""


class Protocol(msgspec.Struct, frozen=True):
    """Constants of membership, dissemination and calls."""

    probe_interval: float = 1.0
    """T, the protocol period (SWIM §3; memberlist LAN)."""
    probe_timeout: float = 0.5
    """How long a direct Ack may take; shrinks towards the measured round trip, never grows past this at health 0."""
    indirect_probes: int = 3
    """k (SWIM §3.1)."""
    nack_fraction: float = 0.8
    """A helper nacks after this part of the time-out (Lifeguard §IV.A)."""
    retransmit_multiplier: int = 3
    """λ: each update is sent at most λ·⌈ln(n+1)⌉ times by a node (SWIM §4.1; natural log)."""
    suspicion_alpha: float = 4.0
    """α: S_min = α·max(1, log10 n)·T (memberlist LAN)."""
    suspicion_beta: float = 6.0
    """β: S_max = β·S_min (Lifeguard §IV.B)."""
    suspicion_confirmations: int = 3
    """K: distinct members whose accusations shorten the timer; min(K, n-2) are expected."""
    health_max: int = 8
    """S of Lifeguard's local health multiplier, 0…S."""
    gossip_interval: float = 0.2
    gossip_fanout: int = 3
    push_pull_interval: float = 30.0
    """P, scaled by ⌈lg n − lg 32⌉ + 1 above 32 members (memberlist)."""
    recontact_interval: float = 60.0
    """R: dead members and unreached seeds are contacted again for ever, one a turn, with jitter."""
    gossip_to_dead: float = 120.0
    """G: how long a DEAD member still receives gossip, so that it can refute."""
    link_keepalive: float = 20.0
    link_idle_close: float = 300.0
    link_open_timeout: float = 5.0
    successor_links: int = 3
    refusal_dialers: int = 8
    """Members, chosen by hash of the subject, that dial a lost process at once."""
    ping_req_per_origin: float = 5.0
    """Relayed probes a node does for one origin, per second (burst the same)."""
    head_validity: float = 3600.0
    """Renewed at half of it, through anti-entropy only."""
    clock_tolerance: float = 600.0
    tombstone_retention: float = 4800.0
    """80 min: head validity + twice the tolerance, so that no valid record outlives its tombstone."""
    start_answer_timeout: float = 0.5
    """How long a starting node waits for what others hold about its own id."""
    datagram_max: int = 1_400
    frame_max: int = 65_536
    frame_messages_max: int = 32
    payload_max: int = 1_048_576
    members_max: int = 16_384
    records_per_node_max: int = 256
    broadcast_queue_max: int = 8_192
    links_max: int = 1_024
    link_queue_max: int = 8_388_608
    """Bytes waiting for one link; beyond it new messages are refused (calls) or dropped (gossip), counted."""
    pending_calls_max: int = 65_536
    invocations_max: int = 4_096
    """Handlers running at once in this node, over all agents."""
    call_timeout: float = 30.0
    """Synchronous limit of a call; `quick_timeout` and `heavy_timeout` that of the tiers (docs/protocol/calls.md)."""
    quick_timeout: float = 10.0
    quick_connect: float = 3.0
    """How long an attempt of a quick call may wait for its link: three of them fit into its time."""
    heavy_timeout: float = 300.0
    task_timeout: float = 3_600.0
    """Deadline of a task."""
    task_keep: float = 600.0
    """How long the end of a task is kept for those who ask later."""
    tasks_max: int = 16_384
    """Tasks of this node, running or ended."""
    attempt_fraction: float = 0.7
    """Share of the remaining time that one attempt may use while another is still possible."""
    retry_percent: int = 20
    """Second attempts that calls may have, in percent of all calls (Finagle's retry budget) …"""
    retries_free: int = 10
    """… and besides them so many a second, so that a quiet caller may retry, too."""
    hops_max: int = 10
    hops_kept_max: int = 32_768
    """Hops of calls that went well that a node keeps (docs/protocol/sessions.md); about 500 bytes each."""
    hops_failed_max: int = 8_192
    hops_keep: float = 86_400.0
    hop_payload_bytes_max: int = 16_777_216
    """Recorded payloads, of hops that went well and of others each."""
    stream_timeout: float = 600.0
    """The whole of a stream whose caller and capability name no deadline."""
    stream_idle_timeout: float = 60.0
    """How long an application waits for one item."""
    stream_resume_window: float = 30.0
    """How long a stream outlives its link: as long as a node that was unreachable takes to be DEAD, about."""
    stream_window: int = 1_048_576
    """Bytes that a producer may be ahead of its consumer. One item of the largest size gets through."""
    streams_max: int = 4_096
    """Streams of this node, made and served."""
    stream_bytes_max: int = 268_435_456
    """What all streams of this node hold: 256 full windows."""
    virtual_nodes: int = 150
    rules: Rules = Rules()
    """Switches for experiments; a node that ships has them all on."""

    def __post_init__(self) -> None:
        """Refuse (1704) constants that are no finite numbers of at least 0, or contradict each other."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and not 0 <= value < float("inf"):
                raise ConfigurationInvalid(f"{name} = {value}: a finite number of at least 0 is wanted")
        if min(self.probe_interval, self.probe_timeout, self.gossip_interval, self.push_pull_interval) <= 0:
            raise ConfigurationInvalid("probe, gossip and push-pull intervals must be above 0 seconds")
        if not 1_024 <= self.stream_window <= WINDOW_MAX:
            raise ConfigurationInvalid(
                f"stream_window = {self.stream_window}: from 1,024 to {WINDOW_MAX} bytes are wanted"
            )
        if self.probe_timeout > self.probe_interval:
            raise ConfigurationInvalid("the probe time-out must not be longer than the probe interval")


class Settings(msgspec.Struct, frozen=True):
    """Who this node is. `addresses` are told to others; seeds are resolved by the driver (`Engine.set_seeds`)."""

    cluster_id: str
    name: str
    addresses: tuple[Address, ...]
    zone: str = ""
    take_over: bool = False
    """Start above any life of this key, even one that answers (docs/protocol/lives.md)."""
    tells_load: bool = False
    """Tell those whom this node answers how busy it is."""
    tells_coordinate: bool = False
    """Tell those whose probes this node answers where it is, so that they can estimate distances."""
    protocol: Protocol = msgspec.field(default_factory=Protocol)

    def __post_init__(self) -> None:
        """Refuse (1704) what this node could not sign later."""
        for what, text, limit in (
            ("cluster id", self.cluster_id, 256),
            ("node name", self.name, 64),
            ("zone", self.zone, 64),
        ):
            if len(text) > limit:
                raise ConfigurationInvalid(f"{what} {text[:80]!r}: at most {limit} characters")
        if not self.cluster_id:
            raise ConfigurationInvalid("cluster id: it must not be empty")
        if len(self.addresses) > ADDRESSES_MAX:
            raise ConfigurationInvalid(
                f"{len(self.addresses)} addresses: a node tells others at most {ADDRESSES_MAX}"
            )
