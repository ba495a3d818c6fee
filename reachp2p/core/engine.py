"""The one object a driver touches: everything a node knows and decides, without any IO of its own.

A driver feeds it what happened (`handle_…`, commands, each with `now` in monotonic seconds), performs the effects it
answers with, in order, and wakes it at `next_deadline`. The trio runtime and the simulator are two such drivers, so
what is proven in one is true of the other. Nothing that arrives from the network raises out of `handle_…`: it is
dropped and counted by reason (`diagnostics`).

This file has what a driver calls, `commanded` and `questioned` what an application does, `frame` what surrounds each
input. The work is in `inbound` (messages), `hearing` (facts), `consequences`, `upkeep` (timers) and the machines that
`parts` puts together.
"""

from __future__ import annotations

from collections.abc import Sequence

from reachp2p.core.commanded import Commanded
from reachp2p.core.commands import InvokeResult
from reachp2p.core.effects import Effect, LinkEnd
from reachp2p.core.events import ClockStepped, StorageFailed
from reachp2p.core.ids import Address, LinkId, NodeId, Ticket
from reachp2p.core.questioned import Questioned
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import Head
from reachp2p.core.wire.messages import Reply, Request


class Engine(Commanded, Questioned):
    """One node. Build it, `start` it once, feed it until `Fenced`, `StartRefused` or `DrainFinished`."""

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
