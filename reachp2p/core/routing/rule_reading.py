"""From plain values (of a TOML file, or of a signed record) to a rule set, or to all that is wrong with them.

A rule set is read as a whole: it is taken if nothing is wrong anywhere, and else nothing changes. Every problem says
where it is, what was found, and what may be written instead (1704).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import isfinite
from typing import Any

from reachp2p.core.ids import check_agent_id, check_capability, check_tag_key
from reachp2p.core.routing.failure import most_similar
from reachp2p.core.routing.rules import SETTINGS, Match, Rule, RuleSet, Sticky, Timeouts
from reachp2p.core.routing.versions import parse_range
from reachp2p.errors import ConfigurationInvalid, InvalidIdentifier

RULES_MAX = 256
NAME_MAX = 64
PATTERN_MAX = 256
FALLBACK_MAX = 8
TAGS_MAX = 32
SECONDS_MIN, SECONDS_MAX = 0.001, 86_400.0
PROBLEMS_TOLD = 3
"""In the message of the error; `problems` has all of them."""
SHOWN_MAX = 60
STICKY_BY = ("session", "caller", "key")
PREFER = ("zone",)
RULE_KEYS = ("name", "match", *SETTINGS)
MATCH_KEYS = ("capability", "agent", "tags", "caller", "version")


class RulesInvalid(ConfigurationInvalid):
    """A rule set that cannot be used. Fault: whoever wrote it; the rules that were in force still are."""

    def __init__(self, origin: str, problems: Sequence[str]) -> None:
        told = "; ".join(problems[:PROBLEMS_TOLD])
        more = len(problems) - PROBLEMS_TOLD
        super().__init__(f"{origin}: {told}" + (f"; and {more} more" if more > 0 else ""))
        self.origin = origin
        self.problems = tuple(problems)


def read_rules(document: object, policies: Collection[str], origin: str = "rules") -> RuleSet:
    """The rule set that `document` says: `{"rule": [{…}, …]}`, as TOML has it.

    `policies`: the names that may be used. `origin`: the file or record, for messages. Raises `RulesInvalid`.
    """
    reading = _Reading(policies)
    rule_set = reading.rules(document)
    if reading.problems:
        raise RulesInvalid(origin, reading.problems)
    return rule_set


class _Wrong(Exception):
    """A value that cannot be used; the text says what to write instead."""


class _Reading:
    """Reads one document and collects what is wrong."""

    def __init__(self, policies: Collection[str]) -> None:
        self._policies = policies
        self.problems: list[str] = []

    def rules(self, document: object) -> RuleSet:
        """The rules of a document."""
        if not isinstance(document, Mapping):
            self._say("", f"write tables [[rule]], not {_shown(document)}")
            return RuleSet()
        self._check_keys("", document, ("rule",))
        tables = document.get("rule", [])
        if isinstance(tables, Mapping):
            self._say("rule", "write [[rule]], with two brackets: rules are a list")
            return RuleSet()
        if not isinstance(tables, list) or not all(isinstance(one, Mapping) for one in tables):
            self._say("rule", f"write tables [[rule]], not {_shown(tables)}")
            return RuleSet()
        if len(tables) > RULES_MAX:
            self._say("rule", f"{len(tables)} rules; at most {RULES_MAX}")
            return RuleSet()
        rules = [self._rule(table, number) for number, table in enumerate(tables, 1)]
        named: dict[str, int] = {}
        for number, rule in enumerate(rules, 1):
            if rule.name is None:
                continue
            if rule.name in named:
                self._say(f"rule {number}: name", f"{rule.name!r} is that of rule {named[rule.name]} already")
            named.setdefault(rule.name, number)
        return RuleSet(tuple(rules))

    def _rule(self, table: Mapping[str, Any], number: int) -> Rule:
        place = f"rule {number}"
        name = self._value(f"{place}: name", table, "name", _name)
        if name is not None:
            place += f" ({name})"
        self._check_keys(place, table, RULE_KEYS)
        match = self._match(f"{place}: match", table.get("match"))
        rule = Rule(
            name=name,
            match=match,
            policy=self._value(f"{place}: policy", table, "policy", self._policy),
            sticky=self._sticky(f"{place}: sticky", table.get("sticky")),
            split=self._split(f"{place}: split", table.get("split")),
            fallback=self._value(f"{place}: fallback", table, "fallback", _fallback),
            timeouts=self._timeouts(f"{place}: timeouts", table.get("timeouts")),
            prefer=self._value(f"{place}: prefer", table, "prefer", _one_of(PREFER)),
            retry=self._value(f"{place}: retry", table, "retry", _boolean),
            require_tags=self._value(f"{place}: require_tags", table, "require_tags", _tag_keys),
        )
        if not any(key in table for key in SETTINGS):
            self._say(place, f"sets nothing; it can set {', '.join(SETTINGS)}")
        if rule.require_tags is not None and (match.caller is not None or match.version is not None):
            self._say(
                f"{place}: require_tags",
                "is about agents: match by agent, capability or tags, not by caller or version",
            )
        return rule

    def _match(self, place: str, table: object) -> Match:
        if table is None:
            return Match()
        if not isinstance(table, Mapping):
            self._say(place, f'write a table, as in {{ capability = "text.*" }}, not {_shown(table)}')
            return Match()
        self._check_keys(place, table, MATCH_KEYS)
        tags = table.get("tags", {})
        if not isinstance(tags, Mapping) or len(tags) > TAGS_MAX:
            self._say(f"{place}.tags", f'write a table, as in {{ env = "prod" }}, not {_shown(tags)}')
            tags = {}
        patterns = {
            key: self._value(f"{place}.tags.{key}", tags, key, _pattern)
            for key in tags
            if self._is_tag_key(f"{place}.tags", key)
        }
        return Match(
            capability=self._value(f"{place}.capability", table, "capability", _capability_pattern),
            agent=self._value(f"{place}.agent", table, "agent", _agent_pattern),
            tags={key: patterns[key] or "" for key in sorted(patterns)},
            caller=self._value(f"{place}.caller", table, "caller", _caller_pattern),
            version=self._value(f"{place}.version", table, "version", _range),
        )

    def _sticky(self, place: str, value: object) -> Sticky | None:
        if value is None:
            return None
        table = {"by": value} if isinstance(value, str) else value
        if not isinstance(table, Mapping):
            known = ", ".join(f'"{one}"' for one in STICKY_BY)
            self._say(
                place, f'write one of {known}, or {{ by = "session", strict = true }}, not {_shown(value)}'
            )
            return None
        self._check_keys(place, table, ("by", "strict"))
        if "by" not in table:
            self._say(place, 'lacks the source of the key, as in { by = "session" }')
            return None
        by = self._value(f"{place}.by" if table is value else place, table, "by", _one_of(STICKY_BY))
        strict = self._value(f"{place}.strict", table, "strict", _boolean)
        return None if by is None else Sticky(by, bool(strict))

    def _split(self, place: str, table: object) -> int | None:
        if table is None:
            return None
        if not isinstance(table, Mapping):
            self._say(place, f"write the percent of calls, as in {{ candidate = 10 }}, not {_shown(table)}")
            return None
        self._check_keys(place, table, ("candidate",))
        if "candidate" not in table:
            self._say(place, "lacks the percent of calls, as in { candidate = 10 }")
        percent: int | None = self._value(f"{place}.candidate", table, "candidate", _percent)
        return percent

    def _timeouts(self, place: str, table: object) -> Timeouts | None:
        if table is None:
            return None
        if not isinstance(table, Mapping) or not table:
            self._say(place, f"write seconds, as in {{ connect = 1, total = 30 }}, not {_shown(table)}")
            return None
        self._check_keys(place, table, ("connect", "read", "total"))
        times = {
            key: self._value(f"{place}.{key}", table, key, _seconds) for key in ("connect", "read", "total")
        }
        total = times["total"]
        for key in ("connect", "read"):
            if total is not None and (times[key] or 0) > total:
                self._say(f"{place}.{key}", f"{times[key]:g} is longer than the whole call ({total:g})")
        return Timeouts(connect=times["connect"], read=times["read"], total=total)

    # Values

    def _value(self, place: str, table: Mapping[str, Any], key: str, read: Callable[[Any], Any]) -> Any:
        """What stands under `key`, read; None if it is not there or wrong."""
        if key not in table:
            return None
        try:
            return read(table[key])
        except _Wrong as wrong:
            self._say(place, str(wrong))
        except (InvalidIdentifier, ConfigurationInvalid) as error:
            self._say(place, error.message)
        return None

    def _policy(self, value: Any) -> str:
        """Which policies other packages bring is asked only if this is none of ours; that may find a mistake there."""
        if isinstance(value, str) and value in self._policies:
            return value
        return _one_of(sorted(self._policies))(value)

    def _is_tag_key(self, place: str, key: object) -> bool:
        try:
            check_tag_key(key)  # type: ignore[arg-type]  # it checks that, too
        except InvalidIdentifier as error:
            self._say(place, error.message)
            return False
        return True

    def _check_keys(self, place: str, table: Mapping[Any, Any], known: Sequence[str]) -> None:
        for key in table:
            if key not in known:
                self._say(place, f"{_word(key)}: unknown key{_hint(str(key), known)}")

    def _say(self, place: str, what: str) -> None:
        self.problems.append(f"{place}: {what}" if place else what)


def _text(value: Any, longest: int, example: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isprintable():
        raise _Wrong(
            f"write printable text of 1 to {longest} characters, as in {example!r}, not {_shown(value)}"
        )
    return value


def _name(value: Any) -> str:
    return _text(value, NAME_MAX, "summaries")


def _pattern(value: Any) -> str:
    return _text(value, PATTERN_MAX, "prod*")


def _capability_pattern(value: Any) -> str:
    return _checked_pattern(value, "text.*", check_capability)


def _agent_pattern(value: Any) -> str:
    return _checked_pattern(value, "nlp/*", check_agent_id)


def _caller_pattern(value: Any) -> str:
    pattern = _text(value, PATTERN_MAX, "billing/*")
    _checked_pattern(
        pattern if "/" in pattern or "*" in pattern else f"{pattern}/a", "billing/*", check_agent_id
    )
    return pattern


_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-./")


def _checked_pattern(value: Any, example: str, check: Callable[[str], str]) -> str:
    """A pattern that something can be of: without a star it must be a name, with one at least made of its letters."""
    pattern = _text(value, PATTERN_MAX, example)
    if "*" not in pattern:
        return check(pattern)
    wrong = [one for one in pattern if one != "*" and one not in _IN_NAMES]
    if (
        wrong
        or (check is check_capability and "/" in pattern)
        or (check is check_agent_id and "." in pattern)
    ):
        raise _Wrong(f"no name is of the pattern {pattern!r}; write lower case letters, as in {example!r}")
    return pattern


def _range(value: Any) -> str:
    text = " ".join(_text(value, PATTERN_MAX, "^1.2").split())
    parse_range(text)
    return text


def _one_of(known: Sequence[str]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise _Wrong(f"write one of {', '.join(known)}, not {_shown(value)}")
        if value not in known:
            raise _Wrong(f"{_shown(value)} is unknown{_hint(value, known)}")
        return value

    return read


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong(f"write true or false, not {_shown(value)}")
    return value


def _percent(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        raise _Wrong(f"write a whole number of percent from 0 to 100, not {_shown(value)}")
    return value


def _seconds(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or not SECONDS_MIN <= value <= SECONDS_MAX:
        raise _Wrong(f"write seconds from {SECONDS_MIN} to {SECONDS_MAX:.0f}, not {_shown(value)}")
    return round(float(value), 3)


def _fallback(value: Any) -> tuple[str, ...]:
    example = '["text.shorten", "nlp/backup"]'
    targets = _texts(value, FALLBACK_MAX, example)
    for target in targets:
        (check_agent_id if "/" in target else check_capability)(target)
    return targets


def _tag_keys(value: Any) -> tuple[str, ...]:
    keys = _texts(value, TAGS_MAX, '["env", "team"]')
    for key in keys:
        check_tag_key(key)
    return keys


def _texts(value: Any, most: int, example: str) -> tuple[str, ...]:
    is_list = isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
    if not is_list or not 0 < len(value) <= most:
        raise _Wrong(f"write a list of 1 to {most} texts, as in {example}, not {_shown(value)}")
    if len(set(value)) < len(value):
        raise _Wrong(f"names something twice: {_shown(value)}")
    return tuple(value)


def _hint(name: str, known: Sequence[str]) -> str:
    close = most_similar(name.lower().replace("-", "_"), known)
    return f"; did you mean {close!r}?" if close is not None else f"; known are {', '.join(known)}"


def _word(key: object) -> str:
    text = str(key)
    return text if text.isprintable() and len(text) <= SHOWN_MAX else _shown(key)


def _shown(value: object) -> str:
    """A value of anybody's as one short line."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 (an int of more digits than Python prints, a repr of the caller's)
        text = f"{type(value).__name__} that cannot be shown: {type(error).__name__}"
    text = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 1]}…"
