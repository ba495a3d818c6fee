"""`import reachp2p` offers its names lazily."""

from __future__ import annotations

import subprocess
import sys

import pytest

import reachp2p


def test_every_public_name_is_there() -> None:
    for name in reachp2p.__all__:
        assert getattr(reachp2p, name) is not None
    assert set(reachp2p.__all__) <= set(dir(reachp2p))


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nod'"):
        reachp2p.Nod  # noqa: B018
    with pytest.raises(ImportError):
        exec("from reachp2p import Nod")


@pytest.mark.parametrize(
    ("statement", "unloaded"),
    [
        ("import reachp2p", ("trio", "msgspec", "cbor2")),
        ("from reachp2p import Agent, CallFailed; Agent('a/b')", ("trio", "jsonschema_rs", "cbor2")),
        ("from reachp2p import Node, run; Node", ("jsonschema_rs", "typer", "rich")),
        ("from reachp2p_node.cli import main", ("typer", "rich", "trio")),
        ("from reachp2p_node.cli import app", ("rich", "trio", "msgspec")),
    ],
)
def test_a_name_loads_no_more_than_it_needs(statement: str, unloaded: tuple[str, ...]) -> None:
    program = f"{statement}\nimport sys\nprint(*[name for name in {unloaded!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout.split(), done.stderr) == ([], "")
