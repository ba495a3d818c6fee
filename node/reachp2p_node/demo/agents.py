"""The demo's agents: an example of the public API, with honest work on text behind it.

Three of them do one thing each and know nothing of the others; the planner knows what it needs, by capability, and not
who does it or where.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import trio

from reachp2p import Agent, Context
from reachp2p_node.demo.language import content_words, rank_sentences, rank_words, split_sentences
from reachp2p_node.demo.passages import Passage, split_passages

TAGS = {"env": "demo", "language": "en"}

summarizer = Agent("demo/summarizer", version="1.0.0", tags=TAGS, description="Shortens English text.")
extractor = Agent(
    "demo/extractor", version="1.0.0", tags=TAGS, description="Finds what English text is about."
)
critic = Agent("demo/critic", version="1.0.0", tags=TAGS, description="Judges summaries.")
planner = Agent("demo/planner", version="1.0.0", tags=TAGS, description="Has a text read by the others.")


@dataclass
class Summary:
    """Sentences taken from a text, in their order."""

    text: str
    sentences: int


@summarizer.capability("text.summarize", repeatable=True, concurrency=8)
def summarize(text: str, sentences: int = 2, background: str = "") -> Summary:
    """Extractive summary: the sentences that share most with the rest.

    Args:
        text: What to shorten.
        sentences: How many to keep.
        background: The work that the text is part of; its sentences have a say in what is central.
    """
    own = split_sentences(text)
    scores = rank_sentences(own + split_sentences(background))[: len(own)]
    best = sorted(range(len(own)), key=lambda place: -scores[place])[: max(1, sentences)]
    return Summary(" ".join(own[place] for place in sorted(best)), len(best))


@extractor.capability("text.keywords", repeatable=True, concurrency=8)
def keywords(text: str, count: int = 5, background: str = "") -> list[str]:
    """The words a text turns on.

    Args:
        text: What to look into.
        count: How many words to return.
        background: The work that the text is part of; what is common there distinguishes nothing.
    """
    own = rank_words(text)
    common = rank_words(background)
    return sorted(own, key=lambda word: (-own[word] / (1 + common.get(word, 0.0)), word))[: max(1, count)]


@critic.capability("text.quality", repeatable=True, concurrency=16)
def quality(text: str, summary: str) -> dict[str, float]:
    """How good a summary is: what it keeps of the text's weight, and how much shorter it is."""
    weights = rank_words(text)
    kept = set(content_words(summary))
    coverage = sum(weight for word, weight in weights.items() if word in kept) / (
        sum(weights.values()) or 1.0
    )
    brevity = 1 - min(1.0, len(summary) / (len(text) or 1))
    return {
        "coverage": coverage,
        "brevity": brevity,
        "score": 2 * coverage * brevity / (coverage + brevity or 1.0),
    }


@planner.capability("text.review", timeout=60)
async def review(text: str, context: Context, lengths: int = 3, at_once: int = 6) -> dict[str, Any]:
    """Have a text read in passages: keywords of each, and the best of several summaries.

    Args:
        text: What to read.
        lengths: Summaries of 1, 2, ... sentences are compared.
        at_once: Passages under way at any time.
    """
    passages = split_passages(text)
    reviews: list[dict[str, Any]] = [{} for _ in passages]
    limit = trio.CapacityLimiter(at_once)

    async def read(place: int) -> None:
        async with limit:
            reviews[place] = await review_passage(passages[place], context, lengths)

    async with trio.open_nursery() as nursery:
        for place in range(len(passages)):
            nursery.start_soon(read, place)
    keywords = await context.call("text.keywords", {"text": text, "count": 8})
    return {"keywords": keywords, "reviews": reviews}


async def review_passage(passage: Passage, context: Context, lengths: int) -> dict[str, Any]:
    """One passage, one call after the other."""
    about = {"text": passage.text, "background": passage.background}
    words = await context.call("text.keywords", about)
    score, best = -1.0, ""
    for sentences in range(1, lengths + 1):
        summary = await context.call("text.summarize", {**about, "sentences": sentences})
        verdict = await context.call("text.quality", {"text": passage.text, "summary": summary["text"]})
        if verdict["score"] > score:
            score, best = verdict["score"], summary["text"]
    return {"keywords": words, "summary": best, "score": score}
