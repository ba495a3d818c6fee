"""The commands of `reachp2p`, each a thin layer: options in, one thing done, its result printed.

Only typer is loaded here. A command loads the rest when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from reachp2p.errors import ReachError
from reachp2p_node.cli import output

HELP = """Agents that find each other, call each other, and survive each other's faults.

\b
  reachp2p demo                                     see it work
  reachp2p seed                                     first terminal: a node to join through
  reachp2p run shout:agent                          second: your agent
  reachp2p call text.shout '{"text": "hello"}'      third: a call to it
"""

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
route = typer.Typer(help="Questions about routing.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(route, name="route")

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
NodeOption = Annotated[
    str | None,
    typer.Option("--node", metavar="NAME", help="Which running node: its name, or first digits of its id."),
]
StateOption = Annotated[
    Path | None,
    typer.Option("--state", metavar="FOLDER", help="The state folder of the node, instead of its name."),
]
CapabilityArgument = Annotated[str, typer.Argument(metavar="CAPABILITY", help="As in text.summarize.")]
AgentOption = Annotated[
    str | None, typer.Option("--agent", metavar="NAMESPACE/NAME", help="Only instances of this agent.")
]
TagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="KEY=VALUE", help="Only instances with this tag; repeatable."),
]
PolicyOption = Annotated[
    str | None,
    typer.Option("--policy", metavar="NAME", help="random, round_robin, or consistent_hash with --key."),
]
KeyOption = Annotated[
    str | None, typer.Option("--key", metavar="TEXT", help="Routing key of consistent_hash.")
]

# Options of the commands that run a node; each is also a key of reachp2p.toml and an environment variable REACHP2P_….
NameOption = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name of this node, for people and its state folder."),
]
HostOption = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen [127.0.0.1].")
]
PortOption = Annotated[
    int | None, typer.Option("--port", metavar="PORT", help="UDP and TCP; 0 takes a free one.")
]
SeedOption = Annotated[
    list[str] | None, typer.Option("--seed", metavar="HOST:PORT", help="A node to ask first; repeatable.")
]
AdvertiseOption = Annotated[
    list[str] | None,
    typer.Option(
        "--advertise", metavar="HOST:PORT", help="What others are told, if it is not where we listen."
    ),
]
OwnStateOption = Annotated[
    Path | None, typer.Option("--state", metavar="FOLDER", help="Key, epoch, address book, control socket.")
]
ClusterOption = Annotated[str | None, typer.Option("--cluster", metavar="ID", help="Cluster id [default].")]
ZoneOption = Annotated[
    str | None, typer.Option("--zone", metavar="NAME", help="Where this node is, for routing.")
]
OpenOption = Annotated[
    bool | None,
    typer.Option(
        "--insecure-open", help="Listen beyond loopback, although anybody who reaches the port can join."
    ),
]
TakeOverOption = Annotated[
    bool | None, typer.Option("--take-over", help="Start although another life of this node's key runs.")
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings instead of ./reachp2p.toml.")
]
VerboseFlag = Annotated[bool, typer.Option("--verbose", "-v", help="Say on stderr what the node notices.")]


@app.command()
def seed(
    name: NameOption = None,
    host: HostOption = None,
    port: Annotated[int | None, typer.Option("--port", metavar="PORT", help="UDP and TCP [7946].")] = None,
    seeds: SeedOption = None,
    advertise: AdvertiseOption = None,
    state: OwnStateOption = None,
    cluster: ClusterOption = None,
    zone: ZoneOption = None,
    insecure_open: OpenOption = None,
    take_over: TakeOverOption = None,
    config: ConfigOption = None,
    verbose: VerboseFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Run a node that others join through.

    It offers no agents, listens on 127.0.0.1:7946 unless told otherwise, and runs until Ctrl-C or `reachp2p leave`.
    """
    from reachp2p_node.cli.start import start_seed

    flags = {
        "name": name, "host": host, "port": port, "seeds": seeds, "advertise": advertise, "state": state,
        "cluster": cluster, "zone": zone, "insecure_open": insecure_open, "take_over": take_over,
    }  # fmt: skip
    return start_seed(flags, config=config, verbose=verbose, as_json=as_json)


@app.command()
def run(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="MODULE:AGENT...", help="As in shout:agent or path/to/shout.py:agent."),
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
    take_over: TakeOverOption = None,
    config: ConfigOption = None,
    verbose: VerboseFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Run a node that offers your agents.

    Without --seed it asks 127.0.0.1:7946 for others. It runs until Ctrl-C or `reachp2p leave`.
    """
    from reachp2p_node.cli.start import start_agents

    flags = {
        "name": name, "host": host, "port": port, "seeds": seeds, "advertise": advertise, "state": state,
        "cluster": cluster, "zone": zone, "insecure_open": insecure_open, "take_over": take_over,
    }  # fmt: skip
    return start_agents(targets, flags, config=config, verbose=verbose, as_json=as_json)


@app.command()
def members(node: NodeOption = None, state: StateOption = None, as_json: JsonFlag = False) -> None:
    """Show the members as a node sees them."""
    from reachp2p_node.cli.questions import show_members

    show_members(node, state, as_json=as_json)


@app.command()
def agents(node: NodeOption = None, state: StateOption = None, as_json: JsonFlag = False) -> None:
    """Show the agents, and on which nodes they are."""
    from reachp2p_node.cli.questions import show_agents

    show_agents(node, state, as_json=as_json)


@app.command()
def call(
    capability: CapabilityArgument,
    params: Annotated[
        str,
        typer.Argument(metavar="JSON", help="The parameters; - reads them from stdin, @FILE from a file."),
    ] = "{}",
    agent: AgentOption = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="Of the whole call.")
    ] = None,
    tag: TagOption = None,
    policy: PolicyOption = None,
    key: KeyOption = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", metavar="TEXT", help="Names the effect wanted.")
    ] = None,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Call an agent and print its result.

    As in: reachp2p call text.shout '{"text": "hello"}'
    """
    from reachp2p_node.cli.questions import make_call

    if timeout is not None and not 0 < timeout <= 86_400:  # also refuses nan
        raise typer.BadParameter(
            f"{timeout:g}: write seconds, above 0 and at most 86400", param_hint="--timeout"
        )
    args = {
        "capability": capability, "agent": agent, "timeout": timeout, "tags": _tags(tag), "policy": policy, "key": key,
        "idempotency_key": idempotency_key, "params": _params(params),
    }  # fmt: skip
    make_call(args, node, state, as_json=as_json)


@route.command("explain")
def explain(
    capability: CapabilityArgument,
    agent: AgentOption = None,
    tag: TagOption = None,
    policy: PolicyOption = None,
    key: KeyOption = None,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Show where a call would go, and why."""
    from reachp2p_node.cli.questions import show_explanation

    args = {"capability": capability, "agent": agent, "tags": _tags(tag), "policy": policy, "key": key}
    return show_explanation(args, node, state, as_json=as_json)


@app.command()
def leave(
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, max=3_600, help="To finish what runs.")
    ] = 10.0,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Let a node finish, say goodbye and end."""
    from reachp2p_node.cli.questions import make_leave

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

    Seven processes work through a text while one of them is killed and started again. Takes less than a minute.
    """
    from reachp2p_node.demo.play import play

    return play(text, keep=keep, as_json=as_json)


@app.command()
def version(as_json: JsonFlag = False) -> None:
    """Print the version."""
    from reachp2p import __version__
    from reachp2p.core.wire.messages import WIRE_VERSION

    if as_json:
        python = ".".join(str(part) for part in sys.version_info[:3])
        output.print_json({"version": __version__, "wire_version": WIRE_VERSION, "python": python})
    else:
        print(f"reachp2p {__version__} (wire version {WIRE_VERSION})")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; every way it can end is one exit code and at most one message."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:
        ended = app(given, prog_name="reachp2p", standalone_mode=False)
        sys.stdout.flush()
        return ended if isinstance(ended, int) else output.OK
    except UsageProblem as error:
        error.show()  # type: ignore[attr-defined]
        return output.USAGE
    except ReachError as error:
        output.report(error, as_json=as_json)
        return output.FAILED
    except (KeyboardInterrupt, typer.Abort):
        return output.INTERRUPTED
    except BrokenPipeError:  # whoever read our output has gone; nothing is to be said to anybody
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return output.FAILED


def _tags(given: list[str] | None) -> dict[str, str]:
    tags: dict[str, str] = {}
    for text in given or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{text!r}: write KEY=VALUE, as in env=prod", param_hint="--tag")
        tags[key] = value
    return tags


def _params(text: str) -> Any:
    """The parameters of a call as JSON from the command line, stdin or a file."""
    import json

    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        params = json.loads(text, parse_constant=_no_constant)
        json.dumps(params, ensure_ascii=False).encode()  # half a surrogate pair is no text
        return params
    except UnicodeEncodeError as error:
        raise typer.BadParameter("not valid JSON: a lone surrogate is no text", param_hint="JSON") from error
    except RecursionError as error:
        raise typer.BadParameter("nested too deeply", param_hint="JSON") from error
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot be read: {error}", param_hint="JSON") from error
    except ValueError as error:
        raise typer.BadParameter(
            f'not valid JSON: {error}; quote it for the shell, as in \'{{"text": "hello"}}\'',
            param_hint="JSON",
        ) from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
