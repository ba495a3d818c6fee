"""Files for people, on disks that may be full: whole or not at all, and a trace that ends before its run does."""

from __future__ import annotations

import io
import os
from pathlib import Path


def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file whole: whoever reads it sees the old one or the new one, also after a power cut.

    What is no plain file (a terminal, a pipe) is written as it is. Raises `OSError`, whose `filename` is this path.
    """
    if isinstance(data, str):
        data = data.encode()
    real = Path(os.path.realpath(path))
    try:
        if real.exists() and not real.is_file():
            real.write_bytes(data)
            return
        beside = real.with_name(f".{real.name}.{os.getpid()}.new")
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(real)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:  # a full disk does not say which file it did not take
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


class TraceFile(io.TextIOBase):
    """The trace of a run as a text file. A disk that takes no more ends the file and not the run.

    `trouble` says then what happened; what had been written is kept.
    """

    def __init__(self, path: Path) -> None:
        """Raises `OSError` if the file cannot be opened."""
        self.path = path
        self.trouble: str | None = None
        self._file = path.open("w", encoding="utf-8")

    def write(self, text: str) -> int:
        """Write, or if that failed before do nothing."""
        if self.trouble is None:
            try:
                self._file.write(text)
            except OSError as error:
                self._failed(error)
        return len(text)

    def close(self) -> None:
        """Write what is waiting. No error: look at `trouble`."""
        if self.closed:
            return
        try:
            self._file.close()
        except OSError as error:
            self._failed(error)
        super().close()

    def _failed(self, error: OSError) -> None:
        self.trouble = self.trouble or f"{self.path}: {error.strerror or error}; the trace ends there"


def said_of(error: OSError) -> str:
    """What went wrong with which file, for a message."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"
