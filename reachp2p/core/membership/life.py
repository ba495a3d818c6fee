"""The life cycle of this node: how a life begins, is challenged, fenced and ends (docs/protocol/lives.md).

    NEW -> LOADING -> WRITING -> ASKING -> RUNNING -> LEAVING -> LEFT
                        ^          |          |  ^
                        |          v          v  |
                        +---- CHALLENGING   PAUSED -> FENCING -> FENCED
                                   |
                                   v
                                REFUSED

An epoch is on disk before it is used. A starting node first asks whom it reaches what they hold for its own id, so a
lost disk is outbid (amnesia) and a cloned disk is noticed. A running life that hears of a higher one of its own key
stops serving at once and challenges it: answered, it is fenced for good; unanswered, it goes on under a new life above.
Only a head signed by our own key can do this.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, Table
from reachp2p.core.events import CloneSeen, Fenced, Paused, Resumed, Started, StartRefused
from reachp2p.core.ids import EPOCH_MAX, LIFE_ID_BYTES, Address, Entropy, Life, NodeId, Ticket
from reachp2p.core.membership.challenge import Challenging
from reachp2p.core.membership.suspicion import suspicion_min
from reachp2p.core.settings import Settings
from reachp2p.core.timers import Timers
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import Head
from reachp2p.core.wire.messages import Challenge, ChallengeAnswer
from reachp2p.errors import ErrorCode

EPOCH_KEY = b"epoch"
FENCED_KEY = b"fenced"
EPOCH_BYTES = 8


class Phase(Enum):
    """Where in its life cycle the node is."""

    NEW = "new"
    LOADING = "loading"
    WRITING = "writing"
    ASKING = "asking"
    CHALLENGING = "challenging"
    RUNNING = "running"
    PAUSED = "paused"
    FENCING = "fencing"
    FENCED = "fenced"
    REFUSED = "refused"
    LEAVING = "leaving"
    LEFT = "left"


class Step(Enum):
    """What the engine has to do because the phase changed."""

    ASK = "ask"
    """Ask contacts what they hold for our id, then `asked`."""
    RUN = "run"
    """Announce the life and serve."""
    PAUSE = "pause"
    """Start nothing more, discard what still runs."""
    STOP = "stop"
    """Say nothing more; the node is over."""


class AskEnds(msgspec.Struct, frozen=True):
    """Whoever has not answered by now is not waited for."""


class LifeCycle:
    """One node's way from start to end. Every method returns the steps that the engine must take, in order."""

    def __init__(
        self,
        settings: Settings,
        node: NodeId,
        *,
        effects: Effects,
        timers: Timers,
        entropy: Entropy,
        counters: Counters,
    ) -> None:
        self._settings = settings
        self._protocol = settings.protocol
        self._effects = effects
        self._timers = timers
        self._entropy = entropy
        self._counters = counters
        self.phase = Phase.NEW
        self.is_running = False
        """Whether this life takes part: it probes, gossips and refutes, also while it drains."""
        self.is_leaving = False
        """Whether it drains."""
        self.is_over = False
        """Nothing that arrives matters any more."""
        self.life: Life | None = None
        self._next: Life | None = None
        self._request: int | None = None
        self._epoch_ticket: Ticket | None = None
        self._fence_ticket: Ticket | None = None
        self._heard: Head | None = None
        self._waiting = 0
        self._has_marker = False
        """The fence of a former life is on disk, and taken over."""
        self._challenge = Challenging(
            node, settings.protocol.probe_interval, effects=effects, timers=timers, entropy=entropy
        )
        self._has_asked = False
        self._has_run = False
        self._fencer: Life | None = None
        self._clone: Life | None = None
        """The last lower life of our key that was reported."""

    def _go(self, phase: Phase) -> None:
        self.phase = phase
        self.is_running = phase in (Phase.RUNNING, Phase.LEAVING)
        self.is_leaving = phase is Phase.LEAVING
        self.is_over = phase in (Phase.FENCED, Phase.REFUSED, Phase.LEFT)

    # Beginning

    def start(self) -> None:
        """Read what the state folder says about former lives."""
        assert self.phase is Phase.NEW, "an engine starts once"
        self._go(Phase.LOADING)
        self._request = self._effects.fetch(Table.LIFE, b"", None, 16)

    def on_fetched(self, request: int, rows: Sequence[tuple[bytes, bytes]], now: float) -> list[Step] | None:
        """The rows of our own table; None if the request was not ours."""
        if request != self._request or self.phase is not Phase.LOADING:
            return None
        stored = dict(rows)
        epoch_row, fenced_row = stored.get(EPOCH_KEY, bytes(EPOCH_BYTES)), stored.get(FENCED_KEY)
        if len(epoch_row) != EPOCH_BYTES or (fenced_row and len(fenced_row) != EPOCH_BYTES + LIFE_ID_BYTES):
            return self._refuse(
                ErrorCode.STATE_DAMAGED,
                "the stored epoch is damaged. Restore the file from a copy, or move it away: the node then learns its "
                "epoch from others",
                now,
            )
        epoch = int.from_bytes(epoch_row, "big")
        if fenced_row is not None:
            if not self._settings.take_over:
                reason = "this state folder is fenced: another node runs under its key; replace that with --take-over"
                return self._refuse(ErrorCode.FENCED, reason, now)
            epoch = max(epoch, int.from_bytes(fenced_row[:EPOCH_BYTES], "big"))
        self._has_marker = fenced_row is not None
        return self._write(epoch + 1, now)

    def _write(self, epoch: int, now: float) -> list[Step]:
        if epoch > EPOCH_MAX:
            return self._refuse(
                ErrorCode.STATE_DAMAGED, "the epochs of this key are used up; start with a new key", now
            )
        self._go(Phase.WRITING)
        self._next = Life(epoch, self._entropy.token(LIFE_ID_BYTES))
        self._epoch_ticket = self._effects.persist(Table.LIFE, EPOCH_KEY, epoch.to_bytes(EPOCH_BYTES, "big"))
        return []

    def on_persisted(self, ticket: Ticket, now: float) -> list[Step]:
        """The epoch, or the fenced marker, is on disk."""
        if ticket == self._epoch_ticket and self.phase is Phase.WRITING:
            self.life, self._next = self._next, None
            if (
                self._has_marker
            ):  # only now, so that whoever fails to store the epoch, or is killed, is still fenced
                self._has_marker = False
                self._effects.delete(Table.LIFE, FENCED_KEY)
            if self._has_asked:
                return self._run(now)
            self._go(Phase.ASKING)
            return [Step.ASK]
        if ticket == self._fence_ticket and self.phase is Phase.FENCING:
            return self._fenced(now)
        return []

    def on_persist_failed(self, ticket: Ticket, reason: str, now: float) -> list[Step]:
        """Without a stored epoch there is no life; without a stored marker the fence holds all the same."""
        if ticket == self._epoch_ticket and self.phase is Phase.WRITING:
            return self._refuse(ErrorCode.STORE_FULL, f"the new epoch cannot be stored: {reason}", now)
        if ticket == self._fence_ticket and self.phase is Phase.FENCING:
            return self._fenced(now)
        return []

    def asked(self, contacts: int, now: float) -> list[Step]:
        """The engine has asked this many contacts."""
        self._waiting = contacts
        self._timers.set(AskEnds(), now + self._protocol.start_answer_timeout)
        return self._decide(now) if contacts == 0 else []

    def on_answer(self, held: Checked[Head] | None, now: float) -> list[Step]:
        """A contact says what it holds for our id."""
        if self.phase is not Phase.ASKING:
            return self.on_own_head(held, now) if held is not None else []
        if held is not None:
            self._note(held.fact)
        return self.on_contact_over(now)

    def on_contact_over(self, now: float) -> list[Step]:
        """A contact has answered or failed."""
        if self.phase is not Phase.ASKING:
            return []
        self._waiting -= 1
        return self._decide(now) if self._waiting <= 0 else []

    def _note(self, head: Head) -> None:
        known = self._heard
        if known is None or (head.life, head.left) > (known.life, known.left):
            self._heard = head

    def on_ask_ends(self, now: float) -> list[Step]:
        """Enough waiting."""
        return self._decide(now) if self.phase is Phase.ASKING else []

    def _decide(self, now: float) -> list[Step]:
        self._timers.cancel(AskEnds())
        self._has_asked = True
        assert self.life is not None, "asking follows writing"
        heard = self._heard
        if heard is None or heard.life.epoch < self.life.epoch or heard.life == self.life:
            return self._run(now)
        if self._settings.take_over or heard.left:
            self._counters.add("life.outbid")
            return self._write(heard.life.epoch + 1, now)
        self._go(Phase.CHALLENGING)
        patience = suspicion_min(self._protocol.suspicion_alpha, 1, self._protocol.probe_interval)
        self._challenge.begin(patience, now)
        return []

    def _run(self, now: float) -> list[Step]:
        resumed = self.phase is Phase.WRITING and self._has_run
        self._go(Phase.RUNNING)
        self._has_run = True
        assert self.life is not None, "a life is open"
        self._effects.notify(Resumed(at=now, life=self.life) if resumed else Started(at=now, life=self.life))
        return [Step.RUN]

    def _refuse(self, code: ErrorCode, reason: str, now: float) -> list[Step]:
        self._go(Phase.REFUSED)
        self._challenge.cancel()
        self._effects.notify(StartRefused(at=now, code=int(code), reason=reason))
        return [Step.STOP]

    # Higher lives of our own key

    def on_own_head(self, head: Checked[Head], now: float) -> list[Step]:
        """A head signed by our own key arrived. The caller answers outdated ones; here a higher life is judged."""
        if self.phase in (Phase.ASKING, Phase.CHALLENGING):
            self._note(head.fact)
            return []
        if self.life is None or head.fact.life <= self.life:
            return []
        if self.phase is Phase.LEAVING:
            return [Step.PAUSE]  # nothing to decide any more, but nothing to serve either
        if self.phase not in (Phase.RUNNING, Phase.PAUSED):
            return []
        self._note(head.fact)
        if self.phase is Phase.PAUSED:
            return []
        if head.fact.left:  # that life is over already
            self._counters.add("life.outbid")
            return [Step.PAUSE, *self._write(head.fact.life.epoch + 1, now)]
        self._go(Phase.PAUSED)
        self._counters.add("life.paused")
        self._effects.notify(Paused(at=now, other=head.fact.life))
        minimum = suspicion_min(self._protocol.suspicion_alpha, 1, self._protocol.probe_interval)
        self._challenge.begin(minimum * self._protocol.suspicion_beta, now)
        return [Step.PAUSE]

    @property
    def challenged_addresses(self) -> tuple[Address, ...]:
        """Where the life that we challenge can be reached: the engine dials these, too."""
        return tuple(self._heard.addresses) if self._heard is not None else ()

    def on_challenge_due(self, now: float) -> bool:
        """Send the challenge to every address of the other life; true if the engine should dial them, too."""
        if self.phase not in (Phase.CHALLENGING, Phase.PAUSED):
            return False
        assert self._heard is not None, "a challenge has an opponent"
        self._challenge.send(self._heard.life, self._heard.addresses, now)
        return True

    def on_challenge(self, challenge: Challenge) -> ChallengeAnswer | None:
        """Another life of our key asks whether we live; we do, unless we are over or have not begun.

        A life that is itself still asking or challenging is silent: it must not end one that has begun.
        """
        if self.life is None or self.phase not in (Phase.RUNNING, Phase.PAUSED, Phase.LEAVING):
            return None
        return ChallengeAnswer(nonce=challenge.nonce, life=self.life)

    def on_lower_life(self, other: Life, address: Address | None, now: float) -> None:
        """A lower life of our own key speaks: our side is alarmed, too, once for each such life (B51)."""
        is_news = self.life is not None and other < self.life and other != self._clone
        if is_news and self.phase in (Phase.RUNNING, Phase.PAUSED, Phase.LEAVING):
            self._clone = other
            self._effects.notify(CloneSeen(at=now, other=other, address=address))

    def on_challenge_answer(self, answer: ChallengeAnswer, now: float) -> list[Step]:
        """A signed answer to our nonce."""
        if not self._challenge.is_answered_by(answer):
            self._counters.add("dropped.challenge_answer.nonce")
            return []
        return self._on_proof(answer.life, None, now)

    def on_other_life(self, other: Life, address: Address | None, now: float) -> list[Step]:
        """Another life of our own key is at the other end of a link and has proven it.

        A hello does not say whether that life has begun or is still asking; its head, which follows on the link if it
        has begun, does. Until then a running life is not ended by a higher one, and a starting one not by a lower one,
        so that of two that start at once the higher goes on.
        """
        if self.life is None:
            return []
        is_announced = self._heard is not None and self._heard.life == other
        if not is_announced and (other > self.life) is not self.is_starting:
            self._counters.add("life.unannounced_seen")
            return []
        return self._on_proof(other, address, now)

    def _on_proof(self, other: Life, address: Address | None, now: float) -> list[Step]:
        """Another life of our own key is alive beyond doubt."""
        if self.life is None or other == self.life:
            return []
        if self.phase in (Phase.ASKING, Phase.CHALLENGING) and other.epoch >= self.life.epoch:
            if self._settings.take_over:
                return self._write(other.epoch + 1, now)
            reason = f"another node runs under this key (life {other}); stop it, or start with --take-over"
            return self._refuse(ErrorCode.FENCED, reason, now)
        if self.phase in (Phase.RUNNING, Phase.PAUSED):
            if other < self.life:
                self.on_lower_life(other, address, now)
                return []
            self._go(Phase.FENCING)
            self._challenge.cancel()
            self._counters.add("life.fenced")
            marker = other.epoch.to_bytes(EPOCH_BYTES, "big") + other.life_id
            self._fence_ticket = self._effects.persist(Table.LIFE, FENCED_KEY, marker)
            self._fencer = other
            return [Step.PAUSE]
        return []

    def _fenced(self, now: float) -> list[Step]:
        self._go(Phase.FENCED)
        assert self._fencer is not None, "somebody fenced us"
        self._effects.notify(Fenced(at=now, other=self._fencer))
        return [Step.STOP]

    def on_challenge_ends(self, now: float) -> list[Step]:
        """Nobody answered for the other life: it is gone, and a life above it is ours."""
        if self.phase not in (Phase.CHALLENGING, Phase.PAUSED):
            return []
        assert self._heard is not None, "a challenge has an opponent"
        self._challenge.cancel()
        self._counters.add("life.outbid")
        return self._write(self._heard.life.epoch + 1, now)

    def outgrow(self, now: float) -> list[Step]:
        """A counter of this life is used up: go on under a new one."""
        if self.phase is not Phase.RUNNING or self.life is None:
            return []
        self._counters.add("life.outgrown")
        return [Step.PAUSE, *self._write(self.life.epoch + 1, now)]

    # Ending

    def leave(self) -> bool:
        """Begin to leave; false if there is no running life to leave with."""
        if self.phase is not Phase.RUNNING:
            return False
        self._go(Phase.LEAVING)
        return True

    def left(self) -> None:
        """LEFT is signed and said."""
        self._go(Phase.LEFT)

    @property
    def is_starting(self) -> bool:
        """Whether this life asks others before it begins."""
        return self.phase in (Phase.ASKING, Phase.CHALLENGING)

    @property
    def is_serving(self) -> bool:
        """Whether calls may be started and accepted."""
        return self.phase is Phase.RUNNING
