"""From a run that fails to a small one that fails in the same way.

    case       steps, times and seed: what a run consists of, and how it can be made smaller
    delta      delta debugging: the smallest part of a list that still does it
    trial      runs a case and says whether it fails as the first one did, within a budget
    reduce     the order in which things are tried

It works on the record of what was done (`world.performed`), so any scenario can be shrunk, be it drawn, written in a
file, or told in Python.
"""

from __future__ import annotations
