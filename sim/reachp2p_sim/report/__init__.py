"""The report of a run: one self-contained HTML page, drawn from a recording."""

from __future__ import annotations
