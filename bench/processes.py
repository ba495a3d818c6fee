"""The other processes of a bench: started with a pipe to each, and gone when the block ends, however it does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

PATIENCE = 20.0
"""Seconds until a process that says nothing is given up."""
END_WITHIN = 5.0
"""Seconds that it has to end after its standard input has; then it is killed."""


@asynccontextmanager
async def child(
    program: str, *arguments: str, speaks: bool = True
) -> AsyncIterator[tuple[trio.Process, str]]:
    """Run a Python program, which ends when its standard input does; the first line that it prints, if it `speaks`."""
    process = await trio.lowlevel.open_process(
        [sys.executable, program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if speaks else None,
    )
    try:
        yield process, (await _first_line(process)) if speaks else ""
    finally:
        with trio.move_on_after(END_WITHIN, shield=True):
            assert process.stdin is not None, "it is a pipe"
            await process.stdin.aclose()
            await process.wait()
        process.kill()


async def _first_line(process: trio.Process) -> str:
    assert process.stdout is not None, "it is a pipe"
    line = b""
    with trio.fail_after(PATIENCE):
        while not line.endswith(b"\n"):
            part = await process.stdout.receive_some()
            if not part:
                raise RuntimeError("the other process ended before it said anything")
            line += part
    return line.decode().strip()
