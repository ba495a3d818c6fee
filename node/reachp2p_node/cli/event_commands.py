"""`reachp2p publish` and `reachp2p subscribe`. They are put into the application by `app`."""

from __future__ import annotations

from typing import Annotated

import typer

from reachp2p_node.cli.json_argument import read_json
from reachp2p_node.cli.options import JsonFlag, NodeOption, StateOption


def publish(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Such as orders.eu.created.")],
    data: Annotated[
        str,
        typer.Argument(metavar="JSON", help="What is published; - reads it from stdin, @FILE from a file."),
    ] = "null",
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Publish an event to all that subscribe to it.

    A running node of yours publishes it, and says to how many nodes it was sent.

    \b
    Examples:
      reachp2p publish orders.eu.created '{"id": 4711}'
    """
    from reachp2p_node.cli.events import make_publish

    make_publish(topic, read_json(data), node, state, as_json=as_json)


def subscribe(
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="A topic; * stands for one token, > for the rest.")
    ],
    count: Annotated[
        int | None, typer.Option("--count", metavar="COUNT", min=1, help="End after so many events.")
    ] = None,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Print events as they come, until Ctrl-C or until the node ends.

    A running node of yours subscribes. With --json each event is one line.

    \b
    Examples:
      reachp2p subscribe 'orders.>'
      reachp2p subscribe 'orders.*.created' --json --count 1
    """
    from reachp2p_node.cli.events import show_events

    show_events(pattern, count, node, state, as_json=as_json)
