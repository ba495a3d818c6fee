"""The command line of `reachp2p rules`: options in, one of `rules` done."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reachp2p_node.cli.options import JsonFlag, NodeOption, StateOption, path_of

rules_app = typer.Typer(
    help="Routing rules: what is in force, and for everybody.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
RulesFileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", parser=path_of, help="A TOML file of rules (docs/protocol/rules.md)."),
]


@rules_app.command("show")
def rules_show(
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="Those of the history, to apply them anew.")
    ] = None,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the rules that a node goes by, as TOML.

    Those of its own file come first, then those of the cluster. The output could be applied as it is.
    """
    from reachp2p_node.cli.rules import show_rules

    show_rules(version, node, state, as_json=as_json)


@rules_app.command("apply")
def rules_apply(
    file: RulesFileArgument,
    comment: Annotated[
        str, typer.Option("--comment", metavar="TEXT", help="Shown beside these rules in the history.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Let the whole cluster go by the rules in a file.

    They take the place of those before. They are read as a whole before any of them takes effect, signed by a running
    node of yours, and spread to all.

    \b
    Examples:
      reachp2p rules apply rules.toml --dry-run
      reachp2p rules apply rules.toml --comment "carts stay where they are"
    """
    from reachp2p_node.cli.rules import apply_rules

    apply_rules(file, comment, node, state, dry_run=dry_run, as_json=as_json)


@rules_app.command("diff")
def rules_diff(
    sides: Annotated[
        list[str],
        typer.Argument(
            metavar="OLD [NEW]",
            help="A version of the cluster's rules, or a file; with one of them, "
            "the other side is what is in force.",
        ),
    ],
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Say in words what is otherwise in other rules.

    \b
    Examples:
      reachp2p rules diff rules.toml      what applying the file would change
      reachp2p rules diff 3 5
    """
    from reachp2p_node.cli.rules import diff_rules

    if len(sides) > 2:
        raise typer.BadParameter("write one or two versions or files", param_hint="OLD [NEW]")
    diff_rules(sides, node, state, as_json=as_json)


@rules_app.command("history")
def rules_history(node: NodeOption = None, state: StateOption = None, as_json: JsonFlag = False) -> None:
    """Show what was applied to the cluster, and which is in force.

    The last 16 rule sets are kept, on every node.
    """
    from reachp2p_node.cli.rules import show_history

    show_history(node, state, as_json=as_json)


@rules_app.command("check")
def rules_check(file: RulesFileArgument, as_json: JsonFlag = False) -> int:
    """Read a file of rules and say everything that is wrong with it. Needs no node; exit code 1 if something is."""
    from reachp2p_node.cli.rules import check_rules

    return check_rules(file, as_json=as_json)


@rules_app.command("reload")
def rules_reload(node: NodeOption = None, state: StateOption = None, as_json: JsonFlag = False) -> None:
    """Let a node read its own file of rules now. It does so by itself within a second of a change."""
    from reachp2p_node.cli.rules import reload_rules

    reload_rules(node, state, as_json=as_json)
