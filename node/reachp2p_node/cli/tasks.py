"""Tasks of a running node, as tables and as results."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import trio

from reachp2p_node.cli import output
from reachp2p_node.cli.questions import ANSWER_MARGIN, ask


def submit(args: Mapping[str, Any], node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p call --submit`: the id of the task on stdout."""
    asked, answer = trio.run(partial(ask, node, state, "submit", args))
    if as_json:
        output.print_json({"asked": asked.name, **answer})
        return
    output.print_text(answer["task"])
    output.note(f"{asked.name} goes on with it; `reachp2p task {answer['task']}` asks for its result")


def show_task(args: Mapping[str, Any], node: str | None, state: Path | None, *, as_json: bool) -> int:
    """`reachp2p task ID`: the result on stdout if there is one, its state on stderr."""
    asked, answer = trio.run(partial(ask, node, state, "task", args, args["wait"] + ANSWER_MARGIN))
    has_failed = answer["state"] == "failed" or (answer["state"] == "cancelled" and not args["cancel"])
    if as_json:
        output.print_json({"asked": asked.name, **answer})
    else:
        if "value" in answer:
            output.print_json(answer["value"])
        output.note(_said(answer))
    return output.FAILED if has_failed else output.OK


def show_tasks(node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p task`."""
    asked, answer = trio.run(partial(ask, node, state, "tasks"))
    if as_json:
        output.print_json({"asked": asked.name, **answer})
        return
    from reachp2p_node.cli.fitted import Column, Fitted
    from reachp2p_node.cli.tables import duration

    if not answer["tasks"]:
        output.note(f"{asked.name} has no tasks; `reachp2p call --submit` makes one")
        return
    columns = [
        Column("task"),
        Column("state"),
        Column("took", right=True),
        Column("left", importance=1, right=True),
        Column("capability", importance=3),
        Column("agent", importance=2),
        Column("code", right=True),
    ]
    rows = [
        (
            one["task"],
            one["state"],
            duration(one["seconds"]),
            "" if one["left"] is None else duration(one["left"]),
            one["capability"],
            one["agent"],
            str(one["code"]) if one["code"] else "",
        )
        for one in answer["tasks"]
    ]
    table = Fitted(columns, rows, output.table_width())
    output.print_table(table.table)
    output.note_left_out(table.left_out)


def _said(answer: Mapping[str, Any]) -> str:
    """`done after 3.2 s: demo/shouter on node 5fa9b5c4`."""
    from reachp2p_node.cli.tables import duration

    where = f"{answer['agent']} on node {answer['node'][:8]}" if answer["node"] else answer["capability"]
    text = f"{answer['state']} after {duration(answer['seconds'])}: {where}"
    if answer["left"] is not None:
        return f"{text}; it has {duration(answer['left'])} left"
    return f"{text}: {answer['message']} [{answer['code']}]" if answer["code"] else text
