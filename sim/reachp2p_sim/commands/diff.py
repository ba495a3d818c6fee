"""`reachp2p-sim diff RUN RUN`: where two runs part, and what differs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reachp2p_sim.commands.shared import FAIL, AsJson, print_json, say, usage

if TYPE_CHECKING:
    from reachp2p_sim.results.difference import Difference, Parting

WHAT = "A folder of the store, or a line that repeats a run (in quotes)."
Left = Annotated[str, typer.Argument(metavar="RUN", help=WHAT)]
Right = Annotated[str, typer.Argument(metavar="OTHER", help=WHAT)]


def diff(
    left: Left,
    right: Right,
    replay: Annotated[
        bool, typer.Option(help="Run both again to find the first event of the trace that differs.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Compare two runs.

    Exits 0 if they are the same run, event for event, and 1 if they differ.
    """
    from reachp2p_sim.results.difference import compare
    from reachp2p_sim.results.lookup import find
    from reachp2p_sim.results.store import StoreError
    from reachp2p_sim.running.configuration import UsageError

    try:
        runs = [find(name, on_run=lambda line: say(f"running {line}")) for name in (left, right)]
        found = compare(runs[0], runs[1], replay=replay)
    except (UsageError, StoreError) as error:
        usage(str(error))
    if as_json:
        print_json({"left": runs[0].name, "right": runs[1].name, **dataclasses.asdict(found)})
    else:
        print(f"left   {runs[0].name}\nright  {runs[1].name}\n")
        _print(found)
    if not found.same:
        raise typer.Exit(FAIL)


def _print(found: Difference) -> None:
    if found.same:
        print("The same run: equal trace digests.")
    for title, pairs in (
        ("settings", found.settings),
        ("verdicts", found.verdicts),
        ("figures", found.timings),
    ):
        if pairs:
            _print_pairs(title, {name: (_shown(a), _shown(b)) for name, (a, b) in pairs.items()})
    if found.budgets:
        _print_pairs(
            "budgets (messages, bytes)",
            {
                kind: (f"{a['count']:,}, {a['bytes']:,}", f"{b['count']:,}, {b['bytes']:,}{_ratio(a, b)}")
                for kind, (a, b) in found.budgets.items()
            },
        )
    if found.history is not None:
        _print_parting("first difference in what was done, said and believed", found.history)
    if found.trace is not None:
        _print_parting(f"first difference of the traces: event {found.trace.index:,}", found.trace)
    elif found.trace_unknown is not None:
        print(f"traces: {found.trace_unknown}")


def _print_pairs(title: str, pairs: dict[str, tuple[str, str]]) -> None:
    name_width = max(len(name) for name in pairs)
    left_width = min(max(len(left) for left, _ in pairs.values()), 48)
    print(title)
    for name, (left, right) in pairs.items():
        print(f"  {name.replace('_', ' '):{name_width}}  {left:{left_width}}  {right}")
    print()


def _print_parting(title: str, parting: Parting) -> None:
    print(title)
    for line in parting.before:
        print(f"    {line}")
    for mark, after in (("<", parting.left), (">", parting.right)):
        for line in after or ["(ends here)"]:
            print(f"  {mark} {line}")
    print()


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _ratio(left: dict[str, int], right: dict[str, int]) -> str:
    return f"  (×{right['bytes'] / left['bytes']:.2f})" if left["bytes"] else "  (new)"
