"""The state folder of a node: its key, its tables, its control socket, and the lock that keeps a second process out.

    node.key       the private key, 32 bytes (0600)
    state.db       epoch, address book, registry snapshot (SQLite)
    lock           held with flock while a process runs; holds its number for the message (1703)
    control.sock   where the node answers its command line, or `control.path` with the path of a socket elsewhere
    temporary      there if the folder belongs to one run of a node that was given none (see `temporary_folders`)

The lock belongs to the open file, so that the end of the process, however it ends, releases it: there is no stale lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from reachp2p.core.ids import Entropy
from reachp2p.core.trust.ed25519 import PRIVATE_KEY_BYTES, generate_key
from reachp2p.errors import ConfigurationInvalid, ErrorCode, NodeError
from reachp2p.runtime.text import plain

logger = logging.getLogger("reachp2p.state")

KEY_FILE = "node.key"
LOCK_FILE = "lock"
SOCKET_FILE = "control.sock"
SOCKET_POINTER = "control.path"
TEMPORARY_MARK = "temporary"
TEMPORARY_PREFIX = "reachp2p-"
SOCKET_PATH_BYTES_MAX = 100
"""The kernel takes 108 (104 on macOS), the closing zero included."""
NAME_MAX = 64
LOCK_PATIENCE = 0.3
"""Seconds that a lock is tried for: a killed process may still be ending, and `running_process` looks for a moment."""

_KEY_ADVICE = (
    "Restore it from a copy, or move it away: the node then starts under a new key, which is a new identity"
)
_OPEN_LOCKS: dict[int, None] = {}


class StateFolder:
    """An open, locked state folder. `close` releases it (and removes it, if it was temporary)."""

    def __init__(self, path: Path, lock: int, *, is_temporary: bool) -> None:
        """Use `open_folder`."""
        self.path = path
        self.is_temporary = is_temporary
        self._lock: int | None = lock
        self._socket: Path | None = None

    def load_key(self, entropy: Entropy) -> bytes:
        """The node's private key, made at the first start. Raises `NodeError` 1706 if the file cannot be a key."""
        file = self.path / KEY_FILE
        for leftover in self.path.glob(f".{KEY_FILE}.*"):  # of a start that was killed while it wrote
            _remove_file(leftover)
        try:
            key = file.read_bytes()
        except FileNotFoundError:
            key = generate_key(entropy)
            try:
                write_private(file, key)
            except OSError as error:
                raise _cannot_write(file, error) from error
        except OSError as error:
            raise NodeError(
                ErrorCode.STATE_DAMAGED, f"{file} cannot be read: {error.strerror}. {_KEY_ADVICE}"
            ) from error
        if len(key) != PRIVATE_KEY_BYTES:
            raise NodeError(
                ErrorCode.STATE_DAMAGED,
                f"{file} is damaged: it has {len(key)} bytes, not {PRIVATE_KEY_BYTES}. {_KEY_ADVICE}",
            )
        return key

    def place_socket(self) -> Path:
        """Where the control socket is to be bound; nothing is there any more. Raises `NodeError` (1501, 1706)."""
        path = self.path / SOCKET_FILE
        pointer = self.path / SOCKET_POINTER
        if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
            path = _short_socket_path(self.path)
            try:
                write_private(pointer, os.fsencode(path))
            except IsADirectoryError as error:
                raise _in_the_way(pointer, error) from error
            except OSError as error:
                raise _cannot_write(pointer, error) from error
        else:
            _remove_file(pointer)
        _remove_file(path)  # left by a killed process; we hold the lock
        self._socket = path
        return path

    def close(self) -> None:
        """Remove the socket and release the lock; again is harmless."""
        if self._lock is None:
            return
        if self._socket is not None:
            with suppress(OSError):  # somebody put something else there; the next start says so
                self._socket.unlink(missing_ok=True)
        if self.is_temporary:
            with suppress(OSError):
                (
                    self.path / KEY_FILE
                ).unlink()  # first of all: nothing remembers this folder if we are killed now
            shutil.rmtree(self.path, ignore_errors=True)
        _OPEN_LOCKS.pop(self._lock, None)
        os.close(self._lock)
        self._lock = None


def open_folder(path: Path | None) -> StateFolder:
    """Make (0700) and lock a state folder; None makes a private temporary one that ends with the node. Blocks a little.

    Raises `NodeError` 1703 if another process uses it or 1706 if its lock is none, `ConfigurationInvalid` (1704) if it
    cannot be used at all.
    """
    is_temporary = path is None
    try:
        if path is None:
            path = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX))
        else:
            path = absolute(path)
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                path.chmod(0o700)
                logger.warning("%s was open to other users; it is closed to them now", path)
        lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except IsADirectoryError as error:
        raise NodeError(
            ErrorCode.STATE_DAMAGED,
            f"{path}/{LOCK_FILE} is a folder, not the lock of a node. Move it away: a start makes another",
        ) from error
    except OSError as error:
        raise ConfigurationInvalid(
            f"state folder {path or 'for this run'} cannot be used: {error.strerror or error}"
        ) from error
    try:
        _take_lock(path, lock)
        if is_temporary:
            _mark_temporary(path)  # not before it is locked: what is marked and not locked may be swept
        else:
            _remove_file(
                path / TEMPORARY_MARK
            )  # a folder that was left, and that somebody has chosen to keep
    except BaseException:
        os.close(lock)
        raise
    _OPEN_LOCKS[lock] = None
    return StateFolder(path, lock, is_temporary=is_temporary)


def default_folder(name: str, environment: Mapping[str, str]) -> Path:
    """Where a node of this name keeps its state by default. Raises `ConfigurationInvalid` for a name that is a path."""
    if (
        not name
        or len(name) > NAME_MAX
        or name[0] in ".-"
        or not all(one.isalnum() or one in "._-" for one in name)
    ):
        raise ConfigurationInvalid(
            f"node name {plain(name)!r}: a state folder needs letters, digits, '.', '_' and '-', at most {NAME_MAX}"
        )
    return state_root(environment) / name


def state_root(environment: Mapping[str, str]) -> Path:
    """The folder of all state folders of this user (XDG base directory specification).

    Raises `ConfigurationInvalid` (1704) for a user without a home.
    """
    base = environment.get("XDG_STATE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "reachp2p"
    try:
        return Path.home() / ".local" / "state" / "reachp2p"
    except RuntimeError as error:
        raise ConfigurationInvalid(
            "this user has no home folder to keep state in: set HOME or XDG_STATE_HOME, or name a state folder"
        ) from error


def control_socket(folder: Path) -> Path:
    """Where a node with this state folder answers, whether or not one runs."""
    try:
        return Path(os.fsdecode((folder / SOCKET_POINTER).read_bytes()))
    except OSError:
        return folder / SOCKET_FILE


def remote_socket(folder: Path) -> Path | None:
    """The control socket of this folder if it had to be placed elsewhere, because its path is long."""
    path = control_socket(folder)
    is_ours = path.parent != folder and path.name == _socket_name(folder)
    return path if is_ours else None


def running_process(folder: Path) -> int | None:
    """The process that holds the folder's lock (0 if its number cannot be read), or None. Changes nothing."""
    try:
        lock = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # Shared, so that two who look at the same moment do not take each other for a node.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(lock)
    finally:
        os.close(lock)
    return None


def absolute(path: Path) -> Path:
    """`path` from the root, `~` resolved. Raises `ConfigurationInvalid` (1704) if it names an unknown user."""
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ConfigurationInvalid(f"path {path}: there is no such user, or it has no home folder") from error


def write_private(path: Path, data: bytes) -> None:
    """Write a file (0600) so that after any crash it is there whole or not at all."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _take_lock(path: Path, lock: int) -> None:
    until = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= until:
                holder = _holder(lock)
                who = f"process {holder}" if holder else "another process"
                raise NodeError(
                    ErrorCode.STATE_LOCKED,
                    f"state folder {path} is in use by {who}: stop it, or give this node a name or state folder of its "
                    "own",
                ) from None
            time.sleep(0.02)
        except OSError as error:
            raise ConfigurationInvalid(
                f"state folder {path}: its file system has no locks ({error.strerror})"
            ) from error
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode("ascii"), 0)
    except OSError as error:
        raise _cannot_write(path / LOCK_FILE, error) from error


def _mark_temporary(path: Path) -> None:
    try:
        os.close(os.open(path / TEMPORARY_MARK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise _cannot_write(path / TEMPORARY_MARK, error) from error


def _remove_file(file: Path) -> None:
    """Remove what a former run has left; raises `NodeError` 1706 if it is something else than a file."""
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise _in_the_way(file, error) from error


def _in_the_way(file: Path, error: OSError) -> NodeError:
    what = "is a folder" if file.is_dir() else f"cannot be removed ({error.strerror})"
    return NodeError(
        ErrorCode.STATE_DAMAGED, f"{file} {what}, and a node needs the place: move it away and start again"
    )


def _cannot_write(file: Path, error: OSError) -> NodeError:
    return NodeError(
        ErrorCode.STORE_FULL,
        f"{file} cannot be written: {error.strerror}. Nothing is lost: make room on its disk, or make it writable, and "
        "start again",
    )


def _holder(lock: int) -> int:
    text = os.pread(lock, 32, 0).strip()
    return int(text) if text.isdigit() else 0


def _short_socket_path(folder: Path) -> Path:
    """A path that fits a socket, in a private folder of this user's."""
    name = _socket_name(folder)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    roots = [Path(runtime) / "reachp2p"] if os.path.isabs(runtime) else []
    roots += [Path(base) / f"reachp2p-{os.getuid()}" for base in (tempfile.gettempdir(), "/tmp")]
    root = next((one for one in roots if len(os.fsencode(one / name)) <= SOCKET_PATH_BYTES_MAX), roots[-1])
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigurationInvalid(
            f"{root} is not a private folder of this user: remove it, or use a shorter state path"
        )
    return root / name


def _socket_name(folder: Path) -> str:
    return hashlib.blake2b(os.fsencode(folder), digest_size=8).hexdigest() + ".sock"


def _forget_locks() -> None:
    """In a forked child: it shares the open file, so that the lock would outlive its holder for as long as it runs."""
    for lock in _OPEN_LOCKS:
        os.close(lock)
    _OPEN_LOCKS.clear()


os.register_at_fork(after_in_child=_forget_locks)
