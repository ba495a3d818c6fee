"""Events of topics over a running node's control socket."""

from __future__ import annotations

import json
import time
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import trio

from reachp2p.runtime.control_client import request, stream
from reachp2p.runtime.text import plain
from reachp2p_node.cli import output
from reachp2p_node.cli.nodes import choose

SHOWN_MAX = 4_000
"""Characters of an event on a terminal; --json has all of them."""


def make_publish(topic: str, data: Any, node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p publish`."""
    answer = trio.run(partial(_publish, topic, data, node, state))
    if as_json:
        output.print_json(answer)
    else:
        nodes = answer["nodes"]
        output.note(f"sent to {nodes} node{'' if nodes == 1 else 's'}")


def show_events(
    pattern: str, count: int | None, node: str | None, state: Path | None, *, as_json: bool
) -> None:
    """`reachp2p subscribe`."""
    trio.run(partial(_show, pattern, count, node, state, as_json=as_json))


async def _publish(topic: str, data: Any, node: str | None, state: Path | None) -> Any:
    asked = await choose(node, state)
    answer = await request(asked.folder, "publish", {"topic": topic, "data": data})
    return {"asked": asked.name, **answer}


async def _show(
    pattern: str, count: int | None, node: str | None, state: Path | None, *, as_json: bool
) -> None:
    asked = await choose(node, state)
    shown = 0
    async with aclosing(stream(asked.folder, "subscribe", {"pattern": pattern})) as events:
        async for event in events:
            if "subscribed" in event:
                output.note(f"{asked.name} subscribes to {pattern}; Ctrl-C ends it")
                continue
            if as_json:
                output.print_json_line(event)
            else:
                _print(event)
            shown += 1
            if shown == count:
                return


def _print(event: dict[str, Any]) -> None:
    """One event for a person: when, what, from whom; and what was lost before it."""
    if event["missed"]:
        output.note(f"{event['missed']} events were missed: this command or its terminal is too slow")
    if event["gap"]:
        output.note(f"{event['gap']} events of node {event['node'][:8]} were lost on the way")
    at = time.strftime("%H:%M:%S", time.localtime(event["at"]))
    who = event["agent"] or f"node {event['node'][:8]}"
    data = json.dumps(event["data"], ensure_ascii=False)
    output.print_text(plain(f"{at}  {event['topic']}  {data}  ({who})", SHOWN_MAX))
