"""Routing rules: what an operator has decided about calls of a kind, so that callers need not (docs/protocol/rules.md).

Rules are an ordered list. Each setting of a call comes from the first rule that fits the call and sets it; rules of
several origins (a node's own file, then the cluster's) are one list after the other. What a call says itself beats
them, and they beat what an agent announces; whoever applies a `Ruling` sees to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from reachp2p.core.commands import IN_FLIGHT_MAX, RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.routing.versions import parse_range, parse_version
from reachp2p.errors import InvalidIdentifier

MEMORY_MAX = 4_096
"""Kinds of calls whose ruling is remembered: a node makes a few dozen; what callers invent must not cost memory."""
SETTINGS = ("policy", "sticky", "split", "fallback", "timeouts", "prefer", "retry", "require_tags")
"""What a rule can set, in the order in which it is written."""


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls a rule is for; None and {} stand for any. `*` in a text stands for any characters."""

    capability: str | None = None
    agent: str | None = None
    tags: dict[str, str] = {}
    caller: str | None = None
    """An agent id; without a slash, a namespace."""
    version: str | None = None
    """A range of versions: the call asks for the same range, or for one version inside of it."""

    def fits(self, query: RouteQuery, caller: str | None) -> bool:
        """Whether a call with this query, made by this agent (None: by a program), is one of them."""
        return (
            _fits(self.capability, query.capability)
            and _fits(self.agent, _whole(query.agent))
            and _has_tags(self.tags, query.tags)
            and (self.caller is None or _fits(caller_pattern(self.caller), caller))
            and (self.version is None or _asks_for(self.version, query.version))
        )

    def fits_agent(self, agent: str, capabilities: Iterable[str], tags: Mapping[str, str]) -> bool:
        """Whether an agent with these capabilities and tags is one that these calls could go to."""
        return (
            _fits(self.agent, agent)
            and (self.capability is None or any(_fits(self.capability, one) for one in capabilities))
            and _has_tags(self.tags, tags)
        )


class Sticky(msgspec.Struct, frozen=True):
    """Equal keys go to one instance. `by`: `session`, `caller` or `key`. `strict`: to its owner or to nobody."""

    by: str
    strict: bool = False


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, or None: until a link is open, until one attempt has answered, and for the whole call."""

    connect: float | None = None
    read: float | None = None
    total: float | None = None


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule; what is None is left to later rules."""

    name: str | None = None
    match: Match = Match()
    policy: str | None = None
    sticky: Sticky | None = None
    split: int | None = None
    """Percent of calls that go to release `candidate`."""
    fallback: tuple[str, ...] | None = None
    """Agents (with a slash) and capabilities, in the order in which they are tried."""
    timeouts: Timeouts | None = None
    prefer: str | None = None
    """`zone`."""
    retry: bool | None = None
    require_tags: tuple[str, ...] | None = None


class RuleSet(msgspec.Struct, frozen=True):
    """Rules in their order."""

    rules: tuple[Rule, ...] = ()


class Layer(msgspec.Struct, frozen=True):
    """A rule set and where it is from, in words (`rules.toml`, `the cluster's version 3`)."""

    origin: str
    rule_set: RuleSet


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say about a kind of call; None: nothing. `origins` says of each setting which rule it is from."""

    policy: str | None = None
    sticky: Sticky | None = None
    split: int | None = None
    fallback: tuple[str, ...] | None = None
    timeouts: Timeouts = Timeouts()
    prefer: str | None = None
    retry: bool | None = None
    origins: dict[str, str] = {}


SILENCE = Ruling()
"""No rule says anything."""


class _Known(msgspec.Struct):
    """What was said about a kind of call, and the settled query of one that says nothing but whom it is for."""

    ruling: Ruling
    plain: RouteQuery | None = None


class RulesInForce:
    """The rules that this node goes by, and what they said about the calls that it has made.

    Size: `MEMORY_MAX` rulings; beyond it all are forgotten and worked out again (counter `rules.memory_cleared`).
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._layers: tuple[Layer, ...] = ()
        self._rules: list[tuple[Rule, str]] = []
        self._memory: dict[object, _Known] = {}
        self.is_empty = True
        self.version = 0
        """Grows with every change."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The rule sets, the first one first."""
        return self._layers

    def set(self, layers: Sequence[Layer]) -> bool:
        """Go by these from now on; false if they are the ones there were."""
        layers = tuple(layer for layer in layers if layer.rule_set.rules)
        if layers == self._layers:
            return False
        self._layers = layers
        self._rules = [
            (rule, f"{title(rule, number)} of {layer.origin}")
            for layer in layers
            for number, rule in enumerate(layer.rule_set.rules, 1)
        ]
        self._memory.clear()
        self.is_empty = not layers
        self.version += 1
        return True

    def ruling(self, query: RouteQuery, caller: str | None = None) -> Ruling:
        """What the rules say about a call; `caller` is the agent that makes it."""
        return SILENCE if self.is_empty else self._known(query, caller).ruling

    def settle(self, query: RouteQuery, session: str | None, caller: str | None) -> tuple[RouteQuery, Ruling]:
        """The query of a call with what the rules decide and the call itself leaves open, and their ruling.

        `session` and `caller` are the keys that a call is sticky by. Half a microsecond for a call that says nothing
        but whom it is for; one and a half for others.
        """
        if self.is_empty:
            return query, SILENCE
        known = self._known(query, caller)
        ruling = known.ruling
        if ruling is SILENCE:
            return query, ruling
        is_plain = (
            query.key is None and query.policy is None and ruling.sticky is None and query.release is None
            and query.split is None and query.prefer is None and not query.fallback and not query.allow_fallback
            and not query.strict and query.in_flight_max == IN_FLIGHT_MAX and not query.streams
            and not query.by_shape
        )  # fmt: skip
        if not is_plain:
            return settled(query, ruling, session, caller), ruling
        if known.plain is None:
            known.plain = settled(query, ruling, None, None)
        return known.plain, ruling

    def _known(self, query: RouteQuery, caller: str | None) -> _Known:
        tags = query.tags
        kind = (
            query.capability, query.agent, tuple(tags.items()) if tags else None, caller, query.version,
        )  # fmt: skip
        known = self._memory.get(kind)
        if known is None:
            known = _Known(self._work_out(query, caller))
            if len(self._memory) >= MEMORY_MAX:
                self._memory.clear()
                self._counters.add("rules.memory_cleared")
            self._memory[kind] = known
        return known

    def _work_out(self, query: RouteQuery, caller: str | None) -> Ruling:
        found: dict[str, Any] = {}
        origins: dict[str, str] = {}
        times: dict[str, float] = {}
        for rule, origin in self._rules:
            if not rule.match.fits(query, caller):
                continue
            for name in ("policy", "sticky", "split", "fallback", "prefer", "retry"):
                value = getattr(rule, name)
                if value is not None and name not in found:
                    found[name], origins[name] = value, origin
            if rule.timeouts is not None:
                for name in ("connect", "read", "total"):
                    seconds = getattr(rule.timeouts, name)
                    if seconds is not None and name not in times:
                        times[name], origins[f"timeouts.{name}"] = seconds, origin
        if not origins:
            return SILENCE
        return Ruling(timeouts=Timeouts(**times), origins=origins, **found)

    def missing_tags(
        self, agent: str, capabilities: Sequence[str], tags: Mapping[str, str]
    ) -> tuple[list[str], str]:
        """The tag keys that an agent must carry and does not, and the rule that says so ("" if it lacks none)."""
        for rule, origin in self._rules:
            if rule.require_tags is not None and rule.match.fits_agent(agent, capabilities, tags):
                lacking = [key for key in rule.require_tags if key not in tags]
                return lacking, origin if lacking else ""
        return [], ""

    def __len__(self) -> int:
        """Rulings remembered."""
        return len(self._memory)


def settled(query: RouteQuery, ruling: Ruling, session: str | None, caller: str | None) -> RouteQuery:
    """The query with what a ruling decides; what the query says itself stays."""
    policy, key, strict = query.policy, query.key, query.strict
    if policy is None:
        sticky = ruling.sticky
        if sticky is not None:
            source = session if sticky.by == "session" else caller if sticky.by == "caller" else None
            if key is not None or source is not None:
                policy, key, strict = (
                    "consistent_hash",
                    key if key is not None else source,
                    strict or sticky.strict,
                )
        if policy is None and not (ruling.policy == "consistent_hash" and key is None):
            policy = ruling.policy
    return RouteQuery(
        agent=query.agent,
        capability=query.capability,
        tags=query.tags,
        policy=policy,
        key=key,
        version=query.version,
        strict=strict,
        in_flight_max=query.in_flight_max,
        release=query.release,
        split=ruling.split if query.split is None else query.split,
        prefer=ruling.prefer if query.prefer is None else query.prefer,
        fallback=query.fallback or (ruling.fallback or () if query.allow_fallback else ()),
        allow_fallback=query.allow_fallback,
        streams=query.streams,
        by_shape=query.by_shape,
    )


def title(rule: Rule, number: int) -> str:
    """How a rule is called: `rule 2 (carts)`."""
    return f"rule {number}" if rule.name is None else f"rule {number} ({rule.name})"


def _whole(agent: str | None) -> str | None:
    """What a rule for agents compares with: `nlp/*` is for calls to the namespace, too, and `nlp/summarizer` not."""
    return agent if agent is None or "/" in agent else f"{agent}/"


def caller_pattern(text: str) -> str:
    """The pattern of an agent id: a namespace stands for all of its agents."""
    return text if "/" in text or text == "*" else f"{text}/*"


def fits_pattern(pattern: str, text: str) -> bool:
    """Whether `text` is of this pattern, in which `*` stands for any characters. Takes time in proportion to both."""
    if "*" not in pattern:
        return pattern == text
    first, *middle, last = pattern.split("*")
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _fits(pattern: str | None, text: str | None) -> bool:
    return pattern is None or (text is not None and fits_pattern(pattern, text))


def _has_tags(patterns: Mapping[str, str], tags: Mapping[str, str]) -> bool:
    return all(key in tags and fits_pattern(pattern, tags[key]) for key, pattern in patterns.items())


def _asks_for(wanted: str, asked: str | None) -> bool:
    if asked is None:
        return False
    if " ".join(asked.split()) == wanted:
        return True
    try:
        return parse_version(asked) in parse_range(wanted)
    except InvalidIdentifier:
        return False  # a range of its own, or none: the router says so
