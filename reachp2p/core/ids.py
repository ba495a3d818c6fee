"""Names of things, and the two kinds of chance.

Everything in the network is named here once: nodes by their public key, runs of a node by a life, links by a
number that is local to one engine, agents, capabilities, tags and versions by checked text. Nothing in this
module does any work beyond checking; every other core module may import it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, NewType, Protocol, TypeVar

import msgspec
from msgspec import Meta

from reachp2p.errors import InvalidIdentifier

NodeId = NewType("NodeId", bytes)
"""A node's Ed25519 public key, 32 bytes. Names and addresses are attributes, never identities."""

LinkId = NewType("LinkId", int)
"""One link of this engine. Positive: dialled by the engine. Negative: accepted by the driver."""

Ticket = NewType("Ticket", int)
"""Names one `Persist` or `Delete` until the driver answers it."""

NODE_ID_BYTES = 32
LIFE_ID_BYTES = 16
MESSAGE_ID_BYTES = 16
NONCE_BYTES = 8
EPOCH_MAX = 2**48 - 1
"""At one start a second it lasts nine million years; a larger number can only be an attack or a defect."""
COUNTER_MAX = 2**63 - 1
"""Bound of incarnations and versions. A life that reaches it opens a new life."""

CLAIM_EPOCH_MAX = 2**31 - 1
"""Bound of claim epochs: with 32 bits of a NodeId behind it, a fencing token fits a signed 64-bit column."""
SUBSCRIPTIONS = "_/subscriptions"
"""Reserved in place of an agent id, which it cannot be: the record of what a node itself subscribes to."""
PATTERNS_MAX = 256
"""Patterns of topics in one record."""

T = TypeVar("T")


class Life(msgspec.Struct, frozen=True, order=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """One run of a node: `epoch` grows with every start, `life_id` (16 bytes) is random.

    Lives of one node are ordered by (epoch, life_id), so two clones started at one epoch have a fixed winner.
    """

    epoch: Annotated[int, Meta(ge=0, le=EPOCH_MAX)]
    life_id: Annotated[bytes, Meta(min_length=LIFE_ID_BYTES, max_length=LIFE_ID_BYTES)]

    def __str__(self) -> str:
        return f"{self.epoch}.{self.life_id[:4].hex()}"


class Address(msgspec.Struct, frozen=True, order=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Where a node can be reached: a literal IP address and one port number for both UDP and TCP."""

    host: Annotated[str, Meta(min_length=2, max_length=64, pattern=r"\A[0-9A-Za-z.:%_-]+\Z")]
    """Its characters, and an IPv6 zone's; whether it is an address is for the resolver to say."""
    port: Annotated[int, Meta(ge=1, le=65_535)]

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def split_host_port(text: str, default_port: int | None = None) -> tuple[str, int]:
    """Split `host:port`, `[v6]:port`, or, with `default_port`, a bare host or bare IPv6 literal.

    Raises `InvalidIdentifier` (1707) with the reason when the text is not one of these.
    """
    if not isinstance(text, str):
        raise InvalidIdentifier(f"address {text!r}: write text, as in '127.0.0.1:7946'")
    host, port_text = text, ""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise InvalidIdentifier(f"address {text!r}: write an IPv6 address as [::1]:7946")
        port_text = rest[1:]
    elif text.count(":") == 1:
        host, _, port_text = text.partition(":")
    if not host:
        raise InvalidIdentifier(f"address {text!r}: the host is missing")
    _check_host(host, text)
    if not port_text:
        if default_port is None:
            raise InvalidIdentifier(f"address {text!r}: the port is missing, as in 127.0.0.1:7946")
        return host, default_port
    if not (port_text.isascii() and port_text.isdigit() and len(port_text) <= 5 and int(port_text) <= 65535):
        raise InvalidIdentifier(f"address {text!r}: the port must be a number from 0 to 65535")
    return host, int(port_text)


def _check_host(host: str, text: str) -> None:
    """Raises `InvalidIdentifier` for what can be neither a name nor an address, so that nobody looks it up for ever."""
    if not _HOST.fullmatch(host):
        raise InvalidIdentifier(f"address {text!r}: write host:port, as in 127.0.0.1:7946, and nothing else")
    if ":" in host or "[" in text:
        from ipaddress import IPv6Address  # takes longer to load than all of this module

        try:
            IPv6Address(host)
        except ValueError:
            raise InvalidIdentifier(
                f"address {text!r}: {host!r} is no IPv6 address; write host:port, or [::1]:7946"
            ) from None


_HOST = re.compile(r"[^\s/\\?#@\[\]\x00-\x1f\x7f]+")
_LABEL = r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?"
_AGENT_ID = re.compile(rf"{_LABEL}/{_LABEL}")
_CAPABILITY = re.compile(rf"{_LABEL}(?:\.{_LABEL}){{0,7}}")
CAPABILITY_CHARACTERS_MAX = 256
"""As many as a message holds (`wire.messages.Text`)."""
_TOPIC_TOKEN = r"[A-Za-z0-9_-]{1,64}"
_TOPIC = re.compile(rf"{_TOPIC_TOKEN}(?:\.{_TOPIC_TOKEN}){{0,15}}")
_PATTERN = re.compile(rf"(?:(?:{_TOPIC_TOKEN}|\*)\.){{0,15}}(?:{_TOPIC_TOKEN}|\*|>)")
TOPIC_CHARACTERS_MAX = 256
"""Of topics and patterns, as many as a message holds."""
_TAG_KEY = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


def check_agent_id(text: str) -> str:
    """Return `text` if it is `namespace/name`, each 1 to 64 of a-z, 0-9, _ and - (not at an end)."""
    if not isinstance(text, str) or not _AGENT_ID.fullmatch(text):
        raise InvalidIdentifier(
            f"agent id {text!r}: write namespace/name in lower case letters, digits, '-' and '_', as in nlp/summarizer"
        )
    return text


def check_capability(text: str) -> str:
    """Return `text` if it is 1 to 8 dotted lower-case labels of at most 256 characters together, as in
    `text.summarize`."""
    if not isinstance(text, str) or len(text) > CAPABILITY_CHARACTERS_MAX or not _CAPABILITY.fullmatch(text):
        raise InvalidIdentifier(
            f"capability {text!r}: write dotted labels of lower case letters, digits, '-' and '_' "
            f"of at most {CAPABILITY_CHARACTERS_MAX} characters, as in text.summarize"
        )
    return text


def is_topic(text: str) -> bool:
    """Whether `text` names one topic: 1 to 16 dotted tokens, each 1 to 64 of A-Z, a-z, 0-9, _ and -, of at most 256
    characters together."""
    return len(text) <= TOPIC_CHARACTERS_MAX and _TOPIC.fullmatch(text) is not None


def is_pattern(text: str) -> bool:
    """Whether `text` is a topic in which `*` may stand for one token, and `>`, at the end, for one or more."""
    return len(text) <= TOPIC_CHARACTERS_MAX and _PATTERN.fullmatch(text) is not None


def check_topic(text: str) -> str:
    """Return `text` if it names one topic (`is_topic`), as in `orders.eu.created`."""
    if not isinstance(text, str) or not is_topic(text):
        hint = (
            "; '*' and '>' are for those who subscribe" if isinstance(text, str) and is_pattern(text) else ""
        )
        raise InvalidIdentifier(
            f"topic {text!r}: write 1 to 16 dotted tokens of letters, digits, '-' and '_' "
            f"of at most {TOPIC_CHARACTERS_MAX} characters, as in orders.eu.created{hint}"
        )
    return text


def check_pattern(text: str) -> str:
    """Return `text` if it is a pattern of topics (`is_pattern`), as in `orders.*.created` or `orders.>`."""
    if not isinstance(text, str) or not is_pattern(text):
        raise InvalidIdentifier(
            f"pattern {text!r}: write 1 to 16 dotted tokens, '*' for any one, '>' at the end for one or more, "
            "as in orders.*.created or orders.>"
        )
    return text


def check_tag_key(text: str) -> str:
    """Return `text` if it is lower snake case of at most 64 characters."""
    if not isinstance(text, str) or len(text) > 64 or not _TAG_KEY.fullmatch(text):
        raise InvalidIdentifier(
            f"tag key {text!r}: write lower snake case of at most 64 characters, as in cost_tier"
        )
    return text


def check_version(text: str) -> str:
    """Return `text` if it is a semantic version (SemVer 2.0.0) of at most 64 characters."""
    if not isinstance(text, str) or len(text) > 64 or not _VERSION.fullmatch(text):
        raise InvalidIdentifier(f"version {text!r}: write a semantic version, as in 1.2.0")
    return text


def short(identity: bytes) -> str:
    """The first eight hex digits, for people; never for look-ups."""
    return identity[:4].hex()


class Rng(Protocol):
    """Choices of the protocol: which member, what jitter. Seeded in the simulator; need not be secret."""

    def random(self) -> float:
        """A float in [0, 1)."""

    def randrange(self, stop: int, /) -> int:
        """An int in [0, stop)."""

    def shuffle(self, items: list[T], /) -> None:
        """Shuffle in place."""

    def sample(self, items: Sequence[T], k: int, /) -> list[T]:
        """`k` distinct items."""


class Entropy(Protocol):
    """Bytes that must not be guessed: nonces, life ids, message ids. `os.urandom` in the runtime."""

    def token(self, size: int, /) -> bytes:
        """`size` fresh random bytes."""
