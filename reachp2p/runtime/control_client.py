"""The command line's side of the control socket: one request, one answer, within a deadline."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from reachp2p._arguments import shown
from reachp2p.errors import CallFailed, ConfigurationInvalid, ErrorCode, NodeError, ReachError
from reachp2p.runtime.control_wire import ANSWER_MAX, LINE_MAX, Lines, LineTooLong, LineUnreadable, encoded
from reachp2p.runtime.state_folder import control_socket, running_process

REQUEST_TIMEOUT = 10.0


async def request(
    folder: Path,
    op: str,
    args: Mapping[str, Any] | None = None,
    timeout: float = REQUEST_TIMEOUT,  # noqa: ASYNC109 (it raises an error of its own)
) -> Any:
    """Ask the node with this state folder. Raises what it answers (`CallFailed` with its code), `CallFailed` (1404) if
    the request is too large to be sent, or `NodeError` if no node answers in time."""
    line = _request_line(op, args)
    if len(line) > LINE_MAX:
        raise _too_large(len(line))
    with trio.move_on_after(timeout):
        async with _connect(folder) as lines:
            try:
                await lines.send(line)
            except trio.BrokenResourceError:
                refusal = await lines.read()  # why it has closed the connection, if it has said so
                if refusal is None:
                    raise
                return _result(refusal)
            return _result(await lines.read())
    process = running_process(folder)
    who = f"the node in {folder}" + (f" (process {process})" if process else "")
    raise NodeError(
        ErrorCode.NODE_LOST,
        f"{who} did not answer within {timeout:g} s: it may be stopped, or a handler of it holds its event loop",
    )


async def stream(folder: Path, op: str, args: Mapping[str, Any] | None = None) -> AsyncGenerator[Any, None]:
    """The lines of a streaming operation (`events`, `subscribe`), until the node ends. Close it with `aclose`, or end
    its task."""
    async with _connect(folder) as lines:
        await lines.send(_request_line(op, args))
        while isinstance(answer := await lines.read(), dict) and "event" in answer:
            yield answer["event"]
        if answer is not None:
            _result(answer)


def request_sync(
    folder: Path, op: str, args: Mapping[str, Any] | None = None, timeout: float = REQUEST_TIMEOUT
) -> Any:
    """`request` for a program without an event loop."""
    return trio.run(partial(request, folder, op, args, timeout))


@asynccontextmanager
async def _connect(folder: Path) -> AsyncIterator[Lines]:
    path = control_socket(folder)
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        code = errno.EAGAIN
        while (
            code == errno.EAGAIN
        ):  # its queue of connections is full, and nothing tells us when it no longer is
            code = connected.connect_ex(os.fspath(path))
            await trio.sleep(0.05 if code == errno.EAGAIN else 0)
        if code:
            raise OSError(code, os.strerror(code))
        lines = Lines(connected, ANSWER_MAX)
    except OSError as error:
        connected.close()
        raise NodeError(ErrorCode.CONFIGURATION_INVALID, _nobody(folder, error)) from error
    except BaseException:
        connected.close()
        raise
    try:
        yield lines
    except (OSError, trio.BrokenResourceError, LineTooLong, LineUnreadable) as error:
        reason = error.message if isinstance(error, ReachError) else error
        raise NodeError(
            ErrorCode.NODE_LOST, f"the node in {folder} has gone while it answered: {reason}"
        ) from error
    finally:
        await lines.aclose()


def _request_line(op: str, args: Mapping[str, Any] | None) -> bytes:
    """A request as it is sent. Raises `ConfigurationInvalid` (1704) for bytes of a command line that are no text."""
    try:
        return encoded({"id": 1, "op": op, "args": dict(args or {})})
    except UnicodeEncodeError as error:
        raise ConfigurationInvalid(f"{shown(error.object)}: write text in UTF-8") from None


def _too_large(size: int) -> CallFailed:
    from reachp2p.core.settings import Protocol

    return CallFailed(
        ErrorCode.PAYLOAD_TOO_LARGE,
        f"the request has {size:,} bytes, more than a node reads ({LINE_MAX:,}); a payload has at most "
        f"{Protocol().payload_max:,}: pass a reference instead",
    )


def _nobody(folder: Path, error: OSError) -> str:
    """What to do when nobody answers."""
    if process := running_process(folder):
        return (
            f"process {process} runs a node in {folder} that answers no commands ({error.strerror or error}): start it "
            "with `run`, or with control=True"
        )
    return (
        f"no node runs in {folder} ({error.strerror or error}): start it, or name another (without --state, those that "
        "run are looked for)"
    )


def _result(answer: Any) -> Any:
    if not isinstance(answer, dict):
        raise NodeError(ErrorCode.NODE_LOST, "the node has ended before it answered")
    if answer.get("ok"):
        return answer.get("result")
    raise _error(answer.get("error"))


def _error(told: Any) -> ReachError:
    told = told if isinstance(told, dict) else {}
    try:
        code = ErrorCode(told.get("code"))
    except ValueError:
        code = ErrorCode.CONFIGURATION_INVALID
    return CallFailed(
        code,
        str(told.get("message", "the node answered with an error that cannot be read")),
        node=told.get("node"),
        attempts=told.get("attempts", 0),
        detail=told.get("detail"),
        call=told.get("call"),
    )
