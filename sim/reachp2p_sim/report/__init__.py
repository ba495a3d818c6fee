"""Runs shown to a person: the page of a run, drawn from a recording, the page of a campaign, a view while it runs.

page           the report of a run: one self-contained HTML file, made of the other modules here
campaign_page  the page of a campaign
live_view      a run in the terminal while it goes on
"""

from __future__ import annotations
