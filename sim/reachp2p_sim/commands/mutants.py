"""`reachp2p-sim mutants`: every broken core found, repeated and shrunk."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reachp2p_sim.commands.shared import FAIL, STORE, STORE_VARIABLE, AsJson, Nodes, print_json, usage

if TYPE_CHECKING:
    from reachp2p_sim.campaign.hunt import Found

MUTANTS = "mutants"


def mutants(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="MUTANT…", help="As `list` names them; all if not given.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds are tried for each.")] = 200,
    nodes: Nodes = None,
    budget: Annotated[
        int, typer.Option(min=1, help="How many runs a search for a smaller case may take.")
    ] = 300,
    store: Annotated[
        Path,
        typer.Option(envvar=STORE_VARIABLE, help="Keep what is found in mutants/NAME.json and .toml there."),
    ] = STORE,
    page: Annotated[
        Path | None, typer.Option("--write", help="Write the table into this page (docs/mutants.md).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find each broken core by its checkers, and shrink what shows it.

    Seeds of its scenario are tried until one fails; that is repeated from its line, and shrunk. What has been found
    by this very code is not looked for again.
    """
    import msgspec

    from reachp2p_sim.campaign.hunt import Terms, hunt
    from reachp2p_sim.campaign.hunt_page import PageError, put
    from reachp2p_sim.mutants import MUTANTS as ALL
    from reachp2p_sim.results.files import said_of
    from reachp2p_sim.running.run import UsageError

    wanted = names or sorted(ALL)
    if page is not None and names:
        usage("--write replaces the whole table: name no mutant with it")
    rows: list[Found] = []
    try:
        for found in hunt(wanted, Terms(seeds, nodes, budget), store / MUTANTS, _say):
            rows.append(found)
            if not as_json:
                print(_line(found))
        if page is not None:
            put(page, rows)
    except OSError as error:
        usage(said_of(error))
    except (UsageError, PageError) as error:
        usage(str(error))
    except KeyboardInterrupt:
        usage("interrupted: what was found is kept, and the same command goes on")
    missed = [found.mutant for found in rows if not found.is_caught]
    if as_json:
        print_json(
            {"caught": len(rows) - len(missed), "missed": missed, "mutants": msgspec.to_builtins(rows)}
        )
    else:
        print(f"{len(rows) - len(missed)} of {len(rows)} found, repeated and shrunk")
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
        raise typer.Exit(FAIL)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _line(found: Found) -> str:
    if found.seed is None:
        return f"{found.mutant:25} not found in {found.terms.seeds} seeds of {found.scenario}"
    small = found.small
    assert small is not None, "what is found is shrunk"
    size = f"{small.nodes} nodes, {small.faults} faults, {small.seconds:g} s in {small.runs} runs"
    again = "" if found.repeated else "; ITS LINE DOES NOT REPEAT IT"
    return (
        f"{found.mutant:25} {found.checker} in seed {found.seed} of {found.scenario}; shrunk to {size}{again}"
    )
