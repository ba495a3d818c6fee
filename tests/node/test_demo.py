"""The demo for real, and its parts that need no network."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from reachp2p_node.demo.agents import keywords, quality, summarize
from reachp2p_node.demo.language import rank_sentences, split_sentences
from reachp2p_node.demo.passages import (
    PASSAGES_MAX,
    PASSAGES_MIN,
    SENTENCES_MAX,
    SENTENCES_MIN,
    read_text,
    split_passages,
)
from reachp2p_node.demo.play import SHIPPED, _shipped_text
from reachp2p_node.demo.story import CAST, VICTIM

from reachp2p.errors import ConfigurationInvalid

DEMO_SECONDS_MAX = 50


def start_demo(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "reachp2p", "demo", "--json", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )


def processes_of(tmp_path: Path) -> list[str]:
    """Command lines of running processes that work below `tmp_path`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if os.fsencode(tmp_path) in line:
            found.append(line.decode(errors="replace"))
    return found


def test_the_demo_shows_what_it_promises(tmp_path: Path) -> None:
    begun = time.monotonic()
    demo = start_demo(tmp_path)
    out, err = demo.communicate(timeout=DEMO_SECONDS_MAX + 10)
    assert time.monotonic() - begun < DEMO_SECONDS_MAX
    outcome = json.loads(out)
    assert demo.returncode == 0, (outcome["problems"], err)
    assert (outcome["ok"], outcome["problems"], outcome["calls_failed"]) == (True, [], 0)
    assert outcome["calls"] >= 200
    assert outcome["in_flight_at_kill"] >= 1
    assert outcome["retried"] >= 1
    assert 0 <= outcome["seconds_until_out_of_every_table"] < 10
    assert 0 < outcome["seconds_until_dead_everywhere"] < 30
    assert 0 < outcome["seconds_until_new_life_routed_to"] < 20
    assert outcome["epochs"]["after"] > outcome["epochs"]["before"]
    assert set(outcome["members"]) == set(CAST)
    for seen in outcome["members"].values():
        assert {name: view["state"] for name, view in seen.items()} == dict.fromkeys(CAST, "ALIVE")
        assert seen[VICTIM]["epoch"] == outcome["epochs"]["after"]
    for mark in ("SIGKILL", "SUSPECT", "out of every routing table", "DEAD in every view", "works again"):
        assert mark in err
    assert list(tmp_path.glob("reachp2p-demo-*")) == [], "nothing is left behind"
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_takes_its_processes_with_it(tmp_path: Path, number: signal.Signals) -> None:
    demo = start_demo(tmp_path)
    assert demo.stderr is not None
    assert "starting" in demo.stderr.readline()
    while len(processes_of(tmp_path)) < 2:
        time.sleep(0.05)
    demo.send_signal(number)
    out, err = demo.communicate(timeout=20)
    assert (demo.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert processes_of(tmp_path) == []
    assert list(tmp_path.glob("reachp2p-demo-*")) == []


def test_a_killed_demo_leaves_no_process(tmp_path: Path) -> None:
    demo = start_demo(tmp_path)
    assert demo.stderr is not None
    demo.stderr.readline()
    while len(processes_of(tmp_path)) < len(CAST):
        time.sleep(0.05)
    demo.kill()
    demo.communicate()
    limit = time.monotonic() + 20
    while processes_of(tmp_path):
        assert time.monotonic() < limit, processes_of(tmp_path)
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"One sentence. And another.", f"2 sentences; the demo needs {SENTENCES_MIN}"),
        (b"\xff\xfe\x00text", "not UTF-8"),
        (b"x" * 16_777_217, "larger than 16 MiB"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_text_that_cannot_be_used_is_refused_before_anything_starts(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationInvalid, match=said):
        read_text(path)


def test_of_a_long_text_the_beginning_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("\ufeff" + "Here is a sentence.\n\n" * 1_000, encoding="utf-8")
    text, left_out = read_text(path)
    assert (len(split_sentences(text)), left_out) == (SENTENCES_MAX, 520)


def test_the_shipped_text_is_a_text() -> None:
    text = _shipped_text()
    assert SHIPPED.endswith(".txt")
    assert 2_000 < len(text.split()) < 4_000
    assert text.count("\n# ") == 9


@pytest.mark.parametrize("count", [SENTENCES_MIN, 60, 119, 120, 121, 152, 192, 193, 480])
def test_passages_cover_a_text_of_any_length_and_are_enough_for_200_calls(count: int) -> None:
    sentences = [f"Sentence number {number} stands here." for number in range(count)]
    passages = split_passages(" ".join(sentences))
    assert PASSAGES_MIN <= len(passages) <= PASSAGES_MAX
    assert len(passages) * 7 >= 200
    together = " ".join(passage.text for passage in passages)
    assert all(sentence in together for sentence in sentences)
    assert all(passage.text and passage.background for passage in passages)


def test_sentences_end_where_a_reader_would_say() -> None:
    text = '# Heading\n\nIt was 3.14 metres. "Stop!" he said. Was it?  Yes.\n\nA new\nparagraph.'
    assert split_sentences(text) == [
        "It was 3.14 metres.", '"Stop!" he said.', "Was it?", "Yes.", "A new paragraph."
    ]  # fmt: skip


def test_the_sentence_that_shares_most_is_ranked_first() -> None:
    sentences = ["Cats chase mice.", "Dogs chase cats and mice.", "The moon is bright.", "Mice fear cats."]
    scores = rank_sentences(sentences)
    assert scores.index(min(scores)) == 2
    summary = summarize(" ".join(sentences), sentences=2)
    assert summary.sentences == 2
    assert "moon" not in summary.text


def test_keywords_are_what_distinguishes_a_passage_from_its_background() -> None:
    text = "The pendulum swings. The pendulum keeps the clock. A clock with a pendulum is exact."
    assert keywords(text, 1) == ["pendulum"]
    assert "clock" not in keywords(text, 2, "A clock is a clock. Every clock shows a clock beside a clock.")


def test_quality_rewards_what_is_short_and_keeps_the_weight() -> None:
    text = "The pendulum keeps the clock. The weather was pleasant. The pendulum is exact, so the clock is."
    good, bad, whole = (
        quality(text, part) for part in ("The pendulum keeps the clock.", "The weather was pleasant.", text)
    )
    assert good["score"] > bad["score"]
    assert whole["brevity"] == 0
    assert quality("", "")["score"] == 0
