"""What a killed node without a state folder leaves behind is removed by the next start, and nothing else ever is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reachp2p import Node
from reachp2p.runtime.chance import SystemEntropy
from reachp2p.runtime.state_folder import KEY_FILE, SOCKET_PATH_BYTES_MAX, TEMPORARY_MARK, open_folder
from reachp2p.runtime.temporary_folders import sweep

PROGRAM = """
from reachp2p import Agent, run
run(Agent("demo/one"), on_started=lambda node: print("started", node.state_folder, flush=True))
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "tmp"
    root.mkdir()
    monkeypatch.setenv("TMPDIR", str(root))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return root


@pytest.fixture
def process(root: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def started(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().split()[1])


@pytest.mark.trio
async def test_a_start_removes_what_a_killed_node_has_left(
    root: Path, process: subprocess.Popen[str]
) -> None:
    folder = started(process)
    assert (folder.parent, (folder / KEY_FILE).exists()) == (root, True)
    async with Node(name="while it runs"):
        assert (folder / KEY_FILE).exists()
    process.send_signal(signal.SIGKILL)
    process.wait(5)
    assert (folder / KEY_FILE).exists(), "this is what has to be cleaned up"
    async with Node(name="afterwards") as node:
        assert os.listdir(root) == [node.state_folder.name]
    assert os.listdir(root) == []


def test_a_stopped_node_is_no_killed_one(root: Path, process: subprocess.Popen[str]) -> None:
    folder = started(process)
    process.send_signal(signal.SIGSTOP)
    try:
        assert sweep() == 0
        assert (folder / KEY_FILE).exists()
    finally:
        process.send_signal(signal.SIGCONT)


def abandoned(root: Path, *, name: str = "reachp2p-x", mark: bool = True) -> Path:
    folder = root / name
    folder.mkdir(mode=0o700)
    (folder / KEY_FILE).write_bytes(bytes(32))
    (folder / "lock").touch()
    if mark:
        (folder / TEMPORARY_MARK).touch()
    return folder


def test_only_what_is_marked_private_and_ours_is_removed(root: Path, tmp_path: Path) -> None:
    kept = [
        abandoned(root, name="reachp2p-unmarked", mark=False),
        abandoned(root, name="somebody-elses"),
        abandoned(root, name="reachp2p-open"),
        abandoned(root, name="reachp2p-strange"),
    ]
    kept[2].chmod(0o755)
    (kept[3] / "lock").unlink()
    (kept[3] / "lock").symlink_to(kept[0] / "lock")
    elsewhere = abandoned(tmp_path, name="reachp2p-elsewhere")
    (root / "reachp2p-link").symlink_to(elsewhere)
    (root / "reachp2p-file").touch()
    gone = abandoned(root)
    half_gone = abandoned(root, name="reachp2p-half")
    (half_gone / "lock").unlink()
    assert sweep() == 2
    assert not gone.exists()
    assert not half_gone.exists()
    assert all((folder / KEY_FILE).exists() for folder in [*kept, elsewhere])


def test_a_left_folder_that_somebody_has_chosen_is_kept(root: Path) -> None:
    folder = abandoned(root)
    open_folder(folder).close()
    assert sweep() == 0
    assert (folder / KEY_FILE).exists()


def test_the_socket_of_a_folder_with_a_long_path_goes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / ("long" * 10) / ("longer" * 10)
    root.mkdir(parents=True)
    assert len(str(root)) > SOCKET_PATH_BYTES_MAX
    monkeypatch.setattr(tempfile, "tempdir", str(root))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp")
    folder = open_folder(None)
    folder.load_key(SystemEntropy())
    socket = folder.place_socket()
    socket.touch()
    assert sweep() == 0
    release_like_a_kill(folder)
    assert sweep() == 1
    assert not socket.exists()
    assert os.listdir(root) == []


def release_like_a_kill(folder: object) -> None:
    from reachp2p.runtime import state_folder

    lock = folder._lock  # type: ignore[attr-defined]
    state_folder._OPEN_LOCKS.pop(lock)
    os.close(lock)


def test_one_sweep_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachp2p.runtime.temporary_folders.REMOVED_MAX", 3)
    for number in range(5):
        abandoned(root, name=f"reachp2p-{number}")
    assert [sweep(), sweep(), sweep()] == [3, 2, 0]
