"""The options that several commands of `reachp2p` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def path_of(text: str) -> Path:
    """A path; nothing, as from an unset variable of the shell, is not taken for the working directory."""
    if not text:
        raise typer.BadParameter("is empty: write a path")
    return Path(text)


JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, for programs.")]
NodeOption = Annotated[
    str | None,
    typer.Option(
        "--node",
        metavar="NAME",
        help="Ask this node of yours, by its name or the first digits of its id. Needed only if several run here.",
    ),
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="FOLDER", parser=path_of, help="Ask the node with this state folder instead."
    ),
]
TargetArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="CAPABILITY",
        help="What is wanted, such as text.summarize or text.summarize@^1.2; not needed if --agent or --tag says it.",
    ),
]
GatherTimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="SECONDS", help="To ask others; who has not answered by then is named."
    ),
]
AgentOption = Annotated[
    str | None,
    typer.Option("--agent", metavar="NAMESPACE[/NAME]", help="Only this agent, or those of this namespace."),
]
TagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="KEY=VALUE", help="Only instances with this tag. Can be repeated."),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="How one instance is picked: round_robin, least_loaded, … [consistent_hash with --key, else random]",
    ),
]
KeyOption = Annotated[
    str | None, typer.Option("--key", metavar="TEXT", help="Equal keys go to one instance (consistent_hash).")
]

PreferOption = Annotated[
    str | None,
    typer.Option("--prefer", metavar="zone", help="Instances in the zone of the calling node first."),
]
ReleaseOption = Annotated[
    str | None,
    typer.Option(
        "--release", metavar="NAME", help="candidate: a canary on request; stable: never a candidate."
    ),
]
FallbackOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fallback",
        metavar="TARGET",
        help="A capability or agent to try if nobody can be asked. Can be repeated.",
    ),
]
AllowFallbackFlag = Annotated[
    bool, typer.Option("--allow-fallback", help="Those that rules name may be tried, too.")
]
ByShapeFlag = Annotated[
    bool,
    typer.Option(
        "--by-shape", help="Without a CAPABILITY or --agent: the one capability that the parameters fit."
    ),
]

# Options of the commands that run a node; each is also a key of reachp2p.toml and an environment variable REACHP2P_….
NameOption = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name of this node, for people and for its state folder."),
]
HostOption = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="IP address to listen on. [127.0.0.1]")
]
PortOption = Annotated[
    int | None, typer.Option("--port", metavar="PORT", help="Port to listen on, UDP and TCP. [a free one]")
]
SeedOption = Annotated[
    list[str] | None,
    typer.Option("--seed", metavar="HOST:PORT", help="Address of a seed node. Can be repeated."),
]
AdvertiseOption = Annotated[
    list[str] | None,
    typer.Option(
        "--advertise",
        metavar="HOST:PORT",
        help="Address that others are told, if it is not where this node listens. Can be repeated.",
    ),
]
OwnStateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="FOLDER",
        parser=path_of,
        help="State folder: key, epoch, address book. [~/.local/state/reachp2p/NAME]",
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", metavar="ID", help="Cluster id; nodes of another never mix. [default]"),
]
ZoneOption = Annotated[
    str | None, typer.Option("--zone", metavar="NAME", help="Zone of this node, shown to others.")
]
OpenOption = Annotated[
    bool | None,
    typer.Option(
        "--insecure-open",
        help="Listen beyond loopback, although whoever reaches the port can take part and nothing is encrypted.",
    ),
]
RulesOption = Annotated[
    Path | None,
    typer.Option(
        "--rules",
        metavar="FILE",
        parser=path_of,
        help="Routing rules of this node alone, before those of the cluster; read again when the file changes.",
    ),
]
NodeByShapeOption = Annotated[
    bool | None,
    typer.Option(
        "--by-shape", help="Calls that name nobody go to the one capability that their parameters fit."
    ),
]
TakeOverOption = Annotated[
    bool | None,
    typer.Option(
        "--take-over",
        help="Start above any life of this node's key, even a newer one that runs (it is fenced).",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", parser=path_of, help="Settings file. [reachp2p.toml, if there is one]"
    ),
]
VerboseFlag = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say on stderr what the node notices, not only what is wrong.")
]
