"""JSON Schema 2020-12 from type hints, and the check of a call's parameters against it.

The hints are turned into schemas by msgspec, the check is done by jsonschema-rs (0.5 µs for a small object), and
what it finds is said in words that start with the JSON path of the offending field (error 1405).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

import jsonschema_rs
import msgspec

from reachp2p._payload import NotJson, json_path, to_json_model
from reachp2p.errors import LocalProtocolError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_BYTES_MAX = 65_536
"""Bound of one schema on the wire (`SchemaBodies`)."""
MISMATCHES_SHOWN = 3
OPTIONS_SHOWN = 10
"""Of an enum."""
VALUE_SHOWN = 60
"""Characters of an offending value that are quoted back."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a handler, as its signature and docstring tell it."""

    name: str
    type: Any
    required: bool
    default: Any = None
    description: str = ""


def parameters_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The schema of the object whose fields are these parameters. Raises `LocalProtocolError`."""
    described, definitions = _describe(
        [parameter.type for parameter in parameters],
        [f"parameter {parameter.name!r}" for parameter in parameters],
    )
    schema: dict[str, Any] = {"$schema": DIALECT, "type": "object", "properties": {}}
    for parameter, field in zip(parameters, described, strict=True):
        schema["properties"][parameter.name] = {**field, **_annotations(parameter)}
    if required := [parameter.name for parameter in parameters if parameter.required]:
        schema["required"] = required
    schema["additionalProperties"] = False
    if definitions:
        schema["$defs"] = definitions
    return schema


def result_schema(type_hint: Any) -> dict[str, Any]:
    """The schema of a handler's result. Raises `LocalProtocolError`."""
    (described,), definitions = _describe([type_hint], ["the result"])
    schema = {"$schema": DIALECT, **described}
    if definitions:
        schema["$defs"] = definitions
    return schema


def schema_bytes(schema: dict[str, Any]) -> bytes:
    """The exact bytes that are hashed and sent. Raises `LocalProtocolError` beyond 64 KiB."""
    data = msgspec.json.encode(schema)
    if len(data) > SCHEMA_BYTES_MAX:
        raise LocalProtocolError(
            f"the JSON Schema takes {len(data):,} bytes, more than {SCHEMA_BYTES_MAX:,}; use simpler types"
        )
    return data


def _annotations(parameter: Parameter) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if parameter.description:
        said["description"] = parameter.description
    if not parameter.required:
        with suppress(NotJson):  # such a default is the handler's own affair: callers only see "optional"
            said["default"] = to_json_model(parameter.default)
    return said


def _describe(hints: list[Any], subjects: list[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    try:
        schemas, definitions = msgspec.json.schema_components(hints, ref_template="#/$defs/{name}")
    except Exception as error:  # TypeError and NameError as a rule, but a hint's own code runs in there too
        if len(hints) > 1:  # find the one to blame
            for hint, subject in zip(hints, subjects, strict=True):
                _describe([hint], [subject])
        raise LocalProtocolError(
            f"{subjects[0]}: no JSON Schema for {_type_name(hints[0])}: {_first_sentence(error)}"
        ) from error
    for hint, schema, subject in zip(hints, schemas, subjects, strict=True):
        if _holds_bytes(schema):
            raise LocalProtocolError(
                f"{subject}: {_type_name(hint)} holds bytes, which JSON has not; "
                "bytes can only be the sole parameter or the whole result"
            )
    for name, schema in definitions.items():
        if _holds_bytes(schema):
            raise LocalProtocolError(
                f"{' and '.join(subjects)}: the type {name} holds bytes, which JSON has not"
            )
    return list(schemas), definitions


def _holds_bytes(schema: object) -> bool:
    if isinstance(schema, dict):
        return "contentEncoding" in schema or any(_holds_bytes(part) for part in schema.values())
    return isinstance(schema, list) and any(_holds_bytes(part) for part in schema)


def _first_sentence(error: Exception) -> str:
    """What msgspec says, without its advice on hooks, which this API does not offer."""
    text = str(error)
    if "custom types" in text:
        return "it is not a type that JSON can carry"
    return text.splitlines()[0]


def _type_name(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) else str(hint).removeprefix("typing.")


class ParameterCheck:
    """Checks the parameters of calls against one schema."""

    explained_max: ClassVar[int] = 1_000
    """Values inside each other up to which all that is wrong is looked for. The library finds everything at once, 10 µs
    for each error: a list of 100,000 wrong numbers would hold the event loop for a second."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._validator = self._compile(schema)
        self._fields: dict[str, Any] = schema.get("properties", {})
        self._required: list[str] = schema.get("required", [])
        self._is_closed = schema.get("additionalProperties") is False
        self._definitions: dict[str, Any] = schema.get("$defs", {})

    def _compile(self, schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
        return jsonschema_rs.Draft202012Validator(schema)

    def fits(self, value: object) -> bool:
        """Whether it is as the schema says."""
        return self._validator.is_valid(value)

    def mismatch(self, value: object) -> str | None:
        """None, or where and how `value` does not fit; the path of the first offending field comes first."""
        if self._validator.is_valid(value):
            return None
        if size_of(value, self.explained_max) >= self.explained_max:
            return self._explain_large(value)
        found: list[str] = []
        for error in self._validator.iter_errors(value):
            found.extend(self._explain(error))
            if len(found) > MISMATCHES_SHOWN:
                return "; ".join([*found[:MISMATCHES_SHOWN], "and more"])
        return "; ".join(found)

    def _explain_large(self, value: object) -> str:
        """The first field that is wrong, without a look at what is inside it."""
        if isinstance(value, dict):
            for name in self._required:
                if name not in value:
                    return f"{json_path([name])}: expected {_expected(self._fields.get(name))}, but it is missing"
            for name, part in value.items():
                field = self._fields.get(name)
                if field is None:
                    if self._is_closed:
                        return self._unexpected([name])
                elif not self._compile({"$defs": self._definitions, **_object(field)}).is_valid(part):
                    return (
                        f"{json_path([name])}: expected {_expected(field)} as its schema says; the parameters are too "
                        "large to say more"
                    )
        return "$: not as its schema says, and too large to say more"

    def _explain(self, error: jsonschema_rs.ValidationError) -> list[str]:
        kind: Any = error.kind
        path = list(error.instance_path)
        where = json_path(path)
        match kind.name:
            case "type":
                return [f"{where}: expected {' or '.join(kind.types)}, got {quoted(error.instance)}"]
            case "required":
                expected = _expected(self._fields.get(kind.property)) if not path else "a value"
                return [f"{json_path([*path, kind.property])}: expected {expected}, but it is missing"]
            case "additionalProperties":
                return [self._unexpected([*path, name]) for name in kind.unexpected]
            case "enum":
                return [f"{where}: expected one of {_listed(kind.options)}, got {quoted(error.instance)}"]
            case "anyOf":
                return [self._closest_branch(error)]
        return [f"{where}: {_short(error.message)}"]

    def _closest_branch(self, error: jsonschema_rs.ValidationError) -> str:
        """Of several alternatives, the one that was understood furthest; else what each of them expects."""
        kind: Any = error.kind
        depth = len(error.instance_path)
        inner = [failure for branch in kind.context for failure in branch]
        deepest = max(inner, key=_reach, default=None)
        if deepest is not None and _reach(deepest) > depth:
            return self._explain(deepest)[0]
        expected: list[str] = []
        for failure in inner:
            match failure.kind.name:
                case "type":
                    expected.extend(failure.kind.types)
                case "enum":
                    expected.append(_listed(failure.kind.options, " or "))
        if not expected or len(inner) != len(kind.context):
            said = _short(inner[0].message if inner else error.message)
            return f"{json_path(list(error.instance_path))}: {said}"
        return (
            f"{json_path(list(error.instance_path))}: expected {' or '.join(dict.fromkeys(expected))}, "
            f"got {quoted(error.instance)}"
        )

    def _unexpected(self, path: list[str | int]) -> str:
        """Words for a field that nobody asked for."""
        if len(path) > 1:
            return f"{json_path(path)}: not expected here"
        close = difflib.get_close_matches(str(path[0]), self._fields, n=1)
        if close:
            return f"{json_path(path)}: no such parameter; did you mean {close[0]!r}?"
        names = ", ".join(self._fields) or "none"
        return f"{json_path(path)}: no such parameter; the parameters are: {names}"


def size_of(value: object, most: int) -> int:
    """How many values there are in a value, itself included; the count ends at `most`."""
    count, parts = 0, [value]
    while parts and count < most:
        part = parts.pop()
        count += 1
        if isinstance(part, dict):
            parts += list(part.values())[:most]
        elif isinstance(part, list):
            parts += part[:most]
    return count


def _object(field: Any) -> dict[str, Any]:
    """A schema as an object: true and false stand for two of them."""
    return field if isinstance(field, dict) else {} if field else {"not": {}}


class ResultCheck(ParameterCheck):
    """Checks what a handler returns against the schema of its declared result."""

    def _unexpected(self, path: list[str | int]) -> str:
        return f"{json_path(path)}: not expected here"


def _reach(error: jsonschema_rs.ValidationError) -> int:
    """How far into the value an alternative was understood: a missing field is one step inside its object."""
    kind: Any = error.kind
    return len(error.instance_path) + (kind.name in ("required", "additionalProperties"))


def _expected(schema: object) -> str:
    """What a field's schema asks for, in a word or two."""
    if isinstance(schema, dict):
        if isinstance(kind := schema.get("type"), str):
            return kind
        if isinstance(options := schema.get("enum"), list):
            return f"one of {_listed(options)}"
        if isinstance(branches := schema.get("anyOf"), list):
            return " or ".join(_expected(branch) for branch in branches)
        if isinstance(reference := schema.get("$ref"), str):
            return reference.rpartition("/")[2]
    return "a value"


def _short(text: str) -> str:
    return text if len(text) <= 4 * VALUE_SHOWN else f"{text[: 4 * VALUE_SHOWN]}…"


def _listed(options: Sequence[object], between: str = ", ") -> str:
    """Options in JSON, the first few of many."""
    shown = between.join(quoted(option) for option in options[:OPTIONS_SHOWN])
    more = len(options) - OPTIONS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def quoted(value: object) -> str:
    """A value as JSON, short enough for a message."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        text = type(value).__name__
    return text if len(text) <= VALUE_SHOWN else f"{text[:VALUE_SHOWN]}…"
