"""Text from elsewhere, made harmless before it reaches a log, a terminal or a message for a person."""

from __future__ import annotations

import re

TEXT_MAX = 300
"""Characters of foreign text in one log line."""

_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb]"
)
"""C0 and C1 controls (ANSI escapes among them), line separators, invisible and direction-changing characters."""


def plain(text: object, length_max: int = TEXT_MAX) -> str:
    """`text` as one line without control or direction-changing characters, cut to `length_max` characters."""
    line = str(text)
    if len(line) > length_max:
        line = line[: length_max - 1] + "…"
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", line)
