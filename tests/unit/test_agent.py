"""Declaring agents, their schemas, and what happens to one call between payload and result."""

from __future__ import annotations

import dataclasses
import enum
import threading
import warnings
from collections.abc import Callable
from functools import partial, wraps
from typing import Annotated, Any, Literal, TypedDict

import cbor2
import jsonschema_rs
import msgspec
import pytest
import trio

from reachp2p import Agent, Context, InvalidIdentifier, Rate
from reachp2p._schema import Parameter, ParameterCheck, parameters_schema
from reachp2p.core.commands import InvokeResult
from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId
from reachp2p.errors import ConfigurationInvalid, LocalProtocolError
from reachp2p.runtime.handlers import InvokeContext
from reachp2p.runtime.threads import Threads


class Tone(enum.Enum):
    WARM = "warm"
    COLD = "cold"


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: float = 0.0


class Options(TypedDict, total=False):
    limit: int


class Leaf(msgspec.Struct):
    name: str
    next: Leaf | None = None


class FakeNode:
    """Answers nested calls with what it was asked."""

    def __init__(self, threads: Threads | None = None) -> None:
        self.threads = threads or Threads(Counters())

    async def run_in_thread(self, what: str, function: Callable[[], Any]) -> Any:
        return await self.threads.run(what, function)

    async def call_for(
        self, served: InvokeContext, capability: str | None = None, params: Any = None, **options: Any
    ) -> Any:
        within = served.deadline - trio.current_time()
        return {"capability": capability, "params": params, "within": within, **options}


def invocation(**changes: Any) -> InvokeContext:
    fields: dict[str, Any] = {
        "agent": "test/agent",
        "capability": "a.b",
        "caller": NodeId(bytes(32)),
        "message_id": bytes(16),
        "deadline": trio.current_time() + 10,
    }
    return InvokeContext(**{**fields, **changes})


async def serve(
    function: Callable[..., Any], payload: bytes, content_type: str = "application/cbor", **changes: Any
) -> InvokeResult:
    agent = Agent("test/agent")
    agent.capability("a.b")(function)
    return await agent.bind(FakeNode())["a.b"](invocation(**changes), payload, content_type)


async def call(function: Callable[..., Any], params: Any = None, **changes: Any) -> Any:
    """The decoded result of a call that must succeed."""
    result = await serve(function, cbor2.dumps(params), **changes)
    assert result.code == 0, result.detail
    return cbor2.loads(result.payload)


async def refusal(function: Callable[..., Any], params: Any) -> str:
    """The detail of a call that must be refused before the handler runs."""
    result = await serve(function, cbor2.dumps(params))
    assert (result.code, result.executed, result.payload) == (1405, False, b""), result
    return result.detail


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    agent = Agent("test/agent")
    agent.capability("a.b")(function)
    parameters = agent.spec.capabilities[0].parameters
    assert parameters is not None
    schema: dict[str, Any] = msgspec.json.decode(parameters)
    jsonschema_rs.meta.validate(schema)
    return schema


# Declaring


def test_a_declaration_becomes_a_spec() -> None:
    agent = Agent(
        "nlp/summarizer", version="1.2.0", tags={"env": "prod"}, description="Makes it short", weight=2
    )

    @agent.capability(
        "text.summarize",
        repeatable=True,
        timeout=5,
        task_timeout=60,
        concurrency=3,
        queue=0,
        rate=Rate(5, burst=9),
    )
    async def summarize(text: str, sentences: int = 3) -> dict[str, Any]:
        """Extractive summary of a text.

        Args:
            text: What to shorten.
            sentences (int): How many sentences
                to keep.
        """
        return {"text": text, "sentences": sentences}

    spec = agent.spec
    assert (spec.agent, spec.version, spec.tags, spec.weight) == (
        "nlp/summarizer",
        "1.2.0",
        {"env": "prod"},
        2.0,
    )
    (capability,) = spec.capabilities
    assert (capability.name, capability.description) == ("text.summarize", "Extractive summary of a text.")
    assert (capability.repeatable, capability.timeout, capability.concurrency_max) == (True, 5.0, 3)
    assert (capability.task_timeout, capability.queue_max, capability.rate) == (60.0, 0, Rate(5, 9, "node"))
    assert capability.parameters == (
        b'{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{'
        b'"text":{"type":"string","description":"What to shorten."},'
        b'"sentences":{"type":"integer","description":"How many sentences to keep.","default":3}},'
        b'"required":["text"],"additionalProperties":false}'
    )
    assert capability.result == b'{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}'
    assert summarize.__name__ == "summarize"


@pytest.mark.parametrize("agent_id", ["summarizer", "NLP/summarizer", "nlp/", "nlp/a/b", "nlp/ü", ""])
def test_an_agent_id_that_is_not_namespace_slash_name_is_refused(agent_id: str) -> None:
    with pytest.raises(InvalidIdentifier, match=r"1707"):
        Agent(agent_id)


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ({"Env": "prod"}, "did you mean 'env'"),
        ({"cost-tier": "a"}, "did you mean 'cost_tier'"),
        ({"two words": "a"}, "lower snake case"),
        ({"env": ""}, "1 to 256 characters"),
        ({"env": 3}, "not 3"),
        ({3: "a"}, "write text"),
        ({f"key_{n}": "a" for n in range(33)}, "at most 32"),
    ],
)
def test_a_bad_tag_is_refused_and_a_known_key_suggested(tags: Any, said: str) -> None:
    with pytest.raises(InvalidIdentifier, match=said) as caught:
        Agent("a/b", tags=tags)
    assert caught.value.code == 1707


def test_a_tag_key_that_looks_like_a_slip_of_a_known_one_is_pointed_out() -> None:
    with pytest.warns(UserWarning, match="slip of 'region'"):
        agent = Agent("a/b", tags={"regoin": "eu"})
    assert agent.tags == {"regoin": "eu"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Agent("a/b", tags={"env": "prod", "customer": "acme"})


@pytest.mark.parametrize(
    "options", [{"version": "1.2"}, {"weight": 11}, {"weight": True}, {"description": "x" * 5_000}]
)
def test_other_fields_of_an_agent_are_checked(options: Any) -> None:
    with pytest.raises(InvalidIdentifier):
        Agent("a/b", **options)


def test_a_capability_is_declared_once_and_by_name() -> None:
    agent = Agent("a/b")

    def handler() -> None: ...

    agent.capability("x.y")(handler)
    with pytest.raises(InvalidIdentifier, match="declared twice"):
        agent.capability("x.y")(handler)
    with pytest.raises(InvalidIdentifier, match=r"text\.summarize"):
        agent.capability("X Y")
    with pytest.raises(LocalProtocolError, match="name the capability"):
        agent.capability(handler)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="timeout"):
        agent.capability("x.z", timeout=0)
    with pytest.raises(ConfigurationInvalid, match="concurrency"):
        agent.capability("x.z", concurrency=0)
    for queue in (-1, 1.5, True, 100_001):
        with pytest.raises(LocalProtocolError, match="queue is a whole number"):
            agent.capability("x.z", queue=queue)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="task_timeout"):
        agent.capability("x.z", task_timeout=86_401)
    for rate in (10, Rate(0), Rate(1, 0), Rate(1, 1, "agent"), Rate(1, True)):
        with pytest.raises(LocalProtocolError, match="rate"):
            agent.capability("x.z", rate=rate)  # type: ignore[arg-type]
    assert agent.capabilities == ("x.y",)


def positional_only(text: str, /) -> None: ...
def any_positional(*texts: str) -> None: ...
def any_named(**texts: str) -> None: ...
def some_bytes(text: str, data: bytes) -> None: ...
def bytes_inside(items: list[bytes]) -> None: ...
def bytes_inside_result(text: str) -> list[bytes]: ...  # type: ignore[empty-body]
def not_json(number: complex) -> None: ...
def two_contexts(one: Context, two: Context) -> None: ...
def unknown_hint(text: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def method(self, text: str) -> None: ...  # type: ignore[no-untyped-def]
def generator(text: str) -> str:  # type: ignore[misc]
    yield text


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (positional_only, "parameter 'text' is positional-only"),
        (any_positional, r"parameter '\*texts' takes any number of values"),
        (any_named, r"parameter '\*\*texts' takes any name"),
        (some_bytes, "parameter 'data': bytes holds bytes"),
        (bytes_inside, "sole parameter"),
        (bytes_inside_result, "the result: .*bytes"),
        (not_json, "parameter 'number': no JSON Schema for complex"),
        (two_contexts, "'one' and 'two' both ask for the Context"),
        (unknown_hint, "NoSuchType"),
        (method, "decorate the bound one"),
        (generator, "generator"),
        (Point, "a handler is a function"),
    ],
)
def test_a_signature_that_cannot_be_served_is_refused_when_it_is_decorated(function: Any, said: str) -> None:
    agent = Agent("a/b")
    with pytest.raises(LocalProtocolError, match=said) as caught:
        agent.capability("x.y")(function)
    assert "'x.y'" in str(caught.value)
    assert agent.capabilities == ()


def test_the_error_names_function_and_line() -> None:
    with pytest.raises(LocalProtocolError, match=r"positional_only \(.*test_agent.py:\d+\)"):
        Agent("a/b").capability("x.y")(positional_only)


# Schemas


def test_every_kind_of_hint_has_its_schema() -> None:
    def handler(
        flag: bool,
        tone: Tone,
        point: Point,
        options: Options,
        leaf: Leaf,
        level: Literal["low", "high"],
        many: list[int],
        table: dict[str, float],
        either: int | str | None,
        anything: Any,
        count: Annotated[int, msgspec.Meta(ge=1)] = 1,
        free=None,  # type: ignore[no-untyped-def]
    ) -> Leaf: ...  # type: ignore[empty-body]

    schema = schema_of(handler)
    fields = schema["properties"]
    assert fields["flag"] == {"type": "boolean"}
    assert fields["tone"] == {"$ref": "#/$defs/Tone"}
    assert schema["$defs"]["Tone"]["enum"] == ["cold", "warm"]
    assert schema["$defs"]["Point"]["required"] == ["x"]
    assert schema["$defs"]["Options"]["required"] == []
    assert {"$ref": "#/$defs/Leaf"} in schema["$defs"]["Leaf"]["properties"]["next"]["anyOf"]
    assert fields["level"] == {"enum": ["high", "low"]}
    assert fields["many"] == {"type": "array", "items": {"type": "integer"}}
    assert fields["table"] == {"type": "object", "additionalProperties": {"type": "number"}}
    assert {branch["type"] for branch in fields["either"]["anyOf"]} == {"integer", "string", "null"}
    assert fields["anything"] == {}
    assert fields["count"] == {"type": "integer", "minimum": 1, "default": 1}
    assert fields["free"] == {"default": None}
    assert "count" not in schema["required"]


@pytest.mark.parametrize(
    "docstring",
    [
        "Do it.\n\nArgs:\n    text: The text.\n    n (int): How often,\n        at most.\n\nReturns:\n    text: no",
        "Do it.\n\nParameters\n----------\ntext : str\n    The text.\nn : int, optional\n    How often,\n    at most.\n"
        "\nReturns\n-------\ntext : str\n    no",
        "Do it.\n:param text: The text.\n:param int n: How often,\n    at most.\n:returns: no",
    ],
)
def test_google_numpy_and_sphinx_docstrings_describe_parameters(docstring: str) -> None:
    def handler(text: str, n: int) -> None: ...

    handler.__doc__ = docstring
    fields = schema_of(handler)["properties"]
    assert fields["text"]["description"] == "The text."
    assert fields["n"]["description"] == "How often, at most."
    agent = Agent("a/b")
    agent.capability("x.y")(handler)
    assert agent.spec.capabilities[0].description == "Do it."


def test_a_default_outside_json_leaves_the_parameter_optional() -> None:
    def handler(point: Point = Point(1), odd: Any = {1, 2}) -> None: ...  # noqa: B006, B008

    schema = schema_of(handler)
    assert "required" not in schema
    assert schema["properties"]["point"]["default"] == {"x": 1, "y": 0.0}
    assert "default" not in schema["properties"]["odd"]


# Calls


def echo(
    text: str,
    sentences: int = 3,
    *,
    point: Point | None = None,
    tone: Tone = Tone.WARM,
    ratio: float = 0.5,
    level: Literal["low", "high"] = "low",
    items: list[int] | None = None,
) -> dict[str, Any]:
    return {
        "text": text,
        "sentences": sentences,
        "point": point,
        "tone": tone,
        "ratio": ratio,
        "kind": type(point),
    }


def seen(**values: Any) -> dict[str, Any]:
    return {name: type(value).__name__ for name, value in values.items()}


@pytest.mark.trio
async def test_parameters_arrive_as_the_types_that_were_asked_for() -> None:
    def handler(
        point: Point, tone: Tone, ratio: float, count: int, leaf: Leaf, table: dict[int, str]
    ) -> dict[str, str]:
        assert table == {7: "x"}
        return seen(point=point, tone=tone, ratio=ratio, count=count, leaf=leaf)

    params = {
        "point": {"x": 1.0},
        "tone": "cold",
        "ratio": 1,
        "count": 2.0,
        "leaf": {"name": "a"},
        "table": {"7": "x"},
    }
    assert await call(handler, params) == {
        "point": "Point", "tone": "Tone", "ratio": "float", "count": "int", "leaf": "Leaf",
    }  # fmt: skip


@pytest.mark.trio
@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "$.text: expected string, but it is missing"),
        (None, "$.text: expected string, but it is missing"),
        ({"text": 3}, "$.text: expected string, got 3"),
        ({"text": "a", "sentences": "3"}, '$.sentences: expected integer, got "3"'),
        ({"text": "a", "sentences": True}, "$.sentences: expected integer, got true"),
        ({"text": "a", "point": {"x": "q"}}, '$.point.x: expected integer, got "q"'),
        ({"text": "a", "point": {}}, "$.point.x: expected a value, but it is missing"),
        ({"text": "a", "point": 3}, "$.point: expected object or null, got 3"),
        ({"text": "a", "tone": "hot"}, '$.tone: expected one of "cold", "warm", got "hot"'),
        ({"text": "a", "level": 1}, '$.level: expected one of "high", "low", got 1'),
        ({"text": "a", "items": [1, "b"]}, '$.items[1]: expected integer, got "b"'),
        ({"text": "a", "sentence": 2}, "$.sentence: no such parameter; did you mean 'sentences'?"),
        ({"text": "a", "qqq": 2}, "$.qqq: no such parameter; the parameters are: text, sentences"),
        ([1], "$: expected object, got [1]"),
        ("hello", '$: expected object, got "hello"'),
        ({"text": "a" * 5, "ratio": "x" * 500}, '$.ratio: expected number, got "xxxxx'),
        ({"text": b"raw"}, "$.text: a value of type bytes"),
        ({"text": "a", "ratio": float("nan")}, "$.ratio: the float nan"),
        ({"text": "a", "sentences": 2**70}, "not CBOR of the JSON data model: tag"),
        ({1: 2}, "$: a key of type int"),
    ],
)
async def test_parameters_that_do_not_fit_are_refused_with_their_path(params: Any, said: str) -> None:
    detail = await refusal(echo, params)
    assert said in detail
    assert len(detail) < 1_000


@pytest.mark.trio
async def test_several_mistakes_are_told_at_once_and_their_number_is_bounded() -> None:
    detail = await refusal(echo, {"txt": 1, "sentences": "x", "ratio": "y", "level": "z", "tone": 1})
    assert detail.count("$.") == 3
    assert detail.endswith("and more")


def test_of_many_options_the_first_few_are_told() -> None:
    kind = Literal[tuple(f"option {number:04d}" for number in range(1_000))]  # type: ignore[valid-type]  # made here
    check = ParameterCheck(parameters_schema([Parameter(name="kind", type=kind, required=True)]))
    for params in ({"kind": "none"}, {}):
        said = check.mismatch(params)
        assert said is not None
        assert said.startswith('$.kind: expected one of "option 0000", "option 0001", ')
        assert '"option 0009" and 990 more, ' in said
        assert len(said) < 300


def test_large_parameters_are_refused_by_their_first_wrong_field_without_a_look_at_all_that_is_wrong() -> (
    None
):
    """The library finds all errors at once: a second for 100,000, in which the event loop would stand still."""
    check = ParameterCheck(
        parameters_schema(
            [
                Parameter(name="numbers", type=list[int], required=True),
                Parameter(name="names", type=list[str] | None, required=False),
                Parameter(name="how", type=str, required=True),
            ]
        )
    )
    large = list(range(2_000))
    wrong = [str(number) for number in large]
    rest = " as its schema says; the parameters are too large to say more"
    assert check.mismatch({"numbers": large, "how": "x"}) is None
    assert check.mismatch({"numbers": wrong, "how": "x"}) == f"$.numbers: expected array{rest}"
    assert (
        check.mismatch({"numbers": large, "names": large, "how": "x"})
        == f"$.names: expected array or null{rest}"
    )
    assert check.mismatch({"numbers": large}) == "$.how: expected string, but it is missing"
    assert check.mismatch({"numbers": large, "how": "x", "hw": 1}) == (
        "$.hw: no such parameter; did you mean 'how'?"
    )
    assert check.mismatch(wrong) == "$: not as its schema says, and too large to say more"
    assert check.mismatch({"numbers": ["x"], "how": "x"}) == '$.numbers[0]: expected integer, got "x"'


@pytest.mark.trio
@pytest.mark.parametrize(
    "payload", [b"\xff", b"\xa1", b"\x01\x02", b"\x81" * 1_000 + b"\x01", b"\xd8\x1d\x00"]
)
async def test_a_payload_that_is_not_cbor_is_refused(payload: bytes) -> None:
    result = await serve(echo, payload)
    assert (result.code, result.executed) == (1405, False)
    assert "not CBOR" in result.detail


@pytest.mark.trio
async def test_json_is_answered_with_json() -> None:
    result = await serve(echo, b'{"text": "\xc3\xa4"}', "application/JSON; charset=utf-8")
    assert result.code == 1403  # `kind` is a class, which JSON has not
    result = await serve(lambda text: {"said": text}, b'{"text": "\xc3\xa4"}', "application/json")
    assert (result.code, result.content_type, result.payload) == (
        0,
        "application/json",
        b'{"said":"\xc3\xa4"}',
    )
    result = await serve(echo, b'{"text": ', "application/json")
    assert result.code == 1405
    assert "not valid JSON" in result.detail


@pytest.mark.trio
async def test_bytes_go_to_a_handler_that_asks_for_bytes_alone() -> None:
    def reverse(data: bytes) -> bytes:
        return data[::-1]

    result = await serve(reverse, b"\x00\xffabc", "image/png")
    assert (result.code, result.content_type, result.payload) == (
        0,
        "application/octet-stream",
        b"cba\xff\x00",
    )
    for function, content_type in ((reverse, "application/cbor"), (echo, "image/png")):
        result = await serve(function, b"\xa0", content_type)
        assert (result.code, result.executed) == (1405, False)
        assert content_type in result.detail


@pytest.mark.trio
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (object(), "$: a value of type object"),
        ({"a": [1, {2, 3}]}, "$.a[1]: a value of type set"),
        ({"a": b"raw"}, "$.a: a value of type bytes"),
        ({1: "a"}, "a key of type int"),
        (float("inf"), "the float inf"),
        (2**64, "more than 64 bits"),
        (Leaf("a", object()), "a value of type object"),  # type: ignore[arg-type]
        ("\ud800", "lone surrogate"),
    ],
)
async def test_a_result_outside_the_json_data_model_is_1403_and_names_the_type(value: Any, said: str) -> None:
    result = await serve(lambda: value, b"")
    assert (result.code, result.executed) == (1403, True)
    assert said in result.detail


@pytest.mark.trio
async def test_a_result_that_contains_itself_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    result = await serve(lambda: loop, b"")
    assert result.code == 1403
    assert "nested deeper" in result.detail


async def gives_text_for_a_number() -> int:
    return "seven"  # type: ignore[return-value]


async def forgets_a_field() -> list[Leaf]:
    return [Leaf("a"), {"next": None}]  # type: ignore[list-item]


async def gives_a_wrong_place() -> Point:
    return {"x": 1, "y": "two"}  # type: ignore[return-value]


async def gives_bytes_for_text() -> str:
    return b"bytes"  # type: ignore[return-value]


async def gives_something_for_nothing() -> None:
    return 5  # type: ignore[return-value]


@pytest.mark.trio
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (gives_text_for_a_number, '$: expected integer, got "seven"'),
        (forgets_a_field, "$[1].name: expected a value, but it is missing"),
        (gives_a_wrong_place, '$.y: expected number, got "two"'),
        (gives_bytes_for_text, "$: a value of type bytes, which does not fit"),
        (gives_something_for_nothing, "$: expected null, got 5"),
    ],
)
async def test_a_result_that_is_not_what_was_declared_is_1403_with_its_path(function: Any, said: str) -> None:
    result = await serve(function, b"")
    assert (result.code, result.executed, result.payload) == (1403, True, b"")
    assert result.detail.startswith(f"the handler returned, at {said}")


@pytest.mark.trio
async def test_results_without_a_telling_type_are_not_looked_at() -> None:
    async def anything() -> Any:
        return [1, "two"]

    async def untold():  # type: ignore[no-untyped-def]
        return {"a": [1]}

    async def an_object() -> dict:  # type: ignore[type-arg]
        return {"a": [1]}

    async def nearly() -> float:
        return 3

    assert await call(anything) == [1, "two"]
    assert await call(untold) == await call(an_object) == {"a": [1]}
    assert await call(nearly) == 3


@pytest.mark.trio
async def test_dataclasses_structs_enums_and_tuples_are_converted() -> None:
    value = {"point": Point(1), "leaf": Leaf("a", Leaf("b")), "tone": Tone.COLD, "pair": (1, None)}
    assert await call(lambda: value) == {
        "point": {"x": 1, "y": 0.0},
        "leaf": {"name": "a", "next": {"name": "b", "next": None}},
        "tone": "cold",
        "pair": [1, None],
    }


@pytest.mark.trio
async def test_a_plain_function_runs_in_a_thread_and_an_async_one_does_not() -> None:
    def plain() -> int:
        return threading.get_ident()

    async def native() -> int:
        return threading.get_ident()

    here = threading.get_ident()
    assert await call(plain) != here
    assert await call(native) == here


@pytest.mark.trio
async def test_wrapped_and_partial_functions_keep_their_parameters() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    @wraps(add)
    async def wrapper(*args: Any, **kwargs: Any) -> int:
        return await add(*args, **kwargs)

    assert await call(wrapper, {"a": 1, "b": 2}) == 3
    assert await call(partial(add, b=5), {"a": 1}) == 6

    class Adder:
        def add(self, a: int) -> int:
            return a + 1

    assert await call(Adder().add, {"a": 1}) == 2


@pytest.mark.trio
async def test_what_a_handler_raises_is_left_to_the_runtime() -> None:
    def broken() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await serve(broken, b"")


@pytest.mark.trio
async def test_the_context_tells_about_the_call_and_is_not_a_parameter(autojump_clock: Any) -> None:
    async def handler(text: str, about: Context) -> dict[str, Any]:
        await trio.sleep(4)
        nested = await about.call("x.y", {"q": text}, timeout=100)
        return {
            "attempt": about.attempt,
            "remaining": about.remaining,
            "agent": about.agent,
            "nested": nested,
        }

    assert list(schema_of(handler)["properties"]) == ["text"]
    said = await call(handler, {"text": "hi"}, attempt=2)
    assert (said["attempt"], said["agent"]) == (2, "test/agent")
    assert said["remaining"] == pytest.approx(6)
    assert said["nested"]["capability"] == "x.y"
    assert said["nested"]["params"] == {"q": "hi"}
    assert said["nested"]["within"] == pytest.approx(6), "a nested call ends with the call that needs it"


@pytest.mark.trio
async def test_a_plain_function_may_call_too() -> None:
    def handler(context: Context) -> dict[str, Any]:
        assert 0 < context.remaining <= 10
        answer: dict[str, Any] = context.call_blocking("x.y", {"q": 1}, key="k")
        return {"capability": answer["capability"], "key": answer["key"]}

    assert await call(handler) == {"capability": "x.y", "key": "k"}


@pytest.mark.trio
async def test_cancelling_does_not_wait_for_a_thread() -> None:
    release = threading.Event()

    def stuck() -> None:
        release.wait(10)

    with trio.move_on_after(0.05) as scope:
        await serve(stuck, b"")
    release.set()
    assert scope.cancelled_caught


@pytest.mark.trio
async def test_a_plain_handler_without_a_free_thread_is_refused_and_has_not_run() -> None:
    release, threads = threading.Event(), Threads(Counters(), count=1)
    agent = Agent("test/agent")

    @agent.capability("a.b")
    def stuck() -> None:
        release.wait(10)

    serve_stuck = agent.bind(FakeNode(threads))["a.b"]
    with trio.move_on_after(0.05):
        await serve_stuck(invocation(), b"", "application/cbor")
    refused = await serve_stuck(invocation(), b"", "application/cbor")
    release.set()
    assert (refused.code, refused.executed) == (1406, False)
    assert "all 1 threads" in refused.detail


def test_an_agent_says_who_may_call_it() -> None:
    spec = Agent("nlp/x", access="restricted", callers=["shop", "shop/cart"]).spec
    assert (spec.access, spec.callers) == ("restricted", ("shop", "shop/cart"))
    assert (Agent("nlp/x").spec.access, Agent("nlp/x").spec.callers) == ("public", ())
    with pytest.raises(InvalidIdentifier, match="restricted access without callers"):
        Agent("nlp/x", access="restricted")
    with pytest.raises(LocalProtocolError, match="callers"):
        Agent("nlp/x", access="restricted", callers="shop")


@pytest.mark.parametrize("percent", [-1, 101, 2.5, True, "10"])
def test_the_share_of_a_candidate_is_a_whole_percentage(percent: object) -> None:
    with pytest.raises(InvalidIdentifier, match="candidate_percent"):
        Agent("nlp/x", tags={"release": "candidate"}, candidate_percent=percent)  # type: ignore[arg-type]


def test_only_a_candidate_has_a_share() -> None:
    agent = Agent("nlp/x", tags={"release": "candidate"}, candidate_percent=10)
    assert agent.spec.candidate_percent == 10
    with pytest.raises(InvalidIdentifier, match='release="candidate"'):
        Agent("nlp/x", candidate_percent=10)
