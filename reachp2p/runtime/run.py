"""Runs a node as a whole program: signals, deadlines, exit codes (case B70).

The first SIGTERM or SIGINT, or a `leave` command, drains and says goodbye, within a deadline; a second signal, or the
deadline, ends the process by force, also when a handler has taken the event loop away. The exit code tells which it
was.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Self

from reachp2p._arguments import check_names, check_seconds, check_text, wrong
from reachp2p.agent import Agent
from reachp2p.errors import ErrorCode, LocalProtocolError, ReachError
from reachp2p.runtime.node import Node, node_options
from reachp2p.runtime.terminal_log import log_to_terminal, say, settle

EXIT_CLEAN = 0
EXIT_ERROR = 1
EXIT_FORCED = 3
"""Something was cut off: handlers that ran on, messages not handed over."""
EXIT_FENCED = 4
"""Another node runs under this key (1601): starting again would not help."""
DRAIN_TIMEOUT = 10.0
FORCE_PATIENCE = 2.0
"""Seconds after the deadline, or after the second signal, until the process ends whatever it is doing: closing links
(1 s) and files takes less."""


def run(
    *agents: Agent,
    seeds: str | Sequence[str] = (),
    name: str | None = None,
    drain_timeout: float = DRAIN_TIMEOUT,
    on_started: Callable[[Node], object] | None = None,
    **options: Any,
) -> None:
    """Offer agents until a signal comes, then leave; for scripts whose whole job this is.

    Takes what `Node` takes. With a `name` the node keeps its state in the user's state folder, so that it is the same
    node when it starts again; `state` names another folder. Warnings, and what handlers raise, go to stderr unless the
    program has set up logging. Ends the program with an exit code other than 0 when it fails (1), is fenced (4), or
    had to be forced (3).
    """
    if name is not None and "state" not in options:
        from reachp2p.runtime.state_folder import default_folder

        try:
            options["state"] = default_folder(check_text("name", name, "summarizer-1"), os.environ)
        except ReachError as error:
            sys.exit(_explain(error))
    log_to_terminal()
    code = run_node(
        *agents,
        seeds=seeds,
        name=name,
        drain_timeout=drain_timeout,
        on_started=on_started or _say_started,
        **options,
    )
    settle(sys.stderr)
    if code != EXIT_CLEAN:
        sys.exit(code)


def run_node(
    *agents: Agent,
    drain_timeout: float = DRAIN_TIMEOUT,
    on_started: Callable[[Node], object] | None = None,
    **options: Any,
) -> int:
    """Run a node until a signal or a `leave` command; returns the exit code. Errors are explained on stderr.

    `on_started` is called once the node takes part. To be called in the main thread.
    """
    try:
        import trio  # naming `run` loads no event loop

        if _importing:
            raise LocalProtocolError(
                f'{_importing[-1]} calls run() while it is imported: put that below `if __name__ == "__main__":`'
            )
        check_names(options, [*node_options(), "drain_timeout", "on_started"], "run")
        if check_seconds("drain_timeout", drain_timeout) < 0:
            raise wrong("drain_timeout", drain_timeout, "seconds from 0")
        if on_started is not None and not callable(on_started):
            raise wrong("on_started", on_started, "a function that takes the node")
        if trio.lowlevel.in_trio_run() or threading.current_thread() is not threading.main_thread():
            raise LocalProtocolError(
                "run() is a whole program and starts an event loop in the main thread: inside of another one write "
                "`async with Node(...) as node`"
            )
        node = Node(*agents, **{"control": True, **options})
        return trio.run(partial(_serve, node, drain_timeout, on_started))
    except ReachError as error:
        return _explain(error)
    except KeyboardInterrupt:  # between our handlers and trio's
        return EXIT_FORCED


@contextmanager
def importing(name: str) -> Iterator[None]:
    """While a program imports a module to run its agents: that module must not run them by itself."""
    _importing.append(name)
    try:
        yield
    finally:
        _importing.pop()


_importing: list[str] = []


async def _serve(node: Node, drain_timeout: float, on_started: Callable[[Node], object] | None) -> int:
    with _Signals(node, drain_timeout) as signals:
        try:
            async with node:
                if on_started is not None:
                    on_started(node)
                seconds = await node.wait_stopping()  # a signal, a command, a fence, a failure
                signals.guard(seconds if seconds < float("inf") else drain_timeout)
                await node.wait_closed()
        except LocalProtocolError:
            if signals.count and node.started_at is None:
                return EXIT_CLEAN  # told to end while it started
            raise
    return EXIT_CLEAN if node.has_ended_cleanly else EXIT_FORCED


class _Signals:
    """SIGTERM and SIGINT while a node runs: leave, then force. As a context manager, in the main thread."""

    def __init__(self, node: Node, drain_timeout: float) -> None:
        from trio.lowlevel import current_trio_token

        self._node = node
        self._drain_timeout = drain_timeout
        self.count = 0
        self._former: dict[int, Any] = {}
        self._token = current_trio_token()
        self._watchdogs: list[threading.Timer] = []

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._former[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)
        for watchdog in self._watchdogs:
            watchdog.cancel()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        """In the main thread, between two instructions of whatever it does."""
        self.count += 1
        timeout = self._drain_timeout if self.count == 1 else 0.0
        if self.count > 2:
            return
        self._token.run_sync_soon(self._node.stop, timeout)
        self.guard(timeout)

    def guard(self, timeout: float) -> None:
        """End the process by force if it is still there some time after `timeout` seconds."""
        watchdog = threading.Timer(timeout + FORCE_PATIENCE, self._force)
        watchdog.daemon = True
        watchdog.start()
        self._watchdogs.append(watchdog)

    def _force(self) -> None:
        """In a thread of its own: the event loop does not end by itself."""
        say("reachp2p: did not end in time and was forced to")
        if self._node.temporary_folder is not None:
            shutil.rmtree(self._node.temporary_folder, ignore_errors=True)
        os._exit(EXIT_FORCED)


def _explain(error: ReachError) -> int:
    say(f"reachp2p: {error}")
    return EXIT_FENCED if error.code is ErrorCode.FENCED else EXIT_ERROR


def _say_started(node: Node) -> None:
    offered = ", ".join(node.offered) or "no agents"
    say(f"reachp2p: {node.name} ({node.id[:4].hex()}) at {node.address} offers {offered}")
