"""Plain algorithms on English text: sentences, words, and two rankings after TextRank.

Mihalcea and Tarau, "TextRank: Bringing Order into Texts" (EMNLP 2004): sentences recommend each other by the words they
share, words by standing near each other, and a random walk over these graphs says which matter. No model, no data:
a stop list and arithmetic, slow enough in Python to be real work.
"""

from __future__ import annotations

import math
import re
from collections import Counter

SENTENCES_MAX = 400
"""Bound of one ranking: its cost grows with the square."""
DAMPING = 0.85
"""TextRank §2, as in PageRank."""
ROUNDS = 30
"""At a damping of 0.85 the ranking has settled to two digits after 30 rounds."""
WINDOW = 3
"""Words this near recommend each other; TextRank tried 2 to 10 and found small windows best."""

_SENTENCE = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9])")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
STOP_WORDS = frozenset(
    _WORD.findall("""
    a about above after again against all almost also although always among an and another any are as at away
    be because been before being below between both but by can cannot could did do does done down during each
    either else even ever every everybody few first for from further had has have he hence her here hers him
    his how however i if in indeed into is it its itself just last later least less like made make many may me
    might more most much must my neither never next no nobody none nor not nothing now of off often on once
    one only or other our out over own people perhaps rather said same say says second see seen several shall
    she should since so some soon still such than that the their them then there therefore these they thing
    things third this those though three through thus time times to together too two under until up upon us
    very was way we well were what when where whether which while who whole whom whose why will with within
    without would year years yet you your
    """)
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text without headings, in order."""
    paragraphs = [part for part in split_paragraphs(text) if not part.startswith("#")]
    return [one for part in paragraphs for one in _SENTENCE.split(part) if one]


def split_paragraphs(text: str) -> list[str]:
    """Paragraphs and headings, each as one line."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def content_words(text: str) -> list[str]:
    """The words that carry meaning, in lower case and roughly stemmed, in order."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in STOP_WORDS and len(word) > 2]


def _stem(word: str) -> str:
    """Fold plurals and possessives; anything cleverer needs a dictionary."""
    word = word.removesuffix("'s").removesuffix("’s")
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "ches", "shes", "xes")):
        return word[:-2]
    return (
        word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word
    )


def rank_sentences(sentences: list[str]) -> list[float]:
    """How central each sentence is, by the words it shares with the others (TextRank §4)."""
    bags = [Counter(content_words(sentence)) for sentence in sentences[:SENTENCES_MAX]]
    graph: list[dict[int, float]] = [{} for _ in bags]
    for left, bag in enumerate(bags):
        for right in range(left):
            shared = sum(min(count, bags[right][word]) for word, count in bag.items() if word in bags[right])
            length = math.log(1 + bag.total()) + math.log(1 + bags[right].total())
            if shared and length:
                graph[left][right] = graph[right][left] = shared / length
    return [*_walk(graph), *[0.0] * (len(sentences) - len(bags))]


def rank_words(text: str) -> dict[str, float]:
    """How central each content word is, by the words it stands near (TextRank §3)."""
    words = content_words(text)
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    graph: list[dict[int, float]] = [{} for _ in numbers]
    for place, word in enumerate(words):
        for other in words[place + 1 : place + 1 + WINDOW]:
            left, right = numbers[word], numbers[other]
            if left != right:
                graph[left][right] = graph[left].get(right, 0.0) + 1.0
                graph[right][left] = graph[right].get(left, 0.0) + 1.0
    return dict(zip(numbers, _walk(graph), strict=True))


def _walk(graph: list[dict[int, float]]) -> list[float]:
    """Where a random walker along the weighted edges spends its time."""
    totals = [sum(edges.values()) for edges in graph]
    scores = [1.0] * len(graph)
    for _ in range(ROUNDS):
        scores = [
            1
            - DAMPING
            + DAMPING * sum(weight * scores[other] / totals[other] for other, weight in edges.items())
            for edges in graph
        ]
    return scores
