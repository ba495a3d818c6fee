"""The commands that run a node: `seed` and `run`."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reachp2p.agent import Agent
from reachp2p.config import DEFAULT_PORT, NodeConfig, load_config
from reachp2p.errors import ConfigurationInvalid
from reachp2p.runtime.node import Node
from reachp2p.runtime.run import run_node
from reachp2p.runtime.state_folder import default_folder, running_process
from reachp2p.runtime.terminal_log import log_to_terminal
from reachp2p_node.cli import output
from reachp2p_node.cli.load_agent import load_agent

DEFAULT_SEED = f"127.0.0.1:{DEFAULT_PORT}"
INSTANCES_MAX = 1_000


def start_seed(flags: Mapping[str, Any], *, config: Path | None, verbose: bool, as_json: bool) -> int:
    """`reachp2p seed`."""
    settings = _settings(flags, config)
    port = settings.port if "port" in settings.origins else DEFAULT_PORT
    name = settings.name or "seed"
    return _start([], settings, name=name, port=port, seeds=settings.seeds, verbose=verbose, as_json=as_json)


def start_agents(
    targets: Sequence[str], flags: Mapping[str, Any], *, config: Path | None, verbose: bool, as_json: bool
) -> int:
    """`reachp2p run`."""
    settings = _settings(flags, config)
    agents = [load_agent(target) for target in targets]
    for agent in agents:
        if not agent.capabilities:
            raise ConfigurationInvalid(
                f'{agent.id} offers nothing: decorate a function with @agent.capability("…")'
            )
    name = settings.name or _free_name(agents[0].id.partition("/")[2])
    seeds = settings.seeds if "seeds" in settings.origins else (DEFAULT_SEED,)
    return _start(
        agents, settings, name=name, port=settings.port, seeds=seeds, verbose=verbose, as_json=as_json
    )


def _settings(flags: Mapping[str, Any], config: Path | None) -> NodeConfig:
    return load_config(flags, environment=os.environ, directory=Path.cwd(), file=config)


def _free_name(base: str) -> str:
    """A name whose state folder no process uses: the agent's, or with a number if several instances run here."""
    for number in range(1, INSTANCES_MAX):
        name = base if number == 1 else f"{base}-{number}"
        if running_process(default_folder(name, os.environ)) is None:
            return name
    raise ConfigurationInvalid(f"{INSTANCES_MAX} nodes called {base} run here; choose a --name")


def _start(
    agents: Sequence[Agent],
    settings: NodeConfig,
    *,
    name: str,
    port: int,
    seeds: Sequence[str],
    verbose: bool,
    as_json: bool,
) -> int:
    log_to_terminal(logging.INFO if verbose else logging.WARNING)
    code = run_node(
        *agents,
        name=name,
        seeds=seeds,
        host=settings.host,
        port=port,
        advertise=settings.advertise,
        state=settings.state or default_folder(name, os.environ),
        cluster=settings.cluster,
        zone=settings.zone,
        insecure_open=settings.insecure_open,
        rules=settings.rules,
        by_shape=settings.by_shape,
        take_over=settings.take_over,
        on_started=_print_started if as_json else _note_started,
    )
    if as_json:
        output.tell_json_line({"event": "stopped", "name": name, "exit_code": code})
    return code


def _note_started(node: Node) -> None:
    offered = ", ".join(node.offered)
    output.note(
        f"{node.name} ({node.id[:4].hex()}) at {node.address}" + (f" offers {offered}" if offered else "")
    )
    output.note(f"others join with --seed {node.address}; Ctrl-C ends it")


def _print_started(node: Node) -> None:
    output.tell_json_line(
        {
            "event": "started",
            "name": node.name,
            "node": node.id.hex(),
            "address": str(node.address),
            "epoch": None if node.life is None else node.life.epoch,
            "cluster": node.cluster,
            "agents": node.offered,
            "state": os.fspath(node.state_folder),
            "pid": os.getpid(),
        }
    )
