"""What a handler's signature says: its parameters, whether it wants the call's context or the raw payload.

Read once, when the function is decorated, so that a signature that cannot be served is an error in the reader's
own file and not in a stranger's call.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Generator, Iterator
from typing import Any, get_args, get_origin

import msgspec

from reachp2p._docstring import read_docstring
from reachp2p._schema import Parameter
from reachp2p.errors import LocalProtocolError

UNTOLD: Any = inspect.Signature.empty
"""The handler's result has no annotation."""
_STREAMS: dict[Any, bool] = {AsyncIterator: True, AsyncIterable: True, Iterator: False}
"""What a parameter that is a stream is annotated with, and whether its function must be async. `Iterable` is a list."""
_ITERATORS: dict[Any, bool] = {**_STREAMS, AsyncGenerator: True, Generator: False}
"""What a function that returns a stream is annotated with."""


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """How to call one handler. `context` and `payload` are names of parameters, or None."""

    summary: str
    parameters: tuple[Parameter, ...]
    context: str | None
    payload: str | None
    """The sole parameter, annotated `bytes`: it receives the payload as it came, without a schema."""
    returns: Any
    """The declared result; of a stream of results, that of one item."""
    is_async: bool
    streams_results: bool = False
    stream: str | None = None
    """The parameter that receives a stream of items."""
    stream_item: Any = None
    """The type of those."""


def read_signature(function: Callable[..., Any], context_type: type) -> Signature:
    """Read a handler. Raises `LocalProtocolError` saying which parameter cannot be served and what to write."""
    inner = inspect.unwrap(function)
    if not callable(function) or isinstance(function, type):
        raise LocalProtocolError("a handler is a function (def or async def)")
    hints = _hints(function)
    summary, described = read_docstring(inner.__doc__)
    context: str | None = None
    stream: str | None = None
    stream_item: Any = None
    is_async = _is_async(function) or _is_async(inner)
    parameters: list[Parameter] = []
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:  # some that are written in C
        raise LocalProtocolError(f"it does not tell its parameters ({error}); wrap it into a def") from error
    for parameter in signature.parameters.values():
        hint = hints.get(parameter.name, UNTOLD)
        _check_kind(parameter, inner)
        if hint is context_type:
            if context is not None:
                raise LocalProtocolError(f"{context!r} and {parameter.name!r} both ask for the Context")
            context = parameter.name
            continue
        if (kind := get_origin(hint) or hint) in _STREAMS:
            if stream is not None:
                raise LocalProtocolError(
                    f"{stream!r} and {parameter.name!r} are both streams; one is possible"
                )
            _check_iterator(f"parameter {parameter.name!r}", _STREAMS[kind], is_async)
            stream, stream_item = parameter.name, _item_of(hint)
            continue
        required = parameter.default is UNTOLD
        parameters.append(
            Parameter(
                name=parameter.name,
                type=Any if hint is UNTOLD else hint,
                required=required,
                default=None if required else parameter.default,
                description=described.get(parameter.name, ""),
            )
        )
    payload = parameters[0].name if len(parameters) == 1 and parameters[0].type is bytes else None
    returns = hints.get("return", UNTOLD)
    streams_results = _streams_results(inner, returns, is_async)
    return Signature(
        summary=summary,
        parameters=() if payload else tuple(parameters),
        context=context,
        payload=payload,
        returns=_item_of(returns) if streams_results else returns,
        is_async=is_async,
        streams_results=streams_results,
        stream=stream,
        stream_item=stream_item,
    )


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _streams_results(function: Callable[..., Any], returns: Any, is_async: bool) -> bool:
    """Whether the results are a stream: it is a generator, or declares an iterator."""
    kind = get_origin(returns) or returns
    if kind in _ITERATORS:
        _check_iterator("the result", _ITERATORS[kind], is_async)
        return True
    is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if is_generator and returns is not UNTOLD:
        right = "AsyncIterator" if is_async else "Iterator"
        raise LocalProtocolError(
            f"it yields a stream of results: annotate it with {right}[...] of one of them"
        )
    return is_generator


def _check_iterator(what: str, is_for_async: bool, is_async: bool) -> None:
    if is_for_async is not is_async:
        kind, right = ("an async", "AsyncIterator") if is_async else ("a plain", "Iterator")
        raise LocalProtocolError(f"{what}: in {kind} function a stream is written {right}[...]")


def _item_of(hint: Any) -> Any:
    """The item type of an annotated iterator."""
    arguments = get_args(hint)
    return arguments[0] if arguments else UNTOLD


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function
    while hasattr(target, "func"):  # functools.partial
        target = target.func
    if not hasattr(target, "__annotations__") and callable(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception as error:  # a hint that is text is evaluated, and may raise anything
        raise LocalProtocolError(
            f"its type hints cannot be read: {type(error).__name__}: {error}; name only types that exist at module "
            "level when it is decorated"
        ) from error


def _check_kind(parameter: inspect.Parameter, function: Callable[..., Any]) -> None:
    name = parameter.name
    match parameter.kind:
        case inspect.Parameter.POSITIONAL_ONLY:
            raise LocalProtocolError(
                f"parameter {name!r} is positional-only; callers name parameters, so drop the '/'"
            )
        case inspect.Parameter.VAR_POSITIONAL:
            raise LocalProtocolError(f"parameter '*{name}' takes any number of values; write '{name}: list'")
        case inspect.Parameter.VAR_KEYWORD:
            raise LocalProtocolError(
                f"parameter '**{name}' takes any name; write each parameter out, or '{name}: dict'"
            )
    if name == "self" and not inspect.ismethod(function):
        raise LocalProtocolError(
            "it is a method that is not bound to an object yet; decorate the bound one: "
            'agent.capability("name")(thing.method)'
        )
