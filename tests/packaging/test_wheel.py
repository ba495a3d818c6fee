"""The wheel holds what it must, works where it is installed, and names the extra that a command lacks.

Built and installed offline: hatchling is in the dev extra, and the installation takes no dependencies.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"reachp2p": ".", "reachp2p_node": "node", "reachp2p_sim": "sim"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, freshly built."""
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    """The files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def metadata(wheel: Path, name: str) -> str:
    """A file of the wheel's dist-info folder."""
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [entry for entry in archive.namelist() if entry.endswith(f".dist-info/{name}")]
        return archive.read(path).decode()


@pytest.mark.parametrize("package", PACKAGES)
def test_the_wheel_holds_each_package_as_it_is_in_the_checkout(names: list[str], package: str) -> None:
    folder = ROOT / PACKAGES[package]
    wanted = sorted(
        path.relative_to(folder).as_posix()
        for path in (folder / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    assert f"{package}/py.typed" in wanted
    assert sorted(name for name in names if name.startswith(f"{package}/")) == wanted


def test_the_wheel_holds_nothing_else(names: list[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


def test_the_wheel_holds_the_licence(wheel: Path) -> None:
    assert "Apache License" in metadata(wheel, "licenses/LICENSE")


def test_the_wheel_holds_a_text_for_the_demo(names: list[str]) -> None:
    texts = [name for name in names if name.startswith("reachp2p_node/demo/") and name.endswith(".txt")]
    assert texts != []


def test_the_wheel_declares_its_commands(wheel: Path) -> None:
    entry_points = ConfigParser()
    entry_points.read_string(metadata(wheel, "entry_points.txt"))
    assert dict(entry_points["console_scripts"]) == {
        "reachp2p": "reachp2p._scripts:node_main",
        "reachp2p-sim": "reachp2p._scripts:sim_main",
    }


def test_the_embedded_library_needs_no_command_line_packages(wheel: Path) -> None:
    message: Message = Parser().parsestr(metadata(wheel, "METADATA"))
    always = [line for line in message.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert always != []
    assert [line for line in always if line.startswith(("typer", "rich"))] == []


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel is installed, without its dependencies."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    done = subprocess.run(
        [*pip, "--no-deps", "--no-index", "--no-compile", "--target", str(folder), str(wheel)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return folder


def run(site: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run `program` where the installed packages come first."""
    start = f"import sys\nsys.path.insert(0, {str(site)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", start + program], capture_output=True, text=True, timeout=60, cwd=site
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_an_installed_package_imports(site: Path, package: str) -> None:
    done = run(site, f"import {package}\nprint({package}.__file__)")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == site / package / "__init__.py"


WITHOUT = """
for name in ("typer", "rich"):
    sys.modules[name] = None  # as if it were not installed, for import and for find_spec
"""

COMMANDS = [("reachp2p", "node_main", "reachp2p[node]"), ("reachp2p-sim", "sim_main", "reachp2p[sim]")]


@pytest.mark.parametrize(("command", "entry", "extra"), COMMANDS)
def test_a_command_without_its_extra_names_it(site: Path, command: str, entry: str, extra: str) -> None:
    program = (
        f"sys.argv = [{command!r}, '--help']\nfrom reachp2p._scripts import {entry}\nsys.exit({entry}())"
    )
    done = run(site, WITHOUT + program)
    assert done.returncode != 0
    assert extra in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(("command", "entry", "extra"), COMMANDS)
def test_a_command_with_its_extra_helps(site: Path, command: str, entry: str, extra: str) -> None:
    program = (
        f"sys.argv = [{command!r}, '--help']\nfrom reachp2p._scripts import {entry}\nsys.exit({entry}())"
    )
    done = run(site, program)
    assert done.returncode == 0, done.stderr
    assert command in done.stdout
