"""The commands of `reachp2p`, each a thin layer: options in, one thing done, its result printed.

Only typer is loaded here. A command loads the rest when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from reachp2p.errors import ReachError
from reachp2p_node.cli import output
from reachp2p_node.cli.event_commands import publish, subscribe
from reachp2p_node.cli.json_argument import read_json
from reachp2p_node.cli.options import (
    AdvertiseOption,
    AgentOption,
    AllowFallbackFlag,
    ByShapeFlag,
    ClusterOption,
    ConfigOption,
    FallbackOption,
    HostOption,
    JsonFlag,
    KeyOption,
    NameOption,
    NodeByShapeOption,
    NodeOption,
    OpenOption,
    OwnStateOption,
    PolicyOption,
    PortOption,
    PreferOption,
    ReleaseOption,
    RulesOption,
    SeedOption,
    StateOption,
    TagOption,
    TakeOverOption,
    TargetArgument,
    VerboseFlag,
    ZoneOption,
)
from reachp2p_node.cli.rules_commands import rules_app
from reachp2p_node.cli.stream_commands import stream
from reachp2p_node.cli.target import NO_PARAMS, check_target, tags_of, target_of
from reachp2p_node.cli.task_commands import task
from reachp2p_node.cli.trace_commands import sessions, trace

HELP = """Agents that find each other, call each other, and survive each other's faults.

\b
  reachp2p demo                                  see it work
  reachp2p seed                                  first terminal: the others meet here
  reachp2p run shout:agent                       second: a node with your agent
  reachp2p call text.shout '{"text": "hello"}'   third: a call to it

Data goes to stdout, messages to stderr. Exit codes: 0 done, 1 failed (the message ends with a code, see
docs/errors.md), 2 misused, 3 a node was forced to end, 4 a node was fenced, 130 Ctrl-C.
"""
SETTINGS = (
    "Each option is also a key of the table [node] in reachp2p.toml and a variable such as REACHP2P_PORT or "
    "REACHP2P_SEEDS (with commas); options come first, then variables, then the file."
)

UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]
"""click's ClickException, which typer brings along under a name of its own in some versions and not in others."""

app = typer.Typer(
    name="reachp2p",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
route = typer.Typer(
    help="Questions about routing: `reachp2p route explain`.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(route, name="route")


app.add_typer(rules_app, name="rules")


def _print_version(wanted: bool) -> None:
    if wanted:
        _say_version(as_json=False)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None: ...


@app.command(epilog=SETTINGS)
def seed(
    name: NameOption = None,
    host: HostOption = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", help="Port to listen on, UDP and TCP. [7946]")
    ] = None,
    seeds: SeedOption = None,
    advertise: AdvertiseOption = None,
    state: OwnStateOption = None,
    cluster: ClusterOption = None,
    zone: ZoneOption = None,
    insecure_open: OpenOption = None,
    rules: RulesOption = None,
    by_shape: NodeByShapeOption = None,
    take_over: TakeOverOption = None,
    config: ConfigOption = None,
    verbose: VerboseFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Run a seed node: the others meet here.

    It offers no agents, and runs until Ctrl-C or `reachp2p leave`. Any node can serve as a seed node; this one is there
    for nothing else. Two of them, on two machines, should name each other with --seed.

    \b
    Examples:
      reachp2p seed
      reachp2p seed --name seed-1 --host 10.0.0.5 --insecure-open --seed 10.0.0.6:7946
    """
    from reachp2p_node.cli.start import start_seed

    flags = {
        "name": name, "host": host, "port": port, "seeds": seeds, "advertise": advertise, "state": state,
        "cluster": cluster, "zone": zone, "insecure_open": insecure_open, "rules": rules, "by_shape": by_shape,
        "take_over": take_over,
    }  # fmt: skip
    return start_seed(flags, config=config, verbose=verbose, as_json=as_json)


@app.command(epilog=SETTINGS)
def run(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE:AGENT...",
            help="A module or file and the Agent in it; the second part can be left out if it has only one.",
        ),
    ],
    seeds: SeedOption = None,
    name: NameOption = None,
    host: HostOption = None,
    port: PortOption = None,
    advertise: AdvertiseOption = None,
    state: OwnStateOption = None,
    cluster: ClusterOption = None,
    zone: ZoneOption = None,
    insecure_open: OpenOption = None,
    rules: RulesOption = None,
    by_shape: NodeByShapeOption = None,
    take_over: TakeOverOption = None,
    config: ConfigOption = None,
    verbose: VerboseFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Run a node that offers your agents.

    Without --seed it looks for a seed node at 127.0.0.1:7946. It runs until Ctrl-C or `reachp2p leave`, which let it
    finish what runs. A handler that raises is shown on stderr with its traceback.

    \b
    Examples:
      reachp2p run shout:agent
      reachp2p run agents/shout.py --seed 10.0.0.5:7946 --name shouter-1
    """
    from reachp2p_node.cli.start import start_agents

    flags = {
        "name": name, "host": host, "port": port, "seeds": seeds, "advertise": advertise, "state": state,
        "cluster": cluster, "zone": zone, "insecure_open": insecure_open, "rules": rules, "by_shape": by_shape,
        "take_over": take_over,
    }  # fmt: skip
    return start_agents(targets, flags, config=config, verbose=verbose, as_json=as_json)


@app.command()
def members(
    with_all: Annotated[
        bool, typer.Option("--all", help="Also those that have left, or died some minutes ago.")
    ] = False,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the members: the nodes that a node knows.

    Each node has its own view. ALIVE answers. SUSPECT has not answered and can still refute. DEAD is gone without a
    goodbye. LEFT has said goodbye. Those that have left, or are DEAD for more than 5 minutes, are only counted; --json
    has all.

    \b
    Examples:
      reachp2p members
      reachp2p members --all
      reachp2p members --node seed --json
    """
    from reachp2p_node.cli.questions import show_members

    show_members(node, state, with_all=with_all, as_json=as_json)


@app.command()
def agents(node: NodeOption = None, state: StateOption = None, as_json: JsonFlag = False) -> None:
    """Show the agents, what they can do, and on which nodes.

    \b
    Examples:
      reachp2p agents
    """
    from reachp2p_node.cli.questions import show_agents

    show_agents(node, state, as_json=as_json)


@app.command()
def call(
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
            "--timeout",
            metavar="SECONDS",
            help="For the whole call. Without it, one that takes long (30 s, or as its agent says) goes on as a task.",
        ),
    ] = None,
    tag: TagOption = None,
    policy: PolicyOption = None,
    key: KeyOption = None,
    prefer: PreferOption = None,
    release: ReleaseOption = None,
    fallback: FallbackOption = None,
    allow_fallback: AllowFallbackFlag = False,
    by_shape: ByShapeFlag = False,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key", metavar="TEXT", help="Your name for the effect wanted, told to the handler."
        ),
    ] = None,
    submit: Annotated[
        bool, typer.Option("--submit", help="Do not wait: print the id of a task, for `reachp2p task`.")
    ] = False,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Call an agent by what it can do, and print its result as JSON.

    A running node of yours makes the call; it picks the instance and says on stderr who answered.

    \b
    Examples:
      reachp2p call text.shout '{"text": "hello"}'
      reachp2p call text.shout @params.json --tag env=prod --timeout 5
      reachp2p call --tag role=shouter '{"text": "hello"}'
      reachp2p call --by-shape '{"text": "hello", "marks": 2}'
    """
    from reachp2p_node.cli import tasks
    from reachp2p_node.cli.questions import make_call

    if timeout is not None and not 0 < timeout <= 86_400:  # also refuses nan
        raise typer.BadParameter(
            f"{timeout:g}: write seconds, above 0 and at most 86400", param_hint="--timeout"
        )
    tags = tags_of(tag)
    check_target(capability, agent, tags, by_shape=by_shape, has_params=False)
    capability, params = target_of(capability, params)
    args = {
        "capability": capability, "agent": agent, "timeout": timeout, "tags": tags, "policy": policy, "key": key,
        "prefer": prefer, "release": release, "fallback": _fallback(fallback, allow_fallback),
        "idempotency_key": idempotency_key, "params": read_json(params), "by_shape": by_shape or None,
    }  # fmt: skip
    if submit:
        tasks.submit(args, node, state, as_json=as_json)
    else:
        make_call(args, node, state, as_json=as_json)


@route.command("explain")
def explain(
    capability: TargetArgument = None,
    agent: AgentOption = None,
    tag: TagOption = None,
    policy: PolicyOption = None,
    key: KeyOption = None,
    prefer: PreferOption = None,
    release: ReleaseOption = None,
    fallback: FallbackOption = None,
    allow_fallback: AllowFallbackFlag = False,
    by_shape: ByShapeFlag = False,
    params: Annotated[
        str,
        typer.Option(
            "--params", metavar="JSON", help="The parameters, for --by-shape; as in `reachp2p call`."
        ),
    ] = NO_PARAMS,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Show where a call would go, and why: each instance, and the stage that took it out.

    \b
    Examples:
      reachp2p route explain text.shout
      reachp2p route explain text.shout --policy consistent_hash --key customer-17
      reachp2p route explain --tag role=shouter
    """
    from reachp2p_node.cli.questions import show_explanation

    tags = tags_of(tag)
    check_target(capability, agent, tags, by_shape=by_shape, has_params=params != NO_PARAMS)
    args = {
        "capability": capability, "agent": agent, "tags": tags, "policy": policy, "key": key, "prefer": prefer,
        "release": release, "fallback": _fallback(fallback, allow_fallback), "by_shape": by_shape or None,
        "params": read_json(params),
    }  # fmt: skip
    return show_explanation(args, node, state, as_json=as_json)


app.command()(task)
app.command()(trace)
app.command()(sessions)
app.command()(stream)
app.command()(publish)
app.command()(subscribe)


@app.command()
def leave(
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="To finish what runs and say goodbye, which has the last second; then it is cut off.",
        ),
    ] = 10.0,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Let a node finish, say goodbye and end.

    As SIGTERM and Ctrl-C do: it refuses new calls, finishes what runs, and tells the others that it has left.

    \b
    Examples:
      reachp2p leave --node shouter
    """
    from reachp2p_node.cli.questions import make_leave

    if not 0 <= timeout <= 3_600:  # also refuses nan
        raise typer.BadParameter(f"{timeout:g}: write seconds from 0 to 3600", param_hint="--timeout")
    return make_leave(timeout, node, state, as_json=as_json)


@app.command()
def demo(
    text: Annotated[
        Path | None, typer.Option("--text", metavar="FILE", help="English text to work on, instead of ours.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep logs, journals and state, and say where.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Watch agents survive a kill.

    Seven processes on this machine work through a text while one of them is killed with SIGKILL and started again.
    Takes less than a minute, and leaves nothing behind.
    """
    from reachp2p_node.demo.play import play

    return play(text, keep=keep, as_json=as_json)


@app.command()
def version(as_json: JsonFlag = False) -> None:
    """Print the version of reachp2p and of its wire format."""
    _say_version(as_json=as_json)


def _say_version(*, as_json: bool) -> None:
    from reachp2p import __version__
    from reachp2p.core.wire.messages import WIRE_VERSION

    if as_json:
        python = ".".join(str(part) for part in sys.version_info[:3])
        output.print_json({"version": __version__, "wire_version": WIRE_VERSION, "python": python})
    else:
        output.print_text(f"reachp2p {__version__} (wire version {WIRE_VERSION})")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; every way it can end is one exit code and at most one message."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _occupy_standard_files()
    try:
        code = _run(given)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has gone; nothing is to be said to anybody
        code = output.FAILED
    except OSError as error:  # a full disk under stdout, most of all
        output.note(f"reachp2p: {error}")
        code = output.FAILED
    output.finish()
    return code


def _run(given: list[str]) -> int:
    try:
        ended = app(given, prog_name="reachp2p", standalone_mode=False)
        return ended if isinstance(ended, int) else output.OK
    except UsageProblem as error:
        if sys.stderr is not None:  # it would take stdout
            with suppress(OSError):
                error.show()  # type: ignore[attr-defined]  # click's, which typer does not declare
        return output.USAGE
    except ReachError as error:
        is_line = given[:1] in (["stream"], ["subscribe"])
        output.report(error, as_json="--json" in _options_of(given), as_line=is_line)
        return output.FAILED
    except (KeyboardInterrupt, typer.Abort):
        return output.INTERRUPTED
    except BaseExceptionGroup as group:  # Ctrl-C that came while several things were waited for
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        return output.INTERRUPTED


def _options_of(given: list[str]) -> list[str]:
    """What may be an option: after `--` there are none."""
    return given[: given.index("--")] if "--" in given else given


def _occupy_standard_files() -> None:
    """Descriptors 0 to 2 that a shell has closed must not be given to the next file or socket that is opened."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free


def _fallback(given: list[str] | None, allowed: bool) -> list[str] | bool | None:
    """What `--fallback` and `--allow-fallback` say: True stands for what rules name."""
    return given or (True if allowed else None)
