"""Shared settings of all tests: how Hypothesis searches.

`ci`, the default, is the same in every run, so that a red test is a defect of the change at hand and never
of the draw. `HYPOTHESIS_PROFILE=search` draws anew each time and longer: for an evening, not for a gate.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
