"""The state folder: private, locked while a process runs and never longer, and honest about damage."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from reachp2p.errors import ConfigurationInvalid, ErrorCode, NodeError
from reachp2p.runtime.chance import SystemEntropy
from reachp2p.runtime.state_folder import (
    KEY_FILE,
    SOCKET_PATH_BYTES_MAX,
    control_socket,
    default_folder,
    open_folder,
    running_process,
    state_root,
)

HOLD = """
import sys, time
from pathlib import Path
from reachp2p.runtime.state_folder import open_folder
folder = open_folder(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""

FORK = """
import os, sys, time
from pathlib import Path
from reachp2p.runtime.state_folder import open_folder
folder = open_folder(Path(sys.argv[1]))
if os.fork() == 0:
    print("child", os.getpid(), flush=True)
    time.sleep(60)
time.sleep(60)
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_and_all_in_it_is_private_and_the_key_stays(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state"
    folder = open_folder(path)
    key = folder.load_key(SystemEntropy())
    assert (mode(path), mode(path / KEY_FILE), mode(path / "lock")) == (0o700, 0o600, 0o600)
    assert len(key) == 32
    folder.close()
    folder.close()
    again = open_folder(path)
    assert again.load_key(SystemEntropy()) == key
    again.close()


def test_a_folder_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.mkdir(mode=0o755)
    path.chmod(0o755)
    open_folder(path).close()
    assert mode(path) == 0o700


def test_a_temporary_folder_goes_with_the_node() -> None:
    folder = open_folder(None)
    folder.load_key(SystemEntropy())
    assert (mode(folder.path), folder.is_temporary) == (0o700, True)
    folder.close()
    assert not folder.path.exists()


def test_a_second_user_of_the_folder_is_1703_and_names_the_first(tmp_path: Path) -> None:
    first = open_folder(tmp_path)
    with pytest.raises(NodeError, match=f"in use by process {os.getpid()}: stop it") as caught:
        open_folder(tmp_path)
    assert caught.value.code is ErrorCode.STATE_LOCKED
    assert running_process(tmp_path) == os.getpid()
    first.close()
    assert running_process(tmp_path) is None
    open_folder(tmp_path).close()


def test_looking_for_a_running_process_does_not_disturb_one_that_starts(tmp_path: Path) -> None:
    open_folder(tmp_path).close()
    looker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nfrom pathlib import Path\nfrom reachp2p.runtime.state_folder import running_process\n"
            "print('looking', flush=True)\nwhile True: running_process(Path(sys.argv[1]))",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert looker.stdout is not None
        looker.stdout.readline()
        for _ in range(30):
            open_folder(tmp_path).close()
    finally:
        looker.kill()
        looker.communicate()


@pytest.mark.parametrize("program", [HOLD, FORK], ids=["killed", "killed while its forked child lives on"])
def test_no_stale_lock_stops_a_restart_after_kill_9(tmp_path: Path, program: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = process.stdout.readline().split()
    assert running_process(tmp_path) == process.pid
    process.send_signal(signal.SIGKILL)
    begun = time.monotonic()
    folder = open_folder(tmp_path)  # at once, not after the process has been waited for
    assert time.monotonic() - begun < 0.3
    folder.close()
    process.communicate() if program is HOLD else process.wait()
    if program is FORK:
        os.kill(int(child[1]), signal.SIGKILL)
        process.stdout.close()


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_of_the_wrong_size_is_1706_and_says_what_to_do(tmp_path: Path, size: int) -> None:
    (tmp_path / KEY_FILE).write_bytes(bytes(size))
    folder = open_folder(tmp_path)
    with pytest.raises(
        NodeError, match=rf"has {size} bytes, not 32\. Restore it from a copy, or move it away"
    ) as caught:
        folder.load_key(SystemEntropy())
    assert caught.value.code is ErrorCode.STATE_DAMAGED
    assert str(tmp_path / KEY_FILE) in caught.value.message
    folder.close()


def test_a_folder_in_the_place_of_key_or_lock_is_1706_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).mkdir()
    folder = open_folder(tmp_path)
    with pytest.raises(
        NodeError, match=r"Is a directory\. Restore it from a copy, or move it away"
    ) as caught:
        folder.load_key(SystemEntropy())
    folder.close()
    assert caught.value.code is ErrorCode.STATE_DAMAGED
    (tmp_path / "lock").unlink()
    (tmp_path / "lock").mkdir()
    with pytest.raises(NodeError, match=r"lock is a folder, .* Move it away") as caught:
        open_folder(tmp_path)
    assert caught.value.code is ErrorCode.STATE_DAMAGED


def test_a_start_that_was_killed_while_it_wrote_its_key_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / f".{KEY_FILE}.abc").write_bytes(b"half")
    folder = open_folder(tmp_path)
    folder.load_key(SystemEntropy())
    assert sorted(one.name for one in tmp_path.iterdir()) == ["lock", KEY_FILE]
    folder.close()


def test_a_folder_that_cannot_be_made_is_1704(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationInvalid, match="cannot be used"):
        open_folder(tmp_path / "file" / "state")


def test_a_path_too_long_for_a_socket_gets_a_short_one_that_clients_find(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as base:
        monkeypatch.setenv("XDG_RUNTIME_DIR", base)
        short, long = Path(base) / "a", Path(base) / ("long" * 30)
        for path in (short, long):
            folder = open_folder(path)
            place = folder.place_socket()
            assert len(os.fsencode(place)) <= SOCKET_PATH_BYTES_MAX
            assert control_socket(path) == place
            assert mode(place.parent) == 0o700
            place.touch()
            folder.close()
            assert not place.exists()
        assert control_socket(short) == short / "control.sock"
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
        folder = open_folder(long)
        assert len(os.fsencode(folder.place_socket())) <= SOCKET_PATH_BYTES_MAX
        folder.close()


def test_a_runtime_folder_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as base:
        monkeypatch.setenv("XDG_RUNTIME_DIR", base)
        (Path(base) / "reachp2p").mkdir()
        (Path(base) / "reachp2p").chmod(0o777)
        folder = open_folder(tmp_path / ("long" * 30))
        with pytest.raises(ConfigurationInvalid, match="not a private folder"):
            folder.place_socket()
        folder.close()


def test_where_state_is_kept_by_default() -> None:
    assert state_root({"XDG_STATE_HOME": "/var/x"}) == Path("/var/x/reachp2p")
    assert state_root({"XDG_STATE_HOME": "relative"}) == Path.home() / ".local/state/reachp2p"
    assert default_folder("seed-1", {"XDG_STATE_HOME": "/x"}) == Path("/x/reachp2p/seed-1")


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", ".hidden", "a b", "x" * 65])
def test_a_name_that_is_no_folder_name_is_1704(name: str) -> None:
    with pytest.raises(ConfigurationInvalid, match="node name"):
        default_folder(name, {})


@pytest.mark.parametrize("file", ["lock", "node.key"])
def test_a_full_disk_is_named_as_such_and_nothing_is_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite" if file == "lock" else "fsync", full)
    with pytest.raises(NodeError, match=r"No space left.*[Nn]othing is lost") as caught:
        open_folder(tmp_path).load_key(SystemEntropy())
    assert caught.value.code is ErrorCode.STORE_FULL


def test_the_home_of_nobody_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigurationInvalid, match="no such user"):
        open_folder(Path("~nobody-of-that-name/state"))


@pytest.mark.parametrize("name", ["control.sock", "control.path", "temporary", ".node.key.x"])
def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(NodeError) as caught:
        use(tmp_path)
    assert caught.value.code is ErrorCode.STATE_DAMAGED
    assert f"{tmp_path / name} is a folder, and a node needs the place: move it away" in str(caught.value)
    (tmp_path / name).rmdir()
    use(tmp_path)


def use(path: Path) -> None:
    folder = open_folder(path)
    try:
        folder.load_key(SystemEntropy())
        folder.place_socket()
    finally:
        folder.close()


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(ConfigurationInvalid, match="set HOME or XDG_STATE_HOME"):
        default_folder("one", {})
