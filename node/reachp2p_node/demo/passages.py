"""A text cut into passages that are worth a call each, and what stands around them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reachp2p.errors import ConfigurationInvalid
from reachp2p_node.demo.language import split_sentences

SENTENCES_PER_PASSAGE = 4
PASSAGES_MAX = 48
"""Beyond it passages grow instead, so that a longer text takes a little longer and not forever."""
BACKGROUND_SENTENCES = 50
"""On either side of a passage."""
PASSAGES_MIN = 30
SENTENCES_MIN = PASSAGES_MIN + SENTENCES_PER_PASSAGE - 1
"""Passages overlap in a short text; below this there is not enough of it for 200 calls."""
SENTENCES_MAX = 480
"""What the demo reads of a long text: some twenty pages, half a minute's work for two busy cores."""
SENTENCE_CHARACTERS_MAX = 1_000
"""Of a text without full stops."""
TEXT_BYTES_MAX = 16_777_216


@dataclass(frozen=True)
class Passage:
    """Some sentences that follow each other. `background` is the passage's neighbourhood, without itself."""

    text: str
    background: str


def split_passages(text: str) -> list[Passage]:
    """Passages at even distances that cover the text: from `PASSAGES_MIN`, overlapping, to `PASSAGES_MAX`.

    Fewer only if there are not even so many places for one to begin.
    """
    sentences = split_sentences(text)
    size = min(len(sentences), max(SENTENCES_PER_PASSAGE, -(-len(sentences) // PASSAGES_MAX)))
    count = max(PASSAGES_MIN, -(-len(sentences) // max(1, size)))
    starts = dict.fromkeys(number * (len(sentences) - size) // (count - 1) for number in range(count))
    passages = []
    for start in starts:
        end = start + size
        around = (
            sentences[max(0, start - BACKGROUND_SENTENCES) : start]
            + sentences[end : end + BACKGROUND_SENTENCES]
        )
        passages.append(Passage(" ".join(sentences[start:end]), " ".join(around)))
    return passages


def read_text(path: Path) -> tuple[str, int]:
    """The part of a file that the demo works with, and how many sentences were left out.

    Raises `ConfigurationInvalid` saying why a file is of no use.
    """
    try:
        if path.stat().st_size > TEXT_BYTES_MAX:
            raise ConfigurationInvalid(
                f"{path}: larger than {TEXT_BYTES_MAX // 2**20} MiB; give the demo a part of it"
            )
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationInvalid(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationInvalid(f"{path}: not UTF-8 text") from error
    sentences = split_sentences(text)
    if len(sentences) < SENTENCES_MIN:
        raise ConfigurationInvalid(
            f"{path}: {len(sentences)} sentences; the demo needs {SENTENCES_MIN} for its 200 calls"
        )
    kept = [sentence[:SENTENCE_CHARACTERS_MAX] for sentence in sentences[:SENTENCES_MAX]]
    return " ".join(kept), len(sentences) - len(kept)
