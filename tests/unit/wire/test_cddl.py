"""`docs/protocol/wire.cddl` describes what the code sends: against the golden bytes, and key by key.

The oracle (the `cddl` crate behind pycddl) does not judge keys of maps inside arrays, and at the top allows only one
extension. So everything is validated inside an array, the rule for unknown keys is tested on the codec, and the keys
and optional marks of each rule are compared with the structs here.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import cbor2
import msgspec
import pytest
from pycddl import Schema, ValidationError  # type: ignore[import-untyped]

from reachp2p.core.wire.codec import pack_messages
from reachp2p.core.wire.facts import Accusation, AgentRecord, Capability, Head, RulesRecord
from reachp2p.core.wire.messages import MESSAGES

CDDL = (Path(__file__).resolve().parents[3] / "docs" / "protocol" / "wire.cddl").read_text()
GOLDEN: dict[str, str] = json.loads(Path(__file__).with_name("golden.json").read_text())
STRUCTS: list[type[Any]] = [*MESSAGES, Head, Accusation, AgentRecord, Capability, RulesRecord]


def rule_name(kind: str) -> str:
    """`SyncOffer` -> `sync-offer`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind).lower()


@cache
def schema(rule: str) -> Schema:
    """An array of one `rule`."""
    return Schema(f"start = [{rule}]\n{CDDL}")


def fits(rule: str, data: bytes) -> bool:
    """Whether `data` is a `rule`."""
    try:
        schema(rule).validate_cbor(b"\x81" + data)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("name", [name for name in GOLDEN if not name.startswith("datagram")])
def test_golden_bytes_fit_their_rule(name: str) -> None:
    rule = "sign1" if name.startswith("sign1 ") else rule_name(name.split()[0])
    assert fits(rule, bytes.fromhex(GOLDEN[name]))


def test_a_body_of_all_messages_fits() -> None:
    names = {kind.__name__ for kind in MESSAGES}
    assert fits(
        "body", pack_messages([bytes.fromhex(data) for name, data in GOLDEN.items() if name in names])
    )


@pytest.mark.parametrize("kind", STRUCTS)
def test_a_wrong_value_of_any_field_does_not_fit(kind: type[Any]) -> None:
    fields = example_fields(kind)
    for key in kind.KEYS.values():
        wrong: Any = fields | {key: 0.5}
        assert not fits(
            rule_name(kind.__name__), cbor2.dumps([kind.NUMBER, wrong] if kind in MESSAGES else wrong)
        ), key


@pytest.mark.parametrize("kind", STRUCTS)
def test_the_bounds_of_each_field_are_those_of_its_rule(kind: type[Any]) -> None:
    fields = example_fields(kind)
    checked = 0
    for field in msgspec.structs.fields(kind):
        key = kind.KEYS.get(field.name)
        annotation, bounds = bounded(field.type)
        for value, inside in edges(annotation, bounds, fields.get(key)):
            changed: Any = fields | {key: value}
            sent = cbor2.dumps([kind.NUMBER, changed] if kind in MESSAGES else changed)
            assert fits(rule_name(kind.__name__), sent) == inside, (field.name, value)
            checked += 1
    assert checked, "no bound of this struct was looked at"


def bounded(annotation: Any) -> tuple[Any, msgspec.Meta]:
    """The plain type of a field and its bounds, `| None` left out."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not types.NoneType)
    if get_origin(annotation) is Annotated:
        inner, bounds = get_args(annotation)
        return get_origin(inner) or inner, bounds
    return annotation, msgspec.Meta()


def edges(annotation: Any, bounds: msgspec.Meta, example: Any) -> Iterator[tuple[Any, bool]]:
    """Values at the edge of the bounds and beyond it."""
    if annotation is int:
        assert bounds.le is not None
        yield from ((bounds.ge, True), (bounds.le, True), (int(bounds.le) + 1, False))
    elif annotation is list:
        assert bounds.max_length is not None
        item = example[0] if example else b""
        yield [item] * bounds.max_length, True
        if not isinstance(item, list):  # the oracle does not count arrays in an array
            yield [item] * (bounds.max_length + 1), False
    elif annotation in (bytes, str) and bounds.max_length is not None:
        one: Any = b"x" if annotation is bytes else "x"
        yield from ((one * bounds.max_length, True), (one * (bounds.max_length + 1), False))


def example_fields(kind: type[Any]) -> dict[int, Any]:
    """The map of all golden examples of a struct together; the fullest has the last word."""
    if kind is Capability:
        capabilities: list[dict[int, Any]] = cbor2.loads(bytes.fromhex(GOLDEN["AgentRecord full"]))[10]
        return capabilities[1]
    fields: dict[int, Any] = {}
    names = [name for name in GOLDEN if name.split()[0] == kind.__name__]
    for name in sorted(names, key=lambda name: name.endswith(" full")):
        item = cbor2.loads(bytes.fromhex(GOLDEN[name]))
        fields |= item if isinstance(item, dict) else item[1]
    return fields


@pytest.mark.parametrize("kind", STRUCTS)
def test_each_rule_has_the_keys_of_its_struct(kind: type[Any]) -> None:
    start = f"{rule_name(kind.__name__)} = {{\n"
    if kind in MESSAGES:
        start = f"{rule_name(kind.__name__)} = [{kind.NUMBER}, {{\n"
    body = CDDL[CDDL.index("\n" + start) + 1 + len(start) :].split("* extension,\n}")[0]
    described = {
        name: (int(key), bool(optional))
        for optional, key, name in re.findall(
            r"^    (\? )?(\d+) => .*, *; (\w+)(?:: .*)?$", body, re.MULTILINE
        )
    }
    assert len(described) == len(body.strip().splitlines())
    required = {field.name: field.required for field in msgspec.structs.fields(kind)}
    assert described == {name: (key, not required[name]) for name, key in kind.KEYS.items()}
