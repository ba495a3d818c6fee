"""Parameters and results as bytes: the JSON data model as CBOR or JSON, anything else as plain bytes.

`application/cbor` (the default) and `application/json` carry null, booleans, 64-bit integers,
finite floats, text, lists and text-keyed maps, nothing else; a payload of any other content type is handed
over as it came. What arrives is refused for its depth, tags, keys, duplicates and trailing bytes before
anybody looks at it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from math import isfinite
from typing import Any

import cbor2
import msgspec

from reachp2p.core.wire.limits import BYTES_MAX, INTEGER_MAX, WireError, load

CBOR = "application/cbor"
JSON = "application/json"
BYTES = "application/octet-stream"
DEPTH_MAX = 64
"""Containers inside each other. Deeper data are a mistake or an attack; serde_json stops at 128."""
INTEGER_MIN = -(2**63)
"""With `INTEGER_MAX`: what CBOR and JSON readers of other languages hold without a big-number type."""

_USUAL = frozenset((CBOR, JSON, BYTES))
_LEFT_ALONE = (bytes, bytearray, memoryview)


class NotJson(ValueError):
    """A value or payload outside the JSON data model: `path` is where (`$.items[2]`), `reason` why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self._steps: list[str | int] = []

    def inside(self, step: str | int) -> NotJson:
        """The same error seen from one container further out."""
        self._steps.append(step)
        return self

    @property
    def path(self) -> str:
        """Where in the value, as a JSON path."""
        return json_path(reversed(self._steps))

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def json_path(steps: Iterator[str | int] | list[str | int]) -> str:
    """`$.items[2].name`; keys that are not identifiers are quoted."""
    text = "$"
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}"
        else:
            text += f"[{msgspec.json.encode(step).decode()}]"
    return text


def media_type(content_type: str) -> str:
    """The content type without its parameters, in lower case."""
    if content_type in _USUAL:
        return content_type
    return content_type.partition(";")[0].strip().lower()


def carries_json(content_type: str) -> bool:
    """Whether this content type is one of the two that carry the JSON data model."""
    return media_type(content_type) in (CBOR, JSON)


def encode(value: object, content_type: str = CBOR) -> tuple[str, bytes]:
    """Return (content type, bytes) of a value; bytes become `application/octet-stream` in any case.

    Dataclasses, msgspec structs, enums and tuples become what they look like in JSON. Raises `NotJson`.
    """
    if isinstance(value, _LEFT_ALONE):
        return BYTES, bytes(value)
    return encode_plain(to_json_model(value), content_type)


def encode_plain(plain: Any, content_type: str) -> tuple[str, bytes]:
    """Return (content type, bytes) of what `to_json_model` returned. Raises `NotJson`."""
    try:
        if media_type(content_type) == JSON:
            return JSON, msgspec.json.encode(plain)
        return CBOR, cbor2.dumps(plain)
    except UnicodeEncodeError as error:
        raise NotJson("text with a lone surrogate, which UTF-8 cannot hold") from error


def decode(payload: bytes, content_type: str) -> Any:
    """Return the value of a payload: JSON data model, or the bytes themselves. Raises `NotJson`."""
    kind = media_type(content_type)
    if kind == CBOR:
        try:
            value = load(payload, bytes_max=BYTES_MAX, elements_max=BYTES_MAX, depth_max=DEPTH_MAX)
        except WireError as error:
            raise NotJson(f"not CBOR of the JSON data model: {error}") from error
    elif kind == JSON:
        try:
            value = msgspec.json.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NotJson(f"not valid JSON: {error}") from error
    else:
        return payload
    _check(value, DEPTH_MAX)
    return value


def to_json_model(value: object, depth: int = DEPTH_MAX) -> Any:
    """Return `value` in plain dicts, lists and scalars; `NotJson` says where something else was found."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return value
    if kind is int or kind is float:
        _check_number(value)  # type: ignore[arg-type]
        return value
    if depth == 0:
        raise NotJson(f"nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, Enum):
        return to_json_model(value.value, depth - 1)
    if isinstance(value, Mapping):
        return {_key(key): _converted(item, key, depth) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_converted(item, index, depth) for index, item in enumerate(value)]
    if isinstance(value, msgspec.Struct) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        fields = msgspec.to_builtins(value, builtin_types=_LEFT_ALONE, enc_hook=_refuse_type)
        return to_json_model(fields, depth)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | float):
        return to_json_model((int if isinstance(value, int) else float)(value), depth - 1)
    raise _unfit(value)


def _converted(item: object, step: object, depth: int) -> Any:
    try:
        return to_json_model(item, depth - 1)
    except NotJson as error:
        raise error.inside(step if isinstance(step, int) else str(step)) from None


def _check(value: object, depth: int) -> None:
    """Refuse what a decoder let through although JSON has no such thing."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return
    if kind is int or kind is float:
        _check_number(value)  # type: ignore[arg-type]
        return
    if depth == 0:
        raise NotJson(f"nested deeper than {DEPTH_MAX} levels")
    if kind is dict:
        for key, item in value.items():  # type: ignore[attr-defined]
            name = _key(key)
            try:
                _check(item, depth - 1)
            except NotJson as error:
                raise error.inside(name) from None
    elif kind is list:
        for index, item in enumerate(value):  # type: ignore[arg-type]
            try:
                _check(item, depth - 1)
            except NotJson as error:
                raise error.inside(index) from None
    else:
        raise _unfit(value)


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    raise NotJson(f"a key of type {type(key).__name__}; JSON has text keys only")


def _check_number(value: int | float) -> None:
    if isinstance(value, int):
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise NotJson("an integer of more than 64 bits")
    elif not isfinite(value):
        raise NotJson(f"the float {value}, which JSON does not have")


def _unfit(value: object) -> NotJson:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    hint = " (bytes can only be a whole payload)" if isinstance(value, _LEFT_ALONE) else ""
    return NotJson(f"a value of type {name}, which does not fit the JSON data model{hint}")


def _refuse_type(value: object) -> Any:
    raise _unfit(value)
