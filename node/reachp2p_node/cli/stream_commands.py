"""`reachp2p stream`. It is put into the application by `app`."""

from __future__ import annotations

from typing import Annotated

import typer

from reachp2p_node.cli.json_argument import read_json
from reachp2p_node.cli.options import (
    AgentOption,
    CapabilityArgument,
    JsonFlag,
    KeyOption,
    NodeOption,
    PolicyOption,
    StateOption,
)


def stream(
    capability: CapabilityArgument,
    params: Annotated[
        str,
        typer.Argument(
            metavar="JSON", help="The parameters, an object; - reads them from stdin, @FILE from a file."
        ),
    ] = "{}",
    agent: AgentOption = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", metavar="SECONDS", help="For the whole stream (10 min, or as its agent says)."
        ),
    ] = None,
    policy: PolicyOption = None,
    key: KeyOption = None,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Call an agent that streams its results, and print each.

    A running node of yours makes the call. Each result is printed as it comes, as one line of JSON; Ctrl-C cancels the
    handler.

    \b
    Examples:
      reachp2p stream text.words '{"text": "one by one"}'
    """
    from reachp2p_node.cli.streams import show_items

    if timeout is not None and not 0 < timeout <= 86_400:  # also refuses nan
        raise typer.BadParameter(
            f"{timeout:g}: write seconds, above 0 and at most 86400", param_hint="--timeout"
        )
    args = {
        "capability": capability, "agent": agent, "timeout": timeout, "policy": policy, "key": key,
        "params": read_json(params),
    }  # fmt: skip
    show_items(args, node, state, as_json=as_json)
