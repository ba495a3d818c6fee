"""The form of what a run leaves behind, as far as commands that read it again rely on it."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class Config(msgspec.Struct):
    """What the run was made with."""

    scenario: str
    seed: int
    nodes: int | None
    mutant: str | None
    set: dict[str, str]


class Environment(msgspec.Struct):
    """Where it was made."""

    code: str
    python: str


class Budget(msgspec.Struct):
    """Messages of one kind."""

    count: int
    bytes: int


class Recording(msgspec.Struct):
    """The numbers of the recording."""

    by_kind: dict[str, Budget]
    by_node: dict[str, dict[str, Any]]
    first_suspicion_median: float | None
    verdict_median: float | None
    verdict_last: float | None
    false_suspicions: int
    false_verdicts: int
    datagrams_per_node_second: float
    bytes_per_node_second: float
    signature_checks: int


class Broken(msgspec.Struct):
    """A promise that was not kept."""

    checker: str
    message: str
    at: float


class Summary(msgspec.Struct):
    """`summary.json`."""

    scenario: str
    seed: int
    nodes: int
    verdict: str
    trace_digest: str
    replay: str
    checkers: dict[str, str]
    timings: dict[str, float]
    violation: Broken | None
    options: dict[str, Any]
    simulated_seconds: float
    events: int
    environment: Environment
    recording: Recording
    config: Config


class Step(msgspec.Struct, tag_field="what", tag="step"):
    """Something that was done to the world."""

    at: float
    text: str


class Process(msgspec.Struct, tag_field="what", tag="process"):
    """A process started or ended."""

    at: float
    node: str
    change: str


class View(msgspec.Struct, tag_field="what", tag="view"):
    """Somebody changed its mind about somebody."""

    at: float
    observer: str
    subject: str
    incarnation: int
    old: str | None
    new: str | None


class Said(msgspec.Struct, tag_field="what", tag="said"):
    """A node told its application something."""

    at: float
    node: str
    kind: str


class Message(msgspec.Struct, tag_field="what", tag="message"):
    """A datagram or a frame."""

    at: float
    from_: str = msgspec.field(name="from")
    to: str | None
    received_at: float | None
    fate: str | None
    kinds: list[str]
    about: list[str]


class Settled(msgspec.Struct, tag_field="what", tag="settled"):
    """All views were equal again."""

    at: float


class Sample(msgspec.Struct, tag_field="what", tag="sample"):
    """The curves at one moment."""

    at: float


Entry: TypeAlias = Step | Process | View | Said | Message | Settled | Sample
_ENTRIES = msgspec.json.Decoder(Entry)


def check_summary(summary: Any) -> None:
    """Raises `ValueError` that says what is wrong and where."""
    msgspec.convert(summary, Summary)


def check_entry(line: bytes) -> None:
    """One line of a history. Raises `ValueError`."""
    _ENTRIES.decode(line)
