"""Nodes that do what a test says: for testing a checker, or the simulator itself, without a protocol.

story = Story(World(seed=1, engine_factory=ScriptedEngine))
a, b = story.world.add_nodes(2)
story.want(a, SendDatagram(b.address, b"hello"))
story.world.run(1)
assert story.heard(b) == [("datagram", a.address, b"hello")]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reachp2p.core.commands import AgentSpec, CallSpec, InvokeResult, RouteQuery
from reachp2p.core.effects import Effect, LinkEnd, Notify
from reachp2p.core.engine import Engine
from reachp2p.core.events import DrainFinished, Event, Started
from reachp2p.core.ids import Address, Entropy, Life, LinkId, NodeId, Rng, Ticket
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.settings import Settings
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p.core.views import AgentView, Explanation, MemberView
from reachp2p.core.wire.engine_codec import CODEC, Codec
from reachp2p.core.wire.messages import DigestEntry
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World


class ScriptedEngine(Engine):
    """Stands where an engine stands: records what reaches it, and wants what it is told to want.

    `inputs` are (name, arguments without `now`); `times` is the `now` of each.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        signer: Signer,
        verifier: Verifier,
        rng: Rng,
        entropy: Entropy,
        codec: Codec = CODEC,
    ) -> None:
        self.inputs: list[tuple[Any, ...]] = []
        self.times: list[float] = []
        self.wanted: list[Effect] = []
        self.deadline: float | None = None
        self.seeds: list[Address] = []
        self.wall = 0.0
        self.rng = rng
        self.present_life: Life | None = None
        self.present_members: list[MemberView] = []
        self.present_view_hash = b""
        self.gauges: dict[str, int] = {}
        self.probing: list[NodeId] = []
        self.present_explanation: Explanation | None = None
        self.present_routable: list[NodeId] = []
        self.present_agents: list[AgentView] = []
        self.present_weights: dict[InstanceKey, int] = {}
        self.present_owner: InstanceKey | None = None
        self._node = signer.node
        self._entropy = entropy

    @property
    def node(self) -> NodeId:
        """The signer's id."""
        return self._node

    @property
    def life(self) -> Life | None:
        """What the script says."""
        return self.present_life

    def start(self, now: float, wall: float) -> None:
        """A life of epoch 1, at once."""
        self.wall = wall
        self.present_life = Life(1, self._entropy.token(16))

    def set_seeds(self, addresses: Sequence[Address], now: float) -> None:
        """Remembered."""
        self.seeds = list(addresses)

    def handle_datagram(self, source: Address, data: bytes, now: float) -> None:
        """Recorded."""
        self._note(now, "datagram", source, data)

    def handle_link_opened(self, link: LinkId, identity: NodeId | None, now: float) -> None:
        """Recorded."""
        self._note(now, "opened", link)

    def handle_frame(self, link: LinkId, data: bytes, now: float) -> None:
        """Recorded."""
        self._note(now, "frame", link, data)

    def handle_link_writable(self, link: LinkId, free_bytes: int, now: float) -> None:
        """Recorded."""
        self._note(now, "writable", link, free_bytes)

    def handle_link_closed(self, link: LinkId, end: LinkEnd, now: float) -> None:
        """Recorded."""
        self._note(now, "closed", link, end)

    def handle_persisted(self, ticket: Ticket, now: float) -> None:
        """Recorded."""
        self._note(now, "persisted", ticket)

    def handle_persist_failed(self, ticket: Ticket, reason: str, now: float) -> None:
        """Recorded."""
        self._note(now, "persist_failed", ticket, reason)

    def handle_fetched(self, request: int, rows: Sequence[tuple[bytes, bytes]], now: float) -> None:
        """Recorded."""
        self._note(now, "fetched", request, list(rows))

    def handle_invoke_result(self, invocation: int, result: InvokeResult, now: float) -> None:
        """Recorded."""
        self._note(now, "invoke_result", invocation, result.code)

    def handle_timeout(self, now: float) -> None:
        """Recorded; there is no deadline any more."""
        self.deadline = None
        self._note(now, "timeout")

    def handle_wall_clock(self, wall: float, now: float) -> None:
        """Remembered."""
        self.wall = wall

    def register(self, spec: AgentSpec, now: float) -> int:
        """Recorded."""
        self._note(now, "register", spec.agent)
        return 1

    def call(self, spec: CallSpec, now: float) -> bytes:
        """Recorded; the call has a fresh id and ends when the script says so."""
        call = self._entropy.token(16)
        self._note(now, "call", call)
        return call

    def leave(self, now: float, timeout: float = 0.0) -> None:
        """Done at once."""
        self.wanted.append(Notify(DrainFinished(at=now, unfinished=0)))

    def take_effects(self) -> list[Effect]:
        """What the script wants."""
        wanted, self.wanted = self.wanted, []
        return wanted

    def next_deadline(self) -> float | None:
        """What the script says."""
        return self.deadline

    def members(self) -> list[MemberView]:
        """What the script says."""
        return self.present_members

    def view_hash(self) -> bytes:
        """What the script says."""
        return self.present_view_hash

    def digest(self) -> list[DigestEntry]:
        """One entry with the hash that the script says."""
        return [DigestEntry(self.present_view_hash, Life(0, b""), False, 0, 0, 0, False)]

    def diagnostics(self) -> dict[str, int]:
        """What the script says."""
        return self.gauges

    def agents(self) -> list[AgentView]:
        """What the script says."""
        return self.present_agents

    def owners(
        self, capability: str, keys: Sequence[str]
    ) -> tuple[dict[InstanceKey, int], list[InstanceKey | None]]:
        """What the script says: weights, and one owner for all keys."""
        return self.present_weights, [self.present_owner] * len(keys)

    def routable(self, capability: str) -> list[NodeId]:
        """What the script says."""
        return self.present_routable

    def explain(self, query: RouteQuery) -> Explanation:
        """What the script says."""
        assert self.present_explanation is not None, "the script says nothing about routes"
        return self.present_explanation

    def is_probing(self, node: NodeId) -> bool:
        """What the script says."""
        return node in self.probing

    def _note(self, now: float, *what: Any) -> None:
        self.inputs.append(what)
        self.times.append(now)


class Story:
    """A world of scripted nodes, and short ways to make them do things."""

    def __init__(self, world: World) -> None:
        self.world = world

    def script(self, host: Host) -> ScriptedEngine:
        """The scripted engine of a running node."""
        engine = host.engine
        assert isinstance(engine, ScriptedEngine)
        return engine

    def want(self, host: Host, *effects: Effect) -> None:
        """Let a node's engine want these effects now."""
        self.script(host).wanted.extend(effects)
        host.settle()

    def say(self, host: Host, *events: Event) -> None:
        """Let a node tell its application something."""
        self.want(host, *[Notify(event) for event in events])

    def begin(self, host: Host, epoch: int = 1) -> Life:
        """Let a node say that it has started in a life of this epoch, which is on its disk."""
        life = Life(epoch, self.world.chance("lives", host).randbytes(16))
        self.script(host).present_life = life
        host.disk.write_epoch(epoch)
        self.say(host, Started(at=host.now, life=life))
        return life

    def wake_at(self, host: Host, deadline: float) -> None:
        """Let a node's engine want to be woken at this time of its own clock."""
        self.script(host).deadline = deadline
        host.settle()

    def heard(self, host: Host) -> list[tuple[Any, ...]]:
        """What has reached a node since this was last asked."""
        script = self.script(host)
        heard, script.inputs = script.inputs, []
        script.times = []
        return heard
