"""One process of `restarts.py`: runs one node and writes down what it announces and what it sees, a line of JSON each.

    python bench/restarts_worker.py '{"name": …, "folder": …, "seeds": […], "port": …, "cluster": …}'

The epoch of a life goes into `epochs.jsonl` of the folder, synced, before anything of that life can leave the process.
Everything else goes to standard output, on CLOCK_MONOTONIC, which all processes of one machine share. The end of
standard input is the wish that the node leaves, so that no process outlives the bench.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import trio

from reachp2p import Node
from reachp2p.core.effects import Effect, Persist, Table
from reachp2p.core.engine import Engine
from reachp2p.core.events import Event, MemberChanged, Resumed, Started
from reachp2p.core.ids import Life
from reachp2p.core.membership.life import EPOCH_KEY
from reachp2p.errors import ReachError

EPOCHS = "epochs.jsonl"
STATE = "state"
LEAVE_TIMEOUT = 2.0


class NotedEngine(Engine):
    """An engine whose lives are noted before anybody can hear of them."""

    def __init__(self, epochs: int, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._epochs = epochs
        self._noted: Life | None = None

    def take_effects(self) -> list[Effect]:
        """As always, after the note."""
        effects = super().take_effects()
        life = self.life
        if life is not None and life != self._noted:
            self._noted = life
            line = {"epoch": life.epoch, "life": life.life_id.hex(), "process": os.getpid()}
            os.write(self._epochs, json.dumps(line).encode() + b"\n")
            os.fsync(self._epochs)
        for effect in effects:
            if isinstance(effect, Persist) and (effect.table, effect.key) == (Table.LIFE, EPOCH_KEY):
                say("writing", epoch=int.from_bytes(effect.value, "big"))
        return effects


def say(what: str, at: float | None = None, **fields: Any) -> None:
    """One line, written whole, so that what was said before a kill is there."""
    line = {"is": what, "at": time.monotonic() if at is None else at, **fields}
    os.write(1, json.dumps(line).encode() + b"\n")


async def watch(events: AsyncIterator[Event], node: Node) -> None:
    """Say what the node sees, with the times at which it took the input that told it."""
    offset = time.monotonic() - trio.current_time()
    async for event in events:
        match event:
            case Started(life=life) | Resumed(life=life):
                say(
                    "started",
                    event.at + offset,
                    node=node.id.hex(),
                    address=str(node.address),
                    epoch=life.epoch,
                    life=life.life_id.hex(),
                )
            case MemberChanged(node=member, life=life):
                say(
                    "member",
                    event.at + offset,
                    node=member.hex(),
                    epoch=life.epoch,
                    life=life.life_id.hex(),
                    state=None if event.new is None else event.new.value,
                    reason=event.reason,
                )
            case _:
                pass


async def leave_when_told(node: Node) -> None:
    """Leave when standard input ends."""
    while True:
        await trio.lowlevel.wait_readable(sys.stdin.fileno())
        if not os.read(sys.stdin.fileno(), 4_096):
            node.stop(LEAVE_TIMEOUT)
            return


async def serve(options: dict[str, Any]) -> None:
    """Be one node until told to leave."""
    folder = Path(options.pop("folder"))
    epochs = os.open(folder / EPOCHS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    node = Node(state=folder / STATE, engine_factory=partial(NotedEngine, epochs), **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, node.events(), node)
        nursery.start_soon(leave_when_told, node)
        async with node:
            await node.wait_closed()
        nursery.cancel_scope.cancel()


def main() -> None:
    """Run, and say how it ended."""
    say("starting", process=os.getpid())
    try:
        trio.run(serve, json.loads(sys.argv[1]))
    except* ReachError as group:
        say("ended", code=int(group.exceptions[0].code), reason=str(group.exceptions[0]))
        sys.exit(1)
    say("ended", code=0, reason="left")


if __name__ == "__main__":
    main()
