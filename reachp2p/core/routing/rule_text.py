"""How rules are written: as plain values, as the bytes that are signed, as TOML, and as a difference in words.

All of them say what was decided and nothing else, in one form: equal rule sets have equal bytes and equal texts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import cbor2

from reachp2p.core.commands import RouteQuery
from reachp2p.core.routing.rule_reading import RulesInvalid, read_rules
from reachp2p.core.routing.rules import SETTINGS, Match, Rule, RuleSet, Ruling, title
from reachp2p.core.wire.limits import WireError, load

ENCODED_MAX = 32_768
"""Bytes of an encoded rule set; a rule has 100 to 200."""


def document_of(rule_set: RuleSet) -> dict[str, Any]:
    """The rule set as plain values; `read_rules` reads it back."""
    return {"rule": [_table(rule) for rule in rule_set.rules]}


def encode_rules(rule_set: RuleSet, origin: str = "rules") -> bytes:
    """Deterministic CBOR (RFC 8949 §4.2.1) of `document_of`. Raises `RulesInvalid` if that is more than 32 KiB."""
    data = cbor2.dumps(document_of(rule_set), canonical=True)
    if len(data) > ENCODED_MAX:
        raise RulesInvalid(origin, [f"{len(data):,} bytes when encoded; at most {ENCODED_MAX:,}"])
    return data


def decode_rules(data: bytes, policies: Collection[str], origin: str = "rules") -> RuleSet:
    """The rule set in these bytes. Raises `RulesInvalid`: damaged, or of a version that knows more than this one."""
    try:
        document = load(data, bytes_max=ENCODED_MAX)
    except WireError as error:
        raise RulesInvalid(origin, [f"cannot be read: {error}"]) from error
    return read_rules(document, policies, origin)


def to_toml(rule_set: RuleSet) -> str:
    """The rule set as a file that reads back as the same."""
    return "\n".join(_rule_toml(rule) for rule in rule_set.rules)


def differences(old: RuleSet, new: RuleSet) -> list[str]:
    """What is otherwise in `new`, a line each; empty if nothing is.

    Rules with a name are compared with those of that name; the others with those that match the same calls.
    """
    before, after = _by_identity(old), _by_identity(new)
    lines: list[str] = []
    for key, (number, rule) in before.items():
        if key not in after:
            lines.append(f"{title(rule, number)} is gone: {_summary(rule)}")
    for key, (number, rule) in after.items():
        if key not in before:
            lines.append(f"{title(rule, number)} is new: {_summary(rule)}")
        else:
            lines += _changes(before[key][1], rule, title(rule, number))
    kept_before, kept_after = [k for k in before if k in after], [k for k in after if k in before]
    if kept_before != kept_after:
        order = ", ".join(title(after[key][1], after[key][0]) for key in kept_after)
        lines.append(f"the order of rules is another one: {order}")
    return lines


def decisions(asked: RouteQuery, settled: RouteQuery, ruling: Ruling) -> tuple[str, ...]:
    """What rules have decided about a call that its caller had left open, each with the rule that it is from."""
    origins = ruling.origins
    lines = []
    if asked.policy is None and settled.policy is not None:
        is_sticky = settled.policy == "consistent_hash" and ruling.sticky is not None
        lines.append(f"policy = {_inline(settled.policy)} ({origins['sticky' if is_sticky else 'policy']})")
    for name in ("split", "prefer"):
        if getattr(asked, name) is None and getattr(settled, name) is not None:
            lines.append(f"{name} = {_inline(getattr(settled, name))} ({origins[name]})")
    if settled.fallback != asked.fallback:
        lines.append(f"fallback = {_inline(settled.fallback)} ({origins['fallback']})")
    if ruling.retry is not None:
        lines.append(f"retry = {_inline(ruling.retry)} ({origins['retry']})")
    for name in ("connect", "read", "total"):
        seconds = getattr(ruling.timeouts, name)
        if seconds is not None:
            lines.append(f"timeouts.{name} = {_inline(_number(seconds))} ({origins[f'timeouts.{name}']})")
    return tuple(lines)


def _by_identity(rule_set: RuleSet) -> dict[str, tuple[int, Rule]]:
    found: dict[str, tuple[int, Rule]] = {}
    for number, rule in enumerate(rule_set.rules, 1):
        key = f"name {rule.name}" if rule.name is not None else f"match {_inline(_match_table(rule.match))}"
        count = 1
        while key in found:
            count += 1
            key = f"{key.removesuffix(f' {count - 1}')} {count}"
        found[key] = (number, rule)
    return found


def _changes(old: Rule, new: Rule, called: str) -> list[str]:
    before, after = _table(old), _table(new)
    lines = []
    for key in ("match", *SETTINGS):
        was, is_now = before.get(key), after.get(key)
        if was != is_now:
            lines.append(f"{called}: {key}: {_or_nothing(was)} -> {_or_nothing(is_now)}")
    return lines


def _or_nothing(value: Any) -> str:
    return "nothing" if value is None else _inline(value)


def _summary(rule: Rule) -> str:
    table = _table(rule)
    table.pop("name", None)
    return ", ".join(f"{key} = {_inline(value)}" for key, value in table.items())


def _table(rule: Rule) -> dict[str, Any]:
    """One rule as plain values, what it leaves out left out, keys in the order of the page."""
    table: dict[str, Any] = {}
    if rule.name is not None:
        table["name"] = rule.name
    if match := _match_table(rule.match):
        table["match"] = match
    if rule.policy is not None:
        table["policy"] = rule.policy
    if rule.sticky is not None:
        table["sticky"] = rule.sticky.by
        if rule.sticky.strict:
            table["sticky"] = {"by": rule.sticky.by, "strict": True}
    if rule.split is not None:
        table["split"] = {"candidate": rule.split}
    if rule.fallback is not None:
        table["fallback"] = list(rule.fallback)
    if rule.timeouts is not None:
        times = {key: getattr(rule.timeouts, key) for key in ("connect", "read", "total")}
        table["timeouts"] = {key: _number(value) for key, value in times.items() if value is not None}
    if rule.prefer is not None:
        table["prefer"] = rule.prefer
    if rule.retry is not None:
        table["retry"] = rule.retry
    if rule.require_tags is not None:
        table["require_tags"] = list(rule.require_tags)
    return table


def _match_table(match: Match) -> dict[str, Any]:
    found = {
        "capability": match.capability,
        "agent": match.agent,
        "tags": dict(sorted(match.tags.items())) or None,
    }
    found |= {"caller": match.caller, "version": match.version}
    return {key: value for key, value in found.items() if value is not None}


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _rule_toml(rule: Rule) -> str:
    return "".join(["[[rule]]\n", *(f"{key} = {_inline(value)}\n" for key, value in _table(rule).items())])


def _inline(value: Any) -> str:
    """A value in TOML. Texts are printable, so that nothing but these two has to be escaped."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(one)}" for key, one in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
