"""Whole programs: signals, deadlines, exit codes (B70), and restarts after kill -9."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio

from reachp2p import Node
from reachp2p.core.events import MemberState
from reachp2p.runtime.run import EXIT_CLEAN, EXIT_ERROR, EXIT_FENCED, EXIT_FORCED

PROGRAM = """
import sys, time
import trio
from reachp2p import Agent, CallFailed, run
from reachp2p.core.effects import Persist, Table
from reachp2p.core.ids import Ticket
from reachp2p.runtime.seeds import Seeds
agent = Agent("nlp/one")

@agent.capability("one.wait")
async def wait(seconds: float) -> str:
    print("waiting", flush=True)
    await trio.sleep(seconds)
    return "waited"

@agent.capability("one.resist")
async def resist() -> str:
    print("resisting", flush=True)
    with trio.CancelScope(shield=True):
        await trio.sleep(60)
    return "never"

@agent.capability("one.block")
async def block() -> str:
    print("blocking", flush=True)
    while True:
        time.sleep(0.1)

@agent.capability("one.raise")
def fail() -> str:
    raise LookupError("nowhere")

async def slow_disk(node):
    from reachp2p.runtime import storage
    storage._commit = lambda *_: time.sleep(60)
    node._lifetime.outlets.storage.submit(Persist(Ticket(0), Table.HEADS, b"k", b"v"))
    print("the disk is slow", flush=True)

async def slow_start(self):
    print("starting", flush=True)
    await trio.sleep_forever()

async def call_myself(node):
    try:
        await node.call(sys.argv[2], {{"seconds": 0.5}} if sys.argv[2] == "one.wait" else None)
    except CallFailed as error:
        print("failed", error.code, flush=True)

def started(node):
    print("started", node.address, flush=True)
    if sys.argv[2:] == ["slow disk"]:
        trio.lowlevel.spawn_system_task(slow_disk, node)
    elif len(sys.argv) > 2:
        trio.lowlevel.spawn_system_task(call_myself, node)

if sys.argv[2:] == ["slow start"]:
    Seeds.resolve_once = lambda self, patience: slow_start(self)
run(agent, seeds=[{seeds}], state=sys.argv[1], drain_timeout={drain}, on_started=started)
print("after run", flush=True)
"""


class Programs:
    """Processes of one test, none of which outlives it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []

    def start(
        self, *arguments: str, drain: float = 3.0, seeds: Sequence[str] = (), state: str = "state"
    ) -> subprocess.Popen[str]:
        program = PROGRAM.format(drain=drain, seeds=", ".join(map(repr, seeds)))
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(self._folder / state), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        return process

    def end(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(tmp_path)
    yield programs
    programs.end()


def says(process: subprocess.Popen[str], word: str) -> str:
    """The next line, which begins with `word`."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith(word):
        rest, errors = process.communicate(timeout=5)
        raise AssertionError(f"{line!r} {rest!r} {errors!r}")
    return line


def ends(process: subprocess.Popen[str], within: float) -> tuple[int, float]:
    """Exit code, and seconds until it ended."""
    begun = time.monotonic()
    code = process.wait(timeout=within)
    return code, time.monotonic() - begun


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_node_cleanly_and_at_once(programs: Programs, number: signal.Signals) -> None:
    process = programs.start()
    says(process, "started")
    process.send_signal(number)
    code, seconds = ends(process, within=3)
    says(process, "after run")
    assert (code, seconds < 1.5) == (EXIT_CLEAN, True)


def test_a_running_handler_is_finished_first(programs: Programs) -> None:
    process = programs.start("one.wait")
    says(process, "started")
    says(process, "waiting")
    process.send_signal(signal.SIGTERM)
    code, seconds = ends(process, within=3)
    assert code == EXIT_CLEAN
    assert seconds > 0.3


@pytest.mark.parametrize("capability", ["one.resist", "one.block"])
def test_a_handler_that_does_not_end_is_cut_off_at_the_deadline(programs: Programs, capability: str) -> None:
    process = programs.start(capability, drain=0.5)
    says(process, "started")
    says(process, "resisting" if capability == "one.resist" else "blocking")
    process.send_signal(signal.SIGTERM)
    code, seconds = ends(process, within=6)
    assert code == EXIT_FORCED
    assert 0.4 < seconds < 4.0
    assert process.stderr is not None
    assert "did not end in time and was forced to" in process.stderr.read()


@pytest.mark.parametrize("capability", ["one.resist", "one.block"])
def test_a_second_signal_forces(programs: Programs, capability: str) -> None:
    process = programs.start(capability, drain=60.0)
    says(process, "started")
    says(process, "resisting" if capability == "one.resist" else "blocking")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    code, seconds = ends(process, within=6)
    assert code == EXIT_FORCED
    assert seconds < 4.0


def test_a_black_hole_of_a_peer_does_not_keep_a_node_from_ending(programs: Programs) -> None:
    """A seed that accepts connections and says nothing, on TCP and on UDP."""
    with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        udp.bind(tcp.getsockname())
        process = programs.start(seeds=[f"127.0.0.1:{tcp.getsockname()[1]}"])
        says(process, "started")
        process.send_signal(signal.SIGTERM)
        code, seconds = ends(process, within=5)
    assert code == EXIT_CLEAN
    assert seconds < 3.0


def test_a_disk_that_does_not_answer_does_not_keep_a_node_from_ending_and_the_code_tells(
    programs: Programs,
) -> None:
    process = programs.start("slow disk")
    says(process, "started")
    says(process, "the disk is slow")
    process.send_signal(signal.SIGTERM)
    code, seconds = ends(process, within=12)
    assert code == EXIT_FORCED
    assert seconds < 7.0


def test_a_signal_while_a_node_starts_ends_it_cleanly(programs: Programs) -> None:
    process = programs.start("slow start")
    says(process, "starting")
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert ends(process, within=3)[0] == EXIT_CLEAN


def test_the_traceback_of_a_handler_is_on_stderr_and_data_stay_on_stdout(programs: Programs) -> None:
    process = programs.start("one.raise")
    says(process, "started")
    says(process, "failed 1403")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=5)
    assert (process.returncode, out) == (EXIT_CLEAN, "after run\n")
    assert "ERROR reachp2p.handlers: one.raise of nlp/one failed for a call of node" in err
    assert "in fail" in err
    assert err.rstrip().endswith("LookupError: nowhere")
    assert err.count("Traceback") == 1


def test_a_start_that_fails_is_explained_in_one_line(programs: Programs, tmp_path: Path) -> None:
    first = programs.start()
    says(first, "started")
    second = programs.start()
    assert second.wait(timeout=5) == EXIT_ERROR
    assert second.stderr is not None
    explained = second.stderr.read()
    assert explained.startswith(
        f"reachp2p: state folder {tmp_path / 'state'} is in use by process {first.pid}"
    )
    assert explained.count("\n") == 1


def test_a_fenced_node_has_an_exit_code_of_its_own(programs: Programs, tmp_path: Path) -> None:
    first = programs.start()
    address = says(first, "started").split()[1]
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "node.key").write_bytes((tmp_path / "state" / "node.key").read_bytes())
    second = programs.start(state="clone", seeds=[address])
    assert second.wait(timeout=10) == EXIT_FENCED
    assert second.stderr is not None
    assert "--take-over" in second.stderr.read()


def test_killed_at_random_moments_a_node_restarts_at_once_under_a_higher_epoch(
    programs: Programs, tmp_path: Path
) -> None:
    """Half of the kills hit within 200 ms of a start; no lock is stale and no epoch is used twice."""
    chance = random.Random(7)
    epochs: list[int] = []

    async def watch() -> None:
        async with Node(name="peer") as peer:
            for turn in range(6):
                process = programs.start(seeds=[str(peer.address)])
                if turn % 2:
                    await trio.sleep(chance.uniform(0.0, 0.9))  # the interpreter needs most of it
                else:
                    with trio.fail_after(10):
                        while not (found := alive(peer, epochs)):  # noqa: ASYNC110 (its view is what is waited for)
                            await trio.sleep(0.02)
                    epochs.append(found)
                    await trio.sleep(chance.uniform(0.0, 0.2))
                process.send_signal(signal.SIGKILL)
                await trio.to_thread.run_sync(process.wait)

    trio.run(watch)
    assert len(epochs) == 3
    assert epochs == sorted(set(epochs))


def alive(peer: Node, before: list[int]) -> int:
    """The epoch under which the peer sees the other node alive, if it is a new one."""
    for view in peer.members():
        is_new = not before or view.life.epoch > before[-1]
        if not view.is_self and view.state is MemberState.ALIVE and is_new:
            return view.life.epoch
    return 0


def test_a_node_that_leaves_removes_its_temporary_folder_even_when_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    os.mkdir(tmp_path / "tmp")
    program = PROGRAM.format(drain=0.2, seeds="").replace("state=sys.argv[1]", "state=None")
    process = subprocess.Popen(
        [sys.executable, "-c", program, "", "one.block"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        says(process, "started")
        says(process, "blocking")
        assert os.listdir(tmp_path / "tmp")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=5) == EXIT_FORCED
        assert os.listdir(tmp_path / "tmp") == []
    finally:
        process.kill()
        process.communicate()
