"""Which running node a command talks to.

Nodes of this user are found by the locks of their state folders: below the user's state root, where named nodes live,
and in the temporary folder, where nodes without a name do. A node with a state folder elsewhere is named by `--state`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import trio

from reachp2p.errors import ConfigurationInvalid, ErrorCode, NodeError, ReachError
from reachp2p.runtime.control_client import request
from reachp2p.runtime.state_folder import absolute, running_process, state_root
from reachp2p.runtime.text import plain
from reachp2p_node.cli.output import note

INFO_TIMEOUT = 2.0
"""Seconds that a node on this machine has to say who it is, when all are asked."""
SECOND_TIMEOUT = 3.0
"""Seconds more for the one that is meant."""
FOLDERS_MAX = 1_000
NAMES_SHOWN = 8
ID_DIGITS_MIN = 4
"""Of a NodeId that may stand for a name."""


@dataclass(frozen=True, slots=True)
class Running:
    """A node that runs on this machine. `info` is empty if it did not answer in time."""

    folder: Path
    process: int
    info: dict[str, Any]

    @property
    def name(self) -> str:
        """Its name, or its folder's."""
        return plain(self.info.get("name", self.folder.name), 64)

    def is_called(self, name: str) -> bool:
        """Whether this is the node's name, or the beginning of its id."""
        node = str(self.info.get("node", ""))
        return name in (self.info.get("name"), self.folder.name) or (
            len(name) >= ID_DIGITS_MIN and node.startswith(name.lower())
        )

    def is_like(self, name: str) -> bool:
        """Whether a person may mean this node: names that nobody chose end with digits."""
        return self.name.startswith(f"{name}-")

    def told(self, *, with_folder: bool) -> str:
        """The node in a list."""
        folder = f", {self.folder}" if with_folder else ""
        return f"{self.name} (process {self.process}{folder}{'' if self.info else ', does not answer'})"

    @property
    def silence(self) -> NodeError:
        """The error when it does not answer."""
        return NodeError(
            ErrorCode.NODE_LOST,
            f"node {self.name} (process {self.process}) does not answer: it may be stopped (then `kill -CONT "
            f"{self.process}` lets it go on), or a handler of it holds its event loop",
        )


async def choose(name: str | None, state: Path | None, *, must_be_sure: bool = False) -> Running:
    """The node that is meant. Raises `ConfigurationInvalid` that lists the running ones and says what to type.

    Without a name any node of the cluster may answer a question, so one is taken and named on stderr; a command that
    changes something sets `must_be_sure`. Raises `NodeError` (1411) if the one that is meant does not answer.
    """
    if state is not None:
        folder = absolute(state)
        chosen = Running(folder, running_process(folder) or 0, {})
    else:
        chosen = _choose(await find_running(os.environ), name, must_be_sure=must_be_sure)
    if chosen.info:
        return chosen
    with trio.move_on_after(SECOND_TIMEOUT):
        return replace(chosen, info=await request(chosen.folder, "info", timeout=2 * SECOND_TIMEOUT))
    raise chosen.silence


def _choose(running: list[Running], name: str | None, *, must_be_sure: bool) -> Running:
    if name is not None:
        named = [one for one in running if one.is_called(name)]
        if not named and not must_be_sure:  # any of them will do for a question, not for an end
            named = [one for one in running if one.is_like(name)][:1]
        if not named:
            raise ConfigurationInvalid(f"no running node is called {name!r}; {_listed(running)}")
        if len(named) > 1:
            raise ConfigurationInvalid(
                f"{len(named)} running nodes are called {name!r}: {_names(named, with_folders=True)}; "
                "choose one by the first digits of its node id, or by --state FOLDER"
            )
        return named[0]
    if not running:
        raise ConfigurationInvalid(_listed(running))
    if len(running) == 1:
        return running[0]
    answering = [one for one in running if one.info] or running
    clusters = dict.fromkeys(one.info.get("cluster") for one in answering)
    if must_be_sure or len(clusters) != 1:
        raise ConfigurationInvalid(
            f"{len(running)} nodes run here: {_names(running)}; choose one with --node NAME"
        )
    chosen = min(answering, key=lambda one: (one.name != "seed", one.name, one.process))
    note(f"asking {chosen.name}, one of {len(running)} nodes here; --node NAME chooses")
    return chosen


async def find_running(environment: Mapping[str, str]) -> list[Running]:
    """All running nodes of this user that can be found, each asked who it is."""
    found: list[Running] = []

    async def ask(folder: Path, process: int) -> None:
        try:
            info = await request(folder, "info", timeout=INFO_TIMEOUT)
        except ReachError:
            info = {}
        if info or running_process(folder) is not None:
            found.append(Running(folder, process, info if isinstance(info, dict) else {}))

    async with trio.open_nursery() as nursery:
        for folder in _folders(environment):
            if (process := running_process(folder)) is not None:
                nursery.start_soon(ask, folder, process)
    return sorted(found, key=lambda one: (one.name, one.process))


def _folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """Folders of this user that may be state folders."""
    places = [(state_root(environment), "*"), (Path(tempfile.gettempdir()), "reachp2p-*")]
    for root, pattern in places:
        for count, folder in enumerate(sorted(root.glob(pattern))):
            if count >= FOLDERS_MAX:
                note(f"{root} has more than {FOLDERS_MAX} folders; not all were looked at")
                break
            try:
                is_ours = folder.is_dir() and folder.stat().st_uid == os.getuid()
            except OSError:
                continue
            if is_ours:
                yield folder


def _names(running: list[Running], *, with_folders: bool = False) -> str:
    more = f" and {len(running) - NAMES_SHOWN} more" if len(running) > NAMES_SHOWN else ""
    return ", ".join(one.told(with_folder=with_folders) for one in running[:NAMES_SHOWN]) + more


def _listed(running: list[Running]) -> str:
    if running:
        return f"running here: {_names(running)}"
    return (
        f"no node of yours runs here (looked below {state_root(os.environ)}); start one with `reachp2p seed` or "
        "`reachp2p run MODULE:AGENT`, or name its folder with --state"
    )
