"""A team of agents that write a report together; start one role a process, or all of them in one.

    python examples/team/agents.py planner
    python examples/team/agents.py retriever
    python examples/team/agents.py summariser
    python examples/team/agents.py checker

The planner asks the retriever for passages, which come as a stream while they are found, has each one summarised, has
the whole checked against the passages, and tells whoever wants to know that a report was written (an event). None of
them knows where the others are.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator

import trio
from library import PASSAGES

from reachp2p import Agent, BadRequest, CallFailed, Context, TopicEvent, run

SEEDS = os.environ.get("TEAM_SEEDS", "127.0.0.1:7946").split(",")
SENTENCE = re.compile(r"(?<=[.!?])\s+")
COMMON = frozenset(
    "a an and are as at be by can for from has have if in is it its not of on one or so that the to".split()  # noqa: SIM905 (it is read as a line)
)

planner = Agent(
    "team/planner", version="1.0.0", description="Writes a report about a topic with the others' help"
)
retriever = Agent("team/retriever", version="1.0.0", description="Finds passages about a topic")
summariser = Agent(
    "team/summariser", version="1.0.0", description="Says in a sentence or two what a text says"
)
checker = Agent(
    "team/checker", version="1.0.0", description="Checks that a text says nothing that its sources do not say"
)


@planner.capability("report.write")
async def write(topic: str, context: Context) -> dict:
    """A report about a topic: one sentence for each passage, checked."""
    passages: list[str] = []
    sentences: list[str] = []
    try:
        async with context.stream("passages.find", {"topic": topic}) as found:
            async for passage in found:
                passages.append(passage["text"])
                summary = await context.call("text.summarise", {"text": passage["text"], "sentences": 1})
                sentences.append(summary["text"])
    except CallFailed as failure:
        if failure.caller_fault:  # the topic was our caller's, so it is to blame and not we
            raise BadRequest(failure.detail or failure.message) from failure
        raise
    verdict = await context.call("text.check", {"text": " ".join(sentences), "sources": passages})
    report = {"topic": topic, "text": " ".join(sentences), "sources": len(passages), "checked": verdict["ok"]}
    await context.publish(f"reports.written.{topic.replace(' ', '_')}", report)
    return report


@retriever.capability("passages.find", repeatable=True)
async def find(topic: str) -> AsyncIterator[dict]:
    """Passages about a topic, one after the other."""
    if topic not in PASSAGES:
        raise BadRequest(f"nothing is known about {topic!r}; there is {', '.join(PASSAGES)}")
    for number, text in enumerate(PASSAGES[topic]):
        await trio.sleep(0.05)  # a real one would search
        yield {"number": number, "text": text}


@summariser.capability("text.summarise", repeatable=True)
def summarise(text: str, sentences: int = 1) -> dict:
    """The sentences with the most frequent words of a text, in their order. A plain function: it runs in a thread."""
    parts = SENTENCE.split(text)
    weights = Counter(word for word in _words(text) if word not in COMMON)
    worth = [sum(weights[word] for word in _words(part)) / (1 + len(_words(part))) for part in parts]
    best = sorted(sorted(range(len(parts)), key=lambda n: -worth[n])[:sentences])
    return {"text": " ".join(parts[n] for n in best)}


@checker.capability("text.check", repeatable=True)
async def check(text: str, sources: list[str]) -> dict:
    """Whether each sentence of a text is in its sources, and which are not."""
    missing = [part for part in SENTENCE.split(text) if not any(part in source for source in sources)]
    return {"ok": not missing, "missing": missing}


@checker.on("reports.written.*")
async def read(event: TopicEvent) -> None:
    """Every report that was written anywhere, as an event."""
    report = event.data
    print(
        f"checker: a report about {report['topic']} was written from {report['sources']} passages", flush=True
    )


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


TEAM = {"planner": planner, "retriever": retriever, "summariser": summariser, "checker": checker}

if __name__ == "__main__":
    roles = sys.argv[1:] or list(TEAM)
    if unknown := [role for role in roles if role not in TEAM]:
        sys.exit(f"there is no {unknown[0]}; roles are {', '.join(TEAM)}")
    run(*(TEAM[role] for role in roles), name="-".join(roles), seeds=SEEDS)
