"""The import contracts of pyproject.toml hold, and each of them bites: a planted violation is reported.

Plants go into a copy of the three packages that comes first on the path; the checkout is never touched.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"reachp2p": ".", "reachp2p_node": "node", "reachp2p_sim": "sim"}
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"

CONTRACTS: dict[str, dict[str, Any]] = {
    contract["id"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}


class Tree:
    """A copy of the source tree in which violations are planted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for package, folder in PACKAGES.items():
            shutil.copytree(
                ROOT / folder / package, root / folder / package, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(ROOT / "pyproject.toml", root)

    def is_package(self, module: str) -> bool:
        """Whether `module` is a folder of the tree."""
        return self.path(module).with_suffix("").is_dir()

    def path(self, module: str) -> Path:
        """The file of `module`, were it not a package."""
        parts = module.split(".")
        return self.root.joinpath(PACKAGES[parts[0]], *parts).with_suffix(".py")

    def plant(self, module: str, *imported: str) -> str:
        """Let `module` (or a new module of that package) import `imported`; returns the importer's name."""
        path = self.path(f"{module}.planted" if self.is_package(module) else module)
        text = path.read_text() if path.exists() else ""
        path.write_text(text + "".join(f"\nimport {name}" for name in imported) + "\n")
        return f"{module}.planted" if self.is_package(module) else module

    def lint(self, contract: str | None = None) -> tuple[int, str]:
        """Exit code and output of lint-imports on this tree."""
        return lint(self.root, contract)


def lint(root: Path, contract: str | None = None) -> tuple[int, str]:
    """Exit code and output of lint-imports on the tree at `root`, with the packages of that tree."""
    command = [sys.executable, "-c", LINT, "--no-cache", "--no-logo"]
    if contract is not None:
        command += ["--contract", contract]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(root / folder) for folder in ("", "node", "sim")),
        "COLUMNS": "400",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        command,
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_the_contracts_hold() -> None:
    code, output = lint(ROOT)
    assert code == 0, output
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in output


def test_a_copy_without_a_plant_passes(tree: Tree) -> None:
    code, output = tree.lint()
    assert code == 0, output


# What each contract must report: (importer, imported). In a package the importer is a new module `planted`.
ARROWS: dict[str, list[tuple[str, str]]] = {
    "packages": [
        ("reachp2p.core.ids", "reachp2p_sim"),
        ("reachp2p.runtime", "reachp2p_node"),
        ("reachp2p_sim", "reachp2p_node"),
        ("reachp2p_node", "reachp2p_sim"),
    ],
    "core-layers": [
        ("reachp2p.core.ids", "reachp2p.core.settings"),
        ("reachp2p.core.wire", "reachp2p.core.effects"),
        ("reachp2p.core.wire", "reachp2p.core.timers"),
        ("reachp2p.core.ring", "reachp2p.core.counters"),
        ("reachp2p.core.membership", "reachp2p.core.registry.planted"),
        ("reachp2p.core.trust", "reachp2p.core.links.planted"),
        ("reachp2p.core.calls", "reachp2p.core.engine"),
    ],
    "core-is-sans-io": [
        ("reachp2p.core.membership", "trio"),
        ("reachp2p.core.ids", "random"),
        ("reachp2p.core.engine", "time"),
        ("reachp2p.core.wire", "os.path"),
        ("reachp2p.core.links", "reachp2p.runtime"),
        ("reachp2p.errors", "socket"),
    ],
    "sim-is-deterministic": [
        ("reachp2p_sim", "reachp2p.runtime"),
        ("reachp2p_sim", "trio"),
        ("reachp2p_sim", "socket"),
    ],
    "sim-knows-no-onlooker": [
        ("reachp2p_sim.machines", "reachp2p_sim.recording"),
        ("reachp2p_sim.steps", "reachp2p_sim.running.run"),
        ("reachp2p_sim.network", "reachp2p_sim.checkers.base"),
    ],
    "runtime-knows-no-application": [
        ("reachp2p.runtime", "reachp2p_sim"),
        ("reachp2p.runtime", "reachp2p_node"),
        ("reachp2p.core.routing", "typer"),
        ("reachp2p.errors", "rich"),
    ],
}


def test_every_contract_has_a_planted_violation() -> None:
    assert sorted(ARROWS) == sorted(CONTRACTS)


@pytest.mark.parametrize(
    ("contract", "importer", "imported"),
    [(contract, *arrow) for contract, arrows in ARROWS.items() for arrow in arrows],
)
def test_a_contract_reports_a_planted_import(tree: Tree, contract: str, importer: str, imported: str) -> None:
    if imported.endswith(".planted"):
        tree.plant(imported.removesuffix(".planted"))
    planted = tree.plant(importer, imported)
    code, output = tree.lint(contract)
    assert code == 1, output
    assert f"{planted} -> {seen(imported)} (l." in output


def seen(imported: str) -> str:
    """The name under which a module is reported: an external one by its first part."""
    first = imported.partition(".")[0]
    return imported if first in PACKAGES else first


def forbidden() -> Iterator[tuple[str, str]]:
    """Each forbidden contract with each module it forbids by name."""
    for contract in CONTRACTS.values():
        for module in contract.get("forbidden_modules", []):
            if "*" not in module:
                yield contract["id"], module


@pytest.mark.parametrize("contract", sorted({contract for contract, _ in forbidden()}))
def test_every_name_on_a_forbidden_list_is_reported(tree: Tree, contract: str) -> None:
    names = [module for owner, module in forbidden() if owner == contract]
    home = CONTRACTS[contract]["source_modules"][0]
    planted = tree.plant(f"{home}.planted", *names)
    code, output = tree.lint(contract)
    assert code == 1, output
    assert [name for name in names if f"{planted} -> {name} (l." not in output] == []


def test_a_forbidden_module_is_found_through_a_new_module_of_the_library(tree: Tree) -> None:
    tree.plant("reachp2p.shelf", "time")
    importer = tree.plant("reachp2p.core.ring", "reachp2p.shelf")
    code, output = tree.lint("core-is-sans-io")
    assert code == 1, output
    assert f"{importer} -> reachp2p.shelf (l." in output


def test_a_forbidden_module_is_found_through_a_helper_of_the_simulator(tree: Tree) -> None:
    tree.plant("reachp2p_sim.shelf", "threading")
    tree.plant("reachp2p_sim", "reachp2p_sim.shelf")
    code, output = tree.lint("sim-is-deterministic")
    assert code == 1, output
    assert "reachp2p_sim.shelf -> threading (l." in output


def test_a_module_of_core_without_a_layer_is_reported(tree: Tree) -> None:
    tree.plant("reachp2p.core.unplaced", "enum")
    code, output = tree.lint("core-layers")
    assert code == 1, output
    assert "reachp2p.core.unplaced" in output


def layers() -> list[list[str]]:
    """The layers of core that exist, highest first, each with its modules."""
    rows = [
        [name.strip(" ()") for name in layer.replace(":", "|").split("|")]
        for layer in CONTRACTS["core-layers"]["layers"]
    ]
    core = ROOT / "reachp2p" / "core"
    exists = [
        [name for name in row if (core / name).is_dir() or (core / f"{name}.py").is_file()] for row in rows
    ]
    return [row for row in exists if row]


def test_every_layer_of_core_is_below_the_one_above_it(tree: Tree) -> None:
    rows = layers()
    arrows = []
    for above, below in itertools.pairwise(rows):
        target = f"reachp2p.core.{above[0]}"
        if tree.is_package(target):
            target = tree.plant(target)
        arrows.append((target, [f"reachp2p.core.{name}" for name in below]))
    missing = []
    for target, importers in arrows:
        missing += [f"{tree.plant(importer, target)} -> {target} (l." for importer in importers]
    code, output = tree.lint("core-layers")
    assert code == 1, output
    assert [line for line in missing if line not in output] == []
