"""Removes what killed nodes without a state folder have left in the temporary folder: their private key above all.

Touched are folders that carry our mark, belong to this user alone, and whose lock nobody holds. A folder is marked
after it is locked, and the lock ends with its process, so that none that is in use can look abandoned.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

from reachp2p.runtime.state_folder import KEY_FILE, LOCK_FILE, TEMPORARY_MARK, TEMPORARY_PREFIX, remote_socket

logger = logging.getLogger("reachp2p.state")

LOOKED_AT_MAX = 4_096
REMOVED_MAX = 64
"""Folders of one sweep: a start should not wait for the clean-up of thousands; the next one goes on."""


def sweep() -> int:
    """Remove abandoned folders; returns how many. Blocks a little, raises nothing."""
    removed, root = 0, ""
    try:
        root = tempfile.gettempdir()
        with os.scandir(root) as entries:
            for count, entry in enumerate(entries):
                if count >= LOOKED_AT_MAX or removed >= REMOVED_MAX:
                    break
                if entry.name.startswith(TEMPORARY_PREFIX) and entry.is_dir(follow_symlinks=False):
                    removed += _remove_if_abandoned(Path(entry.path))
    except OSError as error:
        logger.debug("the temporary folder %s cannot be swept: %s", root, error)
    if removed:
        logger.info("removed %d state folders of killed nodes from %s", removed, root)
    return removed


def _remove_if_abandoned(folder: Path) -> bool:
    try:
        found = folder.lstat()
        is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if not is_ours or stat.S_IMODE(found.st_mode) & 0o077 or not _is_marked(folder):
            return False
        lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return False  # gone, or not as we make them
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_marked(folder):
            return False  # somebody else was faster, or uses it as a state folder now
        if (elsewhere := remote_socket(folder)) is not None:
            elsewhere.unlink(missing_ok=True)
        (folder / KEY_FILE).unlink(missing_ok=True)  # first of all
        shutil.rmtree(folder)
        return True
    except OSError as error:
        logger.debug("%s is not removed: %s", folder, error)  # in use, as a rule
        return False
    finally:
        os.close(lock)


def _is_marked(folder: Path) -> bool:
    try:
        return stat.S_ISREG((folder / TEMPORARY_MARK).lstat().st_mode)
    except OSError:
        return False
