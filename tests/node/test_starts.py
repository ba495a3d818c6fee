"""Starts that cannot be: each says its code and what to do, ends with an exit code other than 0, and harms nobody."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node.processes import QUICK, Processes, copy_state


def test_a_second_process_on_one_state_folder_is_1703_and_names_the_first(processes: Processes) -> None:
    first, peer = processes.network("first", "peer")
    code, out, err = processes.run("seed", "--port", "0", "--state", str(first.state))
    assert (code, out) == (1, "")
    assert (
        f"is in use by process {first.process.pid}: stop it, or give this node a name or state folder" in err
    )
    assert err.rstrip().endswith("[1703]")
    assert first.process.poll() is None
    assert peer.views() == {"first": ("ALIVE", 1)}, "the first runs on, in the same life"
    first.kill()
    second = processes.start("first", seeds=[peer.address])
    assert second.started["epoch"] == 2, "a start that was refused has used no epoch"


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["TCP", "UDP"])
def test_a_port_in_use_is_1702_whichever_of_the_two_it_is(
    processes: Processes, kind: socket.SocketKind
) -> None:
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        if kind is socket.SOCK_STREAM:
            taken.listen()
        port = taken.getsockname()[1]
        code, out, err = processes.run("seed", "--port", str(port), "--name", "porter")
    assert (code, out) == (1, "")
    assert f"port {port} of 127.0.0.1 is in use" in err
    assert "stop the other program or take another" in err
    assert err.rstrip().endswith("[1702]")


# Broken state


def short_key(state: Path) -> None:
    os.truncate(state / "node.key", 31)


def rubbish_tables(state: Path) -> None:
    (state / "state.db").write_bytes(os.urandom(8_192))


def torn_tables(state: Path) -> None:
    data = bytearray((state / "state.db").read_bytes())
    data[4_096:] = os.urandom(len(data) - 4_096)
    (state / "state.db").write_bytes(data)


def short_epoch(state: Path) -> None:
    with sqlite3.connect(state / "state.db") as connection:
        connection.execute(
            "UPDATE rows SET value = x'0102' WHERE name = 'life' AND key = CAST('epoch' AS BLOB)"
        )
    connection.close()


def folder_for_lock(state: Path) -> None:
    (state / "lock").unlink()
    (state / "lock").mkdir()


@pytest.fixture(scope="module")
def used_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of a node that ran and has left."""
    processes = Processes(tmp_path_factory.mktemp("used"))
    member = processes.start("used")
    member.started  # noqa: B018 (waits for it)
    member.process.terminate()
    assert member.ends() == 0
    processes.end()
    return member.state


@pytest.mark.parametrize(
    ("damage", "file", "advice"),
    [
        (short_key, "node.key", "Restore it from a copy, or move it away"),
        (rubbish_tables, "state.db", "Restore the file from a copy, or move it away"),
        (torn_tables, "state.db", "Restore the file from a copy, or move it away"),
        (short_epoch, "state.db", "move it away"),
        (folder_for_lock, "lock", "Move it away"),
    ],
)
def test_a_broken_state_file_is_1706_and_doing_what_is_said_helps(
    processes: Processes, used_state: Path, damage: Callable[[Path], None], file: str, advice: str
) -> None:
    state = processes.folder / "broken"
    copy_state(used_state, state)
    damage(state)
    before = {
        path.name: path.read_bytes() for path in state.iterdir() if path.name in ("node.key", "state.db")
    }
    code, out, err = processes.run("seed", "--port", "0", "--state", str(state))
    assert (code, out) == (1, "")
    assert str(state / file) in err
    assert advice in err
    assert err.rstrip().endswith("[1706]")
    assert "Traceback" not in err
    for name, content in before.items():
        assert (state / name).read_bytes() == content, "what is damaged is left as it is"

    for leftover in state.glob(f"{file}*"):
        leftover.rename(processes.folder / leftover.name)
    member = processes.start("mended", state=str(state))
    assert member.started["epoch"] >= 1


def test_a_lock_that_nobody_holds_stops_nobody_whatever_is_in_it(
    processes: Processes, used_state: Path
) -> None:
    state = processes.folder / "state"
    copy_state(used_state, state)
    (state / "lock").write_bytes(os.urandom(5_000))
    member = processes.start("anew", state=str(state))
    assert member.started["epoch"] == 2
    (state / "lock").write_bytes(b"\xff rubbish")
    code, _, err = processes.run("seed", "--port", "0", "--state", str(state))
    assert code == 1
    assert "is in use by another process" in err, "its number cannot be read any more, but it is held"
    assert "[1703]" in err


# Seeds


@pytest.mark.parametrize(
    ("seed", "said"),
    [
        ("127.0.0.1:port", "the port must be a number"),
        ("http://127.0.0.1:80", "write host:port, as in 127.0.0.1:7946, and nothing else"),
        ("1:2:3", "is no IPv6 address"),
    ],
)
def test_what_is_no_address_is_refused_before_anything_starts(
    processes: Processes, seed: str, said: str
) -> None:
    code, out, err = processes.run("seed", "--port", "0", "--seed", seed)
    assert (code, out) == (1, "")
    assert said in err
    assert "[1704]" in err
    assert not (processes.folder / "reachp2p").exists()


def test_a_wrong_seed_is_named_with_its_reason_and_does_not_keep_the_right_one_from_being_found(
    processes: Processes,
) -> None:
    """Nobody there, a program that is no node, a node of another cluster, a name that nobody knows."""
    right, other = processes.start("right"), processes.start("other", cluster="other")
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        gone, deaf = (f"127.0.0.1:{one.getsockname()[1]}" for one in (bound, silent))
        seeds = [gone, deaf, other.address, "nowhere.invalid:7946", right.address]
        newcomer = processes.start("newcomer", seeds=seeds, protocol={**QUICK, "link_open_timeout": 1.0})
        newcomer.sees({"right": "ALIVE"})
        found = {
            f"{line['address'][0]}:{line['address'][1]}": line
            for line in newcomer.output.wait(
                lambda lines: [one for one in lines if one["is"] == "SeedUnreached"][2:] and list(lines),
                "three seeds that are not reached",
            )
            if line["is"] == "SeedUnreached"
        }
    assert {address: line["code"] for address, line in found.items()} == {
        gone: 1701,
        deaf: 1701,
        other.address: 1705,
    }
    assert found[gone]["reason"] == "nobody listens there"
    assert found[other.address]["reason"] == "two clusters: 'default' here, 'other' there"
