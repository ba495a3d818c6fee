"""`reachp2p demo`: reads the text, plays the story, prints what came of it, and clears everything away."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import msgspec
import trio

from reachp2p_node.cli import output
from reachp2p_node.demo.passages import read_text
from reachp2p_node.demo.screen import LineScreen, LiveScreen, print_summary
from reachp2p_node.demo.stage import Stage
from reachp2p_node.demo.story import CAST, Story

SHIPPED = "keeping_time.txt"


def play(text_file: Path | None, *, keep: bool, as_json: bool) -> int:
    """Run the demo; 0 only if everything it is to show was seen. Raises `ConfigurationInvalid` for a text of no use."""
    text, left_out = read_text(text_file) if text_file is not None else (_shipped_text(), 0)
    if left_out:
        output.note(f"{text_file} is long: the demo reads its beginning and leaves out {left_out} sentences")
    console = output.console(stderr=as_json)
    with _terminated_as_interrupted(), Stage(is_kept=keep) as stage:
        screen = LiveScreen(console, list(CAST)) if console.is_terminal else LineScreen(console)
        with screen:
            story = Story(stage, screen, text)
            outcome = trio.run(story.run)
        stage.is_kept = keep or not outcome.ok
    if as_json:
        output.print_json(msgspec.to_builtins(outcome))
    else:
        print_summary(console, list(CAST), story.watch, outcome, story.review)
    if stage.is_kept:
        output.note(f"logs, journals and state are in {stage.folder}")
    return output.OK if outcome.ok else output.FAILED


def _shipped_text() -> str:
    return files("reachp2p_node.demo").joinpath(SHIPPED).read_text(encoding="utf-8")


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: with its processes cleared away."""
    former = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
