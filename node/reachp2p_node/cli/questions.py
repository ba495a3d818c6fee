"""The commands that talk to a running node over its control socket."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import trio

from reachp2p.errors import ErrorCode, NodeError
from reachp2p.runtime.control_client import request
from reachp2p.runtime.state_folder import running_process
from reachp2p_node.cli import output
from reachp2p_node.cli.nodes import Running, choose

ANSWER_MARGIN = 5.0
"""Seconds beyond a call's own timeout after which its node is not waited for any more."""
CALL_TIMEOUT_MAX = 86_400.0
"""The longest a capability may declare; the node ends every call by itself, so this is never waited for."""
LEAVE_PATIENCE = 5.0
"""Seconds beyond its own deadline that a node has to be gone."""


def show_members(node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p members`."""
    asked, answer = trio.run(partial(_ask, node, state, "members"))
    if as_json:
        output.print_json({"asked": asked.name, **answer})
        return
    from reachp2p_node.cli import tables

    output.print_table(
        tables.members_table(answer["members"]),
        tables.members_summary(answer["members"], answer["diagnostics"]),
    )


def show_agents(node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p agents`."""
    asked, answer = trio.run(partial(_ask, node, state, "agents"))
    if as_json:
        output.print_json({"asked": asked.name, **answer})
        return
    from reachp2p_node.cli import tables

    if answer["agents"]:
        output.print_table(tables.agents_table(answer["agents"]))
    else:
        output.note(f"{asked.name} knows of no agents")


def show_explanation(args: Mapping[str, Any], node: str | None, state: Path | None, *, as_json: bool) -> int:
    """`reachp2p route explain`; the exit code says whether a call would find somebody."""
    asked, answer = trio.run(partial(_ask, node, state, "explain", args))
    if as_json:
        output.print_json({"asked": asked.name, **answer})
    else:
        from reachp2p_node.cli import tables

        if answer["candidates"]:
            output.print_table(tables.explanation_table(answer))
        output.print_table(tables.explanation_summary(answer))
    return output.FAILED if answer["code"] else output.OK


def make_call(args: Mapping[str, Any], node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p call`: the result on stdout, who answered on stderr."""
    timeout = args.get("timeout")
    patience = CALL_TIMEOUT_MAX if timeout is None else timeout + ANSWER_MARGIN
    asked, answer = trio.run(partial(_ask, node, state, "call", args, patience))
    if as_json:
        output.print_json({"asked": asked.name, **answer})
        return
    output.print_json(answer["value"])
    tries = "" if answer["attempts"] == 1 else f", {answer['attempts']} attempts"
    output.note(f"{answer['agent']} on node {answer['node'][:8]}, {answer['seconds'] * 1e3:.1f} ms{tries}")


def make_leave(timeout: float, node: str | None, state: Path | None, *, as_json: bool) -> int:
    """`reachp2p leave`: asks, and waits until the process has let go of its state folder."""
    from reachp2p.runtime.run import (
        FORCE_PATIENCE,
    )  # with all that runs a node, which the other questions do not need

    begun = time.monotonic()
    asked = trio.run(partial(_leave, timeout, node, state))
    seconds = round(time.monotonic() - begun, 3)
    was_forced = seconds >= timeout + FORCE_PATIENCE
    if as_json:
        answer = {"left": True, "forced": was_forced, "name": asked.name, "pid": asked.process}
        output.print_json({**answer, "seconds": seconds})
    elif was_forced:
        output.note(f"{asked.name} did not finish within {timeout:g} s and was ended by force")
    else:
        output.note(f"{asked.name} has left after {seconds:.1f} s")
    return output.FAILED if was_forced else output.OK


async def _ask(
    node: str | None,
    state: Path | None,
    operation: str,
    args: Mapping[str, Any] | None = None,
    timeout: float = 10.0,  # noqa: ASYNC109 (handed on)
) -> tuple[Running, Any]:
    asked = await choose(node, state)
    return asked, await request(asked.folder, operation, args, timeout)


async def _leave(timeout: float, node: str | None, state: Path | None) -> Running:  # noqa: ASYNC109 (handed on)
    asked = await choose(node, state, must_be_sure=True)
    await request(asked.folder, "leave", {"timeout": timeout})
    with trio.move_on_after(timeout + LEAVE_PATIENCE):
        while running_process(asked.folder) is not None:  # noqa: ASYNC110 (another's lock has no event)
            await trio.sleep(0.05)
        return asked
    raise NodeError(
        ErrorCode.DEADLINE_EXCEEDED,
        f"{asked.name} still runs {LEAVE_PATIENCE:g} s after its deadline; end process {asked.process} by force",
    )
