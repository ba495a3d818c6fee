"""What tests of whole programs share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.processes import Processes


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Starts processes; none outlives the test."""
    processes = Processes(tmp_path)
    yield processes
    processes.end()
