"""Foreign text is harmless in logs and terminals."""

from __future__ import annotations

import pytest

from reachp2p.runtime.text import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, Ä, 漢字, 🙂", "plain text, Ä, 漢字, 🙂"),
        ("two\nlines\r\n", "two?lines??"),
        ("\x1b[31mred\x1b]0;title\x07", "?[31mred?]0;title?"),
        ("\x9b31m", "?31m"),
        ("user\u202egnp.exe", "user?gnp.exe"),
        ("in\u200bvisible\ufeff", "in?visible?"),
        ("lone \ud800", "lone ?"),
    ],
)
def test_what_could_act_on_a_terminal_is_replaced(text: str, shown: str) -> None:
    assert plain(text) == shown.replace("?", "\N{REPLACEMENT CHARACTER}")


def test_long_text_is_cut_and_says_so() -> None:
    assert plain("x" * 301) == "x" * 299 + "…"
    assert plain("x" * 300) == "x" * 300
    assert plain(ValueError("what"), 3) == "wh…"
