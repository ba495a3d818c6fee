"""Who still answers this node when most do not: calls avoid the others, and fail at once when nobody does.

Whoever is cut off with few others, or alone, takes long to bury everybody else: its own local health slows its probes
down (Lifeguard §IV.A), and it has nobody to share them with. A caller need not wait for that. Each probe round is also
a word about this node: the target answered, or a helper brought its Ack or sent a Nack; or they were silent. When fewer
than half of the members asked last have answered, this node is *out of touch*, and calls avoid whoever has not answered
since; when none has, it is *isolated*, and calls that only such members could serve fail at once, since each would wait
in vain. Both judge round trips, so it makes no difference whether this node hears nobody or is heard by nobody.

While out of touch, a member that is heard and has not answered yet is asked for an Ack outside of any round: one
datagram, which doubts nobody. So those on our side are found within a moment, and so is everybody after a heal.

This is a local judgement: it moves no key, raises no doubt and is told to no member.

The routing table holds the marks: it ends one when the node tells news of itself or is forgotten.

Bounds: `COUNTED` answers or silences, a mark for each node of the routing table, `TOUCHES_MAX` questions a period, of
which those of two periods are remembered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects
from reachp2p.core.events import IsolationEnded, NodeIsolated
from reachp2p.core.ids import NONCE_BYTES, Entropy, Life, NodeId
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.wire.messages import Ping

COUNTED = 12
"""Answers and silences that count: three failed rounds with k = 3 helpers each."""
COUNTED_MIN = 6
"""Fewer say nothing: one failed round has four, so at least two rounds speak."""
LOST_BELOW = 0.5
"""Share of answers below which this node is out of touch. Where loss is 30 % and k = 3 it stands at two
thirds; whoever is cut off with a minority finds its own share of the group, which is less than half."""
FOUND_ABOVE = 0.75
TOUCHES_MAX = 8
"""Members that are asked for an Ack in one period. On the smaller side of a cut there are few to find."""
QUESTIONS_MAX = 2 * TOUCHES_MAX
"""Unanswered questions whose Acks still count; the oldest is forgotten first."""


class Touch:
    """Keeps the marks of one routing table."""

    def __init__(
        self,
        table: RoutingTable,
        own: NodeId,
        *,
        period: float,
        effects: Effects,
        entropy: Entropy,
        counters: Counters,
        enabled: bool = True,
    ) -> None:
        self._table = table
        self._own = own
        self._period = period
        self._effects = effects
        self._entropy = entropy
        self._counters = counters
        self._enabled = enabled
        self._latest: deque[tuple[NodeId, bool]] = deque()
        self._answered = 0
        """How many of the latest are answers."""
        self._asked: dict[NodeId, None] = {}
        """Whom we have asked for an Ack in the period that began at `_asking_since`."""
        self._questions: dict[bytes, tuple[NodeId, Life]] = {}
        """The nonces of the latest questions that are not answered: whom, and which of its lives, we asked."""
        self._asking_since = float("-inf")
        self.is_lost = False
        """Whether this node is out of touch."""

    def on_round(self, answered: Iterable[NodeId], silent: Iterable[NodeId], now: float) -> None:
        """A probe round of ours has ended: who has answered in it, and who was asked in vain."""
        if not self._enabled:
            return
        for node in silent:
            self._count(node, False)
            if self.is_lost:
                self._table.set_unanswered(node, True)
        for node in answered:
            self._count(node, True)
            self._table.set_unanswered(node, False)
        self._judge(now)

    def on_answer(self, node: NodeId, now: float) -> None:
        """A member has answered us in another way, in its present life: a link that is proven, an Ack that is late.

        The caller makes sure that no answer is heard twice.
        """
        if self.is_lost and node != self._own:
            self._count(node, True)
            self._table.set_unanswered(node, False)
            self._judge(now)

    def on_ack(self, nonce: bytes, node: NodeId, life: Life, now: float) -> bool:
        """An Ack, signed by `node` in `life`, its present one: whether it answers a question of ours, each once."""
        if self._questions.get(nonce) != (node, life):
            return False
        del self._questions[nonce]
        self.on_answer(node, now)
        return True

    def on_heard(self, node: NodeId, life: Life, now: float) -> None:
        """While out of touch: a member has said something in its present life. If it has not answered since, ask
        whether it hears us."""
        if not self.is_lost or not self._table.is_unanswered(node):
            return
        if now - self._asking_since >= self._period:
            self._asking_since = now
            self._asked.clear()
        if node not in self._asked and len(self._asked) < TOUCHES_MAX:
            self._asked[node] = None
            self._counters.add("routing.touch_asked")
            nonce = self._entropy.token(NONCE_BYTES)
            if len(self._questions) >= QUESTIONS_MAX:
                del self._questions[next(iter(self._questions))]
                self._counters.add("routing.touch_forgotten")
            self._questions[nonce] = (node, life)
            self._effects.send(node, Ping(nonce=nonce))

    def reset(self, now: float) -> None:
        """We did not run for a while: what was not answered before says nothing."""
        self._end(now)
        self._latest.clear()
        self._answered = 0

    def _count(self, node: NodeId, is_answered: bool) -> None:
        self._latest.append((node, is_answered))
        self._answered += is_answered
        if len(self._latest) > COUNTED:
            self._answered -= self._latest.popleft()[1]

    def _judge(self, now: float) -> None:
        answered, count = self._answered, len(self._latest)
        if self.is_lost:
            if answered > FOUND_ABOVE * count:
                self._end(now)
                return
        elif count >= COUNTED_MIN and answered < LOST_BELOW * count:
            self._begin()
        self._set_isolated(self.is_lost and not answered, now)

    def _begin(self) -> None:
        self.is_lost = True
        self._counters.add("routing.touch_lost")
        have_answered: dict[NodeId, None] = {}
        was_silent = False
        for node, is_answered in self._latest:
            was_silent = was_silent or not is_answered
            if was_silent and is_answered:  # an answer from before the first silence says nothing
                have_answered[node] = None
        for node in self._table.present():
            if node != self._own and node not in have_answered:
                self._table.set_unanswered(node, True)

    def _end(self, now: float) -> None:
        if self.is_lost:
            self.is_lost = False
            self._set_isolated(False, now)
            self._questions.clear()
            for node in self._table.unanswered():
                self._table.set_unanswered(node, False)

    def _set_isolated(self, isolated: bool, now: float) -> None:
        if self._table.is_isolated is isolated:
            return
        self._table.set_isolated(isolated)
        if isolated:
            self._counters.add("routing.isolated")
            self._effects.notify(NodeIsolated(at=now))
        else:
            self._effects.notify(IsolationEnded(at=now))

    def __len__(self) -> int:
        """How many nodes are marked."""
        return len(self._table.unanswered()) if self.is_lost else 0
