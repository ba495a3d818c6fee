"""Settings of one node from a TOML file and the environment: flags > environment > file > defaults.

    # reachp2p.toml
    [node]
    name = "summarizer-1"
    seeds = ["10.0.0.5:7946"]
    port = 7946

Every key can be given as `REACHP2P_<KEY>` too; lists are separated by commas. A key that does not exist, in the file or
in the environment, is an error that names the place, the key and what was probably meant (1704): a setting that is
silently ignored is worse than one that is refused.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from reachp2p._arguments import shown
from reachp2p.core.ids import split_host_port
from reachp2p.errors import ConfigurationInvalid, InvalidIdentifier

FILE_NAME = "reachp2p.toml"
"""Read from the working directory when neither a flag nor `REACHP2P_CONFIG` names a file."""
PREFIX = "REACHP2P_"
FILE_BYTES_MAX = 1_048_576
DEFAULT_PORT = 7946
"""Of a seed that is named without one, and of `reachp2p seed`."""
_TABLE = "node"
FLAGS = {"seeds": "--seed"}
"""Options that are not called like their keys, because they are given once for each value."""
_OTHER_VARIABLES = ("CONFIG",)
_KUBERNETES = re.compile(r"(\w+_)?(SERVICE_(HOST|PORT\w*)|PORT_\d+_(TCP|UDP)\w*)")
"""What Kubernetes puts into every container for a service called reachp2p or reachp2p-…; not meant for us."""
_KUBERNETES_PORT = re.compile(r"(tcp|udp)://.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One node's settings. `origins` says of each key that was given where it came from."""

    name: str | None = None
    """Shown to people; by default made from the agent or the host."""
    cluster: str = "default"
    host: str = "127.0.0.1"
    """Where to listen."""
    port: int = 0
    """UDP and TCP; 0 lets the system choose."""
    seeds: tuple[str, ...] = ()
    """`host:port` of nodes to ask first."""
    advertise: tuple[str, ...] = ()
    """`host:port` told to others, when it is not where we listen."""
    state: Path | None = None
    """The folder of key, epoch, address book and control socket."""
    zone: str = ""
    insecure_open: bool = False
    """Listen beyond loopback although nothing is admitted or sealed."""
    rules: Path | None = None
    """A file of routing rules for this node (docs/protocol/rules.md), read again whenever it changes."""
    by_shape: bool = False
    """Calls that name nobody go to the one capability that their parameters fit."""
    take_over: bool = False
    """Start although another life of this key runs or has fenced this folder."""
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)


KEYS = tuple(one.name for one in fields(NodeConfig) if one.name != "origins")


def load_config(
    flags: Mapping[str, Any], *, environment: Mapping[str, str], directory: Path, file: Path | None = None
) -> NodeConfig:
    """Merge all sources. Flags that are None or empty lists were not given. Raises `ConfigurationInvalid` (1704)."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    path = file or (Path(environment[PREFIX + "CONFIG"]) if environment.get(PREFIX + "CONFIG") else None)
    if path is None and (directory / FILE_NAME).is_file():
        path = directory / FILE_NAME
    if path is not None:
        for key, value in _read_file(path).items():
            values[key], origins[key] = _checked(key, value, f"{path}: {_TABLE}.{key}"), str(path)
    for variable, text in environment.items():
        if (named := _variable_key(variable, text)) is not None:
            values[named], origins[named] = _checked(named, _from_text(named, text), variable), variable
    for key, value in flags.items():
        if value is not None and value != [] and value != ():
            flag = FLAGS.get(key) or "--" + key.replace("_", "-")
            values[key], origins[key] = _checked(key, value, flag), flag
    return NodeConfig(**values, origins=origins)


def _read_file(path: Path) -> dict[str, Any]:
    """The `[node]` table of a TOML file. Raises `ConfigurationInvalid` for everything that is not that."""
    content = parse_toml(read_file(path, "settings"), str(path), "settings")
    for key in content:
        if key != _TABLE:
            hint = f"; it belongs into the table [{_TABLE}]" if key in KEYS else _suggestion(key, (_TABLE,))
            raise ConfigurationInvalid(f"{path}: {key}: unknown key{hint}")
    table = content.get(_TABLE, {})
    if not isinstance(table, dict):
        raise ConfigurationInvalid(f"{path}: {_TABLE}: write a table, [{_TABLE}]")
    for key in table:
        if key not in KEYS:
            raise ConfigurationInvalid(f"{path}: {_TABLE}.{key}: unknown key{_suggestion(key, KEYS)}")
    return table


def read_file(path: Path, what: str) -> bytes:
    """The bytes of a file of `what` (settings, rules). Raises `ConfigurationInvalid`."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationInvalid(f"{path}: cannot be read: {reason}") from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigurationInvalid(f"{path}: larger than {FILE_BYTES_MAX:,} bytes; this is not a {what} file")
    return data


def parse_toml(data: bytes, origin: str, what: str) -> dict[str, Any]:
    """What a TOML file of `what` says; `origin` is its name, for messages. Raises `ConfigurationInvalid`."""
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigurationInvalid(f"{origin}: not UTF-8 text") from error
    except ValueError as error:  # TOMLDecodeError, and what tomllib lets through (a number of 5,000 digits)
        raise ConfigurationInvalid(f"{origin}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise ConfigurationInvalid(f"{origin}: nested too deeply; this is not a {what} file") from error


def _variable_key(variable: str, text: str) -> str | None:
    """The key that an environment variable sets, or None if it is not ours."""
    if not variable.startswith(PREFIX):
        return None
    name = variable.removeprefix(PREFIX)
    key = name.lower()
    if name in _OTHER_VARIABLES or _KUBERNETES.fullmatch(name):
        return None
    if (key == "port" or key.endswith("_port")) and _KUBERNETES_PORT.fullmatch(text):
        return None
    if key not in KEYS:
        close = difflib.get_close_matches(key, KEYS, n=1)
        hint = (
            f"did you mean {PREFIX}{close[0].upper()}?" if close else f"known are {_listed(KEYS, upper=True)}"
        )
        raise ConfigurationInvalid(f"environment variable {variable}: unknown key; {hint}")
    return key


def _from_text(key: str, text: str) -> object:
    """The value of an environment variable in the shape that its key has in a file."""
    match _SHAPES[key]:
        case "integer" if re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII):
            return int(text)
        case "boolean" if text.strip().lower() in ("1", "true", "yes", "on"):
            return True
        case "boolean" if text.strip().lower() in ("", "0", "false", "no", "off"):
            return False
        case "list":
            return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _checked(key: str, value: object, place: str) -> Any:
    """The value as `NodeConfig` holds it. Raises `ConfigurationInvalid` that begins with the place."""
    try:
        return _CHECKS[_SHAPES[key]](key, value)
    except (ConfigurationInvalid, InvalidIdentifier) as error:
        raise ConfigurationInvalid(f"{place}: {error.message}") from None


def _text(key: str, value: object) -> str:
    longest = 64 if key in ("name", "zone") else 256
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        raise ConfigurationInvalid(
            f"write printable text of at most {longest} characters, not {shown(value)}"
        )
    if not value and key != "zone":
        raise ConfigurationInvalid("must not be empty")
    return value


def _integer(_: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65_535:
        raise ConfigurationInvalid(f"write a number from 0 to 65535, not {shown(value)}")
    return value


def _boolean(_: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationInvalid(f"write true or false, not {shown(value)}")
    return value


def _addresses(_: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ConfigurationInvalid(
            f'write a list of addresses, ["10.0.0.5:{DEFAULT_PORT}"], not {shown(value)}'
        )
    for item in value:
        _, port = split_host_port(item, DEFAULT_PORT)
        if port == 0:
            raise ConfigurationInvalid(f"address {item!r}: port 0 cannot be reached")
    return tuple(value)


def _path(key: str, value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ConfigurationInvalid(
            f"write the path of a {'file' if key == 'rules' else 'folder'}, not {shown(value)}"
        )
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ConfigurationInvalid(
            f"path {value}: there is no such user, or it has no home folder"
        ) from error


_SHAPES = {
    "name": "text",
    "cluster": "text",
    "host": "text",
    "port": "integer",
    "seeds": "list",
    "advertise": "list",
    "state": "path",
    "zone": "text",
    "insecure_open": "boolean",
    "rules": "path",
    "by_shape": "boolean",
    "take_over": "boolean",
}
_CHECKS: dict[str, Callable[[str, object], Any]] = {
    "text": _text,
    "integer": _integer,
    "boolean": _boolean,
    "list": _addresses,
    "path": _path,
}


def _suggestion(key: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(key.lower().replace("-", "_"), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {_listed(known)}"


def _listed(keys: tuple[str, ...], *, upper: bool = False) -> str:
    return ", ".join(PREFIX + key.upper() if upper else key for key in keys)
