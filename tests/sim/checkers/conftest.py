from __future__ import annotations

import pytest

from tests.sim.watched import Watched


@pytest.fixture
def watched(request: pytest.FixtureRequest) -> Watched:
    """Scripted nodes and the checker that the test file is named after, on a network with a delay of 10 ms, no loss."""
    return Watched(request.path.stem.removeprefix("test_"))
