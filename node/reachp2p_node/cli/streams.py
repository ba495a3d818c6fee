"""Items of a stream over a running node's control socket."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import trio

from reachp2p.runtime.control_client import stream
from reachp2p_node.cli import output
from reachp2p_node.cli.nodes import choose


def show_items(args: Mapping[str, Any], node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p stream`: the items on stdout, how many on stderr; with --json each is an object."""
    trio.run(partial(_show, args, node, state, as_json=as_json))


async def _show(args: Mapping[str, Any], node: str | None, state: Path | None, *, as_json: bool) -> None:
    asked = await choose(node, state)
    count = 0
    async with aclosing(stream(asked.folder, "stream", args)) as items:
        async for item in items:
            output.print_json_line(item if as_json else item["item"])
            count += 1
    output.note(
        f"{count} item{'' if count == 1 else 's'} of {args['capability'] or args['agent'] or 'the stream'}"
    )
