"""Schemas of other nodes, read so that a hostile one costs little: what matching by parameter shape checks against.

Anybody may announce a schema, and whoever matches by shape compiles it and runs it. So only the keywords that shapes
are made of are read; references stay inside the document (the library would fetch others from files and over HTTP);
patterns run in linear time; and a schema is refused that could look at one place of a value too often (references that
double at each step take 2^n looks). What is refused does not count, and the error says so.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jsonschema_rs
import msgspec

from reachp2p._schema import DIALECT, ParameterCheck
from reachp2p.core.routing.shapes import ShapeUnreadable

DEPTH_MAX = 16
"""Containers inside each other, of parameters that are matched by shape."""
LOOKS_MAX = 256
"""How often a schema may look along one path of a value: what a call looks at is bounded on top of that."""
PATTERNS_MAX = 32
PATTERN_BYTES_MAX = 65_536
"""Of a compiled pattern."""
OBJECTS_MAX = 16
_PLAIN = frozenset(
    {
        "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format",
        "type", "enum", "const", "required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties",
        "uniqueItems", "discriminator",
    }
)  # fmt: skip
"""Keywords without a schema inside."""
_SAME_PLACE = ("anyOf", "allOf", "oneOf")
_LOCAL = "#/$defs/"


class ShapeCheck(ParameterCheck):
    """A schema that is safe to use. `required`, `allowed`, `looks`: as in `core.routing.shapes.Shape`."""

    explained_max: ClassVar[int] = 50

    def __init__(self, schema: dict[str, Any], looks: int) -> None:
        super().__init__(schema)
        self.looks = looks
        self.required = frozenset(self._required)
        self.allowed = frozenset(self._fields) if self._is_closed else None

    def _compile(self, schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
        options = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES_MAX)
        return jsonschema_rs.Draft202012Validator(schema, pattern_options=options)


def read_shape(data: bytes) -> ShapeCheck:
    """Compile the bytes of a schema. Raises `ShapeUnreadable`."""
    try:
        schema = msgspec.json.decode(data)
        if not isinstance(schema, dict):
            raise ShapeUnreadable("it is no object")
        return ShapeCheck(schema, _Survey(schema).looks())
    except RecursionError:
        raise ShapeUnreadable("it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ShapeUnreadable("it is not JSON") from None
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
        if isinstance(error, ShapeUnreadable):
            raise
        raise ShapeUnreadable("it is no JSON Schema 2020-12") from error


def _is_slow(options: Any) -> bool:
    """The library finds texts and numbers by their hash, and compares with each of the others."""
    is_list = isinstance(options, list)
    return is_list and sum(isinstance(one, dict | list) for one in options) > OBJECTS_MAX


class _Survey:
    """One walk over a schema. Memory: a number for each of its parts and each depth."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._root = schema
        definitions = schema.get("$defs", {})
        if not isinstance(definitions, dict):
            raise ShapeUnreadable("its $defs are no object")
        self._definitions: dict[str, Any] = definitions
        self._counted: dict[tuple[int, int], int | None] = {}
        self._patterns = 0

    def looks(self) -> int:
        """How often the schema may look along one path. Raises `ShapeUnreadable` if it is not to be used."""
        for part in self._definitions.values():
            self._check(part)
        self._check(self._root)
        return self._count(self._root, DEPTH_MAX)

    def _check(self, part: Any) -> None:
        """Only known keywords, all of them well formed as far as they hold schemas."""
        if isinstance(part, bool):
            return
        if not isinstance(part, dict):
            raise ShapeUnreadable("a part of it is neither an object nor true or false")
        for keyword, value in part.items():
            if keyword == "$defs" and part is self._root:
                continue
            if keyword == "$schema":
                if value != DIALECT:
                    raise ShapeUnreadable("it is of another dialect")
            elif keyword == "$ref":
                self._target(value)
            elif keyword in ("properties",):
                self._check_all(list(value.values()) if isinstance(value, dict) else None, keyword)
            elif keyword in (*_SAME_PLACE, "prefixItems"):
                self._check_all(value, keyword)
            elif keyword in ("items", "additionalProperties"):
                self._check(value)
            elif keyword == "enum" and _is_slow(value):
                raise ShapeUnreadable(f"an enum has more than {OBJECTS_MAX} options that are no plain values")
            elif keyword not in _PLAIN:
                raise ShapeUnreadable(f"keyword {keyword[:40]!r} is not among those that are read")
            elif keyword == "pattern":
                self._patterns += 1
                if self._patterns > PATTERNS_MAX:
                    raise ShapeUnreadable(f"it has more than {PATTERNS_MAX} patterns")

    def _check_all(self, parts: Any, keyword: str) -> None:
        if not isinstance(parts, list):
            raise ShapeUnreadable(f"{keyword} is not what it should be")
        for part in parts:
            self._check(part)

    def _target(self, reference: Any) -> Any:
        if reference == "#":
            return self._root
        if isinstance(reference, str) and reference.startswith(_LOCAL):
            name = reference.removeprefix(_LOCAL)
            if name in self._definitions:
                return self._definitions[name]
        raise ShapeUnreadable("it refers to something else than its own $defs")

    def _count(self, part: Any, depth: int) -> int:
        """How often this part and those inside look along one path of a value with `depth` more containers."""
        if isinstance(part, bool):
            return 1
        key = (id(part), depth)
        if key in self._counted:
            known = self._counted[key]
            if known is None:
                raise ShapeUnreadable("it refers to itself at one place")
            return known
        self._counted[key] = None
        looks = 1
        if "$ref" in part:
            looks += self._count(self._target(part["$ref"]), depth)
        for keyword in _SAME_PLACE:
            looks += sum(self._count(one, depth) for one in part.get(keyword, ()))
        if depth:
            # Of several properties a path goes through one; the other keywords may look at that one, too.
            for several in (part.get("properties", {}).values(), part.get("prefixItems", ())):
                looks += max((self._count(one, depth - 1) for one in several), default=0)
            for keyword in ("items", "additionalProperties"):
                if keyword in part:
                    looks += self._count(part[keyword], depth - 1)
        if looks > LOOKS_MAX:
            raise ShapeUnreadable("it is too entangled")
        self._counted[key] = looks
        return looks
