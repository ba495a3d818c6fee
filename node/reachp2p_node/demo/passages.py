"""A text cut into passages that are worth a call each, and what stands around them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reachp2p.errors import ConfigurationInvalid
from reachp2p_node.demo.language import split_sentences

SENTENCES_PER_PASSAGE = 4
PASSAGES_MAX = 60
"""Beyond it passages grow instead, so that a long text takes no longer than a minute's work."""
BACKGROUND_SENTENCES = 60
"""On either side of a passage."""
PASSAGES_MIN = 30
SENTENCES_MIN = PASSAGES_MIN + SENTENCES_PER_PASSAGE - 1
"""Passages overlap in a short text; below this there is not enough of it for 200 calls."""
TEXT_BYTES_MAX = 131_072
"""A text of this size takes half a minute on two busy cores."""


@dataclass(frozen=True)
class Passage:
    """Some sentences that follow each other. `background` is the passage's neighbourhood, without itself."""

    text: str
    background: str


def split_passages(text: str) -> list[Passage]:
    """At most `PASSAGES_MAX` passages that cover the text; overlapping ones if it is short."""
    sentences = split_sentences(text)
    size = max(SENTENCES_PER_PASSAGE, -(-len(sentences) // PASSAGES_MAX))
    step = size
    if len(sentences) < PASSAGES_MIN * size:
        step = max(1, (len(sentences) - size) // (PASSAGES_MIN - 1))
    passages = []
    for start in range(0, max(1, len(sentences) - (size - step)), step):
        end = start + size
        around = (
            sentences[max(0, start - BACKGROUND_SENTENCES) : start]
            + sentences[end : end + BACKGROUND_SENTENCES]
        )
        passages.append(Passage(" ".join(sentences[start:end]), " ".join(around)))
    return passages


def read_text(path: Path) -> str:
    """The text of a file, if the demo can work with it. Raises `ConfigurationInvalid` saying why not."""
    try:
        if path.stat().st_size > TEXT_BYTES_MAX:
            raise ConfigurationInvalid(
                f"{path}: larger than {TEXT_BYTES_MAX // 1024} KiB; give the demo a part of it"
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationInvalid(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationInvalid(f"{path}: not UTF-8 text") from error
    if (found := len(split_sentences(text))) < SENTENCES_MIN:
        raise ConfigurationInvalid(
            f"{path}: {found} sentences; the demo needs {SENTENCES_MIN} for its 200 calls"
        )
    return text
