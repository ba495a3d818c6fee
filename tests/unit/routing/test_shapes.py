"""Matching by parameter shape, against schemas that are looked at one by one (Hypothesis), and its refusals."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p._schema import DIALECT, ParameterCheck, size_of
from reachp2p._shape import DEPTH_MAX, PATTERNS_MAX, read_shape
from reachp2p.core.commands import RouteQuery, StreamKind
from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.registry.record import schema_hash
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.instance import CapabilityInfo, InstanceInfo
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.shapes import (
    COMPILED_MAX,
    SCHEMAS_MAX,
    TRIED_MAX,
    ShapeMatcher,
    ShapeUnreadable,
    declaring,
)
from reachp2p.core.routing.stages import Selector
from reachp2p.core.routing.table import RoutingTable

LIFE = Life(1, bytes(16))
TYPES = ("integer", "string", "boolean")


def shape(required: dict[str, str], optional: dict[str, str] | None = None, *, closed: bool = True) -> bytes:
    fields = {name: {"type": kind} for name, kind in {**required, **(optional or {})}.items()}
    schema: dict[str, Any] = {"$schema": DIALECT, "type": "object", "properties": fields}
    schema |= {"required": list(required)} if required else {}
    schema |= {"additionalProperties": False} if closed else {}
    return msgspec.json.encode(schema)


class Leaf(msgspec.Struct):
    name: str
    size: float = 0.0
    inner: Leaf | None = None


class Wanted(msgspec.Struct):
    leaves: list[Leaf]
    by_name: dict[str, Leaf | int]
    pair: tuple[int, str]


class Desk:
    """A table, the schemas that its node has, and a matcher."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.table = RoutingTable(self.counters, virtual_nodes=5)
        self.router = Router(self.table, Random(1), self.counters)
        self.matcher = ShapeMatcher(read_shape, self.counters)
        self.bodies: dict[bytes, bytes] = {}
        self.learned = 0

    def offer(
        self,
        number: int,
        capabilities: dict[str, bytes | None],
        *,
        tags: dict[str, str] | None = None,
        kind: StreamKind = StreamKind.NONE,
        is_here: bool = True,
    ) -> None:
        node = NodeId(number.to_bytes(32))
        self.table.set_node(node, MemberState.ALIVE, False, f"n{number}", LIFE)
        hashes = {name: None if body is None else schema_hash(body) for name, body in capabilities.items()}
        infos = {name: CapabilityInfo(stream=kind, parameters=digest) for name, digest in hashes.items()}
        self.table.put_instance(
            node, f"a/{number}", InstanceInfo(life=LIFE, capabilities=infos, tags=tags or {})
        )
        if is_here:
            self.learn(*(body for body in capabilities.values() if body is not None))

    def learn(self, *bodies: bytes) -> None:
        self.learned += 1
        self.bodies |= {schema_hash(body): body for body in bodies}

    def match(self, params: Any, tags: dict[str, str] | None = None, *, streams: bool = False) -> str:
        query = RouteQuery(tags=tags or {}, streams=streams, by_shape=True)
        group = self.table.group(Selector.of(query))
        return self.matcher.match(
            query, group, params, size_of(params, 20_000), self.bodies.get, self.learned
        ).capability

    def refused(self, params: Any, tags: dict[str, str] | None = None, **rest: Any) -> tuple[int, str]:
        with pytest.raises(RouteFailed) as caught:
            self.match(params, tags, **rest)
        return int(caught.value.code), caught.value.reason


@pytest.fixture
def shapes() -> Desk:
    return Desk()


def test_the_one_capability_that_the_parameters_fit_is_found(shapes: Desk) -> None:
    shapes.offer(1, {"text.write": shape({"text": "string"}, {"times": "integer"})})
    shapes.offer(2, {"number.add": shape({"left": "integer", "right": "integer"})})
    assert shapes.match({"text": "a"}) == "text.write"
    assert shapes.match({"times": 2, "text": "a"}) == "text.write"
    assert shapes.match({"left": 1, "right": 2}) == "number.add"
    assert shapes.counters.value("shapes.tried") == 3  # the others have other names


def test_ties_and_misfits_are_refused_with_names_and_reasons(shapes: Desk) -> None:
    shapes.offer(1, {"text.write": shape({"text": "string"}), "text.read": shape({"text": "string"})})
    shapes.offer(2, {"number.add": shape({"left": "integer"})})
    shapes.offer(3, {"raw.bytes": None})
    assert shapes.refused({"text": "a"}) == (
        1302, "the parameters fit 2 capabilities, name one: text.read (1 instance), text.write (1 instance)"
    )  # fmt: skip
    code, said = shapes.refused({"left": "one"})
    assert (
        code,
        said.startswith("the parameters fit none of 4 capabilities; number.add: $.left: expected "),
    ) == (
        1405,
        True,
    )
    assert said.endswith("(not counted: raw.bytes: it declares no schema)")
    assert shapes.refused(["a"]) == (1405, "only an object of parameters can be matched by its shape")
    assert Desk().refused({}) == (1301, "nobody that this node may call offers a capability")


def test_tags_narrow_what_is_looked_at_and_the_way_of_calling_does(shapes: Desk) -> None:
    text = shape({"text": "string"})
    shapes.offer(1, {"text.write": text, "other.one": shape({"x": "string"})}, tags={"team": "blue"})
    shapes.offer(2, {"text.read": text}, tags={"team": "red"})
    shapes.offer(3, {"text.lines": text}, kind=StreamKind.RESULTS)
    assert shapes.match({"text": "a"}, {"team": "blue"}) == "text.write"
    assert shapes.match({"text": "a"}, streams=True) == "text.lines"
    assert shapes.refused({"text": "a"})[0] == 1302


def test_a_capability_must_fit_as_all_of_its_instances_declare_it(shapes: Desk) -> None:
    shapes.offer(1, {"text.write": shape({"text": "string"})})
    shapes.offer(2, {"text.write": shape({"text": "string"}, {"times": "integer"})})
    assert shapes.match({"text": "a"}) == "text.write"
    code, said = shapes.refused({"text": "a", "times": 2})
    assert (code, "as some of its instances declare it" in said) == (1302, True)


def test_a_schema_that_is_not_here_does_not_count_until_it_is(shapes: Desk) -> None:
    late = shape({"text": "string"}, {"late": "string"})
    shapes.offer(1, {"text.write": shape({"text": "string"})})
    shapes.offer(2, {"text.read": late}, is_here=False)
    group = shapes.table.group(Selector(None, None))
    missing = shapes.matcher.missing(RouteQuery(), group, shapes.bodies.get, shapes.learned)
    assert missing == [schema_hash(late)]
    assert declaring(shapes.table, [schema_hash(late)]) == {schema_hash(late): [NodeId((2).to_bytes(32))]}
    assert shapes.match({"text": "a"}) == "text.write"
    assert shapes.refused({"text": 1})[1].endswith("(not counted: text.read: its schema is not here)")
    shapes.learn(late)
    assert shapes.refused({"text": "a"})[0] == 1302
    assert shapes.matcher.missing(RouteQuery(), group, shapes.bodies.get, shapes.learned) == []


def test_the_work_of_a_call_is_bounded(shapes: Desk) -> None:
    for number in range(TRIED_MAX + 1):
        shapes.offer(number, {f"c.n{number}": shape({"x": "string"}, {f"y{number}": "string"}, closed=False)})
    code, said = shapes.refused({"x": "a"})
    assert (code, "name a capability, or narrow the choice by tags" in said) == (1302, True)
    assert shapes.counters.value("shapes.refused.too_many") == 1
    for number in range(SCHEMAS_MAX + 1):
        shapes.offer(100 + number, {f"d.n{number}": shape({f"z{number}": "string"})}, tags={"kind": "d"})
    assert "at most 256 are looked at" in shapes.refused({"z1": "a"})[1]
    assert "at most 256 are looked at" in shapes.refused({"z1": "a"}, {"kind": "d"})[1]
    assert len(shapes.matcher) <= COMPILED_MAX


def test_large_parameters_and_entangled_schemas_are_not_looked_at_for_long(shapes: Desk) -> None:
    schema = doubling(6)
    schema |= {
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"items": {"$ref": schema.pop("$ref")}}},
    }
    body = msgspec.json.encode(schema)
    shapes.offer(1, {"slow.one": body})
    assert shapes.match({"a": [{}] * 1_000}) == "slow.one"
    code, said = shapes.refused({"a": [{}] * 10_000})
    assert (code, said) == (
        1302,
        "the parameters have the names of too many schemas to compare all of them: name a capability, or narrow the "
        "choice by tags",
    )
    code, said = shapes.refused({"a": [1] * 100})
    assert (
        code,
        "slow.one: $.a: expected a value as its schema says; the parameters are too large" in said,
    ) == (
        1405,
        True,
    )


def test_compiled_schemas_are_kept_within_their_bound(shapes: Desk) -> None:
    for number in range(3):
        kind = {"kind": str(number)}
        for one in range(SCHEMAS_MAX):
            shapes.offer(
                1_000 * number + one, {f"d.n{one}": shape({f"z{number}x{one}": "string"})}, tags=kind
            )
        assert shapes.match({f"z{number}x7": "a"}, kind) == "d.n7"
    assert len(shapes.matcher) == COMPILED_MAX
    assert shapes.counters.value("shapes.evicted") == SCHEMAS_MAX


names = st.sampled_from("abcd")
fields = st.dictionaries(names, st.sampled_from(TYPES), max_size=3)
bodies = st.builds(
    lambda required, optional, closed: shape(
        required, {k: v for k, v in optional.items() if k not in required}, closed=closed
    ),
    fields,
    fields,
    st.booleans(),
)
values = st.one_of(st.integers(0, 3), st.text("xy", max_size=2), st.booleans())


@given(
    offered=st.lists(st.dictionaries(st.sampled_from(["p", "q", "r"]), bodies, min_size=1), max_size=4),
    params=st.dictionaries(names, values, max_size=3),
)
def test_it_finds_what_looking_at_all_schemas_finds(
    offered: list[dict[str, bytes]], params: dict[str, Any]
) -> None:
    desk = Desk()
    fits: dict[str, list[bool]] = {}
    for number, capabilities in enumerate(offered):
        desk.offer(number, dict(capabilities))
        for name, body in capabilities.items():
            check = ParameterCheck(msgspec.json.decode(body))
            fits.setdefault(name, []).append(check.mismatch(params) is None)
    fitting = sorted(name for name, each in fits.items() if any(each))
    if len(fitting) == 1 and all(fits[fitting[0]]):
        assert desk.match(params) == fitting[0]
        return
    code, said = desk.refused(params)
    assert code == (1302 if fitting else 1405 if fits else 1301)
    assert all(name in said for name in fitting)


def doubling(steps: int) -> dict[str, Any]:
    parts: dict[str, Any] = {f"p{n}": {"allOf": [{"$ref": f"#/$defs/p{n + 1}"}] * 2} for n in range(steps)}
    return {"$defs": {**parts, f"p{steps}": {"type": "object"}}, "$ref": "#/$defs/p0"}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (b"{", "it is not JSON"),
        (b"[]", "it is no object"),
        (b'{"type": 7}', "no JSON Schema"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"$ref": "http://127.0.0.1:9/x"}', r"something else than its own \$defs"),
        (b'{"$ref": "file:///etc/hostname"}', r"something else than its own \$defs"),
        (b'{"$schema": "http://127.0.0.1:9/x"}', "another dialect"),
        (b'{"$id": "http://127.0.0.1:9/x"}', r"keyword '\$id'"),
        (b'{"patternProperties": {"(a+)+$": {}}}', "keyword 'patternProperties'"),
        (b'{"properties": {"a": {"$dynamicRef": "#a"}}}', "keyword"),
        (b'{"$ref": "#"}', "refers to itself at one place"),
        (b'{"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}', "refers to itself"),
        (msgspec.json.encode(doubling(30)), "too entangled"),
        (msgspec.json.encode({"properties": {"x": {"pattern": "^(?=a)b"}}}), "no JSON Schema"),
        (msgspec.json.encode({"properties": {"x": {"pattern": "((a{99}){99}){99}"}}}), "no JSON Schema"),
        (msgspec.json.encode({"anyOf": [{"pattern": "a"}] * (PATTERNS_MAX + 1)}), "more than 32 patterns"),
        (b'{"properties": []}', "properties is not"),
        (msgspec.json.encode({"enum": [{"a": n} for n in range(17)]}), "an enum has more than 16"),
        (b'{"anyOf": {}}', "anyOf is not"),
        (b'{"items": 3}', "neither an object"),
        (b'{"$defs": []}', r"its \$defs"),
    ],
)  # fmt: skip
def test_a_hostile_schema_is_not_used(schema: bytes, why: str) -> None:
    with pytest.raises(ShapeUnreadable, match=why):
        read_shape(schema)


def test_an_unreadable_schema_does_not_count_and_is_told(shapes: Desk) -> None:
    shapes.offer(1, {"bad.one": b'{"$ref": "#"}', "text.write": shape({"text": "string"})})
    assert shapes.match({"text": "a"}) == "text.write"
    assert "bad.one: its schema is not to be used: it refers to itself" in shapes.refused({"no": 1})[1]
    assert shapes.counters.value("shapes.unreadable") == 1


def test_schemas_of_usual_handlers_are_used() -> None:
    (described,), parts = msgspec.json.schema_components([Wanted], ref_template="#/$defs/{name}")
    schema = {"$schema": DIALECT, "type": "object", "properties": {"wanted": described}, "$defs": parts}
    read = read_shape(msgspec.json.encode(schema | {"required": ["wanted"], "additionalProperties": False}))
    leaf: dict[str, Any] = {"name": "a"}
    for _ in range(DEPTH_MAX - 3):
        leaf = {"name": "b", "inner": leaf}
    value = {"wanted": {"leaves": [leaf], "by_name": {"x": 1}, "pair": [1, "a"]}}
    assert read.mismatch(value) is None
    assert read.mismatch({"wanted": {**value["wanted"], "pair": [1, 2]}}) is not None
    assert (read.required, read.allowed) == ({"wanted"}, {"wanted"})
