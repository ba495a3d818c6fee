"""The commands about routing rules: `reachp2p rules show | apply | diff | history | check | reload`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import trio

from reachp2p.config import parse_toml, read_file
from reachp2p.errors import ConfigurationInvalid
from reachp2p.runtime.control_client import request
from reachp2p.runtime.text import plain
from reachp2p_node.cli import output
from reachp2p_node.cli.nodes import Running, choose

TIMEOUT = 10.0
WORDS_MAX = 2_000
DIGITS_MAX = 19


def show_rules(version: int | None, node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p rules show`: TOML that could be applied, with comments that say where it is from."""
    asked, answer = _ask(node, state, "rules")
    if version is not None:
        _show_version(version, asked.name, answer["history"], as_json=as_json)
        return
    in_force = next((one for one in answer["history"] if one["in_force"]), None)
    if as_json:
        output.print_json(
            {"asked": asked.name, "own": answer["own"], "cluster": in_force, "unmet": answer["unmet"]}
        )
        return
    layers: list[tuple[str, str]] = []
    if answer["own"] is not None:
        layers.append((f"the file of this node alone, {answer['own']['origin']}", answer["own"]["toml"]))
    if in_force is not None:
        layers.append((f"{_told(in_force)}", in_force["toml"]))
    for number, (origin, toml) in enumerate(layers, 1):
        output.print_text(f"# {number}. {plain(origin, WORDS_MAX)}\n{_harmless(toml) or '# no rules'}")
    if not layers:
        output.note(f"{asked.name} goes by no rules; `reachp2p rules apply FILE` gives the cluster some")
    elif len(layers) > 1:
        output.note("each setting is from the first rule that fits a call: those of this node go first")
    _note_trouble(answer)


def _show_version(version: int, asked: str, history: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Rules of the history; of several with one version, those that count."""
    record = next((one for one in history if one["version"] == version), None)
    if record is None:
        known = ", ".join(str(one["version"]) for one in reversed(history))
        has = f"there are versions {known}" if known else "it is empty"
        raise ConfigurationInvalid(f"version {version} of the rules is not in the history; {has}")
    if as_json:
        output.print_json({"asked": asked, **record})
    elif record["refused"]:
        output.note(f"version {version} is not understood here: {record['refused']}")
    else:
        output.print_text(f"# {plain(_told(record), WORDS_MAX)}\n{_harmless(record['toml']) or '# no rules'}")


def apply_rules(
    file: Path, comment: str, node: str | None, state: Path | None, *, dry_run: bool, as_json: bool
) -> None:
    """`reachp2p rules apply`: what changes on stdout, a line each."""
    args = {**_side_file(file), "comment": comment, "dry_run": dry_run}
    asked, answer = _ask(node, state, "rules_apply", args, must_be_sure=False)
    if as_json:
        output.print_json({"asked": asked.name, "dry_run": dry_run, **answer})
        return
    _print_changes(answer["changes"])
    if dry_run:
        output.note("nothing was applied; without --dry-run this would be for the whole cluster")
    elif not answer["is_new"]:
        output.note(f"nothing was applied: the cluster's version {answer['version']} says the same")
    else:
        output.note(
            f"version {answer['version']} is signed by {asked.name} and on its way to the whole cluster"
        )


def diff_rules(sides: Sequence[str], node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p rules diff`: one side is compared with what is in force, a version as the older one."""
    given: list[Any] = [_side(text) for text in sides]
    if len(given) == 1:
        given = [given[0], None] if isinstance(given[0], int) else [None, given[0]]
    asked, answer = _ask(node, state, "rules_diff", {"old": given[0], "new": given[1]})
    if as_json:
        output.print_json({"asked": asked.name, **answer})
    else:
        _print_changes(answer["changes"])


def show_history(node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p rules history`: the newest first."""
    asked, answer = _ask(node, state, "rules")
    if as_json:
        output.print_json({"asked": asked.name, "history": answer["history"]})
        return
    if not answer["history"]:
        output.note(f"{asked.name} knows of no rules that were applied to the cluster")
        return
    from reachp2p_node.cli import tables

    table = tables.rules_table(answer["history"], time.time(), output.table_width())
    output.print_table(table.table)
    output.note_left_out(table.left_out)
    _note_trouble(answer)


def check_rules(file: Path, *, as_json: bool) -> int:
    """`reachp2p rules check`: without any node; every problem is a line."""
    from reachp2p.core.routing.rule_reading import RulesInvalid, read_rules
    from reachp2p.core.routing.rule_text import encode_rules
    from reachp2p.runtime.policies import Policies

    problems: tuple[str, ...] = ()
    count = 0
    try:
        document = parse_toml(read_file(file, "rules"), str(file), "rules")
        rule_set = read_rules(document, Policies(), str(file))
        encode_rules(rule_set, str(file))
        count = len(rule_set.rules)
    except RulesInvalid as invalid:
        problems = invalid.problems
    if as_json:
        output.print_json({"file": str(file), "rules": count, "problems": list(problems)})
    for problem in problems:
        output.note(f"{file}: {problem}")
    if not problems and not as_json:
        output.note(f"{file}: {count} rule{'' if count == 1 else 's'}, nothing wrong")
    return output.FAILED if problems else output.OK


def reload_rules(node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p rules reload`."""
    asked, answer = _ask(node, state, "rules_reload", must_be_sure=True)
    if as_json:
        output.print_json({"asked": asked.name, **answer})
    else:
        changed = (
            "other rules than before are in force" if answer["changed"] else "it says what it said before"
        )
        output.note(f"{asked.name} has read its file: {changed}")


def _ask(
    node: str | None,
    state: Path | None,
    operation: str,
    args: Mapping[str, Any] | None = None,
    *,
    must_be_sure: bool = False,
) -> tuple[Running, Any]:
    async def ask() -> tuple[Running, Any]:
        asked = await choose(node, state, must_be_sure=must_be_sure)
        return asked, await request(asked.folder, operation, args, TIMEOUT)

    return trio.run(partial(ask))


def _side(text: str) -> int | dict[str, Any]:
    return (
        int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX else _side_file(Path(text))
    )


def _side_file(file: Path) -> dict[str, Any]:
    try:
        return {"toml": read_file(file, "rules").decode(), "origin": str(file)}
    except UnicodeDecodeError as error:
        raise ConfigurationInvalid(f"{file}: not UTF-8 text") from error


def _told(record: Mapping[str, Any]) -> str:
    from reachp2p_node.cli.tables import duration

    ago = duration(max(0.0, time.time() - record["issued_at"]))
    comment = f": {record['comment']}" if record["comment"] else ""
    return f"the cluster's version {record['version']}, applied {ago} ago by {record['author_name']}{comment}"


def _print_changes(changes: Sequence[str]) -> None:
    for line in changes:
        output.print_text(plain(line, WORDS_MAX))
    if not changes:
        output.note("they are the same")


def _note_trouble(answer: Mapping[str, Any]) -> None:
    newest = answer["history"][0] if answer["history"] else None
    if newest is not None and newest["refused"]:
        output.note(f"version {newest['version']} is newer and not used here: {newest['refused']}")
    for words in answer["unmet"]:
        output.note(f"{words}; it goes on, because it was offered before")


def _harmless(toml: str) -> str:
    return "\n".join(plain(line, WORDS_MAX) for line in toml.rstrip("\n").split("\n"))
