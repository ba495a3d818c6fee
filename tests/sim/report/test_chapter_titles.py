"""Every step that a story may hold has a sentence of its own in a report, without names of fields."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from reachp2p_sim.report.chapter_titles import QUIET, sentence
from reachp2p_sim.steps import KINDS

SAMPLES: dict[str, dict[str, Any]] = {
    "partition": {"left": ("n00",), "right": ("n01", "n02")},
    "partition-shape": {"shape": "halves", "hosts": "all"},
    "hold": {"left": ("n00",), "right": ("n01",)},
    "path-weather": {"source": ("n00",), "target": ("n01",), "changes": {"loss": 0.5}},
    "weather-between": {"sources": ("n00",), "targets": ("n01",), "changes": {"delay": 0.1}},
    "weather": {"changes": {"loss": 0.1}},
    "block-dials": {"source": ("n00",), "target": ("n01",)},
    "add-nodes": {"names": ("n00", "n01"), "within": 1.0},
    "step-clock": {"hosts": ("n00",), "seconds": 5.0},
    "turn-hostile": {"hosts": ("n00",), "behaviour": "flood"},
    "apply-rules": {"hosts": ("n00",), "rules": "[[rule]]\nretry = false\n"},
    "heal": {},
    "release": {},
    "end-weather": {},
    "allow-dials": {},
    "replay": {"limit": 10},
}


@pytest.mark.parametrize("word", sorted(word for word, kind in KINDS.items() if not issubclass(kind, QUIET)))
def test_a_step_has_words_of_its_own(word: str) -> None:
    step = msgspec.convert({"do": word, **SAMPLES.get(word, {"hosts": ("n00",)})}, KINDS[word])
    text = sentence(step)
    assert text != step.text().replace("..", "–"), "add a sentence for it to report/acts.py"
    assert "=" not in text
    assert "(" not in text or "NAT" in text or "steady" in text
