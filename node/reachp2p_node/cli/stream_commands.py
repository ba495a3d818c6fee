"""`reachp2p stream`. It is put into the application by `app`."""

from __future__ import annotations

from typing import Annotated

import typer

from reachp2p_node.cli.json_argument import read_json
from reachp2p_node.cli.options import (
    AgentOption,
    ByShapeFlag,
    JsonFlag,
    KeyOption,
    NodeOption,
    PolicyOption,
    StateOption,
    TagOption,
    TargetArgument,
)
from reachp2p_node.cli.target import NO_PARAMS, check_target, tags_of, target_of


def stream(
    capability: TargetArgument = None,
    params: Annotated[
        str,
        typer.Argument(
            metavar="JSON", help="The parameters, an object; - reads them from stdin, @FILE from a file."
        ),
    ] = NO_PARAMS,
    agent: AgentOption = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", metavar="SECONDS", help="For the whole stream (10 min, or as its agent says)."
        ),
    ] = None,
    tag: TagOption = None,
    policy: PolicyOption = None,
    key: KeyOption = None,
    by_shape: ByShapeFlag = False,
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
    tags = tags_of(tag)
    check_target(capability, agent, tags, by_shape=by_shape, has_params=False)
    capability, params = target_of(capability, params)
    args = {
        "capability": capability, "agent": agent, "timeout": timeout, "tags": tags, "policy": policy, "key": key,
        "params": read_json(params), "by_shape": by_shape or None,
    }  # fmt: skip
    show_items(args, node, state, as_json=as_json)
