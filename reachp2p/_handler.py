"""One call of one handler: payload in, parameters checked and converted, function run, result out.

The order of refusals is fixed: what cannot be decoded or does not fit the schema is 1405 and the function has not
run; a result that does not fit the JSON data model or the declared type is 1403 and it has. What the function raises is
left to the runtime, which makes one end of every ending.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from reachp2p._payload import CBOR, NotJson, carries_json, decode, encode, encode_plain, to_json_model
from reachp2p._schema import (
    Parameter,
    ParameterCheck,
    ResultCheck,
    parameters_schema,
    quoted,
    result_schema,
    schema_bytes,
)
from reachp2p._signature import UNTOLD, Signature
from reachp2p._streaming import (
    BadItem,
    BlockingItems,
    Read,
    SentItems,
    YieldedNotJson,
    YieldedTooMuch,
    read_plain,
    send_async,
    send_blocking,
)
from reachp2p.context import CallingNode, Context, NoThreadFree
from reachp2p.core.commands import InvokeResult, StreamKind
from reachp2p.errors import ErrorCode

if TYPE_CHECKING:
    from reachp2p.runtime.handlers import InvokeContext

DETAIL_MAX = 2_000
"""Characters of an error that travel back to the caller (`LongText` holds 4,096)."""
UNCONVERTED = (str, bool, list, dict, Any)
"""Types whose checked value is already what the handler expects."""
UNCHECKED_RESULTS = (dict, dict[str, Any])
"""Declared results whose schema says too little to be worth a look at each."""


class Handler:
    """A function as the network sees it. Raises `LocalProtocolError` when its types have no JSON Schema."""

    def __init__(self, name: str, function: Callable[..., Any], signature: Signature) -> None:
        self.name = name
        self.signature = signature
        self.parameters_schema: bytes | None = None
        self.result_schema: bytes | None = None
        self._function = function
        self._check: ParameterCheck | None = None
        if signature.payload is None:
            schema = parameters_schema(signature.parameters)
            self.parameters_schema = schema_bytes(schema)
            self._check = ParameterCheck(schema)
        self.stream = StreamKind(signature.streams_results + 2 * (signature.stream is not None))
        self.item_schema: bytes | None = None
        """Of one item of a stream of parameters."""
        self._item: ItemCheck | None = None
        if signature.stream is not None and signature.stream_item not in (UNTOLD, Any, bytes):
            self._item = ItemCheck(signature.stream_item)
            self.item_schema = self._item.schema
        self._result_check: ResultCheck | None = None
        if signature.returns not in (UNTOLD, Any, bytes):
            schema = result_schema(signature.returns)
            self.result_schema = schema_bytes(schema)
            if signature.returns not in UNCHECKED_RESULTS:
                self._result_check = ResultCheck(schema)

    async def serve(
        self, node: CallingNode, invocation: InvokeContext, payload: bytes, content_type: str
    ) -> InvokeResult:
        """Serve one call on this node. Raises whatever the function raises."""
        try:
            arguments = self._arguments(payload, content_type)
        except NotJson as error:
            return _failed(ErrorCode.SCHEMA_MISMATCH, str(error), executed=False)
        if self.signature.context is not None:
            arguments[self.signature.context] = Context(node, invocation, content_type)
        if self.signature.stream is not None:
            arguments[self.signature.stream] = self._sent_items(invocation)
        if self.signature.streams_results:
            return await self._stream_results(node, invocation, arguments, content_type)
        try:
            return await self._one_result(node, arguments, content_type)
        except BadItem as error:
            return _failed(ErrorCode.SCHEMA_MISMATCH, str(error))

    async def _one_result(
        self, node: CallingNode, arguments: dict[str, Any], content_type: str
    ) -> InvokeResult:
        if self.signature.is_async:
            value = await self._function(**arguments)
        else:
            try:
                value = await node.run_in_thread(self.name, partial(self._function, **arguments))
            except NoThreadFree as error:
                return _failed(ErrorCode.REFUSED_FULL, str(error), executed=False)
        try:
            kind, data = self._result(value, content_type if carries_json(content_type) else CBOR)
        except NotJson as error:
            return _failed(ErrorCode.HANDLER_FAILED, f"the handler returned, at {error}")
        return InvokeResult(content_type=kind, payload=data)

    def _sent_items(self, invocation: InvokeContext) -> SentItems | BlockingItems:
        assert invocation.items is not None, "what is declared as a stream is called as one"
        if self._item is not None:
            read: Read = self._item.read
        else:
            read = read_bytes if self.signature.stream_item is bytes else read_plain
        items = SentItems(invocation.items, read)
        return items if self.signature.is_async else BlockingItems(items)

    async def _stream_results(
        self, node: CallingNode, invocation: InvokeContext, arguments: dict[str, Any], content_type: str
    ) -> InvokeResult:
        """Send what the handler yields; the reply that follows is only the end."""
        port = invocation.items
        assert port is not None, "what is declared as a stream is called as one"
        kind = content_type if carries_json(content_type) else CBOR
        write = partial(self._result, content_type=kind)
        try:
            if self.signature.is_async:
                await send_async(self._function(**arguments), port, write)
            else:
                await send_blocking(node, self.name, partial(self._function, **arguments), port, write)
        except NoThreadFree as error:
            return _failed(ErrorCode.REFUSED_FULL, str(error), executed=port.has_sent)
        except BadItem as error:
            return _failed(ErrorCode.SCHEMA_MISMATCH, str(error))
        except YieldedNotJson as error:
            return _failed(ErrorCode.HANDLER_FAILED, str(error))
        except YieldedTooMuch as error:
            return _failed(ErrorCode.PAYLOAD_TOO_LARGE, str(error))
        return InvokeResult()

    def _result(self, value: object, content_type: str) -> tuple[str, bytes]:
        """A result as (content type, bytes). Raises `NotJson` if it cannot be sent, or is not what was declared."""
        if self._result_check is None:
            return encode(value, content_type)
        plain = to_json_model(value)
        if (mismatch := self._result_check.mismatch(plain)) is not None:
            raise Mismatch(mismatch)
        return encode_plain(plain, content_type)

    def _arguments(self, payload: bytes, content_type: str) -> dict[str, Any]:
        """The handler's keyword arguments. Raises `NotJson` with the path of what does not fit."""
        if self.signature.payload is not None:
            if carries_json(content_type):
                raise NotJson(f"expected plain bytes of any other content type, got {content_type}")
            return {self.signature.payload: payload}
        if not carries_json(content_type):
            raise NotJson(f"expected an object as application/cbor or application/json, got {content_type}")
        value = decode(payload, content_type) if payload else None
        if value is None:
            value = {}
        assert self._check is not None
        if (mismatch := self._check.mismatch(value)) is not None:
            raise Mismatch(mismatch)
        return {
            parameter.name: _converted(value[parameter.name], parameter)
            for parameter in self.signature.parameters
            if parameter.name in value
        }


class ItemCheck:
    """Reads the items of a stream of parameters. Raises `LocalProtocolError` when its type has no JSON Schema."""

    def __init__(self, type_hint: Any) -> None:
        schema = result_schema(type_hint)
        self.schema = schema_bytes(schema)
        self._check = ResultCheck(schema)
        self._parameter = Parameter(name="", type=type_hint, required=True)

    def read(self, payload: bytes, content_type: str) -> Any:
        """One item as its declared type. Raises `NotJson`."""
        if not carries_json(content_type):
            raise Mismatch(f"expected application/cbor or application/json, got {content_type}")
        value = decode(payload, content_type)
        if (mismatch := self._check.mismatch(value)) is not None:
            raise Mismatch(mismatch)
        return _converted(value, self._parameter)


def read_bytes(payload: bytes, content_type: str) -> bytes:
    """An item that is declared as bytes."""
    if carries_json(content_type):
        raise Mismatch(f"expected plain bytes of any other content type, got {content_type}")
    return payload


class Mismatch(NotJson):
    """A value that the schema refuses; its text starts with the path already."""

    def __str__(self) -> str:
        return self.reason


def _converted(value: Any, parameter: Parameter) -> Any:
    """The checked value as the type the handler asked for (a dataclass, an enum, a float from 3)."""
    if parameter.type in UNCONVERTED:
        return value
    try:
        return msgspec.convert(value, parameter.type, str_keys=True)
    except msgspec.ValidationError:
        pass
    try:  # JSON Schema counts 3.0 as an integer, msgspec does not
        return msgspec.convert(_integral(value), parameter.type, str_keys=True)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$")
        path = f"$.{parameter.name}{where.removesuffix('`')}"
        raise Mismatch(f"{path}: {reason[:1].lower()}{reason[1:]}, got {quoted(value)}") from error


def _integral(value: Any) -> Any:
    """The value with every float that is a whole number as an int; a field of type float takes those too."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [_integral(item) for item in value]
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in value.items()}
    return value


def _failed(code: ErrorCode, detail: str, *, executed: bool = True) -> InvokeResult:
    return InvokeResult(code=int(code), detail=detail[:DETAIL_MAX], executed=executed)
