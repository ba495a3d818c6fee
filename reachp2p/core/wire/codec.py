"""Messages and facts to bytes and back (docs/protocol/wire.md).

A message is the CBOR array [number, {key: value}], a fact the CBOR map {key: value}; keys come from `KEYS` of each
struct. Fields equal to their default are left out. Keys from 128 on are kept as `extensions`, whoever knows them;
an unknown key below 128 rejects its message. Structs without `KEYS` (Life, Address, DigestEntry) travel as arrays.

Facts are signed, so they have one encoding: deterministic CBOR (RFC 8949 §4.2.1). Map keys inside a fact are either
all unsigned integers or all text, where the orders of RFC 8949 and of its predecessor, which cbor2 implements, agree.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import cbor2
import msgspec

from reachp2p.core.ids import MESSAGE_ID_BYTES
from reachp2p.core.wire.cose import head
from reachp2p.core.wire.facts import Accusation, AgentRecord, Capability, Fact, Head, RulesRecord
from reachp2p.core.wire.limits import BYTES_MAX, DEPTH_MAX, INTEGER_MAX, WireError, load
from reachp2p.core.wire.messages import EXTENSION_KEY_MIN, EXTENSIONS_MAX, MESSAGES, Message, Reply, Request
from reachp2p.core.wire.plain import read_plain, write_plain
from reachp2p.core.wire.plain_calls import read_calls, remember_target, write_call
from reachp2p.errors import LocalProtocolError

DATAGRAM_NUMBER_MAX = 31
"""Messages with higher numbers travel only in frames."""
FACT_BYTES_MAX = 65_536

F = TypeVar("F", bound=Fact)
ToWire = Callable[[Any], Any]
FromWire = Callable[[Any], Any]


def encode_message(message: Message) -> bytes:
    """One message. Raises `LocalProtocolError` if its extensions break the rules for extensions."""
    plain = write_call(message) or write_plain(message)
    return plain or cbor2.dumps((message.NUMBER, _LAYOUTS[type(message)].to_map(message)))


def pack_messages(encoded: Sequence[bytes]) -> bytes:
    """The body of a datagram or frame: the CBOR array of messages that are encoded already."""
    return head(0x80, len(encoded)) + b"".join(encoded)


def decode_messages(
    data: bytes,
    *,
    bytes_max: int,
    messages_max: int,
    datagram: bool = False,
    on_rejected: Callable[[str], None] | None = None,
    on_call_rejected: Callable[[RejectedCall], None] | None = None,
) -> tuple[list[Message], int]:
    """The messages of a body, and how many were skipped because their number is unknown.

    A body that is not an array of at most `messages_max` messages raises `WireError`. A single bad message (unknown
    key below 128, a field out of bounds, in a `datagram` one that belongs in a frame) costs only itself when
    `on_rejected` is given, which is called with the reason; without it the first one raises `WireError`. Somebody waits
    for what follows a request or reply: `on_call_rejected` is told of those, too, if their message id can be read.
    """
    plain = read_plain(data) if len(data) <= bytes_max else None
    if plain is not None and len(plain) <= messages_max:
        return plain, 0
    items = None if datagram or len(data) > bytes_max else read_calls(data, messages_max)
    if items is None:
        items = _load_body(data, bytes_max, messages_max)
    messages: list[Message] = []
    skipped = 0
    for item in items:
        kind = type(item)
        if kind is Request or kind is Reply:
            messages.append(item)
            continue
        try:
            message = _read_message(item, datagram)
        except WireError as error:
            if on_rejected is None:
                raise
            on_rejected(error.reason)
            if on_call_rejected is not None and (call := rejected_call(item, error)) is not None:
                on_call_rejected(call)
            continue
        if message is None:
            skipped += 1
        else:
            messages.append(message)
            if type(message) is Request:
                remember_target(message)
    return messages, skipped


def _load_body(data: bytes, bytes_max: int, messages_max: int) -> list[Any]:
    items = load(data, bytes_max=bytes_max)
    if type(items) is not list:
        raise WireError("not_messages", "the body is not an array")
    if len(items) > messages_max:
        raise WireError("messages", f"more than {messages_max}")
    return items


def decode_message(
    data: bytes,
    *,
    bytes_max: int = BYTES_MAX,
    on_call_rejected: Callable[[RejectedCall], None] | None = None,
) -> Message | None:
    """One message, as put together from chunks; None if its number is unknown. Raises `WireError`, before which
    `on_call_rejected` is called as in `decode_messages`."""
    item = load(data, bytes_max=bytes_max)
    try:
        return _read_message(item, datagram=False)
    except WireError as error:
        if on_call_rejected is not None and (call := rejected_call(item, error)) is not None:
            on_call_rejected(call)
        raise


def rejected_call(item: object, error: WireError) -> RejectedCall | None:
    """Which call it was that could not be read, if it was one that can be named."""
    if type(item) is not list or len(item) != 2 or type(item[1]) is not dict:
        return None
    kind = next((kind for kind in (Request, Reply) if item[0] == kind.NUMBER), None)
    if kind is None:
        return None
    message_id = item[1].get(kind.KEYS["message_id"])
    if type(message_id) is not bytes or len(message_id) != MESSAGE_ID_BYTES:
        return None
    return RejectedCall(kind is Request, message_id, str(error))


def encode_fact(fact: Fact) -> bytes:
    """The one encoding of a fact. Raises `LocalProtocolError` for values that have none (sets, mixed keys, …)."""
    return cbor2.dumps(_LAYOUTS[type(fact)].to_map(fact), canonical=True)


def decode_fact(kind: type[F], data: bytes) -> F:
    """A fact of this kind. Raises `WireError`; `not_canonical` if the bytes are not its one encoding."""
    item = load(data, bytes_max=FACT_BYTES_MAX)
    fact: F = _LAYOUTS[kind].from_map(item)
    # The generic value is encoded again, not the struct, so that keys we do not know are compared too.
    if cbor2.dumps(item, canonical=True) != data:
        raise WireError("not_canonical")
    return fact


class RejectedCall(msgspec.Struct, frozen=True):
    """A request or a reply that was not understood. `why`: our word for it, and the key or field."""

    is_request: bool
    message_id: bytes
    why: str


class _Layout:
    """How one struct with `KEYS` travels. Worked out with the first that travels: all at once, when this module is
    loaded, they would take longer than everything else in `core.wire`."""

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        self.is_known = False
        self.write: list[tuple[str, int, object, ToWire | None]] = []
        self.read: dict[int, tuple[str, FromWire | None]] = {}
        self.open: list[str] = []

    def _work_out(self) -> None:
        keys: dict[str, int] = self.kind.KEYS
        fields = {field.name: field for field in msgspec.structs.fields(self.kind)}
        if set(keys) | {"extensions"} != set(fields):
            raise TypeError(f"{self.kind.__name__}.KEYS does not name its fields")
        for name, key in sorted(keys.items(), key=lambda pair: pair[1]):
            to_wire, from_wire = _conversions(fields[name].type)
            self.write.append((name, key, _default(fields[name]), to_wire))
            self.read[key] = (name, from_wire)
        self.open += [name for name in keys if _is_open(fields[name].type)]
        self.is_known = True

    def to_map(self, value: Any) -> dict[int, Any]:
        """The map of a struct's fields that differ from their default, in key order."""
        if not self.is_known:
            self._work_out()
        result: dict[int, Any] = {}
        for name, key, default, to_wire in self.write:
            field = getattr(value, name)
            if field != default:
                result[key] = field if to_wire is None else to_wire(field)
        for name in self.open:
            _check_ours(name, getattr(value, name))
        if value.extensions:
            _add_extensions(result, value.extensions)
        return result

    def from_map(self, item: object) -> Any:
        """The struct, checked against its types and bounds. Raises `WireError`."""
        if type(item) is not dict:
            raise WireError("bad_field", "not a map")
        if not self.is_known:
            self._work_out()
        read = self.read
        fields: dict[str, Any] = {}
        extensions: dict[int, Any] | None = None
        for key, value in item.items():
            if type(key) is not int:  # True and 1.0 would be found under 1
                raise WireError("bad_key")
            known = read.get(key)
            if known is not None:
                name, from_wire = known
                fields[name] = value if from_wire is None else from_wire(value)
            elif key < EXTENSION_KEY_MIN:
                raise WireError("unknown_key", str(key))
            else:
                if extensions is None:
                    extensions = fields["extensions"] = {}
                extensions[key] = value
        if extensions is not None:
            if len(extensions) > EXTENSIONS_MAX:
                raise WireError("extensions", f"more than {EXTENSIONS_MAX}")
            if not all(_is_plain(value) for value in extensions.values()):
                raise WireError("bad_field", "extensions")
        try:
            result = msgspec.convert(fields, self.kind, builtin_types=(bytes,), strict=True)
        except msgspec.ValidationError as error:
            raise WireError("bad_field", str(error)) from error
        for name in self.open:
            if not _is_plain(getattr(result, name)):
                raise WireError("bad_field", name)
        return result


def _read_message(item: object, datagram: bool) -> Message | None:
    if type(item) is not list or len(item) != 2:
        raise WireError("not_a_message")
    number, fields = item
    if type(number) is not int or number < 0:
        raise WireError("not_a_message")
    layout = _BY_NUMBER.get(number)
    if layout is None:
        return None
    if datagram and number > DATAGRAM_NUMBER_MAX:
        raise WireError("frame_only", str(number))
    message: Message = layout.from_map(fields)
    return message


def _add_extensions(result: dict[int, Any], extensions: dict[int, Any]) -> None:
    if len(extensions) > EXTENSIONS_MAX:
        raise LocalProtocolError(f"at most {EXTENSIONS_MAX} extensions, not {len(extensions)}")
    for key in sorted(extensions):
        if not EXTENSION_KEY_MIN <= key <= INTEGER_MAX:
            raise LocalProtocolError(f"extension keys start at {EXTENSION_KEY_MIN}: {key}")
        _check_ours(f"extension {key}", extensions[key])
        result[key] = extensions[key]


def _check_ours(name: str, value: object) -> None:
    if not _is_plain(value):
        raise LocalProtocolError(
            f"{name}: only plain data (None, bool, int, float, str, bytes, list, dict) can be sent"
        )


def _is_plain(value: object, depth: int = DEPTH_MAX - 3) -> bool:
    """Whether an untyped value has one deterministic encoding and fits the depth that is left inside a message."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is bytes:
        return True
    if kind is int:
        return -INTEGER_MAX - 1 <= value <= INTEGER_MAX  # type: ignore[operator]
    if kind is float:
        return value == value  # NaN has many encodings and equals nothing
    if depth == 0:
        return False
    if kind is list:
        return all(_is_plain(item, depth - 1) for item in value)  # type: ignore[attr-defined]
    if kind is dict:
        return _has_plain_keys(value) and all(_is_plain(item, depth - 1) for item in value.values())  # type: ignore[arg-type,attr-defined]
    return False


def _has_plain_keys(value: dict[Any, Any]) -> bool:
    return all(type(key) is str for key in value) or all(type(key) is int and key >= 0 for key in value)


def _default(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _is_open(annotation: Any) -> bool:
    """Whether values of this type are not typed to the bottom."""
    if annotation is Any:
        return True
    return any(_is_open(argument) for argument in get_args(annotation))


def _conversions(annotation: Any) -> tuple[ToWire | None, FromWire | None]:
    """How a field of this type becomes plain values, and how they become what `msgspec.convert` expects.

    None where nothing has to be done.
    """
    origin = get_origin(annotation)
    if origin is Annotated:
        return _conversions(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        inner = [argument for argument in get_args(annotation) if argument is not types.NoneType]
        to_wire, from_wire = _conversions(inner[0])
        return to_wire and _unless_none(to_wire), from_wire and _unless_none(from_wire)
    if origin is list:
        to_wire, from_wire = _conversions(get_args(annotation)[0])
        return to_wire and _each(to_wire), from_wire and _each(from_wire)
    if not (isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)):
        return None, None
    if hasattr(annotation, "KEYS"):
        layout = _LAYOUTS[annotation]
        return layout.to_map, layout.from_map
    return _array_of(annotation), None


def _array_of(kind: type[msgspec.Struct]) -> ToWire:
    fields = msgspec.structs.fields(kind)
    values = attrgetter(*(field.name for field in fields))
    inner = [
        (index, to_wire) for index, field in enumerate(fields) if (to_wire := _conversions(field.type)[0])
    ]
    if not inner:
        return values

    def to_array(value: Any) -> list[Any]:
        result = list(values(value))
        for index, to_wire in inner:
            result[index] = to_wire(result[index])
        return result

    return to_array


def _each(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: [convert(value) for value in values] if type(values) is list else values


def _unless_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


_SENT: tuple[type[Any], ...] = (*MESSAGES, Head, Accusation, AgentRecord, Capability, RulesRecord)
_LAYOUTS: dict[type[Any], _Layout] = {kind: _Layout(kind) for kind in _SENT}
_BY_NUMBER: dict[int, _Layout] = {kind.NUMBER: _LAYOUTS[kind] for kind in MESSAGES}
