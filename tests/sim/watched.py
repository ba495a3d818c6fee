"""Scripted nodes with a checker attached: plant a violation, and see that it is reported."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from reachp2p_sim.checkers import CHECKERS
from reachp2p_sim.checkers.asked import Asked
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.scripted import ScriptedEngine, Story
from reachp2p_sim.machines.workload import Loop
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.world.violation import Violation
from reachp2p_sim.world.world import World

from reachp2p.core.commands import RouteQuery
from reachp2p.core.effects import Invoke, SendDatagram
from reachp2p.core.events import CallEnded, MemberChanged, MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.settings import Protocol
from reachp2p.core.trust.facts import FactSigner
from reachp2p.core.views import MemberView
from reachp2p.core.wire.codec import encode_message, pack_messages
from reachp2p.core.wire.datagram import DatagramWriter
from reachp2p.core.wire.facts import Accusation, Head
from reachp2p.core.wire.messages import Message, Ping, Request

ALIVE, SUSPECT, DEAD, LEFT = MemberState.ALIVE, MemberState.SUSPECT, MemberState.DEAD, MemberState.LEFT


class Watched(Story):
    """Scripted nodes with one checker attached."""

    def __init__(self, name: str, protocol: Protocol | None = None) -> None:
        super().__init__(
            World(
                seed=1,
                conditions=Conditions(delay=0.01, spread=0.0),
                protocol=protocol,
                engine_factory=ScriptedEngine,
            )
        )
        kind = next(kind for kind in CHECKERS if kind.name == name)
        self.checker: Checker = kind(self.world)
        self._counter = 0

    def hosts(self, count: int) -> list[Host]:
        """Machines whose processes have said that they have started."""
        hosts = self.world.add_nodes(count)
        for host in hosts:
            life = self.begin(host)
            own = msgspec.structs.replace(member_view(host, life, ALIVE, 0), is_self=True)
            self.script(host).present_members = [own]
        return hosts

    def sign_head(
        self,
        host: Host,
        incarnation: int = 0,
        *,
        life: Life | None = None,
        version: int = 0,
        left: bool = False,
        issued_at: float | None = None,
    ) -> bytes:
        """Let a node sign a head; the bytes that would travel."""
        life = life or host.life
        assert life is not None
        issued = self.world.wall_start + self.world.now if issued_at is None else issued_at
        fact = Head(
            node=host.node, life=life, incarnation=incarnation, version=version, left=left,
            issued_at=int(issued), valid_for=3_600, name=host.name, addresses=[host.address],
        )  # fmt: skip
        return FactSigner(host.signer, self.world.cluster_id).sign(fact)

    def sign_accusation(
        self, accuser: Host, subject: Host, incarnation: int = 0, life: Life | None = None
    ) -> bytes:
        """Let a node sign a doubt about another; the bytes that would travel."""
        life = life or subject.life
        assert life is not None
        fact = Accusation(
            accuser=accuser.node, subject=subject.node, life=life, incarnation=incarnation, grade=0, issued_at=0
        )  # fmt: skip
        return FactSigner(accuser.signer, self.world.cluster_id).sign(fact)

    def datagram(self, source: Host, target: Host, *messages: Message) -> bytes:
        """A datagram as the real engine packs it."""
        life = source.life
        assert life is not None
        self._counter += 1
        writer = DatagramWriter(
            self.world.cluster_id, source.node, life, source.signer.sign, counter=self._counter
        )
        return writer.write(pack_messages([encode_message(message) for message in messages]), target.node)

    def send(self, source: Host, target: Host, *messages: Message) -> None:
        """Let a node send messages to another, by datagram."""
        self.want(source, SendDatagram(target.address, self.datagram(source, target, *messages)))

    def ping(self, source: Host, target: Host) -> None:
        """Let a node probe another."""
        self.send(source, target, Ping(nonce=bytes(8)))

    def sees(
        self,
        observer: Host,
        subject: Host,
        state: MemberState | None,
        incarnation: int = 0,
        life: Life | None = None,
        *,
        signed: bool = True,
    ) -> None:
        """Let a node say that it holds another one so, and answer so when asked. What it holds was signed once."""
        life = life or subject.life
        assert life is not None
        held = observer.view.members.get(subject.node)
        old = held.state if held is not None else None
        rest = [m for m in self.script(observer).present_members if m.node != subject.node]
        if state is not None:
            rest.append(member_view(subject, life, state, incarnation))
            if signed:
                self._see_to_it_that_it_is_signed(subject, life, incarnation, left=state is LEFT)
        self.script(observer).present_members = sorted(rest, key=lambda row: row.node)
        self.say(
            observer,
            MemberChanged(
                at=observer.now, node=subject.node, name=subject.name, life=life, incarnation=incarnation, old=old,
                new=state, reason="planted",
            ),
        )  # fmt: skip

    def _see_to_it_that_it_is_signed(
        self, subject: Host, life: Life, incarnation: int, *, left: bool
    ) -> None:
        for number in range(incarnation + 1):
            is_last = number == incarnation
            said = self.world.signed.heads.get((subject.node, life, number), [])
            if not any(one.head.left is (left and is_last) for one in said):
                self.sign_head(subject, number, life=life, left=left and is_last)
            if not is_last and (life, number) not in self.world.signed.accused.get(subject.node, {}):
                accuser = next(host for host in self.world.nodes if host is not subject)
                self.sign_accusation(accuser, subject, number, life)

    def buries(self, observer: Host, subject: Host, life: Life | None = None) -> None:
        """Let a node doubt another, probe it in vain, and declare it DEAD a while later."""
        held = observer.view.members.get(subject.node)
        incarnation = held.incarnation if held is not None else 0
        life = life or (held.life if held is not None else subject.life)
        self.sees(observer, subject, SUSPECT, incarnation, life)
        self.ping(observer, subject)
        self.world.run(4)
        self.sees(observer, subject, DEAD, incarnation, life)

    def all_see_all(self) -> None:
        """Let all running nodes hold each other ALIVE."""
        for observer in self.world.running:
            for subject in self.world.running:
                if observer is not subject:
                    self.sees(observer, subject, ALIVE)


def member_view(
    subject: Host, life: Life, state: MemberState, incarnation: int, version: int = 0
) -> MemberView:
    """One row of an answer to `members()`."""
    return MemberView(
        node=subject.node, name=subject.name, is_self=False, state=state, life=life, incarnation=incarnation,
        version=version, complete=version, addresses=(subject.address,), zone="", state_since=0.0, rtt=None,
        linked=False, refused=False,
    )  # fmt: skip


def caught(checker: str, act: Callable[[], object]) -> str:
    """Do something that breaks a promise, and return what the checker says."""
    with pytest.raises(Violation) as raised:
        act()
    assert raised.value.checker == checker
    return raised.value.message


def invoke(capability: str = "work.do") -> Invoke:
    """A node runs a handler."""
    return Invoke(
        invocation=1, agent="work/doer", capability=capability, content_type="application/cbor", payload=b"",
        caller=NodeId(bytes(32)), message_id=bytes(16), deadline=1e9, attempt=1, session_id=None, idempotency_key=None,
        traceparent=None,
    )  # fmt: skip


def ended(call: bytes, code: int = 0, payload: bytes = b"") -> CallEnded:
    """A call has ended."""
    return CallEnded(
        at=0.0, call=call, code=code, content_type="application/cbor", payload=payload, detail="", node=None,
        agent=None, attempts=1,
    )  # fmt: skip


def asks(watched: Watched, caller: Host, target: Host, call: bytes) -> None:
    """A node sends a request for a call to another."""
    life = target.life
    assert life is not None
    request = Request(
        message_id=call, life=life, agent="work/doer", capability="work.do", remaining_ms=5_000, payload=b""
    )
    for listener in Asked.of(watched.world).on_request:
        listener(caller, target, request)


def start_call(watched: Watched, host: Host) -> None:
    """Let a node's program make one call."""
    host.application.call_in_a_loop(Loop(RouteQuery(capability="work.do"), think_time=1e9, timeout=5.0))
    watched.world.run(1.0)
