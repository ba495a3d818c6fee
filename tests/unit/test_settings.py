"""Settings that a node could not keep to are refused before it is built."""

from __future__ import annotations

import pytest

from reachp2p.core.ids import Address
from reachp2p.core.settings import Protocol, Settings
from reachp2p.errors import ConfigurationInvalid, ErrorCode

HOME = Address("10.0.0.1", 7946)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"cluster_id": ""}, "cluster id"),
        ({"cluster_id": "c" * 257}, "cluster id"),
        ({"name": "n" * 65}, "node name"),
        ({"zone": "z" * 65}, "zone"),
        ({"addresses": (HOME,) * 5}, "at most 4"),
    ],
)
def test_what_no_head_could_say_is_refused(wrong: dict[str, object], named: str) -> None:
    right: dict[str, object] = {"cluster_id": "c", "name": "n", "addresses": (HOME,)}
    with pytest.raises(ConfigurationInvalid, match=named) as caught:
        Settings(**{**right, **wrong})  # type: ignore[arg-type]
    assert caught.value.code is ErrorCode.CONFIGURATION_INVALID


@pytest.mark.parametrize(
    "wrong",
    [{"probe_interval": 0.0}, {"gossip_interval": -1.0}, {"probe_timeout": 2.0, "probe_interval": 1.0}],
)
def test_constants_that_contradict_each_other_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationInvalid):
        Protocol(**wrong)  # type: ignore[arg-type]
