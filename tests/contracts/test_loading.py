"""What is loaded, seen from outside: the core and a simulator run work without trio and without the runtime.

The import contracts read the source; these tests run it, so an import by name at run time is caught as well.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

UNWANTED = ("trio", "wsproto", "reachp2p.runtime", "reachp2p.agent")

NEVER = (
    "asyncio", "concurrent", "ctypes", "dataclasses", "difflib", "email", "http", "importlib.metadata", "json",
    "multiprocessing", "sqlite3", "ssl", "subprocess", "tempfile", "unittest", "xml", "trio", "attr", "cryptography",
    "jsonschema_rs", "wsproto", "typer", "rich", "reachp2p.runtime.driver",
)  # fmt: skip
"""What costs milliseconds and is not needed to name things: to be loaded by whoever comes to use it."""

WALK = """
import importlib, pkgutil, sys
def load(package):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
"""

BLOCK = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in {UNWANTED!r}:
            raise ImportError(name + " was imported")
sys.meta_path.insert(0, Blocker())
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run `program` in a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


def modules_after(program: str) -> list[str]:
    """All modules that are loaded after `program`."""
    done = run(f"{program}\nimport sys\nprint(*list(sys.modules))")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def loaded_by(program: str) -> list[str]:
    """The unwanted modules that are loaded after `program`."""
    done = run(f"{program}\nprint(*[name for name in {UNWANTED!r} if name in sys.modules])")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_probe_sees_what_is_loaded() -> None:
    assert loaded_by("import sys, trio") == ["trio"]


def test_importing_all_of_core_loads_no_runtime() -> None:
    assert loaded_by(f"{WALK}\nimport reachp2p.core\nload(reachp2p.core)") == []


def test_importing_the_library_loads_nothing_until_it_is_used() -> None:
    assert loaded_by("import sys, reachp2p") == []


@pytest.mark.parametrize(
    ("program", "never"),
    [
        (
            "import reachp2p.core.engine",
            (*NEVER, "logging", "pathlib", "random", "socket", "threading", "urllib"),
        ),
        ("from reachp2p import Agent, Node, run; Node", NEVER),
    ],
)
def test_a_name_loads_little(program: str, never: tuple[str, ...]) -> None:
    before, after = set(modules_after("")), set(modules_after(program))
    libraries = {name.partition(".")[0] for name in after - before} - sys.stdlib_module_names
    assert libraries <= {"reachp2p", "msgspec", "cbor2", "typing_extensions"}
    assert sorted((after - before) & set(never)) == []


def test_the_first_node_loads_what_drives_it() -> None:
    after = modules_after("from reachp2p import Node\nNode()")
    assert {"trio", "sqlite3", "cryptography", "reachp2p.runtime.lifetime"} <= set(after)
    assert "wsproto" not in after  # loaded when it starts


def test_importing_all_of_the_simulator_loads_no_runtime() -> None:
    assert loaded_by(f"{WALK}\nimport reachp2p_sim\nload(reachp2p_sim)") == []


def test_a_scenario_runs_where_the_runtime_cannot_be_imported() -> None:
    arguments = ["reachp2p-sim", "run", "partition-halves", "--nodes", "5", "--seed", "7", "--json"]
    done = run(
        f"{BLOCK}\nsys.argv = {arguments!r}\nfrom reachp2p._scripts import sim_main\nsys.exit(sim_main())"
    )
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["scenario"], verdict["seed"], verdict["nodes"]) == ("partition-halves", 7, 5)
