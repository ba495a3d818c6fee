"""What a handler's signature says: its parameters, whether it wants the call's context or the raw payload.

Read once, when the function is decorated, so that a signature that cannot be served is an error in the reader's
own file and not in a stranger's call.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from reachp2p._docstring import read_docstring
from reachp2p._schema import Parameter
from reachp2p.errors import LocalProtocolError

UNTOLD: Any = inspect.Signature.empty
"""The handler's result has no annotation."""


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """How to call one handler. `context` and `payload` are names of parameters, or None."""

    summary: str
    parameters: tuple[Parameter, ...]
    context: str | None
    payload: str | None
    """The sole parameter, annotated `bytes`: it receives the payload as it came, without a schema."""
    returns: Any
    is_async: bool


def read_signature(function: Callable[..., Any], context_type: type) -> Signature:
    """Read a handler. Raises `LocalProtocolError` saying which parameter cannot be served and what to write."""
    inner = inspect.unwrap(function)
    if not callable(function) or isinstance(function, type):
        raise LocalProtocolError("a handler is a function (def or async def)")
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise LocalProtocolError("it is a generator; a handler returns one result")
    hints = _hints(function)
    summary, described = read_docstring(inner.__doc__)
    context: str | None = None
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
    return Signature(
        summary=summary,
        parameters=() if payload else tuple(parameters),
        context=context,
        payload=payload,
        returns=hints.get("return", UNTOLD),
        is_async=inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inner),
    )


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
