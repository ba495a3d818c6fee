"""Placement is pinned bit for bit and the same in every process (B27)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reachp2p.core.ids import NodeId
from reachp2p.core.ring.placement import (
    PLACEMENT_VERSION,
    InstanceKey,
    fingerprint,
    instance_tokens,
    key_position,
    token_count,
)

HERE = Path(__file__).parent
GOLDEN: dict[str, Any] = json.loads((HERE / "golden.json").read_text("ascii"))
HASH_SEEDS = ("0", "4242")

PACKAGE_VECTORS = """
import hashlib, json, sys
from reachp2p.core.ring.placement import PLACEMENT_VERSION, fingerprint, instance_tokens, key_position, token_count
from reachp2p.core.ring.ring import Ring

golden = json.load(open(sys.argv[1], encoding="ascii"))
weights = {(bytes.fromhex(i["node"]), i["agent"]): i["weight_percent"] for i in golden["instances"]}
named = sorted(weights)
ring = Ring(golden["virtual_nodes"])
for instance in {instance: None for instance in set(weights)}:  # a set's order differs with the hash seed: on purpose
    ring.add(instance, weights[instance])
entries = ring.entries()
print(json.dumps({
    "placement_version": PLACEMENT_VERSION,
    "virtual_nodes": golden["virtual_nodes"],
    "instances": [
        {
            "node": i[0].hex(), "agent": i[1], "weight_percent": weights[i],
            "token_count": token_count(golden["virtual_nodes"], weights[i]),
            "first_tokens": [f"{t:016x}" for t in instance_tokens(i, 9)],
        }
        for i in named
    ],
    "tokens": len(entries),
    "tokens_sha256": hashlib.sha256(b"".join(t.to_bytes(8, "big") for t, _ in entries)).hexdigest(),
    "fingerprint": ring.fingerprint(),
    "fingerprint_of_none": fingerprint({}, golden["virtual_nodes"]),
    "keys": golden["keys"],
    "positions": [f"{key_position(key):016x}" for key in golden["keys"]],
    "owners": [named.index(ring.owner(key)) for key in golden["keys"]],
    "preference_lists": [[named.index(i) for i in ring.preference_list(key, 99)] for key in golden["keys"][:8]],
}))
"""


def run(command: list[str], hash_seed: str) -> dict[str, Any]:
    environment = dict(os.environ, PYTHONHASHSEED=hash_seed)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
    vectors: dict[str, Any] = json.loads(done.stdout)
    return vectors


def other_pythons() -> list[str]:
    """Interpreters of other versions on this machine that start."""
    found = []
    for minor in range(8, 16):
        path = shutil.which(f"python3.{minor}")
        if path is None or minor == sys.version_info.minor:
            continue
        if (
            subprocess.run([path, "-IS", "-c", ""], capture_output=True, timeout=60, check=False).returncode
            == 0
        ):
            found.append(path)
    return found


@pytest.mark.parametrize("hash_seed", HASH_SEEDS)
def test_the_package_gives_the_golden_vectors_under_any_hash_seed(hash_seed: str) -> None:
    vectors = run([sys.executable, "-c", PACKAGE_VECTORS, str(HERE / "golden.json")], hash_seed)
    assert vectors == GOLDEN


def test_the_golden_vectors_have_a_thousand_keys_and_the_present_version() -> None:
    assert len(GOLDEN["keys"]) == len(set(GOLDEN["keys"])) == len(GOLDEN["owners"]) == 1_000
    assert GOLDEN["placement_version"] == PLACEMENT_VERSION


def test_an_independent_implementation_gives_the_golden_vectors_in_every_python_here() -> None:
    for python in [sys.executable, *other_pythons()]:
        assert run([python, "-I", "-S", str(HERE / "reference.py")], "0") == GOLDEN, python


NODE = NodeId(bytes(range(32)))
OTHER = NodeId(bytes(32))


@pytest.mark.parametrize(
    ("virtual_nodes", "weight", "count"),
    [(150, 100, 150), (150, 10, 15), (150, 1_000, 1_500), (150, 33, 50), (1, 10, 1), (1, 150, 2), (3, 50, 2)],
)
def test_tokens_are_virtual_nodes_times_weight_rounded_half_up_and_never_none(
    virtual_nodes: int, weight: int, count: int
) -> None:
    assert token_count(virtual_nodes, weight) == count


@pytest.mark.parametrize("weight", [0, 9, 1_001])
def test_a_weight_outside_its_range_is_a_defect_of_the_caller(weight: int) -> None:
    with pytest.raises(AssertionError):
        token_count(150, weight)


def test_fewer_tokens_are_a_prefix_of_more() -> None:
    many = instance_tokens((NODE, "a/b"), 1_500)
    assert len(many) == len(set(many)) == 1_500
    for count in (0, 1, 7, 8, 9, 150):
        assert instance_tokens((NODE, "a/b"), count) == many[:count]


def test_node_agent_and_block_cannot_be_mistaken_for_one_another() -> None:
    seen = [
        instance_tokens((node, agent), 16)
        for node in (NODE, OTHER)
        for agent in ("a/b", "a/b\0", "a/b\0\0\0\0")
    ]
    tokens = [token for found in seen for token in found]
    assert len(set(tokens)) == len(tokens)


def test_any_string_is_a_key() -> None:
    keys = ["", "\0", "key", "Key", "\ud800", "e\u0301", "\u00e9"]
    assert len({key_position(key) for key in keys}) == len(keys)


def test_the_fingerprint_depends_on_instances_weights_and_virtual_nodes_and_on_no_order() -> None:
    one: InstanceKey = (NODE, "a/b")
    two: InstanceKey = (OTHER, "a/b")
    same = [fingerprint({one: 100, two: 50}, 150), fingerprint({two: 50, one: 100}, 150)]
    others = [
        fingerprint({one: 100}, 150),
        fingerprint({one: 100, two: 51}, 150),
        fingerprint({one: 50, two: 100}, 150),
        fingerprint({one: 100, (OTHER, "a/c"): 50}, 150),
        fingerprint({one: 100, two: 50}, 100),
        fingerprint({}, 150),
    ]
    assert same[0] == same[1]
    assert len({same[0], *others}) == 1 + len(others)
    assert all(len(text) == 16 for text in others)
