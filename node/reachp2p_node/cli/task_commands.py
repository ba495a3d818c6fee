"""`reachp2p task`: what became of a call that its node goes on with. It is put into the application by `app`."""

from __future__ import annotations

from typing import Annotated

import typer

from reachp2p_node.cli.options import JsonFlag, NodeOption, StateOption


def task(
    name: Annotated[
        str, typer.Argument(metavar="[ID]", help="Its id, 32 digits; without one, all tasks are listed.")
    ] = "",
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="Wait so long for its end. [0]")
    ] = 0.0,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stop it.")] = False,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Print the result of a task, or how far it is.

    A call that takes longer than its caller waits goes on as a task, and `reachp2p call --submit` makes one at once.
    The node that made the call keeps it, and how it ended for 10 minutes. The exit code is 0 if the task is done, goes
    on, or is cancelled by this command, 1 if it has failed or was cancelled before.

    \b
    Examples:
      reachp2p task
      reachp2p task 3f2a91c04b7d4e0f9a6b5c4d3e2f1a0b --wait 60
    """
    from reachp2p_node.cli.tasks import show_task, show_tasks

    if not 0 <= wait <= 86_400:  # also refuses nan
        raise typer.BadParameter(f"{wait:g}: write seconds from 0 to 86400", param_hint="--wait")
    if not name:
        if wait or cancel:
            raise typer.BadParameter("name the task that is meant", param_hint="ID")
        show_tasks(node, state, as_json=as_json)
        return 0
    return show_task({"task": name, "wait": wait, "cancel": cancel}, node, state, as_json=as_json)
