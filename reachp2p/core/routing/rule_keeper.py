"""Which rules this node goes by: those of its own file, then those of the cluster (docs/protocol/rules.md).

The file comes first, because whoever put it there meant this node; what it leaves open the cluster decides. A new file
is taken whole or not at all. Of the cluster's records the newest counts that this node understands: one that names a
policy or a word which this version does not know is kept and passed on, and the one before it stays in force.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from reachp2p.core.clock import WallClock
from reachp2p.core.commands import AgentSpec
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, Table
from reachp2p.core.events import RulesChanged, RulesRefused
from reachp2p.core.ids import COUNTER_MAX, NodeId, Ticket, short
from reachp2p.core.routing.rule_book import Outcome, RuleBook, read_row
from reachp2p.core.routing.rule_reading import RulesInvalid, read_rules
from reachp2p.core.routing.rule_text import decode_rules, differences, encode_rules, to_toml
from reachp2p.core.routing.rules import Layer, RuleSet, RulesInForce
from reachp2p.core.trust.facts import Checked, FactChecker, FactRejected, FactSigner
from reachp2p.core.views import RuleLayerView, RulesRecordView, RulesView
from reachp2p.core.wire.facts import RulesRecord
from reachp2p.core.wire.limits import WireError
from reachp2p.errors import ConfigurationInvalid, LocalProtocolError

ROW = b"rules"
"""In the table of the life, which is read before anything is decided: the rules are in force before the first call."""
COMMENT_MAX = 256
CHANGES_TOLD = 16
"""Lines of difference in an event; `rules diff` has all."""


class RuleKeeper:
    """Own rules, the rule book, what is in force because of them, and the book's row on disk. Size: the book's."""

    def __init__(
        self,
        own: NodeId,
        *,
        policies: Callable[[], Collection[str]],
        signer: FactSigner,
        checker: FactChecker,
        clock: WallClock,
        effects: Effects,
        counters: Counters,
    ) -> None:
        """`policies`: the names that a rule may use here."""
        self._own = own
        self._policies = policies
        self._signer = signer
        self._checker = checker
        self._clock = clock
        self._effects = effects
        self._counters = counters
        self.book = RuleBook()
        self.in_force = RulesInForce(counters)
        self._own_layer: Layer | None = None
        self._understood: dict[bytes, RuleSet | RulesInvalid] = {}
        """What the records of the book say, by digest."""
        self._ticket: Ticket | None = None
        self.has_unwritten = False
        """The row on disk is not the book: something came since, or the last write has failed."""

    # Reading without consequences

    def read(self, document: object, origin: str) -> RuleSet:
        """The rule set that these plain values say, if it could be applied. Raises `RulesInvalid` (1704)."""
        rule_set = read_rules(document, self._policies(), origin)
        encode_rules(rule_set, origin)
        return rule_set

    # Own rules

    def set_own(self, document: object, origin: str, now: float) -> bool:
        """Go by these rules of this node alone from now on, in place of its former ones; None: by none.

        False if they are the same. Raises `RulesInvalid` (1704), and nothing has changed.
        """
        layer = None if document is None else Layer(origin, self.read(document, origin))
        before = self._own_layer.rule_set if self._own_layer is not None else RuleSet()
        after = layer.rule_set if layer is not None else RuleSet()
        self._own_layer = layer
        self._go_by()
        if before == after:
            return False
        self._tell(origin, None, before, after, now)
        return True

    # The cluster's

    def apply(self, document: object, comment: str, now: float) -> Checked[RulesRecord]:
        """Sign these rules for the whole cluster, above all that is known, and go by them. If the newest record says
        the same, that is the answer: the history is for what has changed.

        Raises `RulesInvalid` (1704) for what cannot be used, here or as a record; nothing has changed then.
        """
        if len(comment) > COMMENT_MAX or not comment.isprintable():
            raise ConfigurationInvalid(f"comment: write printable text of at most {COMMENT_MAX} characters")
        if isinstance(document, Mapping) and not document:
            raise ConfigurationInvalid(
                "these rules say nothing, as a file that was cut off; to take all rules away, write rule = []"
            )
        rule_set = self.read(document, "rules")
        encoded = encode_rules(rule_set)
        newest = self.book.newest
        if newest is not None and newest.fact.rules == encoded:
            self._counters.add("rules.unchanged")
            return newest
        version = newest.fact.version + 1 if newest is not None else 1
        if version > COUNTER_MAX:
            raise LocalProtocolError(
                "the versions of this cluster's rules are used up; begin a new cluster id"
            )
        record = RulesRecord(
            author=self._own,
            version=version,
            issued_at=self._clock.at(now),
            rules=encoded,
            comment=comment,
        )
        checked = self._checker.open(RulesRecord, self._signer.sign(record))
        self._take(checked, now)
        self.write_again()
        return checked

    def hear(self, data: bytes, now: float) -> Checked[RulesRecord] | None:
        """A signed record from another node. Returns it if it is new here.

        It is written with the next `write_again`, so that a flood of records costs one write a second.
        """
        try:
            checked = self._checker.open(RulesRecord, data)
        except FactRejected as rejected:
            self._counters.add(f"dropped.rules.{rejected.reason}")
            return None
        outcome = self._take(checked, now)
        if outcome is Outcome.OLD:
            self._counters.add("rules.outdated")
        return checked if outcome in (Outcome.NEWEST, Outcome.ADDED) else None

    def _take(self, record: Checked[RulesRecord], now: float) -> Outcome:
        before = self._cluster_rules()
        outcome = self.book.put(record)
        if outcome in (Outcome.NEWEST, Outcome.ADDED):
            self._counters.add(f"rules.{outcome.value}")
            self._understand()
            self._go_by()
            self.has_unwritten = True
            self._tell_cluster(record, before, now)
        return outcome

    def _tell_cluster(self, record: Checked[RulesRecord], before: RuleSet, now: float) -> None:
        if self.book.newest is not record:
            return
        said = self._understood[record.digest]
        origin = _origin(record)
        if isinstance(said, RulesInvalid):
            self._counters.add("rules.not_understood")
            self._effects.notify(RulesRefused(at=now, origin=origin, reason=said.message))
        else:
            self._tell(origin, record.fact.version, before, said, now)

    def _tell(self, origin: str, version: int | None, old: RuleSet, new: RuleSet, now: float) -> None:
        lines = differences(old, new)
        more = len(lines) - CHANGES_TOLD
        changes = (*lines[:CHANGES_TOLD], *([f"and {more} more"] if more > 0 else []))
        self._counters.add("rules.changed")
        self._effects.notify(RulesChanged(at=now, origin=origin, version=version, changes=changes))

    def _understand(self) -> None:
        self._understood = {
            record.digest: self._understood.get(record.digest) or self._read_record(record)
            for record in self.book.records
        }

    def _read_record(self, record: Checked[RulesRecord]) -> RuleSet | RulesInvalid:
        try:
            return decode_rules(record.fact.rules, self._policies(), _origin(record))
        except RulesInvalid as invalid:
            return invalid

    def _in_force_record(self) -> Checked[RulesRecord] | None:
        """The newest record that is understood here."""
        for record in reversed(self.book.records):
            if isinstance(self._understood[record.digest], RuleSet):
                return record
        return None

    def _cluster_rules(self) -> RuleSet:
        record = self._in_force_record()
        said = self._understood[record.digest] if record is not None else None
        return said if isinstance(said, RuleSet) else RuleSet()

    def _go_by(self) -> None:
        layers = [] if self._own_layer is None else [self._own_layer]
        record = self._in_force_record()
        if record is not None:
            layers.append(Layer(_origin(record), self._cluster_rules()))
        self.in_force.set(layers)

    # Disk

    def load(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Rows of the table in which the book is, before the life runs. What is damaged is counted; others have it."""
        for key, value in rows:
            if key == ROW:
                try:
                    records = read_row(value)
                except WireError as error:
                    self._counters.add(f"dropped.rules.{error.reason}")
                    continue
                for data in records:
                    try:
                        self.book.put(self._checker.open(RulesRecord, data))
                    except FactRejected as rejected:
                        self._counters.add(f"dropped.rules.{rejected.reason}")
        self._understand()
        self._go_by()

    def _write(self) -> None:
        self.has_unwritten = False
        self._ticket = self._effects.persist(Table.LIFE, ROW, self.book.row())

    def on_failed(self, ticket: Ticket) -> bool:
        """A write has failed; true if it was ours: `write_again` tries once more."""
        if ticket != self._ticket:
            return False  # of a former book, too: the newer write counts
        self._counters.add("rules.write_failed")
        self.has_unwritten = True
        return True

    def write_again(self) -> None:
        """Write the book if it is not on disk as it is."""
        if self.has_unwritten:
            self._write()

    # Questions

    def rule_set(self, version: int | None) -> RuleSet:
        """The cluster's rules of a version (of several the one that counts), or those in force (None).

        Raises `ConfigurationInvalid` (1704) if they are not here, or not understood here.
        """
        if version is None:
            return self._cluster_rules()
        for record in reversed(self.book.records):
            if record.fact.version == version:
                said = self._understood[record.digest]
                if isinstance(said, RulesInvalid):
                    raise said
                return said
        known = ", ".join(str(number) for number in sorted({one.fact.version for one in self.book.records}))
        has = f"there are versions {known}" if known else "it is empty"
        raise ConfigurationInvalid(f"version {version} of the rules is not in the history; {has}")

    def lacking(self, spec: AgentSpec) -> str:
        """Which tags a rule requires of an agent that has not got them, in words; nothing if there is none."""
        capabilities = [one.name for one in spec.capabilities]
        keys, origin = self.in_force.missing_tags(spec.agent, capabilities, spec.tags)
        if not keys:
            return ""
        example = ", ".join(f'"{key}": "…"' for key in keys)
        return f"agent {spec.agent} lacks what {origin} requires: tags={{{example}}}"

    def view(self) -> RulesView:
        """What is in force, why, and what was before."""
        in_force = self._in_force_record()
        newest = self.book.newest
        history = []
        for record in reversed(self.book.records):
            said = self._understood[record.digest]
            history.append(
                RulesRecordView(
                    version=record.fact.version,
                    author=NodeId(record.fact.author),
                    digest=record.digest,
                    issued_at=record.fact.issued_at,
                    comment=record.fact.comment,
                    in_force=record is in_force,
                    newest=record is newest,
                    refused=said.message if isinstance(said, RulesInvalid) else "",
                    rules=0 if isinstance(said, RulesInvalid) else len(said.rules),
                    toml="" if isinstance(said, RulesInvalid) else to_toml(said),
                )
            )
        own = self._own_layer
        return RulesView(
            own=None if own is None else RuleLayerView(origin=own.origin, toml=to_toml(own.rule_set)),
            history=tuple(history),
        )


def _origin(record: Checked[RulesRecord]) -> str:
    fact = record.fact
    return f"the cluster's version {fact.version} by {short(fact.author)}"
